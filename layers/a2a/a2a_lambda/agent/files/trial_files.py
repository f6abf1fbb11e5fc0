"""The files of a turn that a test runs: memory takes the place of the bucket."""

import base64
import io
from dataclasses import dataclass
from typing import BinaryIO, cast

from a2a_lambda.net.fetch import fetch
from a2a_lambda.protocol.model import Part
from a2a_lambda.protocol.stored_file import is_reference, output_reference


@dataclass(frozen=True, slots=True)
class TrialFiles:
    """See `FileStore`.

    contents: content of each file by its reference, including the files of earlier turns.
    """

    task_id: str
    turn_id: str
    contents: dict[str, bytes]

    def writer(self, number: int, *, is_replayed: bool, inline_bytes: int) -> "TrialWriter":
        # A replay writes its files again: a test's memory need not be spared.
        return TrialWriter(self.contents, output_reference(self.task_id, self.turn_id, number), inline_bytes)

    def open(self, url: str) -> BinaryIO:
        """Raises NotFetched. The server of a test is on this machine."""
        content = self.contents.get(url)
        return fetch(url, allow_loopback=True) if content is None else io.BytesIO(content)

    def link(self, reference: str, name: str, media_type: str) -> str:
        return f"data:{media_type};base64,{base64.b64encode(self.contents[reference]).decode()}"

    def with_content(self, part: Part) -> Part:
        """A part of an answer, with the content of its file if it is a reference."""
        if not is_reference(part) or (content := self.contents.get(part["url"])) is None:
            return part
        other_fields = {name: value for name, value in part.items() if name != "url"}
        return cast(Part, other_fields | {"raw": base64.b64encode(content).decode()})


class TrialWriter:
    """See `FileWriter`."""

    is_stored = False

    def __init__(self, contents: dict[str, bytes], reference: str, inline_bytes: int) -> None:
        self._contents = contents
        self._reference = reference
        self._inline_bytes = inline_bytes
        self._buffer = bytearray()

    def add(self, chunk: bytes) -> bool:
        self._buffer += chunk
        return False

    def flush(self) -> None: ...
    def finish(self) -> bytes | str:
        if len(self._buffer) <= self._inline_bytes:
            return bytes(self._buffer)
        self._contents[self._reference] = bytes(self._buffer)
        return self._reference

    def abort(self) -> None: ...
