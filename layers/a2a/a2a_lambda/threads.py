"""Runs blocking calls off the event loop, in threads that no skill can occupy.

A hop to a thread and back takes as much of the processor as the call itself. So a process that serves one
request at a time makes a call on the event loop, if nothing else needs the loop meanwhile: before the agent
starts, and after it has ended. After a call that was slow, threads make the calls for a while: keep-alives
and time limits need a loop that does not wait.
"""

import asyncio
import contextvars
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Pool:
    """Threads for one purpose, made when first needed. A pool that waits does not delay another."""

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._threads = threads

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Result of a blocking function."""
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()  # ids of log lines, and the current span
        return await loop.run_in_executor(self._executor, lambda: context.run(function, *args, **kwargs))

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)


LONGEST_CALL_SECONDS = 30.0
"""A call whose tries all time out takes nearly as long."""

SLOW_SECONDS = 0.5
"""A call that takes longer is slow. DynamoDB answers within some milliseconds."""

SLOW_AGAIN_SECONDS = 60.0
"""Seconds after a slow call in which none is made on the event loop."""


class _Loop:
    """What is known of the event loop. users: of `free_loop`. slow_until: on `time.monotonic`."""

    serves_one = False
    users = 0
    slow_until = 0.0


def serve_one_at_a_time() -> None:
    """Say that this process serves one request at a time, as every process on Lambda does."""
    _Loop.serves_one = True


@contextmanager
def free_loop() -> Iterator[None]:
    """While this lasts, no call blocks the event loop: an agent, or a timeout, needs it."""
    _Loop.users += 1
    try:
        yield
    finally:
        _Loop.users -= 1


async def run(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Result of a blocking function."""
    began = time.monotonic()
    if not _Loop.serves_one or _Loop.users or began < _Loop.slow_until:
        return await run_apart(function, *args, **kwargs)
    try:
        return function(*args, **kwargs)
    finally:
        ended = time.monotonic()
        if ended - began > SLOW_SECONDS:
            _Loop.slow_until = ended + SLOW_AGAIN_SECONDS


run_apart = Pool("store", 16).run
"""Always in a thread: for calls that are made at the same time."""

run_for_keys = Pool("keys", 4).run
