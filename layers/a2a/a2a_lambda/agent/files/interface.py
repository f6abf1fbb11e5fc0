"""What a turn needs for its files: `files/turn_files` in a deployment, `trial_files` in tests of agents."""

from typing import BinaryIO, Protocol


class FileWriter(Protocol):
    """Takes the content of one file. is_stored: an earlier run of the turn has stored it, so what comes is
    dropped. Calls block."""

    @property
    def is_stored(self) -> bool: ...
    def add(self, chunk: bytes, /) -> bool:
        """Take a piece; returns whether it is time to call `flush`."""

    def flush(self) -> None: ...
    def finish(self) -> bytes | str:
        """The content, if it stays in the task; else what the task keeps instead."""

    def abort(self) -> None: ...


class FileStore(Protocol):
    """Calls block."""

    def writer(self, number: int, /, *, is_replayed: bool, inline_bytes: int) -> FileWriter: ...
    def open(self, url: str, /) -> BinaryIO: ...
    def link(self, reference: str, name: str, media_type: str, /) -> str: ...
