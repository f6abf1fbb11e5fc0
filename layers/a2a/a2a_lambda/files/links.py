"""What a client gets of a stored file: a URL that is made for its answer, or the bytes if it asks for them.

A client asks for bytes by `;base64` after a media type of its acceptedOutputModes, such as `image/*;base64`.
"""

import base64
import re
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from itertools import islice
from typing import TypeVar

from a2a_lambda import threads
from a2a_lambda.errors import FileAbsent, FilesUnavailable
from a2a_lambda.files.bucket import BINARY_TYPE, Bucket, key_of, version_of
from a2a_lambda.protocol.model import Event, Part, Published, Task, matches_media_type
from a2a_lambda.protocol.stored_file import change_parts, is_reference, parts_of
from a2a_lambda.tasks.identity import Namespace

FILES_IN_ANSWER_BYTES = 3_000_000
"""Bytes of files in an answer, or in an event of a stream. In base64 they are 4 MB, and a buffered answer of
Lambda has at most 6 MB. Every further file is a URL."""

WANTED_AS_BYTES = re.compile(r"([a-z0-9.+*-]{1,60}/[a-z0-9.+*-]{1,60});base64")
"""A media type that a client wants as bytes. It is short and has no sets of characters, because some patterns
that a client could write would take very long to match."""

MAX_MODES = 200
"""Modes of one client that are looked at, for each event with a file."""

TYPES_AS_BYTES = 20
"""Patterns of one client that count. Each is compared with each file of an answer."""

Shown = TypeVar("Shown", Task, Event)


def types_wanted_as_bytes(modes: Collection[str]) -> tuple[str, ...]:
    """Patterns of the media types that a client wants as bytes. modes: its acceptedOutputModes."""
    first_modes = islice(modes, MAX_MODES)
    matches = (WANTED_AS_BYTES.fullmatch(mode.replace(" ", "").lower()) for mode in first_modes)
    return tuple(islice((match[1] for match in matches if match), TYPES_AS_BYTES))


class Links:
    """Shows clients the stored files of an answer.

    bucket: None = there are no stored files. Raises FilesUnavailable.

    modes: the client's acceptedOutputModes. A file of a type that they ask for as bytes becomes bytes, and
        every other file a URL.
    """

    def __init__(self, bucket: Bucket | None) -> None:
        self._bucket = bucket

    async def show(self, namespace: Namespace, holder: Shown, modes: Collection[str] = ()) -> Shown:
        """A task or an event as a client gets it."""
        has_files = self._bucket is not None and any(is_reference(part) for part in parts_of(holder))
        return (
            await threads.run_for_files(self.show_blocking, namespace, holder, modes) if has_files else holder
        )

    def show_blocking(self, namespace: Namespace, holder: Shown, modes: Collection[str] = ()) -> Shown:
        """The same as `show`. Blocks."""
        if self._bucket is None:
            return holder
        return change_parts(holder, _Answer(self._bucket, namespace, modes).show)

    async def show_events(
        self, namespace: Namespace, events: AsyncGenerator[Published, None], modes: Collection[str] = ()
    ) -> AsyncGenerator[Published, None]:
        """The events of a stream as a client gets them."""
        async with aclosing(events):
            async for sequence, event in events:
                yield sequence, await self.show(namespace, event, modes)


class _Answer:
    """The files of one answer. Its calls block: the first makes the client of S3, and bytes are read."""

    def __init__(self, bucket: Bucket, namespace: Namespace, modes: Collection[str]) -> None:
        self._bucket = bucket
        self._scope = namespace
        self._types_as_bytes = types_wanted_as_bytes(modes)
        self._room = FILES_IN_ANSWER_BYTES
        self._has_room = True
        self._links: dict[tuple[str, str, str], str] = {}

    def show(self, part: Part) -> Part:
        """The part as the client gets it."""
        if not is_reference(part):
            return part
        try:
            key = key_of(self._scope, part["url"])
        except FileAbsent:  # an agent made it up
            return part
        result = part.copy()
        media_type = part.get("mediaType", "")
        if self._has_room and matches_media_type(media_type or BINARY_TYPE, self._types_as_bytes):
            content = self.read_small(key, version_of(part["url"]))
            if content is not None:
                del result["url"]
                result["raw"] = base64.b64encode(content).decode()
                return result
        # Signing takes a tenth of a millisecond, and an answer may name one file very often.
        target = key, part.get("filename") or "file", media_type
        if target not in self._links:
            self._links[target] = self._bucket.link(*target)
        result["url"] = self._links[target]
        return result

    def read_small(self, key: str, version: str) -> bytes | None:
        """The content, if the answer has room for it, and S3 answers: a URL is better than no answer."""
        try:
            with self._bucket.open(key, version) as body:
                content = body.read(self._room + 1)
        except (FileAbsent, FilesUnavailable):
            return None
        if len(content) > self._room:
            self._has_room = False  # an answer may have hundreds of files, and each try is a call of S3
            return None
        self._room -= len(content)
        return content
