"""A send takes a slot of its owner's streams once it lasts."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from a2a_lambda.background.placement import IMPORT_WAIT_SECONDS
from a2a_lambda.errors import TooManyCalls
from a2a_lambda.http import sse
from a2a_lambda.http.app import create_app
from a2a_lambda.http.sse import KEEP_ALIVE_SECONDS
from a2a_lambda.kit import Kit
from a2a_lambda.operations import messages
from a2a_lambda.operations.call_slots import CallSlots
from a2a_lambda.operations.messages import SLOTLESS_SEND_SECONDS
from a2a_lambda.protocol.model import TaskState
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace, RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall
from tests.conftest import BASE_URL, new_key, owner_of
from tests.helpers.clock import PATIENCE_SECONDS, until
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import intent


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A send needs a slot soon. Its first keep-alive, after which it cannot be refused, comes late."""
    monkeypatch.setattr(messages, "SLOTLESS_SEND_SECONDS", 0.3)
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", PATIENCE_SECONDS)


def sends(settings: Settings, limit: int) -> tuple[Kit, str]:
    kit = Kit(settings.model_copy(update={"streams_per_owner": limit}))
    return kit, new_key(kit)


async def slots_taken(kit: Kit, owner: str, count: int) -> None:
    await until(lambda: len(kit.store.slots.list(owner)) == count)


def test_a_send_can_be_refused_before_its_answer_begins() -> None:
    """After the first keep-alive, its status is 200."""
    assert IMPORT_WAIT_SECONDS < SLOTLESS_SEND_SECONDS <= KEEP_ALIVE_SECONDS - 0.5


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
                message = message_1_0(messageId=identity, metadata=intent(skill, seconds=seconds), **fields)
                return await client.post(
                    "/a2a/probe/message:send", json={"message": message}, headers=headers
                )

            async def task_of(task_id: str) -> Any:
                return (await client.get(f"/a2a/probe/tasks/{task_id}", headers=headers)).json()

            question = (await send("patient", "q")).json()["task"]
            assert question["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            lasting = [asyncio.create_task(send("pause", f"m{number}")) for number in range(2)]
            await slots_taken(kit, owner, 2)
            for fields in ({"contextId": "c"}, {"taskId": question["id"]}):
                refusal = await send("patient", f"m-{next(iter(fields))}", **fields)
                assert refusal.status_code == 429
                assert refusal.headers["retry-after"] == "5"
            while (await task_of(question["id"]))["status"]["state"] != "TASK_STATE_INPUT_REQUIRED":
                await asyncio.sleep(0.05)
            tasks = (await client.get("/a2a/probe/tasks", headers=headers)).json()["tasks"]
            working = [task for task in tasks if task["status"]["state"] == "TASK_STATE_WORKING"]
            for task in working:
                await client.post(f"/a2a/probe/tasks/{task['id']}:cancel", headers=headers)
            for answer in await asyncio.gather(*lasting):
                assert answer.json()["task"]["status"]["state"] == "TASK_STATE_CANCELED"
            await slots_taken(kit, owner, 0)
            first = (await send("patient", "m-contextId", contextId="c")).json()["task"]
            again = await send("patient", "m-taskId", taskId=question["id"])
            assert again.json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            assert first["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            context = kit.store.get_context(Namespace(owner, "probe"), "c")
            assert context.memory == {"turns": 1}
            assert [entry.role for entry in context.conversation] == ["user", "agent"]

    asyncio.run(asyncio.wait_for(go(), 240))


def test_a_refused_repeat_leaves_the_turn_alone(settings: Settings, short: None) -> None:
    """Who asks again for what runs holds a slot as well, and is refused at once."""
    kit, key = sends(settings, 2)
    owner = owner_of(kit, key)
    namespace = Namespace(owner, "probe")

    async def go() -> None:
        call = MessageCall(namespace, RequestIdentity.of(namespace, "send", b"same"))
        body: Any = {"message": message_1_0(metadata=intent("pause", seconds="600"))}
        answers = [asyncio.create_task(kit.messages.send(call, body)) for _ in range(2)]
        await slots_taken(kit, owner, 2)
        with pytest.raises(TooManyCalls):
            await asyncio.wait_for(kit.messages.send(call, body), 60)
        assert (
            (await kit.service.get(namespace, call.identity.task_id()))
            .task["status"]["state"]
            .endswith("WORKING")
        )
        await kit.service.cancel(namespace, call.identity.task_id())
        for answer in await asyncio.gather(*answers):
            assert answer["task"]["status"]["state"] == "TASK_STATE_CANCELED"

    asyncio.run(asyncio.wait_for(go(), 240))


def test_a_send_that_is_refused_while_its_turn_is_claimed_ends_its_turn(
    settings: Settings, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is stored by then, so that the task would stay busy until its lease ended."""
    kit, key = sends(settings, 1)
    owner = owner_of(kit, key)
    namespace = Namespace(owner, "probe")
    calls = [
        MessageCall(namespace, RequestIdentity.of(namespace, "send", body)) for body in (b"first", b"second")
    ]
    send_body: Any = {"message": message_1_0(metadata=intent("pause", seconds="600"))}
    create_head, stop = kit.store.create_head, messages._Sending.stop
    is_refused = threading.Event()

    def create_slowly(head: Head) -> None:
        create_head(head)
        if head.task_id == calls[1].identity.task_id():
            assert is_refused.wait(60)

    def stop_and_tell(sending: Any, reason: str) -> None:
        stop(sending, reason)
        is_refused.set()

    async def go() -> None:
        lasting = asyncio.create_task(kit.messages.send(calls[0], send_body))
        await slots_taken(kit, owner, 1)
        monkeypatch.setattr(kit.store, "create_head", create_slowly)
        monkeypatch.setattr(messages._Sending, "stop", stop_and_tell)
        with pytest.raises(TooManyCalls):
            await kit.messages.send(calls[1], send_body)
        head = kit.store.get_head(namespace, calls[1].identity.task_id())
        assert head is not None
        assert head.state == TaskState.FAILED
        await kit.service.cancel(namespace, calls[0].identity.task_id())
        await lasting

    asyncio.run(asyncio.wait_for(go(), 240))


def test_a_send_that_ends_while_its_slot_is_refused_is_answered(
    settings: Settings, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, key = sends(settings, 1)
    namespace = Namespace(owner_of(kit, key), "probe")
    call = MessageCall(namespace, RequestIdentity.of(namespace, "send", b"brief"))
    body: Any = {"message": message_1_0(metadata=intent("pause", seconds="600"))}
    run_send = messages._Sending.run
    has_ended = asyncio.Event()

    async def run_until_refused(sending: Any) -> Any:
        try:
            return await run_send(sending)
        finally:
            has_ended.set()

    @asynccontextmanager
    async def refuse_late(_: Any, owner: str) -> AsyncIterator[None]:
        await kit.service.cancel(namespace, call.identity.task_id())
        await has_ended.wait()
        raise TooManyCalls("no slot is free")
        yield

    monkeypatch.setattr(messages._Sending, "run", run_until_refused)
    monkeypatch.setattr(CallSlots, "hold", refuse_late)

    async def go() -> None:
        answer = await kit.messages.send(call, body)
        assert answer["task"]["status"]["state"] == "TASK_STATE_CANCELED"

    asyncio.run(asyncio.wait_for(go(), 240))


@pytest.mark.usefixtures("no_timed_calls")
def test_a_short_send_costs_no_slot(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    kit, key = sends(settings, 1)
    monkeypatch.setattr(kit.store.slots, "take", lambda *_: pytest.fail("a slot was taken"))
    with TestClient(create_app(kit), base_url=BASE_URL) as client:
        assert Rest(client, key).send()["status"]["state"] == "TASK_STATE_COMPLETED"
