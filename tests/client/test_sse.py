"""Events of a stream, however their bytes arrive."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from a2a_lambda.client import sse
from tests.helpers.clock import cpu_seconds


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_events_however_they_come(end: bytes, size: int) -> None:
    stream = b"\xef\xbb\xbf" + end.join(
        [
            b"id: 0",
            b"data: first",
            b"",
            b": alive",
            b"id: 1",
            b'data: {"a":',
            b'data: "\xe2\x80\xa8"}',
            b"",
            b"data:",
            b"",
            b"data:x",
            b"",
            b"data: cut",
        ]
    )

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(stream), size):
            yield stream[start : start + size]

    async def go() -> list[bytes]:
        return [event async for event in sse.data(chunks(), 200)]

    assert asyncio.run(go()) == [b"first", b'{"a":\n"\xe2\x80\xa8"}', b"x"]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 50, b"a\n"])
def test_an_event_without_end_is_given_up(piece: bytes) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        while True:
            yield piece

    async def go() -> None:
        with pytest.raises(sse.TooLarge):
            async for _ in sse.data(chunks(), 1000):
                pass

    asyncio.run(go())


def test_an_event_of_very_many_lines_takes_no_more_memory_than_its_limit() -> None:
    """Python takes some 50 bytes for a line of two."""
    lines = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal lines
        while True:
            lines += 1
            yield b"ab\n"

    async def go() -> None:
        with pytest.raises(sse.TooLarge):
            async for _ in sse.data(chunks(), 100_000):
                pass

    asyncio.run(go())
    assert lines < 2_000


def test_a_large_event_is_parsed_in_linear_time() -> None:
    """One that is ten times as large takes ten times as long, and not a hundred times."""

    async def read(megabytes: int) -> None:
        async def pieces() -> Any:
            for start in range(0, len(body), 4_096):
                yield body[start : start + 4_096]

        body = b"data: " + b"x" * megabytes * 1_000_000 + b"\n\n"
        assert [len(data) async for data in sse.data(pieces(), 10**9)] == [megabytes * 1_000_000]

    def seconds_of(megabytes: int) -> float:
        return cpu_seconds(lambda: asyncio.run(read(megabytes)))

    assert seconds_of(40) < 40 * seconds_of(4)
