"""The content of one file on its way to its place: into the task if it is small, else into the bucket.

At most PART_BYTES of it are in memory, however large the file is. It is in the bucket only when all of it
is: one PUT, or parts that become one object at the end.
"""

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from a2a_lambda.errors import FilesUnavailable, LimitExceeded
from a2a_lambda.files.bucket import Bucket
from a2a_lambda.protocol.stored_file import FILE_BYTES

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

PART_BYTES = 8 * 2**20
"""Bytes of a part. S3 wants 5 MiB at least, and takes 10,000 parts."""


class Writer:
    """Writes the content of a file that an agent outputs.

    bucket: None = every file stays in its task. key: the key for the content; reference: what the task
    keeps then. inline_bytes: size of the largest file that stays in its task. is_stored: an earlier run of
    the turn has stored the same content, so what comes is dropped.

    Calls block, and raise FilesUnavailable.
    """

    def __init__(
        self,
        bucket: Bucket | None,
        key: str,
        reference: str,
        inline_bytes: int,
        *,
        is_stored: bool = False,
    ) -> None:
        self._bucket = bucket
        self._key = key
        self._reference = reference
        self._inline_bytes = inline_bytes
        self._buffer = bytearray()
        self._size = 0
        self._upload_id = ""
        self._parts: list[CompletedPartTypeDef] = []
        self._lock = threading.RLock()  # `finish` calls `flush`
        self._is_aborted = False
        self.is_stored = is_stored

    def add(self, chunk: bytes) -> bool:
        """Take a piece of the content; returns whether it is time to call `flush`. Raises LimitExceeded."""
        if self.is_stored:
            return False
        self._buffer += chunk
        self._size += len(chunk)
        if self._size > FILE_BYTES:
            raise LimitExceeded(f"A file may have at most {FILE_BYTES:,} bytes.")
        return self._bucket is not None and len(self._buffer) >= PART_BYTES

    def flush(self) -> None:
        """Store the parts that are full."""
        with self._lock:
            while self._bucket is not None and not self._is_aborted and len(self._buffer) >= PART_BYTES:
                if not self._upload_id:
                    self._upload_id = self._bucket.begin_parts(self._key)
                self._put_part(self._bucket, PART_BYTES)

    def finish(self) -> bytes | str:
        """The content, if it stays in the task; else its reference, when all of it is in the bucket."""
        if self.is_stored:
            return self._reference
        if self._bucket is None or self._size <= self._inline_bytes:
            return bytes(self._buffer)
        with self._lock:
            self.flush()
            if self._is_aborted:
                return self._reference
            if not self._upload_id:
                self._bucket.put(self._key, bytes(self._buffer))
                return self._reference
            if self._buffer:
                self._put_part(self._bucket, len(self._buffer))
            self._bucket.end_parts(self._key, self._upload_id, self._parts)
            self._upload_id = ""
            return self._reference

    def abort(self) -> None:
        """Leave nothing of a file that was not finished. The bucket deletes what this misses, such as when S3
        does not answer, within two days."""
        # A flush may be running in another thread, for code that was canceled. It stops after its part, and
        # what it has begun is known then.
        self._is_aborted = True
        with self._lock:
            self._buffer.clear()
            if self._bucket is not None and self._upload_id:
                with suppress(FilesUnavailable):
                    self._bucket.abort_parts(self._key, self._upload_id)
            self._upload_id = ""

    def _put_part(self, bucket: Bucket, size: int) -> None:
        content = bytes(memoryview(self._buffer)[:size])
        self._parts.append(bucket.put_part(self._key, self._upload_id, len(self._parts) + 1, content))
        del self._buffer[:size]
