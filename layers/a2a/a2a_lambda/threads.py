"""Runs blocking calls off the event loop, in threads that no skill can occupy."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

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
        return await loop.run_in_executor(self._executor, lambda: context.run(function, *args, **kwargs))


run = Pool("store", 16).run

run_for_keys = Pool("keys", 4).run

run_for_files = Pool("files", 8).run
"""A slow bucket must not delay the table."""
