"""Clocks of tests, which a busy machine does not turn, and waits for what takes its time."""

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 180.0
"""Seconds that a test waits for something before it fails: more than any busy machine needs."""


class Clock:
    """Unix seconds; sleeping is turning it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time that a call takes in its thread, for tests of linear work: the least of three."""
    seconds: list[float] = []
    for _ in range(3):
        gc.collect()  # else it may fall into one of the calls
        start = time.thread_time()
        work()
        seconds.append(time.thread_time() - start)
    return min(seconds)


def wait_until(condition: Callable[[], Any], *, pause: float = 0.02) -> Any:
    """Wait until a condition holds; returns its first true value."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not (value := condition()):
        assert time.monotonic() < give_up_at, "it did not happen in time"
        time.sleep(pause)
    return value


async def until(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds, on an event loop."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.02)
