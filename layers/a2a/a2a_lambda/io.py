"""Blocking calls, off the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

THREADS = 16


async def call(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Result of a blocking function, run in one of the kit's own threads: skills cannot hold them."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_pool(), lambda: function(*args, **kwargs))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="io")
