"""The content of an object as a file that is open for reading."""

import io
import os
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from botocore.exceptions import BotoCoreError
from urllib3.exceptions import HTTPError

from a2a_lambda.errors import FilesUnavailable
from a2a_lambda.protocol.stored_file import CHUNK_BYTES


def content_of(body: Any, size: int, read_from: Callable[[int], Any]) -> BinaryIO:
    """A seekable stream of `body`, which holds `size` bytes. read_from: called with a position, returns
    the content from there on."""
    return cast(BinaryIO, io.BufferedReader(_Content(body, size, read_from), CHUNK_BYTES))


class _Content(io.RawIOBase):
    """Botocore's own stream ends early and silently if its connection breaks off, cannot seek, and closes
    itself at its end, which TextIOWrapper does not expect."""

    def __init__(self, body: Any, size: int, read_from: Callable[[int], Any]) -> None:
        super().__init__()
        self._body = body
        self._size = size
        self._read_from = read_from
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position. The next read is a request of its own."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}.get(whence)
        if start is None or start + offset < 0:
            raise ValueError(f"there is no position {offset} of whence {whence}")
        if start + offset != self._position:
            self._position = start + offset
            self.close_body()
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), CHUNK_BYTES, max(0, self._size - self._position))
        if not length:
            return 0
        if self._body is None:
            self._body = self._read_from(self._position)
        try:
            chunk = self._body.read(length)
            if self._position + len(chunk) == self._size:
                self._body.read(1)  # at the end, botocore compares the checksum
        except (BotoCoreError, HTTPError, OSError) as error:
            raise FilesUnavailable(f"S3 stopped within a file: {type(error).__name__}") from error
        if not chunk:
            raise FilesUnavailable("S3 stopped within a file")
        buffer[: len(chunk)] = chunk
        self._position += len(chunk)
        return len(chunk)

    def close(self) -> None:
        self.close_body()
        super().close()

    def close_body(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None
