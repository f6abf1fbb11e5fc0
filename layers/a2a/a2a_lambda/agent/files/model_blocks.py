"""Content of messages as the APIs of models take it: texts, and the files that they can read.

Sources: https://platform.openai.com/docs/api-reference/chat (OpenAI, and every API that is compatible)
https://docs.anthropic.com/en/api/messages
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html
"""

import base64
import re
from collections.abc import Sequence
from typing import Literal

from a2a_lambda import strictjson
from a2a_lambda.agent.files.message_files import ReceivedFile
from a2a_lambda.agent.outputs import guess_media_type
from a2a_lambda.errors import SkillError
from a2a_lambda.protocol.model import Json, Part, plain_media_type
from a2a_lambda.protocol.stored_file import is_reference

Api = Literal["openai", "anthropic", "bedrock"]

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")

PDF = "application/pdf"

OTHER_NAMES = {"image/jpg": "image/jpeg"}
"""Media types that some clients write for one of these."""

BLOCKS_BYTES = 20_000_000
"""Maximum bytes of all files in one message to a model. These APIs take requests of 20 to 50 MB, in which a
file is base64 and so has a third more."""

NO_TEXT = "(no text)"
"""What a model gets for a message without text: its API refuses an empty text."""

READABLE = (*IMAGES, PDF)
"""Media types that these APIs take. Other files are named in the text."""


def text_block(api: Api, text: str) -> dict[str, Json]:
    return {"text": text} if api == "bedrock" else {"type": "text", "text": text}


def file_blocks(api: Api, files: Sequence[ReceivedFile]) -> list[dict[str, Json]]:
    """A block for each file that the API can read. Blocks while the files are read. Raises SkillError as
    `ReceivedFile.read` does, and if all files together have more than BLOCKS_BYTES."""
    blocks: list[dict[str, Json]] = []
    room = BLOCKS_BYTES
    for file in files:
        # Without a type, its name may show one.
        media_type = plain_media_type(file.media_type or guess_media_type(file.name or ""))
        media_type = OTHER_NAMES.get(media_type, media_type)
        if media_type in READABLE:
            with file.open() as stream:
                content = stream.read(room + 1)
            room -= len(content)
            if room < 0:
                limit = BLOCKS_BYTES // 1_000_000
                raise SkillError(
                    f"The pictures and PDFs exceed {limit} MB in total. Send fewer or smaller files."
                )
            blocks.append(_block(api, file, media_type, content, len(blocks) + 1))
    return blocks


def _block(api: Api, file: ReceivedFile, media_type: str, content: bytes, number: int) -> dict[str, Json]:
    is_image = media_type in IMAGES
    if api == "bedrock":
        source = {"bytes": content}
        format_name = media_type.partition("/")[2]
        if is_image:
            return {"image": {"format": format_name, "source": source}}
        # Bedrock allows only some characters in a name, and each name only once.
        words = re.sub(r"[^A-Za-z0-9()\[\] -]+", " ", file.name or "file").split()
        name = f"{' '.join(words)[:150]} {number}".strip()
        return {"document": {"format": format_name, "name": name, "source": source}}
    text = base64.b64encode(content).decode()
    if api == "anthropic":
        data = {"type": "base64", "media_type": media_type, "data": text}
        return {"type": "image" if is_image else "document", "source": data}
    url = f"data:{media_type};base64,{text}"
    if is_image:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": file.name or "file.pdf", "file_data": url}}


def plain_text(parts: Sequence[Part]) -> str:
    """Parts as text for a model: values become JSON, and a file its name in brackets."""
    texts: list[str] = []
    for part in parts:
        if "text" in part:
            texts.append(part["text"])
        elif "data" in part:
            texts.append(strictjson.dumps(part["data"]).decode())
        else:
            url = "" if is_reference(part) else part.get("url")
            texts.append(f"[file: {part.get('filename') or url or part.get('mediaType') or '?'}]")
    return "\n".join(text for text in texts if text.strip())
