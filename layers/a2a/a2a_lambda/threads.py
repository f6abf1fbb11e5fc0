"""Runs blocking calls off the event loop, in threads that no skill can occupy."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


run = Pool("store", 16).run

run_for_keys = Pool("keys", 4).run
