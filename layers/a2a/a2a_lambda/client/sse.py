"""Reads server-sent events. Source: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

END_OF_LINE = re.compile(rb"\r\n|\n|\r")


class TooLarge(Exception):
    """An event, or an answer, is too large."""


async def data(chunks: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """Data of events, of those that have any. The time is linear in their bytes. Raises TooLarge."""
    held: list[bytes] = []
    size = 0
    async with aclosing(lines(chunks, limit)) as found:
        async for line in found:
            if line.startswith(b"data:"):
                held.append(line[5:].removeprefix(b" "))
                size += len(line)
                if size > limit:
                    raise TooLarge
            elif not line:
                if event := b"\n".join(held):
                    yield event
                held, size = [], 0


async def lines(chunks: AsyncIterator[bytes], limit: int) -> AsyncGenerator[bytes, None]:
    """Whole lines, without their ends. Raises TooLarge."""
    # Pieces of the line that is not complete yet. A search through all of it with every chunk would take time
    # that grows with the square of its length.
    pieces: list[bytes] = []
    size = 0
    returned = False
    async for received in chunks:
        if not received:
            continue
        # A line feed may be the second half of the end of the line before.
        chunk = received[1:] if returned and received.startswith(b"\n") else received
        returned = chunk.endswith(b"\r")
        first, *others = END_OF_LINE.split(chunk)
        pieces.append(first)
        size += len(first)
        for line in others:
            yield b"".join(pieces)
            pieces, size = [line], len(line)
        if size > limit:
            raise TooLarge
