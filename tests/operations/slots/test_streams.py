"""One key does not hold every Lambda."""

import asyncio
import random
import threading
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda import threads
from a2a_lambda.aws import clients
from a2a_lambda.errors import TooManyCalls
from a2a_lambda.http.app import create_app
from a2a_lambda.http.operation_call import SlotStream
from a2a_lambda.kit import Kit
from a2a_lambda.operations import call_slots
from a2a_lambda.operations.call_slots import SLOT_SECONDS, CallSlots
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from tests.conftest import BASE_URL, new_key, owner_of, replace_in
from tests.helpers.clock import PATIENCE_SECONDS, Clock, until
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc, intent


@pytest.fixture
def owner() -> str:
    return f"owner-{uuid.uuid4()}"


def test_as_many_as_there_are_slots(settings: Settings, owner: str) -> None:
    clock = Clock()
    slots = CallSlots(Store(Table(clients.dynamodb(settings), settings.table, clock=clock), ttl=86_400), 3)

    async def go() -> None:
        async with AsyncExitStack() as stack:
            for _ in range(3):
                await stack.enter_async_context(slots.hold(owner))
            with pytest.raises(TooManyCalls):
                async with slots.hold(owner):
                    pass
            async with slots.hold(f"{owner}-other"):
                pass
            clock.now += SLOT_SECONDS - 0.5
            with pytest.raises(TooManyCalls):
                async with slots.hold(owner):
                    pass
            clock.now += 2.5  # they died, and their time is up
            async with slots.hold(owner):
                pass
        clock.now -= SLOT_SECONDS + 2
        async with slots.hold(owner):
            pass

    asyncio.run(go())


def test_the_slot_of_a_stream_that_continues_is_kept(
    settings: Settings, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    store = Store(Table(clients.dynamodb(settings), settings.table, clock=clock), ttl=86_400)
    slots = CallSlots(store, 1)
    began_at, has_slept = clock.now, asyncio.Event()
    before_renewals: list[set[int]] = []

    async def sleep(seconds: float) -> None:
        """Pass the time, until the slot would have expired twice."""
        if clock.now > began_at + 2 * SLOT_SECONDS:
            has_slept.set()
            await asyncio.Event().wait()
        clock.now += seconds
        before_renewals.append(store.slots.list(owner))

    replace_in(call_slots, asyncio, monkeypatch, sleep=sleep)

    async def go() -> None:
        async with slots.hold(owner):
            await has_slept.wait()
            assert all(before_renewals), "never expired"
            assert len(before_renewals) <= 2 * SLOT_SECONDS / 40 + 1, "one write in 40 s"
            with pytest.raises(TooManyCalls):
                async with slots.hold(owner):
                    pass

    asyncio.run(asyncio.wait_for(go(), PATIENCE_SECONDS))


def test_a_stream_that_its_client_does_not_read_is_kept(
    settings: Settings, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Lambda runs until the client reads, or the invocation ends."""
    monkeypatch.setattr(call_slots, "SLOT_RENEWAL_SECONDS", 0.01)
    clock = Clock()
    store = Store(Table(clients.dynamodb(settings), settings.table, clock=clock), ttl=86_400)
    slots = CallSlots(store, 1)
    began_at, renew, is_renewed = clock.now, store.slots.renew, asyncio.Event()

    async def events() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def go() -> None:
        loop, is_blocked = asyncio.get_running_loop(), asyncio.Event()

        def note(owner: str, number: int, holder: str, until: float) -> None:
            renew(owner, number, holder, until)
            if until > began_at + SLOT_SECONDS:
                loop.call_soon_threadsafe(is_renewed.set)

        async def send(message: Any) -> None:
            if message.get("body"):
                is_blocked.set()
                await asyncio.Event().wait()

        monkeypatch.setattr(store.slots, "renew", note)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(slots.hold(owner))
            response = SlotStream(events(), stack)
        stream = asyncio.create_task(response({"type": "http"}, receive, send))
        await is_blocked.wait()
        clock.now += 41
        await is_renewed.wait()
        clock.now += 60
        with pytest.raises(TooManyCalls):
            async with slots.hold(owner):
                pass
        stream.cancel()
        await asyncio.wait({stream})
        async with slots.hold(owner):
            pass

    asyncio.run(asyncio.wait_for(go(), 60))


def test_the_slot_of_a_client_that_leaves_is_free_at_once(
    settings: Settings, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task is cancelled then, and cancelled again while it cleans up."""
    store = Store(Table(clients.dynamodb(settings), settings.table), ttl=86_400)
    slots = CallSlots(store, 1)
    free = store.slots.free

    def slowly(*arguments: Any) -> None:
        time.sleep(0.1)
        free(*arguments)

    monkeypatch.setattr(store.slots, "free", slowly)

    async def hold() -> None:
        async with slots.hold(owner):
            await asyncio.Event().wait()

    async def go() -> None:
        holding = asyncio.create_task(hold())
        await until(lambda: store.slots.list(owner))
        for _ in range(3):
            holding.cancel()
            await asyncio.sleep(0.01)
        await until(lambda: not store.slots.list(owner))

    asyncio.run(asyncio.wait_for(go(), 120))


def test_a_slot_whose_client_leaves_while_it_is_taken_is_given_back(
    settings: Settings, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(Table(clients.dynamodb(settings), settings.table), ttl=86_400)
    slots = CallSlots(store, 1)
    take = store.slots.take
    begun, left = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> bool:
        begun.set()
        left.wait()
        return take(*arguments)

    monkeypatch.setattr(store.slots, "take", slowly)

    async def hold() -> None:
        async with slots.hold(owner):
            pytest.fail("it was cancelled before")

    async def go() -> None:
        holding = asyncio.create_task(hold())
        await until(begun.is_set)
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding
        left.set()
        await until(lambda: not threads._kept)
        assert store.slots.list(owner) == set()

    asyncio.run(asyncio.wait_for(go(), 120))


def test_many_at_once(settings: Settings, owner: str) -> None:
    slots = CallSlots(Store(Table(clients.dynamodb(settings), settings.table), ttl=86_400), 5)
    most = now = refusals = 0

    async def one(full: asyncio.Event) -> None:
        nonlocal most, now, refusals
        try:
            async with slots.hold(owner):
                now += 1
                most = max(most, now)
                await full.wait()
                now -= 1
        except TooManyCalls:
            refusals += 1
            if refusals == 15:  # no one lets go before all were asked
                full.set()

    async def go() -> None:
        full = asyncio.Event()
        await asyncio.gather(*(one(full) for _ in range(20)))

    asyncio.run(asyncio.wait_for(go(), 120))
    assert (most, refusals) == (5, 15)


@pytest.mark.usefixtures("no_timed_calls")
def test_a_stream_over_the_limit_changes_nothing(settings: Settings) -> None:
    kit = Kit(settings.model_copy(update={"streams_per_owner": 1}))
    key = new_key(kit)
    owner = owner_of(kit, key)
    with TestClient(create_app(kit), base_url=BASE_URL) as client:
        rest = Rest(client, key)
        body = {"message": message_1_0(metadata=intent("echo"))}
        assert rest.stream(body=body)
        assert rest.stream(body={"message": message_1_0(metadata=intent("echo"))}), "a slot is free again"
        assert kit.store.slots.take(owner, 0, "another-holder", 2**32)
        before = rest.call("GET", "tasks")["totalSize"]
        refusal = rest.ask("POST", "message:stream", {"message": message_1_0()})
        assert refusal.status_code == 429
        assert refusal.headers["retry-after"] == "5"
        assert refusal.json()["error"]["status"] == "RESOURCE_EXHAUSTED"
        rpc = Rpc(client, key, "/a2a/probe")
        resubscription = {"jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": {"id": "x"}}
        assert rpc.post(resubscription).status_code == 429
        assert rest.call("GET", "tasks")["totalSize"] == before
        assert rest.send()["status"]["state"] == "TASK_STATE_COMPLETED"


def test_an_owner_with_many_streams_gets_the_slot_that_is_free(
    settings: Settings, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chance always meets the one that is taken, so all of them are looked at."""
    store = Store(Table(clients.dynamodb(settings), settings.table), ttl=86_400)
    slots = CallSlots(store, 2)
    replace_in(call_slots, random, monkeypatch, randrange=lambda _: 0)

    async def go() -> None:
        async with slots.hold(owner), slots.hold(owner):
            assert set(store.slots.list(owner)) == {0, 1}
        assert set(store.slots.list(owner)) == set()

    asyncio.run(go())
