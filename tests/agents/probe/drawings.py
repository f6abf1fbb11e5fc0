"""Contents of the files that the probe outputs."""

import random
import tempfile
import uuid
import zlib
from pathlib import Path
from typing import Any


def drawing(size: int) -> bytes:
    """A file's content that shows its order."""
    return (b"0123456789abcde\n" * (size // 16 + 1))[:size]


def content_of(kind: str, size: int) -> Any:
    """A file's content of a kind. The caller deletes a path."""
    content = drawing(size)
    if kind == "bytes":
        return content
    if kind == "path":
        path = Path(tempfile.gettempdir()) / f"drawing-{uuid.uuid4()}"
        path.write_bytes(content)
        return path
    if kind == "stream":
        stream = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
        stream.write(content)
        stream.seek(0)
        return stream
    if kind == "text":
        return "a text"
    return (content[start : start + 70_000] for start in range(0, size, 70_000))


def noise_png(size: int = 300) -> bytes:
    """A square picture, too large for a task. size: pixels of a side."""
    rows = b"".join(b"\0" + random.Random(row).randbytes(3 * size) for row in range(size))

    def chunk(kind: bytes, content: bytes) -> bytes:
        length = len(content).to_bytes(4, "big")
        return length + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")

    header = size.to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
    return png + chunk(b"IEND", b"")
