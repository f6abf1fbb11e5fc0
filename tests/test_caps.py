"""One key does not hold every Lambda."""

import asyncio
import threading
import time
import uuid
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from a2a_lambda import aws
from a2a_lambda.agent import Agent
from a2a_lambda.call import Call
from a2a_lambda.caps import Caps
from a2a_lambda.errors import TooManyStreams
from a2a_lambda.head import Request, Scope
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

    asyncio.run(asyncio.wait_for(go(), 120))


def test_one_whose_client_leaves_while_it_is_taken_is_given_back(
    settings: Settings, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(aws.dynamodb(settings), settings.table, ttl=86_400)
    caps = Caps(store, 1)
    take = store.take_slot
    begun, left = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> bool:
        begun.set()
        left.wait()
        return take(*arguments)

    monkeypatch.setattr(store, "take_slot", slowly)

    async def hold() -> None:
        async with caps.slot(owner):
            pytest.fail("it was cancelled before")

    async def go() -> None:
        holding = asyncio.create_task(hold())
        while not begun.is_set():
            await asyncio.sleep(0.01)
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding
        left.set()
        from a2a_lambda import caps as module

        while module._freeing:
            await asyncio.sleep(0.01)
        assert store.slots(owner) == set()

    asyncio.run(asyncio.wait_for(go(), 120))


def test_many_at_once(settings: Settings, owner: str) -> None:
    caps = Caps(Store(aws.dynamodb(settings), settings.table, ttl=86_400), 5)
    most = now = refused = 0

    async def one(full: asyncio.Event) -> None:
        nonlocal most, now, refused
        try:
            async with caps.slot(owner):
                now += 1
                most = max(most, now)
                await full.wait()
                now -= 1
        except TooManyStreams:
            refused += 1
            if refused == 15:  # nobody lets go before all were asked
                full.set()

    async def go() -> None:
        full = asyncio.Event()
        await asyncio.gather(*(one(full) for _ in range(20)))

    asyncio.run(asyncio.wait_for(go(), 120))
    assert (most, refused) == (5, 15)


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


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_lambda.service.SHORT_SECONDS", 0.3)


def sends(settings: Settings, limit: int) -> tuple[Kit, str]:
    kit = Kit(settings.model_copy(update={"streams_per_owner": limit}))
    kit.agents["probe"] = Agent.load(ROOT / "tests" / "agents" / "probe")
    return kit, new_key(kit.keys)


def test_sends_that_last_take_slots(settings: Settings, short: None) -> None:
    """The fifth is refused, its turn ends at once, and it can be sent again."""
    kit, key = sends(settings, 4)
    kit_app = create_app(kit)

    async def go() -> None:
        transport = httpx2.ASGITransport(app=kit_app)
        async with httpx2.AsyncClient(transport=transport, base_url=BASE_URL, timeout=120) as client:
            headers = {"X-API-Key": key, "A2A-Version": "1.0"}

            async def send(seconds: str, identity: str) -> httpx2.Response:
                body = {"message": message(messageId=identity, metadata=intent("pause", seconds=seconds))}
                return await client.post("/a2a/probe/message:send", json=body, headers=headers)

            lasting = [asyncio.create_task(send("60", f"m{number}")) for number in range(4)]
            owner = next(known.owner for known in kit.keys.all() if kit.keys.find(key) == known)
            while len(kit.store.slots(owner)) < 4:
                await asyncio.sleep(0.05)
            refused = await send("60", "m5")
            assert refused.status_code == 429
            assert refused.headers["retry-after"] == "5"
            assert (await send("0", "short")).status_code == 200, "a short one needs none"
            tasks = (await client.get("/a2a/probe/tasks", headers=headers)).json()["tasks"]
            states = [task["status"]["state"] for task in tasks]
            assert (
                sorted(states) == ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED"] + ["TASK_STATE_WORKING"] * 4
            )
            for task in tasks:
                if task["status"]["state"] == "TASK_STATE_WORKING":
                    await client.post(f"/a2a/probe/tasks/{task['id']}:cancel", headers=headers)
            for answer in await asyncio.gather(*lasting):
                assert answer.json()["task"]["status"]["state"] == "TASK_STATE_CANCELED"
            while kit.store.slots(owner):
                await asyncio.sleep(0.05)
            again = asyncio.create_task(send("1", "m5"))
            assert (await again).json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"

    asyncio.run(asyncio.wait_for(go(), 120))


def test_repeats_that_last_take_slots(settings: Settings, short: None) -> None:
    """Who asks again for what runs holds a slot as well; refused, it leaves the turn alone."""
    kit, key = sends(settings, 2)
    service = kit.service
    owner = next(known.owner for known in kit.keys.all() if kit.keys.find(key) == known)
    scope = Scope(owner, "probe")

    async def go() -> None:
        call = Call(scope, Request.of(scope, "send", b"same"))
        sent: Any = {"message": message(metadata=intent("pause", seconds="3"))}
        answers = [asyncio.create_task(service.send(call, sent)) for _ in range(2)]
        while len(kit.store.slots(owner)) < 2:
            await asyncio.sleep(0.05)
        with pytest.raises(TooManyStreams):
            await service.send(call, sent)
        for answer in await asyncio.gather(*answers):
            assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"

    asyncio.run(asyncio.wait_for(go(), 120))


def test_a_short_send_costs_no_slot(settings: Settings) -> None:
    kit, key = sends(settings, 1)
    calls: list[str] = []
    take = kit.store.take_slot
    kit.store.take_slot = lambda *arguments: calls.append("taken") or take(*arguments)  # type: ignore[method-assign,func-returns-value]
    with TestClient(create_app(kit), base_url=BASE_URL) as client:
        assert Rest(client, key).send()["status"]["state"] == "TASK_STATE_COMPLETED"
    assert calls == []
