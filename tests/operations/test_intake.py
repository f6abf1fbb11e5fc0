"""Requests that come again: within the window they are one, after it they are new, and agree."""

import asyncio
import json
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as settings_of
from hypothesis import strategies as st

from a2a_lambda.agent.agent import Agent
from a2a_lambda.aws import clients
from a2a_lambda.errors import InvalidParams, StoreError, UnsupportedOperation
from a2a_lambda.kit import Kit
from a2a_lambda.operations import intake
from a2a_lambda.operations.follow import wait_until_stopped
from a2a_lambda.operations.messages import Messages
from a2a_lambda.operations.service import Service
from a2a_lambda.protocol.model import Message, Part, Role, Task, TaskState, status
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.settings import Settings
from a2a_lambda.store import items
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.call_context import CallContext
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.identity import RequestIdentity, Scope
from a2a_lambda.turns import recovery
from a2a_lambda.turns.claim import Claim
from a2a_lambda.turns.recovery import load_live_head
from a2a_lambda.turns.run import Run
from tests.conftest import DAY
from tests.helpers.clock import Clock
from tests.helpers.rest import user_texts
from tests.helpers.rpc import intent
from tests.processes.death import die_after_context, dying_before_write

WINDOW = 60.0


@pytest.fixture
def messages(settings: Settings, kit: Kit, clock: Clock) -> Messages:
    store = Store(clients.dynamodb(settings), settings.table, ttl=86_400, clock=clock)
    return Messages(store, kit.agents, repeat_seconds=WINDOW)


@pytest.fixture
def service(messages: Messages) -> Service:
    return Service(messages.store)


Send = Callable[..., Task]


@pytest.fixture
def send(messages: Messages, scope: Scope) -> Send:
    """Sends a message; the same arguments are the same bytes."""

    def send(text: str = "hello", **fields: Any) -> Task:
        made = Message(messageId="always-the-same", role=Role.USER, parts=[Part(text=text)])
        made.update(fields)  # type: ignore[typeddict-item]
        body = json.dumps([text, fields]).encode()
        call = CallContext(scope, RequestIdentity.of(scope, "message/send", body))
        request = SendMessageRequest(message=made, creates_task="taskId" in fields)
        return asyncio.run(messages.send(call, request))["task"]

    return send


def start_turn(messages: Messages, scope: Scope) -> Claim:
    """Store a message and claim its turn, which nothing runs."""
    message = Message(messageId="m", role=Role.USER, parts=[Part(text="hi")])
    call = CallContext(scope, RequestIdentity.of(scope, "message/send", b"1"))
    claim = asyncio.run(messages.intake.start(call, SendMessageRequest(message=message)))
    assert isinstance(claim, Claim)
    return claim


def test_a_client_that_chooses_ids_keeps_its_conversation(send: Send) -> None:
    """As one of A2A 0.1 does."""
    texts = []
    for _ in range(2):
        task = send(contextId="c", taskId=str(uuid.uuid4()), metadata=intent("ai-count"))
        assert task["contextId"] == "c"
        texts.append(task["artifacts"][0]["parts"][0]["text"])
    assert texts[0] != texts[1], texts


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


def test_the_first_task_of_a_request_leads_to_the_newest(
    send: Send, messages: Messages, scope: Scope, clock: Clock
) -> None:
    """A retry then takes one step, however many tasks the request has made."""
    first = send()
    for _ in range(3):
        clock.now += WINDOW
        newest = send()
        head = messages.store.get_head(scope, first["id"])
        assert head is not None
        assert head.successor == newest["id"]


def test_late_retries_at_the_same_moment_agree(send: Send, clock: Clock) -> None:
    first = send()
    clock.now += WINDOW
    with ThreadPoolExecutor(8) as pool:
        found = [task["id"] for task in pool.map(lambda _: send(), range(8))]
    assert len(set(found)) == 1
    assert found[0] != first["id"]


def test_a_late_answer_is_no_retry(send: Send, clock: Clock) -> None:
    """The same words in the same context, an hour later, are said again."""
    asked = send("coach", contextId="c")
    assert asked["status"]["state"] == TaskState.INPUT_REQUIRED
    clock.now += 3600
    again = send("coach", contextId="c")
    assert again["id"] == asked["id"]
    assert len(again["history"]) == 4 - 1


def test_a_question_that_has_expired_is_answered_by_a_new_task(
    send: Send, settings: Settings, scope: Scope
) -> None:
    """A context is kept from its last change on, so it may name a task that is gone."""
    asked = send("coach", contextId="c")
    key = items.head_key(scope, asked["id"])
    clients.dynamodb(settings).delete_item(TableName=settings.table, Key=key)
    task = send("and now", contextId="c")
    assert task["id"] != asked["id"]
    assert task["contextId"] == "c"


def test_a_task_whose_run_was_lost_ends_as_failed(
    messages: Messages, service: Service, scope: Scope, clock: Clock
) -> None:
    """Its process died: no one renews the lease, and the next look says so."""
    claim = start_turn(messages, scope)
    target = claim.head.task_id
    assert asyncio.run(service.get(scope, target)).task["status"]["state"] == TaskState.WORKING
    clock.now += 31
    task = asyncio.run(service.get(scope, target)).task
    assert task["status"]["state"] == TaskState.FAILED
    assert "lost" in task["status"]["message"]["parts"][0]["text"]
    assert asyncio.run(service.get(scope, target)).task == task
    follow = Message(messageId="m", role=Role.USER, parts=[Part(text="hi")], taskId=claim.head.task_id)
    later = CallContext(scope, RequestIdentity.of(scope, "message/send", b"2"))
    with pytest.raises(UnsupportedOperation):
        asyncio.run(messages.send(later, SendMessageRequest(message=follow)))


def test_a_task_whose_agent_cannot_pause_is_kept_no_longer(
    messages: Messages, kit: Kit, scope: Scope, clock: Clock
) -> None:
    """Although the deployment runs durable turns of other agents."""
    durable_messages = Messages(messages.store, kit.agents, repeat_seconds=WINDOW, execution_seconds=1000)
    claim = start_turn(durable_messages, scope)
    assert claim.head.expires == int(clock.now) + DAY


def test_what_makes_two_requests_the_same(scope: Scope) -> None:
    def key(
        scope: Scope = scope, operation: str = "send", body: bytes = b"x", name: str | None = None
    ) -> str:
        return RequestIdentity.of(scope, operation, body, name).key

    assert key() == key()
    assert key(name="k") == key(name="k", body=b"other")
    different = [
        key(),
        key(Scope("other", scope.agent)),
        key(Scope(scope.owner, "other")),
        key(operation="stream"),
        key(body=b"y"),
        key(name="k"),
        key(name="x"),
    ]
    assert len(set(different)) == len(different)


class Once:
    """Sends under an Idempotency-Key, and lets a process die between its two writes."""

    def __init__(self, messages: Messages, scope: Scope) -> None:
        self.messages, self.service = messages, Service(messages.store)
        self.scope = Scope(scope.owner, "probe")

    def asked(
        self, skill: str, body: str = "pay", key: str = "PAY-1", **fields: Any
    ) -> tuple[CallContext, Any]:
        made = Message(messageId="m", role=Role.USER, parts=[Part(text=body)], metadata=intent(skill))
        made.update(fields)  # type: ignore[typeddict-item]
        request = RequestIdentity.of(self.scope, "message/send", body.encode(), key)
        deadline = time.monotonic() + 120  # more than any of these tests takes
        return CallContext(self.scope, request, deadline=deadline), SendMessageRequest(message=made)

    def send(self, skill: str, **options: Any) -> Task:
        return asyncio.run(self.messages.send(*self.asked(skill, **options)))["task"]

    def head(self, task_id: str) -> Head:
        head = self.messages.store.get_head(self.scope, task_id)
        assert head is not None
        return head

    def die(self, skill: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> str:
        """The turn's id; its context is stored, its head is not."""

        async def go() -> str:
            while isinstance(claim := await self.messages.intake.start(*self.asked(skill, **options)), Head):
                await load_live_head(self.messages.store, self.scope, claim.task_id)
            assert isinstance(claim, Claim)
            run = Run(self.messages.store, self.messages.agents.start("probe"), claim)
            with monkeypatch.context() as patch:
                die_after_context(patch)
                run.start()
                _ = [event async for event in run.audience.events()]
            return claim.turn.id

        return asyncio.run(go())

    def lose(self, skill: str, **options: Any) -> None:
        """Store a message whose process dies before it has run the turn."""
        asyncio.run(self.messages.intake.start(*self.asked(skill, **options)))

    def lose_reply(self) -> tuple[Task, Any]:
        """A task that asks, and the options of a reply to it that is lost."""
        task = self.send("patient", key="ASK")
        reply: Any = {"body": "Ann", "key": "REPLY", "taskId": task["id"], "metadata": {}}
        self.lose("", **reply)
        return task, reply


@pytest.fixture
def once(messages: Messages, scope: Scope) -> Once:
    return Once(messages, scope)


def test_a_key_with_another_body_is_refused_while_the_first_runs(once: Once) -> None:
    async def go() -> None:
        call, request = once.asked("pause", body="first")
        first = asyncio.create_task(once.messages.send(call, request))
        while once.messages.store.get_head(once.scope, call.request.task_id()) is None:
            await asyncio.sleep(0.02)
        with pytest.raises(InvalidParams, match="another request"):
            await once.messages.send(*once.asked("pause", body="second"))
        await once.service.cancel(once.scope, call.request.task_id())
        await first

    asyncio.run(asyncio.wait_for(go(), 120))


def test_a_message_waits_some_seconds_for_a_turn_that_runs_elsewhere(
    once: Once, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client cannot know when that turn asks. The call's own deadline may be sooner."""
    store = once.messages.store
    head = store.new_head(once.scope, str(uuid.uuid4()), "c", status(TaskState.SUBMITTED, store.clock()))
    store.create_head(replace(head, place=Place.WORKER))
    waits: list[float] = []

    async def wait(_: Store, head: Head, deadline: float, *, or_suspended: bool) -> Head:
        assert or_suspended
        waits.append(deadline - time.monotonic())
        return head

    monkeypatch.setattr(intake, "wait_until_stopped", wait)
    call, request = once.asked("pause", taskId=head.task_id)
    for deadline in (None, time.monotonic() + 3, time.monotonic() + 300):
        with pytest.raises(UnsupportedOperation, match="still running"):
            asyncio.run(once.messages.intake.start(replace(call, deadline=deadline), request))
    most = intake.TURN_WAIT_SECONDS
    assert most - 1 < waits[0] <= most
    assert 1 < waits[1] <= 3
    assert most - 1 < waits[2] <= most


def test_memory_counts_once_when_a_process_dies_between_two_writes(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = str(uuid.uuid4())
    turn = once.die("look", monkeypatch, contextId=context)
    clock.now += 31
    task = once.send("look", contextId=context)
    seen = task["artifacts"][0]["parts"][0]["data"]
    assert seen["turns"] == 2, "as this turn sees it, before it is known to be the same"
    assert seen["said"] == [], "it does not see what it said before"
    stored = once.messages.store.get_context(once.scope, context)
    assert stored.memory["turns"] == 1
    assert stored.turns == (turn,)
    assert len(stored.conversation) == 2
    assert once.send("look", contextId=context) == task
    assert once.send("look", contextId=context, key="PAY-2", body="next")["id"] != task["id"]
    assert once.messages.store.get_context(once.scope, context).memory["turns"] == 2


def test_a_question_asked_again_after_a_death_is_answered_by_its_context(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = str(uuid.uuid4())
    once.die("question", monkeypatch, contextId=context)
    clock.now += 31
    asked = once.send("question", contextId=context)
    answered = once.send("question", contextId=context, key="PAY-2", body="yes")
    assert answered["id"] == asked["id"]
    assert answered["status"]["state"] == TaskState.COMPLETED


@given(st.lists(st.sampled_from(["send", "die", "later"]), max_size=8))
@settings_of(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_request_counts_once(
    messages: Messages, scope: Scope, clock: Clock, monkeypatch: pytest.MonkeyPatch, steps: list[str]
) -> None:
    """The same bytes, sent, lost and sent again: memory counts the answers, and what was lost for good."""
    once = Once(messages, Scope(f"{scope.owner}-{uuid.uuid4()}", "probe"))
    context = str(uuid.uuid4())
    counted, lost = 0, False
    plain = once.asked

    def asked(skill: str, **_: Any) -> tuple[CallContext, Any]:
        call, request = plain(skill, contextId=context)
        return replace(call, request=RequestIdentity.of(once.scope, "send", b"same")), request

    once.asked = asked  # type: ignore[assignment,method-assign]

    for step in steps:
        clock.now += WINDOW + 31
        if step == "send":
            once.send("look")
            counted, lost = counted + (not lost), False
        elif step == "die":
            once.die("look", monkeypatch)
            counted, lost = counted + (not lost), True
        clock.now += 31
    stored = messages.store.get_context(once.scope, context)
    assert stored.memory.get("turns", 0) == counted


def test_the_same_answer_to_two_questions_of_a_conversation(send: Send, clock: Clock, scope: Scope) -> None:
    """The same bytes a second time, after the window and to another question: one answer, and no new task."""
    asked = send("coach", contextId="c")
    first = send("basketball", contextId="c")
    assert first["id"] == asked["id"]
    clock.now += WINDOW + 1
    again = send("coach", contextId="c")
    second = send("basketball", contextId="c")
    assert second["id"] == again["id"] != first["id"]
    assert send("basketball", contextId="c") == second, "within the window it is a repetition"


def test_a_retry_after_a_failed_run_counts(once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run failed, and died after it had said so to its conversation."""
    context = str(uuid.uuid4())
    with monkeypatch.context() as patch:
        patch.setattr(Agent, "perform", _fails)
        once.die("look", monkeypatch, contextId=context)
    clock.now += 31
    once.send("look", contextId=context)
    stored = once.messages.store.get_context(once.scope, context)
    assert stored.memory["turns"] == 1
    assert [entry.role for entry in stored.conversation] == ["user", "user", "agent"], "it failed, then not"


async def _fails(self: Any, turn: Any) -> Any:
    raise RuntimeError("on purpose")
    yield


@pytest.mark.parametrize("names_task", [False, True])
@pytest.mark.parametrize("is_seen", [False, True])
def test_an_answer_whose_run_died_counts_once(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch, *, is_seen: bool, names_task: bool
) -> None:
    """By its conversation alone, too, and whether or not anyone has looked at the task."""
    context = str(uuid.uuid4())
    asked = once.send("patient", contextId=context, key="ASK")
    once.die("patient", monkeypatch, contextId=context)
    clock.now += 70
    if is_seen:
        asyncio.run(once.service.get(once.scope, asked["id"]))
    by_task = {"taskId": asked["id"]} if names_task else {}
    answered = once.send("patient", contextId=context, **by_task)
    assert (answered["id"], answered["status"]["state"]) == (asked["id"], TaskState.COMPLETED)
    stored = once.messages.store.get_context(once.scope, context)
    assert stored.memory["turns"] == 2
    assert [entry.role for entry in stored.conversation] == ["user", "agent"] * 2


def test_a_key_whose_run_was_lost_is_refused_with_another_body(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = str(uuid.uuid4())
    asked = once.send("question", contextId=context, key="ASK")
    once.send("question", contextId=context, key="ANSWER")
    other = once.send("question", contextId=str(uuid.uuid4()), key="OTHER")
    once.die("look", monkeypatch, contextId=context)
    clock.now += 31
    with pytest.raises(InvalidParams, match="another request"):
        once.send("look", contextId=context, body="another")
    assert asked["id"] != other["id"]


def test_a_late_duplicate_answers_no_one_elses_question(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = str(uuid.uuid4())
    once.die("look", monkeypatch, contextId=context)
    clock.now += 31
    task = once.send("look", contextId=context)
    asked = once.send("question", contextId=context, key="ASK")
    assert asked["status"]["state"] == TaskState.INPUT_REQUIRED
    assert once.send("look", contextId=context) == task


def test_a_key_with_another_body_is_refused_whatever_answered_last(once: Once) -> None:
    """The context knows the key, even when its task is not the newest."""
    context = str(uuid.uuid4())
    once.send("look", contextId=context)
    once.send("look", contextId=context, body="else", key="PAY-2")
    with pytest.raises(InvalidParams, match="another request"):
        once.send("look", contextId=context, body="another")


def test_a_key_of_another_request_is_refused_in_a_reply(once: Once) -> None:
    """The task that asks does not know the key; the conversation does."""
    context = str(uuid.uuid4())
    once.send("look", contextId=context)
    asked = once.send("patient", contextId=context, body="else", key="ASK")
    with pytest.raises(InvalidParams, match="another request"):
        once.send("", taskId=asked["id"], contextId=context, body="Ann")
    assert once.send("", taskId=asked["id"], body="Ann", key="REPLY")["id"] == asked["id"]


def test_a_reply_whose_run_died_can_be_sent_again(once: Once, clock: Clock) -> None:
    """The task asks again, what it was about to do included."""
    asked = once.send("patient", key="ASK")
    old_head = once.head(asked["id"])
    reply: Any = {"body": "Ann", "key": "REPLY", "taskId": asked["id"], "metadata": {}}
    once.lose("", **reply)
    clock.now += 31
    again = asyncio.run(once.service.get(once.scope, asked["id"])).task
    assert again["status"]["state"] == TaskState.INPUT_REQUIRED
    assert again["status"]["message"] == asked["status"]["message"]
    assert once.head(asked["id"]).pending == old_head.pending is not None
    answered = once.send("", **reply)
    assert (answered["id"], answered["status"]["state"]) == (asked["id"], TaskState.COMPLETED)


def test_a_lost_reply_loses_no_other_request(once: Once, clock: Clock) -> None:
    asked, _ = once.lose_reply()
    clock.now += 31
    assert once.send("patient", key="ASK")["id"] == asked["id"], "it was answered, by the question"


def test_another_message_may_answer_a_question_whose_reply_was_lost(once: Once, clock: Clock) -> None:
    """Of a client that names its conversation alone, and before anyone has looked at the task."""
    context = str(uuid.uuid4())
    asked = once.send("patient", contextId=context, key="ASK")
    reply: Any = {"body": "Ann", "key": "REPLY", "contextId": context, "metadata": {}}
    once.lose("", **reply)
    clock.now += 31
    answered = once.send("", **{**reply, "body": "Bob", "key": "OTHER"})
    assert (answered["id"], answered["status"]["state"]) == (asked["id"], TaskState.COMPLETED)


@pytest.mark.parametrize("write", [1, 2, 3, 4])
def test_a_large_reply_whose_process_dies_leaves_the_question(
    once: Once, write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any of its writes: the question, the two pieces of the message, and the claim. Nothing
    of it stays, and no later reply meets it, whether that is as large or not."""
    monkeypatch.setattr(recovery, "REPLY_SECONDS", 0.0)
    for body in ("Bob" * 5_000, "Bob" * 200_000, "Bob"):
        asked = once.send("patient", key=f"ASK {body[:9]} {len(body)}")
        reply: Any = {"key": "REPLY", "taskId": asked["id"], "metadata": {}}
        with dying_before_write(write, once.messages.store):
            once.send("", **reply, body="Ann" * 200_000)
        assert asyncio.run(once.service.get(once.scope, asked["id"])).task == asked
        answered = once.send("", **{**reply, "key": "OTHER"}, body=body)
        assert (answered["id"], answered["status"]["state"]) == (asked["id"], TaskState.COMPLETED)
        assert answered == asyncio.run(once.service.get(once.scope, asked["id"])).task
        assert user_texts(answered) == ["pay", body]


def test_two_tries_of_a_reply_after_one_that_died_are_one_turn(
    once: Once, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both wait for the process that is dead. The one that is faster then claims the turn."""
    monkeypatch.setattr(recovery, "REPLY_SECONDS", 0.5)
    asked = once.send("patient", key="ASK")
    with dying_before_write(4, once.messages.store):
        once.send("", body="Ann" * 200_000, key="DEAD", taskId=asked["id"], metadata={})

    def reply(_: int) -> Task:
        return once.send("", body="Bob" * 200_000, key="REPLY", taskId=asked["id"], metadata={})

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(reply, range(2))
    assert first == second
    assert first["status"]["state"] == TaskState.COMPLETED


@pytest.mark.parametrize("write", [1, 2])
def test_a_large_message_whose_process_dies_has_made_no_task(once: Once, write: int) -> None:
    call, request = once.asked("echo", body="x" * 5_000)
    with dying_before_write(write, once.messages.store):
        asyncio.run(once.messages.send(call, request))
    assert once.messages.store.get_head(once.scope, call.request.task_id()) is None
    task = asyncio.run(once.messages.send(call, request))["task"]
    assert (task["id"], task["status"]["state"]) == (call.request.task_id(), TaskState.COMPLETED)
    assert [message["parts"][0]["text"] for message in task["history"]] == ["x" * 5_000]


def test_a_task_with_a_reply_that_was_never_claimed_can_be_canceled(once: Once) -> None:
    asked = once.send("patient", key="ASK")
    with dying_before_write(3, once.messages.store):
        once.send("", body="Ann" * 5_000, key="REPLY", taskId=asked["id"], metadata={})
    canceled = asyncio.run(once.service.cancel(once.scope, asked["id"])).task
    assert canceled["status"]["state"] == TaskState.CANCELED
    assert [message["role"] for message in canceled["history"]] == [Role.USER, Role.AGENT]


@pytest.mark.parametrize("size", [5_000, 1_000_000])
def test_of_large_replies_at_once_one_is_the_reply(
    once: Once, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the one that was faster, instead of starting over. The table takes its time for a large
    item, and little for a small one."""
    asked = once.send("patient", key="ASK")
    table, put = once.messages.store._table, once.messages.store._table.put

    def put_slowly(item: dict[str, Any], *condition: Any) -> None:
        if len(item.get("body", {}).get("B", b"")) > 100_000:
            time.sleep(0.03)
        put(item, *condition)

    monkeypatch.setattr(table, "put", put_slowly)
    monkeypatch.setattr(recovery, "REPLY_SECONDS", 100.0)

    epoch = once.head(asked["id"]).with_new_epoch().epoch

    def reply(name: str) -> Task | None:
        with suppress(UnsupportedOperation):
            return once.send("", body=name * size, key=name, taskId=asked["id"], metadata={})
        return None

    with ThreadPoolExecutor(4) as pool:
        answers = [answer for answer in pool.map(reply, ("Ann", "Bob", "Cat", "Dan")) if answer is not None]
    [answered] = answers
    assert answered == asyncio.run(once.service.get(once.scope, asked["id"])).task
    assert user_texts(answered) in [["pay", name * size] for name in ("Ann", "Bob", "Cat", "Dan")]
    assert once.head(asked["id"]).epoch == epoch, "no one took the turn from a process that was alive"


def _end_lease_while_waited_for(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """A send that waits for another run's turn sees that run's lease end."""

    async def wait(store: Store, head: Head, deadline: float | None) -> Head:
        clock.now += 31
        return await wait_until_stopped(store, head, deadline)

    monkeypatch.setattr("a2a_lambda.operations.messages.wait_until_stopped", wait)


def test_a_reply_without_time_for_its_turn_leaves_the_question(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, reply = once.lose_reply()
    _end_lease_while_waited_for(monkeypatch, clock)
    call, request = once.asked("", **reply)
    call = replace(call, deadline=time.monotonic() + 9)
    task = asyncio.run(once.messages.send(call, request))["task"]
    assert (task["id"], task["status"]["state"]) == (asked["id"], TaskState.INPUT_REQUIRED)
    assert once.send("", **reply)["status"]["state"] == TaskState.COMPLETED


def test_a_reply_that_waits_for_a_run_that_dies_starts_its_turn_again(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came twice, and the process that had it first is gone."""
    asked, reply = once.lose_reply()
    _end_lease_while_waited_for(monkeypatch, clock)
    answered = once.send("", **reply)
    assert (answered["id"], answered["status"]["state"]) == (asked["id"], TaskState.COMPLETED)


def test_a_reply_that_could_not_be_stored_leaves_the_question(
    once: Once, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = once.send("patient", key="ASK")
    reply = {"body": "Ann" * 5_000, "key": "REPLY", "taskId": asked["id"], "metadata": {}}
    with monkeypatch.context() as patch:
        patch.setattr(Store, "append", _does_not_answer)
        with pytest.raises(StoreError):
            once.send("", **reply)
    assert asyncio.run(once.service.get(once.scope, asked["id"])).task == asked
    answered = once.send("", **reply)
    assert (answered["id"], answered["status"]["state"]) == (asked["id"], TaskState.COMPLETED)


def _does_not_answer(*_: Any, **__: Any) -> int:
    raise StoreError("on purpose")


class TestChosenIds:
    """Clients of A2A 0.1 choose the ids of their tasks, and have no other id for a retry."""

    @pytest.fixture
    def task_id(self) -> str:
        return str(uuid.uuid4())

    def send(self, once: Once, task_id: str, **options: Any) -> Task:
        call, request = once.asked("look", taskId=task_id, **options)
        return asyncio.run(once.messages.send(call, request | {"creates_task": True}))["task"]

    def stop(self, once: Once, task_id: str, **options: Any) -> None:
        """A send that is stopped before its agent is done."""

        async def go() -> None:
            call, request = once.asked("pause", taskId=task_id, **options)
            claim = await once.messages.intake.start(call, request | {"creates_task": True})
            assert isinstance(claim, Claim)
            run = Run(once.messages.store, once.messages.agents.start("probe"), claim)
            run.stop("Send it again.")
            await run.run_to_end()

        asyncio.run(go())

    def test_a_first_message_that_was_stopped_can_be_sent_again(self, once: Once, task_id: str) -> None:
        self.stop(once, task_id, key="FIRST")
        assert once.head(task_id).state == TaskState.FAILED
        task = self.send(once, task_id, key="FIRST")
        assert (task["id"], task["status"]["state"]) == (task_id, TaskState.COMPLETED)

    def test_a_later_message_that_was_stopped_leaves_the_task_as_it_was(
        self, once: Once, task_id: str
    ) -> None:
        task = self.send(once, task_id, key="FIRST")
        self.stop(once, task_id, key="SECOND")
        assert once.head(task_id).state == TaskState.COMPLETED
        again = self.send(once, task_id, key="SECOND")
        assert len(again["artifacts"]) == len(task["artifacts"]) + 1

    def test_a_later_message_that_was_lost_leaves_the_task_as_it_was(
        self, once: Once, task_id: str, clock: Clock
    ) -> None:
        self.send(once, task_id, key="FIRST")
        call, request = once.asked("look", taskId=task_id, key="SECOND")
        asyncio.run(once.messages.intake.start(call, request | {"creates_task": True}))
        clock.now += 31
        assert (
            asyncio.run(once.service.get(once.scope, task_id)).task["status"]["state"] == TaskState.COMPLETED
        )
        assert self.send(once, task_id, key="SECOND")["status"]["state"] == TaskState.COMPLETED

    def test_a_task_that_failed_by_itself_takes_no_message(
        self, once: Once, task_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Agent, "perform", _fails)
            assert self.send(once, task_id, key="FIRST")["status"]["state"] == TaskState.FAILED
        with pytest.raises(UnsupportedOperation, match="has ended"):
            self.send(once, task_id, key="SECOND")
