"""Reads server-sent events. Source: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

END_OF_LINE = re.compile(rb"\r\n|\n|\r")


class TooLarge(Exception):
    """An event has more bytes than are taken."""


async def data(chunks: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """Data of the events that have any, in time linear to their bytes. Raises TooLarge."""
    lines: list[bytes] = []
    size = 0
    async with aclosing(_lines(chunks, limit)) as found:
        async for line in found:
            if line.startswith(b"data:"):
                lines.append(line[5:].removeprefix(b" "))
                size += len(line)
                if size > limit:
                    raise TooLarge
            elif not line:
                if event := b"\n".join(lines):
                    yield event
                lines, size = [], 0


async def _lines(chunks: AsyncIterator[bytes], limit: int) -> AsyncGenerator[bytes, None]:
    """Whole lines, without their ends. Raises TooLarge."""
    # The line that is not complete yet, in pieces: to search it again with every chunk would take time that
    # grows with the square of its length.
    begun: list[bytes] = []
    size = 0
    returned = False
    async for received in chunks:
        if not received:
            continue
        # A line feed may be the other half of an end of line before.
        chunk = received[1:] if returned and received.startswith(b"\n") else received
        returned = chunk.endswith(b"\r")
        first, *others = END_OF_LINE.split(chunk)
        begun.append(first)
        size += len(first)
        for line in others:
            yield b"".join(begun)
            begun, size = [line], len(line)
        if size > limit:
            raise TooLarge
