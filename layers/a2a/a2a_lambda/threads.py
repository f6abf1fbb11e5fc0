"""Runs blocking calls off the event loop, in threads that no skill can occupy; and keeps work on the loop
that no one waits for."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Pool:
    """Threads for one purpose, made when first needed. A pool that waits does not delay another."""

    def __init__(self, name: str, threads: int) -> None:
        # It starts no thread before it is given work.
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Result of a blocking function."""
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()  # ids of log lines, and the current span
        call = partial(context.run, function, *args, **kwargs)
        return await loop.run_in_executor(self._executor, call)


class Once(Generic[Result]):
    """A value that is made when it is first needed, and once, even if several threads need it at once. Since
    Python 3.12, `cached_property` does not lock."""

    def __init__(self, make: Callable[[], Result]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._values: list[Result] = []

    def get(self) -> Result:
        with self._lock:
            if not self._values:
                self._values.append(self._make())
            return self._values[0]


run = Pool("store", 16).run

run_for_keys = Pool("keys", 4).run

run_for_files = Pool("files", 8).run
"""A slow bucket must not delay the table."""

_kept: set["asyncio.Future[None]"] = set()


def keep(work: "asyncio.Future[None]") -> "asyncio.Future[None]":
    """The work, which is kept until it is done. The event loop alone refers to it weakly.

    Source: https://docs.python.org/3/library/asyncio-task.html#asyncio.create_task
    """
    _kept.add(work)
    work.add_done_callback(_kept.discard)
    return work
