"""One key does not hold every Lambda."""

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from a2a_lambda import threads
from a2a_lambda.aws import clients
from a2a_lambda.background import placement
from a2a_lambda.errors import TooManyStreams
from a2a_lambda.http import sse
from a2a_lambda.http.app import create_app
from a2a_lambda.http.dispatch import SlotStream
from a2a_lambda.kit import Kit
from a2a_lambda.operations import messages, stream_limit
from a2a_lambda.operations.stream_limit import SLOT_SECONDS, StreamLimit
from a2a_lambda.protocol.model import TaskState
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.call_context import CallContext
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import RequestIdentity, Scope
from tests.conftest import BASE_URL, new_key
from tests.helpers.clock import Clock, until
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc, intent


@pytest.fixture
def owner() -> str:
    return f"owner-{uuid.uuid4()}"


def test_as_many_as_there_are_slots(settings: Settings, owner: str) -> None:
    clock = Clock()
    caps = StreamLimit(Store(Table(clients.dynamodb(settings), settings.table, clock=clock), ttl=86_400), 3)

    async def go() -> None:
        async with AsyncExitStack() as held:
            for _ in range(3):
                await held.enter_async_context(caps.hold_slot(owner))
            with pytest.raises(TooManyStreams):
                async with caps.hold_slot(owner):
                    pass
            async with caps.hold_slot(f"{owner}-other"):
                pass
            clock.now += SLOT_SECONDS - 0.5
            with pytest.raises(TooManyStreams):
                async with caps.hold_slot(owner):
                    pass
            clock.now += 2.5  # they died, and their time is up
            async with caps.hold_slot(owner):
                pass
        clock.now -= SLOT_SECONDS + 2
        async with caps.hold_slot(owner):
            pass

    asyncio.run(go())


def test_one_that_continues_is_kept(settings: Settings, owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    store = Store(Table(clients.dynamodb(settings), settings.table, clock=clock), ttl=86_400)
    caps = StreamLimit(store, 1)
    keep, renewals = store.slots.keep, 0

    def count(*arguments: Any) -> None:
        nonlocal renewals
        renewals += 1
        keep(*arguments)

    monkeypatch.setattr(store.slots, "keep", count)

    monkeypatch.setattr(stream_limit, "SLOT_LOOK_SECONDS", 0.001)

    async def go() -> None:
        async with caps.hold_slot(owner):
            for number in range(1, 7):
                clock.now += 41
                while renewals < number:
                    await asyncio.sleep(0.001)
            for _ in range(10):
                await asyncio.sleep(0.001)
            assert renewals == 6, "one in 40 s"
            with pytest.raises(TooManyStreams):
                async with caps.hold_slot(owner):
                    pass

    asyncio.run(go())


def test_a_stream_that_its_client_does_not_read_is_kept(
    settings: Settings, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Lambda runs until the client reads, or the invocation ends."""
    monkeypatch.setattr(stream_limit, "SLOT_LOOK_SECONDS", 0.01)
    clock = Clock()
    store = Store(Table(clients.dynamodb(settings), settings.table, clock=clock), ttl=86_400)
    caps = StreamLimit(store, 1)
    keep, is_renewed = store.slots.keep, asyncio.Event()

    async def events() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def go() -> None:
        loop, is_blocked = asyncio.get_running_loop(), asyncio.Event()

        def note(*arguments: Any) -> None:
            keep(*arguments)
            loop.call_soon_threadsafe(is_renewed.set)

        async def send(message: Any) -> None:
            if message.get("body"):
                is_blocked.set()
                await asyncio.Event().wait()

        monkeypatch.setattr(store.slots, "keep", note)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(caps.hold_slot(owner))
            response = SlotStream(events(), stack)
        stream = asyncio.create_task(response({"type": "http"}, receive, send))
        await is_blocked.wait()
        clock.now += 41
        await is_renewed.wait()
        clock.now += 60
        with pytest.raises(TooManyStreams):
            async with caps.hold_slot(owner):
                pass
        stream.cancel()
        await asyncio.wait({stream})
        async with caps.hold_slot(owner):
            pass

    asyncio.run(asyncio.wait_for(go(), 60))


def test_one_whose_client_leaves_is_free_at_once(
    settings: Settings, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task is cancelled then, and cancelled again while it cleans up."""
    store = Store(Table(clients.dynamodb(settings), settings.table), ttl=86_400)
    caps = StreamLimit(store, 1)
    free = store.slots.free

    def slowly(*arguments: Any) -> None:
        time.sleep(0.1)
        free(*arguments)

    monkeypatch.setattr(store.slots, "free", slowly)

    async def hold() -> None:
        async with caps.hold_slot(owner):
            await asyncio.Event().wait()

    async def go() -> None:
        holding = asyncio.create_task(hold())
        await until(lambda: store.slots.list(owner))
        for _ in range(3):
            holding.cancel()
            await asyncio.sleep(0.01)
        await until(lambda: not store.slots.list(owner))

    asyncio.run(asyncio.wait_for(go(), 120))


def test_one_whose_client_leaves_while_it_is_taken_is_given_back(
    settings: Settings, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(Table(clients.dynamodb(settings), settings.table), ttl=86_400)
    caps = StreamLimit(store, 1)
    take = store.slots.take
    begun, left = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> bool:
        begun.set()
        left.wait()
        return take(*arguments)

    monkeypatch.setattr(store.slots, "take", slowly)

    async def hold() -> None:
        async with caps.hold_slot(owner):
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
    caps = StreamLimit(Store(Table(clients.dynamodb(settings), settings.table), ttl=86_400), 5)
    most = now = refused = 0

    async def one(full: asyncio.Event) -> None:
        nonlocal most, now, refused
        try:
            async with caps.hold_slot(owner):
                now += 1
                most = max(most, now)
                await full.wait()
                now -= 1
        except TooManyStreams:
            refused += 1
            if refused == 15:  # no one lets go before all were asked
                full.set()

    async def go() -> None:
        full = asyncio.Event()
        await asyncio.gather(*(one(full) for _ in range(20)))

    asyncio.run(asyncio.wait_for(go(), 120))
    assert (most, refused) == (5, 15)


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
        refused = rest.ask("POST", "message:stream", {"message": message_1_0()})
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
    monkeypatch.setattr("a2a_lambda.operations.messages.SLOTLESS_SEND_SECONDS", 0.3)


def sends(settings: Settings, limit: int) -> tuple[Kit, str]:
    kit = Kit(settings.model_copy(update={"streams_per_owner": limit}))
    return kit, new_key(kit)


def owner_of(kit: Kit, key: str) -> str:
    found = kit.keys.find(key)
    assert found is not None
    return found.owner


async def slots_taken(kit: Kit, owner: str, count: int) -> None:
    await until(lambda: len(kit.store.slots.list(owner)) == count)


def test_a_send_can_be_refused_before_its_answer_begins() -> None:
    """After the first keep-alive, its status is 200."""
    assert placement.IMPORT_WAIT_SECONDS < messages.SLOTLESS_SEND_SECONDS <= sse.KEEP_ALIVE_SECONDS - 0.5


def test_sends_that_last_take_slots(settings: Settings, short: None) -> None:
    """One more is refused before its answer begins, its turn ends at once, and it can be sent again: a new
    task, and the answer to a question."""
    kit, key = sends(settings, 2)
    owner = owner_of(kit, key)
    transport = httpx2.ASGITransport(app=create_app(kit))
    headers = {"X-API-Key": key, "A2A-Version": "1.0"}

    async def go() -> None:
        async with httpx2.AsyncClient(transport=transport, base_url=BASE_URL, timeout=240) as client:

            async def send(skill: str, identity: str, seconds: str = "600", **fields: Any) -> httpx2.Response:
                said = message_1_0(messageId=identity, metadata=intent(skill, seconds=seconds), **fields)
                return await client.post("/a2a/probe/message:send", json={"message": said}, headers=headers)

            async def task_of(task_id: str) -> Any:
                return (await client.get(f"/a2a/probe/tasks/{task_id}", headers=headers)).json()

            asked = (await send("patient", "q")).json()["task"]
            assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            lasting = [asyncio.create_task(send("pause", f"m{number}")) for number in range(2)]
            await slots_taken(kit, owner, 2)
            for fields in ({"contextId": "c"}, {"taskId": asked["id"]}):
                refused = await send("patient", f"m-{next(iter(fields))}", **fields)
                assert refused.status_code == 429
                assert refused.headers["retry-after"] == "5"
            while (await task_of(asked["id"]))["status"]["state"] != "TASK_STATE_INPUT_REQUIRED":
                await asyncio.sleep(0.05)
            listed = (await client.get("/a2a/probe/tasks", headers=headers)).json()["tasks"]
            working = [task for task in listed if task["status"]["state"] == "TASK_STATE_WORKING"]
            for task in working:
                await client.post(f"/a2a/probe/tasks/{task['id']}:cancel", headers=headers)
            for answer in await asyncio.gather(*lasting):
                assert answer.json()["task"]["status"]["state"] == "TASK_STATE_CANCELED"
            await slots_taken(kit, owner, 0)
            first = (await send("patient", "m-contextId", contextId="c")).json()["task"]
            again = await send("patient", "m-taskId", taskId=asked["id"])
            assert again.json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            assert first["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            stored = kit.store.get_context(Scope(owner, "probe"), "c")
            assert stored.memory == {"turns": 1}
            assert [entry.role for entry in stored.conversation] == ["user", "agent"]

    asyncio.run(asyncio.wait_for(go(), 240))


def test_a_refused_repeat_leaves_the_turn_alone(settings: Settings, short: None) -> None:
    """Who asks again for what runs holds a slot as well, and is refused at once."""
    kit, key = sends(settings, 2)
    owner = owner_of(kit, key)
    scope = Scope(owner, "probe")

    async def go() -> None:
        call = CallContext(scope, RequestIdentity.of(scope, "send", b"same"))
        sent: Any = {"message": message_1_0(metadata=intent("pause", seconds="600"))}
        answers = [asyncio.create_task(kit.messages.send(call, sent)) for _ in range(2)]
        await slots_taken(kit, owner, 2)
        with pytest.raises(TooManyStreams):
            await asyncio.wait_for(kit.messages.send(call, sent), 60)
        assert (
            (await kit.service.get(scope, call.request.task_id())).task["status"]["state"].endswith("WORKING")
        )
        await kit.service.cancel(scope, call.request.task_id())
        for answer in await asyncio.gather(*answers):
            assert answer["task"]["status"]["state"] == "TASK_STATE_CANCELED"

    asyncio.run(asyncio.wait_for(go(), 240))


def test_a_send_that_is_refused_while_its_turn_is_claimed_ends_its_turn(
    settings: Settings, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is stored by then, so that the task would stay busy until its lease ended."""
    kit, key = sends(settings, 1)
    owner = owner_of(kit, key)
    scope = Scope(owner, "probe")
    calls = [CallContext(scope, RequestIdentity.of(scope, "send", body)) for body in (b"first", b"second")]
    sent: Any = {"message": message_1_0(metadata=intent("pause", seconds="600"))}
    create_head, stop = kit.store.create_head, messages._Sending.stop
    is_refused = threading.Event()

    def create_slowly(head: Head) -> None:
        create_head(head)
        if head.task_id == calls[1].request.task_id():
            assert is_refused.wait(60)

    def stop_and_tell(sending: Any, reason: str) -> None:
        stop(sending, reason)
        is_refused.set()

    async def go() -> None:
        lasting = asyncio.create_task(kit.messages.send(calls[0], sent))
        await slots_taken(kit, owner, 1)
        monkeypatch.setattr(kit.store, "create_head", create_slowly)
        monkeypatch.setattr(messages._Sending, "stop", stop_and_tell)
        with pytest.raises(TooManyStreams):
            await kit.messages.send(calls[1], sent)
        head = kit.store.get_head(scope, calls[1].request.task_id())
        assert head is not None
        assert head.state == TaskState.FAILED
        await kit.service.cancel(scope, calls[0].request.task_id())
        await lasting

    asyncio.run(asyncio.wait_for(go(), 240))


def test_a_short_send_costs_no_slot(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "a2a_lambda.operations.messages.SLOTLESS_SEND_SECONDS", 600.0
    )  # on any machine it is short
    kit, key = sends(settings, 1)
    monkeypatch.setattr(kit.store.slots, "take", lambda *_: pytest.fail("a slot was taken"))
    with TestClient(create_app(kit), base_url=BASE_URL) as client:
        assert Rest(client, key).send()["status"]["state"] == "TASK_STATE_COMPLETED"


def test_an_owner_with_many_streams_gets_the_slot_that_is_free(
    settings: Settings, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chance always meets the one that is taken, so all of them are looked at."""
    store = Store(Table(clients.dynamodb(settings), settings.table), ttl=86_400)
    limit = StreamLimit(store, 2)
    monkeypatch.setattr("a2a_lambda.operations.stream_limit.random.randrange", lambda _: 0)

    async def go() -> None:
        async with limit.hold_slot(owner), limit.hold_slot(owner):
            assert set(store.slots.list(owner)) == {0, 1}
        assert set(store.slots.list(owner)) == set()

    asyncio.run(go())
