"""The files of a message, before it is stored: large ones move to the bucket, and references are checked."""

import asyncio
import hashlib
import time
from datetime import UTC, datetime
from itertools import count

from a2a_lambda import threads
from a2a_lambda.errors import InvalidParams
from a2a_lambda.files.bucket import Bucket, key_of
from a2a_lambda.protocol.model import Message, Part, decode_raw
from a2a_lambda.protocol.stored_file import (
    INLINE_CHARACTERS,
    SCHEME,
    UPLOAD,
    change_parts,
    is_reference,
    parts_of,
)
from a2a_lambda.tasks.identity import Namespace, RequestIdentity

MAX_UPLOADS = 100
"""Uploads that a message may name. Each is a call of S3."""

UPLOAD_LIFE_SECONDS = 86_400
"""Seconds for which an upload may be sent in a message. The bucket deletes a file some days after it was
written, so one that was uploaded long before its task would be gone before it."""

UNKNOWN = "this caller has no such upload for this agent, or it is older than a day; upload the file again"


class Inbox:
    """Stores the large files of the messages that arrive.

    bucket: None = every file stays in its message. repeat_seconds: see `Intake`.
    """

    def __init__(self, bucket: Bucket | None, repeat_seconds: float) -> None:
        self._bucket = bucket
        self._window_seconds = max(1.0, repeat_seconds)

    async def receive(self, namespace: Namespace, request: RequestIdentity, message: Message) -> Message:
        """The message as it is stored. Raises InvalidParams for a reference that is not an upload of the
        caller for this agent, FilesUnavailable."""
        parts, part_count = parts_of(message), len(message["parts"])
        # The metadata's pictures are listed after the parts.
        paths_by_reference = {
            part["url"]: f"params.message.parts[{index}].url"
            if index < part_count
            else "params.message.metadata.images"
            for index, part in enumerate(parts)
            if is_reference(part)
        }
        if sum(map(is_reference, parts)) > MAX_UPLOADS:  # each becomes a long URL in every answer
            raise InvalidParams(
                f"a message may name at most {MAX_UPLOADS} uploads", path="params.message.parts"
            )
        # All references first, so that nothing is written for a message that is refused.
        stored_references = await asyncio.gather(
            *(
                self._check_upload(namespace, reference, path)
                for reference, path in paths_by_reference.items()
            )
        )
        uploads = dict(zip(paths_by_reference, stored_references, strict=True))
        # A message may have hundreds of thousands of parts, of which only some can be large.
        large_parts = {
            index: part
            for index, part in enumerate(parts)
            if self._bucket is not None and len(part.get("raw", "")) > INLINE_CHARACTERS
        }
        stored_parts = await asyncio.gather(
            *(self._store(namespace, request, part, index) for index, part in large_parts.items())
        )
        new_parts = dict(zip(large_parts, stored_parts, strict=True))
        indexes = count()

        def change(part: Part) -> Part:
            new_part = new_parts.get(next(indexes), part)
            return {**part, "url": uploads[part["url"]]} if is_reference(part) else new_part

        return change_parts(message, change)

    async def _store(self, namespace: Namespace, request: RequestIdentity, part: Part, index: int) -> Part:
        """The part with its content in the bucket, unless that is not base64."""
        assert self._bucket is not None
        try:
            content = decode_raw(part["raw"])
        except ValueError:  # a picture in metadata, where a client may write anything
            return part
        # A retry writes the same object again. The same bytes after the repeat window make a task of their
        # own, so its file has another id, because each task may be erased alone.
        window = int(time.time() // self._window_seconds)
        source = f"{request.key}#{request.body}#{window}#{index}"
        reference = f"{SCHEME}messages/{hashlib.sha256(source.encode()).hexdigest()[:32]}"
        await threads.run_for_files(self._bucket.put, key_of(namespace, reference), content)
        result = part.copy()
        del result["raw"]
        result["url"] = reference
        return result

    async def _check_upload(self, namespace: Namespace, reference: str, path: str) -> str:
        """The reference as it is stored. It has the version, because whoever has the form can write the file
        again within its hour, and a skill must not read another content than was there when it began."""
        upload = None
        if self._bucket is not None and UPLOAD.fullmatch(reference):
            upload = await threads.run_for_files(self._bucket.find, key_of(namespace, reference))
        now = datetime.now(UTC)
        if upload is None or (now - upload.written_at).total_seconds() > UPLOAD_LIFE_SECONDS:
            raise InvalidParams(UNKNOWN, path=path)
        return f"{reference}/{upload.version}"
