"""Reads server-sent events. Source: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

import re
from collections.abc import AsyncIterator

END_OF_LINE = re.compile(rb"\r\n|\n|\r")


class TooLarge(Exception):
    """An event has more bytes than are taken."""


async def data(chunks: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """Data of the events that have any. Raises TooLarge."""
    waiting, lines, size = b"", list[bytes](), 0
    async for chunk in chunks:
        waiting += chunk
        # A carriage return at the end may be half of an end of line.
        whole = waiting[:-1] if waiting.endswith(b"\r") else waiting
        *ended, rest = END_OF_LINE.split(whole)
        waiting = rest + waiting[len(whole) :]
        for line in ended:
            if line.startswith(b"data:"):
                lines.append(line[5:].removeprefix(b" "))
                size += len(line)
            elif not line:
                if found := b"\n".join(lines):
                    yield found
                lines, size = [], 0
        if size + len(waiting) > limit:
            raise TooLarge
