"""A skill's outputs on their way from its loop to the server's."""

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from a2a_lambda import agent_threads
from a2a_lambda.agent import executor
from a2a_lambda.agent.executor import AHEAD_OUTPUTS
from a2a_lambda.agent.outputs import Batch
from tests.conftest import count_running_code
from tests.helpers.clock import PATIENCE_SECONDS, wait_until


class Switching:
    """A lock after whose release another thread runs first, once."""

    def __init__(self, lock: Any, run: Callable[[], None]) -> None:
        self._lock = lock
        self._run: Callable[[], None] | None = run

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)
        run, self._run = self._run, None
        if run is not None:
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)


def test_a_skill_that_is_woken_before_it_waits_continues() -> None:
    """The server's loop may read all that is there between two lines of the agents' loop."""
    output = Batch(("x",), is_last=False)

    async def run() -> None:
        channel = executor._Channel(asyncio.get_running_loop())
        for _ in range(AHEAD_OUTPUTS - 1):
            await channel.post_waiting(output)

        def read_all() -> None:
            while channel.get_nowait() is not None:
                pass

        channel._room = Switching(channel._room, read_all)  # type: ignore[assignment]
        await asyncio.wait_for(channel.post_waiting(output), 60)

    asyncio.run(run())


@pytest.mark.usefixtures("own_agent_threads")
def test_a_call_in_a_thread_counts_as_its_turns_until_it_ends() -> None:
    """When the turn is canceled, `asyncio.to_thread` leaves its call behind, and nothing stops it."""
    has_begun, may_end = threading.Event(), threading.Event()

    def block() -> None:
        has_begun.set()
        may_end.wait(PATIENCE_SECONDS)

    future = agent_threads.get_agent_loop().submit(asyncio.to_thread(block), lambda _: None)
    try:
        assert has_begun.wait(PATIENCE_SECONDS)
        future.cancel()
        agent_threads.get_agent_loop().ping().result(PATIENCE_SECONDS)
        assert count_running_code()
    finally:
        may_end.set()
    wait_until(lambda: not count_running_code())


@pytest.mark.usefixtures("own_agent_threads")
def test_calls_that_hang_leave_threads_for_lookups_which_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_end, is_asked = threading.Event(), threading.Event()

    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        is_asked.set()
        may_end.wait(PATIENCE_SECONDS)
        return []

    def wait() -> None:
        may_end.wait(PATIENCE_SECONDS)

    async def look_up() -> None:
        await asyncio.get_running_loop().getaddrinfo("example.com", 443)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    loop, hanging_calls = agent_threads.get_agent_loop(), 16  # asyncio would have 6 threads with two CPUs
    for _ in range(hanging_calls):
        loop.submit(asyncio.to_thread(wait), lambda _: None)
    try:
        loop.submit(look_up(), lambda _: None)
        assert is_asked.wait(PATIENCE_SECONDS)
        assert count_running_code() <= hanging_calls
    finally:
        may_end.set()
    wait_until(lambda: not count_running_code())
