"""What a warm send costs, in counts that are the same on every machine: turns of the event loop, calls handed
to other threads, and new threads."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from a2a_lambda import threads
from a2a_lambda.agent.agent import Agent
from a2a_lambda.agent.agents import Agents
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.operations.service import Service
from a2a_lambda.protocol.model import Message, Part, Role
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.call_context import CallContext
from a2a_lambda.tasks.identity import RequestIdentity, Scope
from a2a_lambda.turns import journal
from tests.conftest import AGENTS, BASE_URL
from tests.helpers.rest import message_1_0
from tests.helpers.rpc import intent, request

MOST = {"turns": 22, "hops": 2, "threads": 1}
"""A hop is a call that waits for another thread: here the calls of DynamoDB."""

MOST_ON_LAMBDA = {"turns": 17, "hops": 0, "threads": 1}
"""A process that serves one request at a time."""


@contextmanager
def count_costs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    found: Counter[str] = Counter()

    def count(owner: Any, name: str, what: str) -> None:
        original = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            found[what] += 1
            return original(*args, **kwargs)

        patch.setattr(owner, name, counting)

    with monkeypatch.context() as patch:
        count(asyncio.BaseEventLoop, "_run_once", "turns")
        count(ThreadPoolExecutor, "submit", "hops")
        count(threading.Thread, "start", "threads")
        yield found


@pytest.mark.parametrize(("serves_one", "most"), [(False, MOST), (True, MOST_ON_LAMBDA)])
def test_a_warm_send(
    kit: Kit, key: str, monkeypatch: pytest.MonkeyPatch, serves_one: bool, most: dict[str, int]
) -> None:
    monkeypatch.setattr(threads._Loop, "serves_one", serves_one)
    app = create_app(kit)

    async def send(client: httpx2.AsyncClient) -> None:
        said = message_1_0("hi", metadata=intent("echo"))
        answer = await client.post("/a2a/probe", json=request("SendMessage", {"message": said}))
        assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED", answer.text

    async def run() -> Counter[str]:
        transport = httpx2.ASGITransport(app=app)
        headers = {"X-API-Key": key}
        async with httpx2.AsyncClient(transport=transport, base_url=BASE_URL, headers=headers) as client:
            for _ in range(3):
                await send(client)
            with count_costs(monkeypatch) as found:
                await send(client)
        return found

    found = asyncio.run(run())
    print(f"\nwarm send: {dict(found)}")
    assert all(found[what] <= limit for what, limit in most.items()), found


def test_a_slow_call_keeps_the_next_ones_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(threads._Loop, "serves_one", True)
    monkeypatch.setattr(threads._Loop, "slow_until", 0.0)
    monkeypatch.setattr(threads, "time", SimpleNamespace(monotonic=lambda: now))

    def call(seconds: float) -> bool:
        """Whether a call that takes so long is made on the event loop."""

        def wait() -> bool:
            nonlocal now
            now += seconds
            return threading.current_thread() is threading.main_thread()

        async def run() -> bool:
            return await threads.run(wait)

        return asyncio.run(run())

    assert call(0.01)
    assert call(3.0), "no one knew"
    assert not call(0.01)
    now += threads.SLOW_AGAIN_SECONDS
    assert call(0.01)


@pytest.mark.parametrize("serves_one", [False, True])
def test_no_call_blocks_the_loop_while_an_agent_runs(
    scope: Scope, store: Store, monkeypatch: pytest.MonkeyPatch, serves_one: bool
) -> None:
    """The agent writes for a while, so that its events are stored while it runs."""
    monkeypatch.setattr(threads._Loop, "serves_one", serves_one)
    monkeypatch.setattr(journal, "FLUSH_SECONDS", 0.0)
    where: list[tuple[str, bool]] = []

    def noting(operation: str) -> Any:
        original = getattr(store, operation)

        def call(*args: Any, **kwargs: Any) -> Any:
            where.append((operation, threading.current_thread() is threading.main_thread()))
            return original(*args, **kwargs)

        return call

    for operation in ("create_head", "append", "update_head"):
        monkeypatch.setattr(store, operation, noting(operation))
    service = Service(store, Agents.of(Agent.load(AGENTS / "probe")), repeat_seconds=60)
    said = Message(messageId="m", role=Role.USER, parts=[Part(text="hi")])
    said["metadata"] = intent("pieces", count="20", every="0.001")
    call = CallContext(Scope(scope.owner, "probe"), RequestIdentity.of(scope, "send", b"body"))
    asyncio.run(service.send(call, SendMessageRequest(message=said)))
    assert {operation for operation, _ in where} == {"create_head", "append", "update_head"}
    for operation, on_loop in where:
        assert on_loop is (serves_one and operation != "append"), where
