"""What a warm send costs, in counts that are the same on every machine: turns of the event loop, calls handed
to other threads, and new threads."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from tests.conftest import BASE_URL
from tests.helpers.rest import message_1_0
from tests.helpers.rpc import intent, request

MOST = {"turns": 22, "hops": 2, "threads": 1}
"""A hop is a call that waits for another thread: here the calls of DynamoDB."""


@contextmanager
def count_costs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    counts: Counter[str] = Counter()

    def count(owner: Any, name: str, what: str) -> None:
        original = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            counts[what] += 1
            return original(*args, **kwargs)

        patch.setattr(owner, name, counting)

    with monkeypatch.context() as patch:
        count(asyncio.BaseEventLoop, "_run_once", "turns")
        count(ThreadPoolExecutor, "submit", "hops")
        count(threading.Thread, "start", "threads")
        yield counts


@pytest.mark.usefixtures("no_timed_calls")
def test_a_warm_send(kit: Kit, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(kit)

    async def send(client: httpx2.AsyncClient) -> None:
        message = message_1_0("hi", metadata=intent("echo"))
        answer = await client.post("/a2a/probe", json=request("SendMessage", {"message": message}))
        assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED", answer.text

    async def run() -> Counter[str]:
        transport = httpx2.ASGITransport(app=app)
        headers = {"X-API-Key": key}
        async with httpx2.AsyncClient(transport=transport, base_url=BASE_URL, headers=headers) as client:
            for _ in range(3):
                await send(client)
            with count_costs(monkeypatch) as counts:
                await send(client)
        return counts

    counts = asyncio.run(run())
    print(f"\nwarm send: {dict(counts)}")
    assert all(counts[what] <= limit for what, limit in MOST.items()), counts
