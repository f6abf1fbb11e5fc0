"""Which task a message starts or continues: within the window equal bytes are one request, then a new one."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.errors import UnsupportedOperation
from a2a_lambda.files.files import Files
from a2a_lambda.kit import Kit
from a2a_lambda.operations import intake
from a2a_lambda.operations.messages import Messages
from a2a_lambda.operations.service import Service
from a2a_lambda.protocol.model import Message, Part, Role, TaskState, make_status
from a2a_lambda.protocol.requests import SendMessageConfiguration, SendMessageRequest
from a2a_lambda.settings import Settings
from a2a_lambda.store import items
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.head import LEASE_SECONDS, Head, sweep_minute
from a2a_lambda.tasks.identity import Namespace, RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall
from a2a_lambda.turns.claim import Claim, Handover
from tests.background.fake_queue import FakeQueue
from tests.conftest import DAY, replace_in
from tests.helpers.clock import Clock
from tests.operations.intake.senders import WINDOW, Once, Send
from tests.processes.death import dying_before_write


def start_turn(messages: Messages, namespace: Namespace) -> Claim:
    """Store a message and claim its turn, which nothing runs."""
    message = Message(messageId="m", role=Role.USER, parts=[Part(text="hi")])
    call = MessageCall(namespace, RequestIdentity.of(namespace, "message/send", b"1"))
    claim = asyncio.run(messages.intake.start(call, SendMessageRequest(message=message)))
    assert isinstance(claim, Claim)
    return claim


def test_the_sweep_looks_at_a_turn_that_waits_for_the_worker_after_a_lease(
    messages: Messages, namespace: Namespace, clock: Clock
) -> None:
    """It does not look before the worker could have taken it."""
    queued = Messages(
        messages.store,
        messages.agents,
        dispatcher=Dispatcher(FakeQueue()),
        repeat_seconds=WINDOW,
        files=Files(),
    )
    message = Message(messageId="m", role=Role.USER, parts=[Part(text="hi")])
    request = SendMessageRequest(
        message=message, configuration=SendMessageConfiguration(returnImmediately=True)
    )
    call = MessageCall(namespace, RequestIdentity.of(namespace, "message/send", b"1"))
    handover = asyncio.run(queued.intake.start(call, request))
    assert isinstance(handover, Handover)
    assert handover.head.due == sweep_minute(clock.now + LEASE_SECONDS)


def test_after_the_window_it_is_a_new_task(send: Send, clock: Clock) -> None:
    first = send()
    clock.now += WINDOW - 1
    assert send() == first
    clock.now += 1
    second = send()
    assert second["id"] != first["id"]
    assert send() == second
    ids = {first["id"], second["id"]}
    for _ in range(5):
        clock.now += WINDOW
        ids.add(send()["id"])
    assert len(ids) == 7


def test_a_retry_takes_two_steps_however_many_tasks_its_request_has_made(
    send: Send, messages: Messages, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first task leads to the newest."""
    send()
    for _ in range(4):
        clock.now += WINDOW
        newest = send()
    steps: list[str] = []
    create = messages.store.create_head

    def count(head: Head) -> None:
        steps.append(head.task_id)
        create(head)

    monkeypatch.setattr(messages.store, "create_head", count)
    assert send() == newest
    assert len(steps) == 2


def test_late_retries_at_the_same_moment_agree(send: Send, clock: Clock) -> None:
    first = send()
    clock.now += WINDOW
    with ThreadPoolExecutor(8) as pool:
        ids = [task["id"] for task in pool.map(lambda _: send(), range(8))]
    assert len(set(ids)) == 1
    assert ids[0] != first["id"]


def test_a_late_answer_is_no_retry(send: Send, clock: Clock) -> None:
    """The same words in the same context, an hour later, are said again."""
    question = send("coach", contextId="c")
    assert question["status"]["state"] == TaskState.INPUT_REQUIRED
    clock.now += 3600
    again = send("coach", contextId="c")
    assert again["id"] == question["id"]
    assert len(again["history"]) == 4 - 1


def test_a_question_that_has_expired_is_answered_by_a_new_task(
    send: Send, settings: Settings, namespace: Namespace
) -> None:
    """A context is kept from its last change on, so it may name a task that is gone."""
    question = send("coach", contextId="c")
    key = items.head_key(namespace, question["id"])
    clients.dynamodb(settings).delete_item(TableName=settings.table, Key=key)
    task = send("and now", contextId="c")
    assert task["id"] != question["id"]
    assert task["contextId"] == "c"


def test_a_task_whose_run_was_lost_ends_as_failed(
    messages: Messages, service: Service, namespace: Namespace, clock: Clock
) -> None:
    """Its process died: no one renews the lease, and the next look says so."""
    claim = start_turn(messages, namespace)
    target = claim.head.task_id
    assert asyncio.run(service.get(namespace, target)).task["status"]["state"] == TaskState.WORKING
    clock.now += 31
    task = asyncio.run(service.get(namespace, target)).task
    assert task["status"]["state"] == TaskState.FAILED
    assert "lost" in task["status"]["message"]["parts"][0]["text"]
    assert asyncio.run(service.get(namespace, target)).task == task
    follow = Message(messageId="m", role=Role.USER, parts=[Part(text="hi")], taskId=claim.head.task_id)
    later = MessageCall(namespace, RequestIdentity.of(namespace, "message/send", b"2"))
    with pytest.raises(UnsupportedOperation):
        asyncio.run(messages.send(later, SendMessageRequest(message=follow)))


def test_a_task_whose_agent_cannot_pause_is_kept_no_longer(
    kit: Kit, settings: Settings, namespace: Namespace, clock: Clock
) -> None:
    """The deployment runs durable turns of other agents."""
    table = Table(clients.dynamodb(settings), settings.table, clock=clock)
    store = Store(table, ttl=DAY, execution_seconds=1000)
    durable_messages = Messages(store, kit.agents, repeat_seconds=WINDOW, files=Files())
    claim = start_turn(durable_messages, namespace)
    assert claim.head.expires == int(clock.now) + DAY


def test_what_makes_two_requests_the_same(namespace: Namespace) -> None:
    def key(
        namespace: Namespace = namespace, operation: str = "send", body: bytes = b"x", name: str | None = None
    ) -> str:
        return RequestIdentity.of(namespace, operation, body, name).key

    assert key() == key()
    assert key(name="k") == key(name="k", body=b"other")
    different = [
        key(),
        key(Namespace("other", namespace.agent)),
        key(Namespace(namespace.owner, "other")),
        key(operation="stream"),
        key(body=b"y"),
        key(name="k"),
        key(name="x"),
    ]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize("write", [1, 2])
def test_a_large_message_whose_process_dies_has_made_no_task(once: Once, write: int) -> None:
    call, request = once.asked("echo", body="x" * 5_000)
    with dying_before_write(write, once.messages.store):
        asyncio.run(once.messages.send(call, request))
    assert once.messages.store.get_head(once.namespace, call.identity.task_id()) is None
    task = asyncio.run(once.messages.send(call, request))["task"]
    assert (task["id"], task["status"]["state"]) == (call.identity.task_id(), TaskState.COMPLETED)
    assert [message["parts"][0]["text"] for message in task["history"]] == ["x" * 5_000]


def test_a_large_message_that_is_repeated_is_not_stored_again(
    once: Once, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = once.send("echo", body="x" * 5_000)
    monkeypatch.setattr(once.messages.store, "write_ahead", lambda *_: pytest.fail("it was stored again"))
    assert once.send("echo", body="x" * 5_000) == task


def test_a_message_waits_some_seconds_for_a_turn_that_runs_elsewhere(
    once: Once, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client cannot know when that turn asks. The call's own deadline may be sooner."""
    head = once.create_head_elsewhere()
    waits: list[float] = []
    now = 1_000.0

    async def wait(_: Store, head: Head, deadline: float, *, or_suspended: bool) -> Head:
        assert or_suspended
        waits.append(deadline - now)
        return head

    monkeypatch.setattr(intake, "wait_until_stopped", wait)
    call, request = once.asked("pause", taskId=head.task_id)
    replace_in(intake, time, monkeypatch, monotonic=lambda: now)
    for deadline in (None, now + 3, now + 300):
        with pytest.raises(UnsupportedOperation, match="still running"):
            asyncio.run(once.messages.intake.start(replace(call, deadline=deadline), request))
    assert waits == [intake.TURN_WAIT_SECONDS, 3, intake.TURN_WAIT_SECONDS]


def test_a_message_to_a_turn_that_ends_meanwhile_is_refused(
    once: Once, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, head = once.messages.store, once.create_head_elsewhere()

    async def wait(_: Store, head: Head, deadline: float, *, or_suspended: bool) -> Head:
        completed_status = make_status(TaskState.COMPLETED, store.clock())
        return store.update_head(head.with_closing_status(completed_status, head.sequence))

    monkeypatch.setattr(intake, "wait_until_stopped", wait)
    call, request = once.asked("pause", taskId=head.task_id)
    with pytest.raises(UnsupportedOperation, match="has ended"):
        asyncio.run(once.messages.intake.start(call, request))


def test_a_task_that_expires_between_a_refused_write_and_its_read_is_made_again(
    once: Once, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = once.messages.store
    create = store.create_head

    def refuse(head: Head) -> Head:
        monkeypatch.setattr(store, "create_head", create)
        raise Conflict(None)

    monkeypatch.setattr(store, "create_head", refuse)
    assert once.send("echo")["status"]["state"] == TaskState.COMPLETED
