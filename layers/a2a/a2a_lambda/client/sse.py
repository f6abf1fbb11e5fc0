"""Reads server-sent events. Source: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import NamedTuple

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

LINE_OBJECT_BYTES = 50
"""Approximate memory that Python needs for a line in addition to its bytes. It counts, so that many short
lines have a limit, too."""

END_OF_LINE = re.compile(rb"\r\n|\n|\r")


class TooLarge(Exception):
    """An event, or an answer, is too large."""


class Received(NamedTuple):
    """An event, or a comment: one that only keeps the stream alive has no data. text: its lines."""

    event_id: bytes
    data: bytes
    text: bytes


async def data(chunks: AsyncIterator[bytes], limit: int) -> AsyncGenerator[bytes, None]:
    """Data of events, of those that have any. Raises TooLarge."""
    async with aclosing(events(chunks, limit)) as stream:
        async for event in stream:
            if event.data:
                yield event.data


async def events(chunks: AsyncIterator[bytes], limit: int) -> AsyncGenerator[Received, None]:
    """Events and comments. The time is linear in their bytes. limit: most bytes of one. Raises TooLarge."""
    lines: list[bytes] = []
    size, prefix = 0, BYTE_ORDER_MARK
    async with aclosing(_lines(chunks, limit)) as stream:
        async for whole_line in stream:
            line, prefix = whole_line.removeprefix(prefix), b""
            if line.startswith(b":") and not lines:
                yield Received(b"", b"", line)
            elif line:
                lines.append(line)
                size += len(line) + LINE_OBJECT_BYTES
                if size > limit:
                    raise TooLarge(f"more than {limit} bytes")
            elif lines:
                yield Received(
                    [b"", *_values(lines, b"id")][-1], b"\n".join(_values(lines, b"data")), b"\n".join(lines)
                )
                lines, size = [], 0


def _values(lines: list[bytes], name: bytes) -> list[bytes]:
    """Values of a field, without the space before them."""
    prefix = name + b":"
    return [line[len(prefix) :].removeprefix(b" ") for line in lines if line.startswith(prefix)]


async def _lines(chunks: AsyncIterator[bytes], limit: int) -> AsyncGenerator[bytes, None]:
    """Whole lines, without their ends. Raises TooLarge."""
    # The line that is not complete yet. A search through all of it with every chunk would take time that
    # grows with the square of its length.
    line = bytearray()
    has_return = False
    async for raw_chunk in chunks:
        if not raw_chunk:
            continue
        # A line feed may be the second half of the end of the line before.
        chunk = raw_chunk[1:] if has_return and raw_chunk.startswith(b"\n") else raw_chunk
        has_return = chunk.endswith(b"\r")
        first, *others = END_OF_LINE.split(chunk)
        line += first
        for next_line in others:
            yield bytes(line)
            line = bytearray(next_line)
        if len(line) > limit:
            raise TooLarge(f"more than {limit} bytes")
