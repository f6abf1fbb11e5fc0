"""One key does not hold every Lambda."""

import asyncio
import time
import uuid
from contextlib import AsyncExitStack
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda import aws
from a2a_lambda.agent import Agent
from a2a_lambda.caps import Caps
from a2a_lambda.errors import TooManyStreams
from a2a_lambda.http import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from a2a_lambda.store import Store
from tests.clock import Clock
from tests.conftest import BASE_URL, ROOT, new_key
from tests.rest import Rest, message
from tests.rpc import Rpc, intent


@pytest.fixture
def owner() -> str:
    return f"owner-{uuid.uuid4()}"


def test_as_many_as_there_are_slots(settings: Settings, owner: str) -> None:
    clock = Clock()
    caps = Caps(Store(aws.dynamodb(settings), settings.table, ttl=86_400, clock=clock), 3)

    async def go() -> None:
        async with AsyncExitStack() as held:
            for _ in range(3):
                await held.enter_async_context(caps.slot(owner))
            with pytest.raises(TooManyStreams):
                async with caps.slot(owner):
                    pass
            async with caps.slot(f"{owner}-other"):
                pass
            clock.now += 92  # they died, and their time is up
            async with caps.slot(owner):
                pass
        clock.now -= 92
        async with caps.slot(owner):
            pass

    asyncio.run(go())


def test_one_that_goes_on_is_kept(settings: Settings, owner: str) -> None:
    clock = Clock()
    caps = Caps(Store(aws.dynamodb(settings), settings.table, ttl=86_400, clock=clock), 1)

    async def go() -> None:
        async with caps.slot(owner) as slot:
            for _ in range(60):
                clock.now += 4
                await slot.keep()
            with pytest.raises(TooManyStreams):
                async with caps.slot(owner):
                    pass

    asyncio.run(go())


def test_one_whose_client_leaves_is_free_at_once(
    settings: Settings, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever serves it is cancelled then, and cancelled again while it cleans up."""
    store = Store(aws.dynamodb(settings), settings.table, ttl=86_400)
    caps = Caps(store, 1)
    free = store.free_slot

    def slowly(*arguments: Any) -> None:
        time.sleep(0.1)
        free(*arguments)

    monkeypatch.setattr(store, "free_slot", slowly)

    async def hold() -> None:
        async with caps.slot(owner):
            await asyncio.Event().wait()

    async def go() -> None:
        holding = asyncio.create_task(hold())
        while not store.slots(owner):
            await asyncio.sleep(0.01)
        for _ in range(3):
            holding.cancel()
            await asyncio.sleep(0.01)
        while store.slots(owner):
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(go(), 5))


def test_many_at_once(settings: Settings, owner: str) -> None:
    caps = Caps(Store(aws.dynamodb(settings), settings.table, ttl=86_400), 5)
    most = now = refused = 0

    async def one() -> None:
        nonlocal most, now, refused
        try:
            async with caps.slot(owner):
                now += 1
                most = max(most, now)
                await asyncio.sleep(0.05)
                now -= 1
        except TooManyStreams:
            refused += 1

    async def go() -> None:
        await asyncio.gather(*(one() for _ in range(20)))

    asyncio.run(go())
    assert most <= 5
    assert 0 < refused < 20


def test_a_stream_over_the_limit_changes_nothing(settings: Settings) -> None:
    kit = Kit(settings.model_copy(update={"streams_per_owner": 1}))
    kit.agents["probe"] = Agent.load(ROOT / "tests" / "agents" / "probe")
    key = new_key(kit.keys)
    [label] = [known.label for known in kit.keys.all() if kit.keys.find(key) == known]
    with TestClient(create_app(kit), base_url=BASE_URL) as client:
        rest = Rest(client, key)
        body = {"message": message(metadata=intent("echo"))}
        assert rest.stream(body=body)
        assert rest.stream(body={"message": message(metadata=intent("echo"))}), "a slot is free again"
        assert kit.store.take_slot(label, 0, "somebody", 2**32)
        before = rest.call("GET", "tasks")["totalSize"]
        refused = rest.ask("POST", "message:stream", {"message": message()})
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "5"
        assert refused.json()["error"]["status"] == "RESOURCE_EXHAUSTED"
        rpc = Rpc(client, key, "/a2a/probe")
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": {"id": "x"}}
        assert rpc.post(asked).status_code == 429
        assert rest.call("GET", "tasks")["totalSize"] == before
        assert rest.send()["status"]["state"] == "TASK_STATE_COMPLETED"
