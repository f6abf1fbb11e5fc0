"""A file of a message, wherever its content is: in the message, in the bucket, or at a URL outside the
deployment."""

import io
import os
from pathlib import Path
from typing import BinaryIO

from a2a_lambda.agent.files.interface import FileStore
from a2a_lambda.errors import FileAbsent, SkillError
from a2a_lambda.protocol.model import Part, decode_raw
from a2a_lambda.protocol.stored_file import CHUNK_BYTES, is_reference

READ_BYTES = 50_000_000
"""Bytes that `read` returns at most, unless it is told otherwise. A function has 1 GB of memory."""


class ReceivedFile:
    """A file from the user.

    name, media_type: what the client says about the file, or None.

    A skill that returns or yields it sends the same file back. Its methods, and `content`, block while they
    read. In an asynchronous skill, write `await asyncio.to_thread(file.read)`.
    """

    def __init__(self, part: Part, store: FileStore | None = None) -> None:
        self.name = part.get("filename")
        self.media_type = part.get("mediaType")
        self.part = part
        self._store = store

    @property
    def url(self) -> str | None:
        """Where the content is, if it is not in the message. For a file in the bucket, it is a signed URL,
        which works for at most an hour, for everyone who has it, and is another one each time: in a durable
        skill, read it inside a step. To send the file back, yield the file itself. Signing the first URL in a
        process takes a tenth of a second."""
        url = self.part.get("url")
        if url is None or self._store is None or not is_reference(self.part):
            return url
        return self._store.link(url, self.name or "file", self.media_type or "")

    @property
    def content(self) -> bytes | None:
        """The bytes of a file that the client has sent; None if there is only a URL outside the
        deployment."""
        return self.read() if "raw" in self.part or is_reference(self.part) else None

    def at(self, url: str) -> "ReceivedFile":
        """The same file, with its content at another URL."""
        part = Part(**{**self.part, "url": url})
        del part["raw"]
        return ReceivedFile(part, self._store)

    @property
    def _subject(self) -> str:
        """The file, at the beginning of a sentence."""
        return f"The file {self.name}" if self.name else "The file"

    def open(self) -> BinaryIO:
        """The content as a binary file that is open for reading. Close it, or use it in `with`. For a file
        in the bucket, each `seek` may be a request to S3.

        Raises SkillError, which ends the task with its message for the client, if the file has expired, or
        its URL cannot be read. A URL outside the deployment must be public, answer within a minute, and have
        at most 100 MB.
        """
        if "raw" in self.part:
            return io.BytesIO(decode_raw(self.part["raw"]))
        url = self.part["url"]
        from a2a_lambda.net.fetch import NotFetched, fetch  # few turns read files

        try:
            # Without a deployment it is a test, whose server is on this machine.
            return fetch(url, allow_loopback=True) if self._store is None else self._store.open(url)
        except FileAbsent:
            raise SkillError(f"{self._subject} is no longer available. Send it again.") from None
        except NotFetched as error:
            raise SkillError(f"{self._subject} cannot be read: {error}.") from None

    def read(self, max_bytes: int = READ_BYTES) -> bytes:
        """The content. Raises SkillError as `open` does, and for a file that has more bytes."""
        with self.open() as stream:
            content = stream.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise SkillError(f"{self._subject} has more than {max_bytes:,} bytes.")
        return content

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the content to a file, piece by piece; returns its path. Lambda's /tmp has 512 MB."""
        with self.open() as stream, open(path, "wb") as file:
            while chunk := stream.read(CHUNK_BYTES):
                file.write(chunk)
        return Path(path)

    def __repr__(self) -> str:
        return f"ReceivedFile(name={self.name!r}, media_type={self.media_type!r})"
