"""Requests that come again, whatever became of their first try: each counts once."""

import asyncio
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as settings_of
from hypothesis import strategies as st

from a2a_lambda.agent.agent import Agent
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.errors import InvalidParams
from a2a_lambda.operations.messages import Messages
from a2a_lambda.protocol.model import Message, Part, Role, Task, TaskState, make_status, text_of
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.tasks.identity import Namespace, RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall
from a2a_lambda.turns.claim import Claim, Repeat
from tests.agent.folders import write
from tests.helpers.clock import Clock, until
from tests.helpers.rest import user_texts
from tests.operations.intake.senders import WINDOW, Once, Send, fails


@pytest.mark.parametrize("key", ["BOOK", ""])
def test_bytes_that_come_again_while_their_task_runs_answer_no_question(
    once: Once, clock: Clock, key: str
) -> None:
    """However long it runs, with a key or without."""
    context = str(uuid.uuid4())
    book: Any = {"body": "book a room", "key": key or None, "contextId": context}
    first = asyncio.run(once.messages.intake.start(*once.asked("echo", **book)))
    assert isinstance(first, Claim)
    other = once.send("patient", body="something else", key="OTHER", contextId=context)
    clock.now += WINDOW + 1
    again = asyncio.run(once.messages.intake.start(*once.asked("echo", **book)))
    assert isinstance(again, Repeat)
    assert again.head.task_id == first.head.task_id
    assert once.head(other["id"]).state == TaskState.INPUT_REQUIRED


def test_bytes_without_an_id_of_their_own_count_once_only_while_their_turn_runs(once: Once) -> None:
    """Messages of A2A 0.1 have no ids: the user may say the same again."""
    call, request = once.asked("echo", key=None, taskId=str(uuid.uuid4()), creates_task=True)
    call = replace(call, identity=replace(call.identity, has_own_id=False))

    async def go() -> None:
        first = await once.messages.intake.start(call, request)
        assert isinstance(first, Claim)
        assert isinstance(await once.messages.intake.start(call, request), Repeat)
        await once.messages.make_run(first).run_to_end()
        assert isinstance(await once.messages.intake.start(call, request), Claim)

    asyncio.run(go())


def test_a_reply_that_comes_again_while_its_turn_runs_is_not_the_next_reply(once: Once) -> None:
    """Its bytes have no id of their own, and did not begin the turn."""
    head = once.create_head_elsewhere()
    first, reply = (once.asked("echo", body, key=None)[0].identity for body in ("first", "yes"))
    reply = replace(reply, has_own_id=False)
    request_tasks = once.messages.intake.request_tasks
    running = head.with_request(first, 0.0).with_request(reply, 0.0)
    assert request_tasks.is_repeat(running, reply)
    assert not request_tasks.is_repeat(replace(running, status=make_status(TaskState.COMPLETED, 0)), reply)
    assert not request_tasks.is_repeat(running.with_request(first, 0.0), reply), "other words came later"


@pytest.mark.parametrize("dies", [True, False])
def test_the_same_words_again_are_repeated_if_their_run_is_lost(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """The task knows an earlier message with the same bytes, which was answered."""
    options: Any = {"key": None, "taskId": once.send("look", key=None)["id"], "creates_task": True}
    clock.now += WINDOW + 1
    if dies:
        once.die("look", monkeypatch, **options)
    else:
        once.lose("look", **options)
    clock.now += 31
    task = once.send("look", **options)
    assert task["status"]["state"] == TaskState.COMPLETED
    assert user_texts(task) == ["pay", "pay"]
    assert task["artifacts"][-1]["parts"][0]["data"]["turns"] == 2


def test_a_retry_finds_the_newest_task_of_its_message_before_it_answers_a_question(
    once: Once, clock: Clock
) -> None:
    """Its first task was lost, and the second one runs while another task of the conversation asks."""
    context = str(uuid.uuid4())
    book: Any = {"body": "book a room", "key": "BOOK", "contextId": context}
    once.lose("echo", **book)
    clock.now += 31
    first_id = once.asked("echo", **book)[0].identity.task_id()
    assert asyncio.run(once.service.get(once.namespace, first_id)).task["status"]["state"] == TaskState.FAILED
    second = asyncio.run(once.messages.intake.start(*once.asked("echo", **book)))
    assert isinstance(second, Claim)
    other = once.send("patient", body="something else", key="OTHER", contextId=context)
    assert other["status"]["state"] == TaskState.INPUT_REQUIRED
    third = asyncio.run(once.messages.intake.start(*once.asked("echo", **book)))
    assert isinstance(third, Repeat)
    assert third.head.task_id == second.head.task_id
    other_task = asyncio.run(once.service.get(once.namespace, other["id"])).task
    assert user_texts(other_task) == ["something else"]


def test_a_key_with_another_body_is_refused_while_the_first_runs(once: Once) -> None:
    async def go() -> None:
        call, request = once.asked("pause", body="first")
        first = asyncio.create_task(once.messages.send(call, request))
        await until(lambda: once.messages.store.get_head(once.namespace, call.identity.task_id()))
        with pytest.raises(InvalidParams, match="another request"):
            await once.messages.send(*once.asked("pause", body="second"))
        await once.service.cancel(once.namespace, call.identity.task_id())
        await first

    asyncio.run(asyncio.wait_for(go(), 120))


def test_memory_counts_once_when_a_process_dies_between_two_writes(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = str(uuid.uuid4())
    turn = once.die("look", monkeypatch, contextId=context)
    clock.now += 31
    task = once.send("look", contextId=context)
    text = task["artifacts"][0]["parts"][0]["data"]
    assert text["turns"] == 1, "it does not see what it changed before"
    assert text["said"] == [], "it does not see what it said before"
    stored_context = once.messages.store.get_context(once.namespace, context)
    assert stored_context.memory["turns"] == 1
    assert stored_context.turns == (turn,)
    assert len(stored_context.conversation) == 2
    assert once.send("look", contextId=context) == task
    assert once.send("look", contextId=context, key="PAY-2", body="next")["id"] != task["id"]
    assert once.messages.store.get_context(once.namespace, context).memory["turns"] == 2


def test_a_question_asked_again_after_a_death_is_answered_by_its_context(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = str(uuid.uuid4())
    once.die("question", monkeypatch, contextId=context)
    clock.now += 31
    question = once.send("question", contextId=context)
    task = once.send("question", contextId=context, key="PAY-2", body="yes")
    assert task["id"] == question["id"]
    assert task["status"]["state"] == TaskState.COMPLETED


@given(st.lists(st.sampled_from(["send", "die", "later"]), max_size=8))
@settings_of(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_every_request_counts_once(
    messages: Messages, namespace: Namespace, clock: Clock, monkeypatch: pytest.MonkeyPatch, steps: list[str]
) -> None:
    """The same bytes, sent, lost and sent again: memory counts the answers, and what was lost for good."""
    once = Once(messages, Namespace(f"{namespace.owner}-{uuid.uuid4()}", "probe"))
    context = str(uuid.uuid4())
    count, is_lost = 0, False
    make_call = once.asked

    def asked(skill: str, **_: Any) -> tuple[MessageCall, Any]:
        call, request = make_call(skill, contextId=context)
        return replace(call, identity=RequestIdentity.of(once.namespace, "send", b"same")), request

    once.asked = asked  # type: ignore[assignment,method-assign]

    for step in steps:
        clock.now += WINDOW + 31
        if step == "send":
            once.send("look")
            count, is_lost = count + (not is_lost), False
        elif step == "die":
            once.die("look", monkeypatch)
            count, is_lost = count + (not is_lost), True
        clock.now += 31
    stored_context = messages.store.get_context(once.namespace, context)
    assert stored_context.memory.get("turns", 0) == count


def test_the_same_answer_to_two_questions_of_a_conversation(
    send: Send, clock: Clock, namespace: Namespace
) -> None:
    """The same bytes a second time, after the window and to another question: one answer, and no new task."""
    question = send("coach", contextId="c")
    first = send("basketball", contextId="c")
    assert first["id"] == question["id"]
    clock.now += WINDOW + 1
    again = send("coach", contextId="c")
    second = send("basketball", contextId="c")
    assert second["id"] == again["id"] != first["id"]
    assert send("basketball", contextId="c") == second, "within the window it is a repetition"


def test_a_retry_after_a_failed_run_counts(once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run failed, and died after it had said so to its conversation."""
    context = str(uuid.uuid4())
    with monkeypatch.context() as patch:
        patch.setattr(Agent, "perform", fails)
        once.die("look", monkeypatch, contextId=context)
    clock.now += 31
    once.send("look", contextId=context)
    stored_context = once.messages.store.get_context(once.namespace, context)
    assert stored_context.memory["turns"] == 1
    assert [entry.role for entry in stored_context.conversation] == ["user", "user", "agent"], (
        "it failed, then not"
    )


@pytest.mark.parametrize("names_task", [False, True])
@pytest.mark.parametrize("is_seen", [False, True])
def test_an_answer_whose_run_died_counts_once(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch, *, is_seen: bool, names_task: bool
) -> None:
    """By its conversation alone, too, and whether or not anyone has looked at the task."""
    context = str(uuid.uuid4())
    question = once.send("patient", contextId=context, key="ASK")
    once.die("patient", monkeypatch, contextId=context)
    clock.now += 70
    if is_seen:
        asyncio.run(once.service.get(once.namespace, question["id"]))
    by_task = {"taskId": question["id"]} if names_task else {}
    task = once.send("patient", contextId=context, **by_task)
    assert (task["id"], task["status"]["state"]) == (question["id"], TaskState.COMPLETED)
    stored_context = once.messages.store.get_context(once.namespace, context)
    assert stored_context.memory["turns"] == 2
    assert [entry.role for entry in stored_context.conversation] == ["user", "agent"] * 2


def test_a_key_whose_run_was_lost_is_refused_with_another_body(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = str(uuid.uuid4())
    question = once.send("question", contextId=context, key="ASK")
    once.send("question", contextId=context, key="ANSWER")
    other = once.send("question", contextId=str(uuid.uuid4()), key="OTHER")
    once.die("look", monkeypatch, contextId=context)
    clock.now += 31
    with pytest.raises(InvalidParams, match="another request"):
        once.send("look", contextId=context, body="another")
    assert question["id"] != other["id"]


def test_a_late_duplicate_answers_no_one_elses_question(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = str(uuid.uuid4())
    once.die("look", monkeypatch, contextId=context)
    clock.now += 31
    task = once.send("look", contextId=context)
    question = once.send("question", contextId=context, key="ASK")
    assert question["status"]["state"] == TaskState.INPUT_REQUIRED
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
    question = once.send("patient", contextId=context, body="else", key="ASK")
    with pytest.raises(InvalidParams, match="another request"):
        once.send("", taskId=question["id"], contextId=context, body="Ann")
    assert once.send("", taskId=question["id"], body="Ann", key="REPLY")["id"] == question["id"]


@pytest.mark.parametrize("others", [3, 8, 12])
def test_equal_replies_to_two_questions_are_two_turns(
    messages: Messages, namespace: Namespace, clock: Clock, tmp_path: Path, others: int
) -> None:
    """They are two, too, when the first one is forgotten, because so many came in between."""
    code = "@skill\ndef hello(turn):\n    return Ask(str(turn.memory.add('turns')))"
    messages.agents = Agents.of(Agent.load(write(tmp_path, code, name=namespace.agent)))

    def send(body: str, **fields: str) -> Task:
        message = Message(messageId="m", role=Role.USER, parts=[Part(text="next")], **fields)  # type: ignore[typeddict-item]
        call = MessageCall(namespace, RequestIdentity.of(namespace, "message/send", body.encode()))
        clock.now += WINDOW + 1
        return asyncio.run(messages.send(call, SendMessageRequest(message=message)))["task"]

    task = send("first")
    place = {"taskId": task["id"], "contextId": task["contextId"]}
    replies = ["equal", *(f"other {number}" for number in range(others)), "equal", "last"]
    questions = [text_of(send(body, **place)["status"]["message"]["parts"]) for body in replies]
    assert questions == [str(number) for number in range(2, len(replies) + 2)]


def test_a_key_whose_task_has_expired_makes_a_new_one(once: Once, clock: Clock) -> None:
    context = str(uuid.uuid4())
    first = once.send("echo", contextId=context)
    clock.now += 0.9 * 86_400
    once.send("echo", key="PAY-2", body="another", contextId=context)  # the context is kept for longer
    clock.now += 0.2 * 86_400
    assert once.send("echo", contextId=context)["status"]["state"] == TaskState.COMPLETED
    assert first["contextId"] == context


def test_equal_bytes_that_are_forgotten_are_a_new_turn_of_a_task_that_has_ended(
    send: Send, clock: Clock
) -> None:
    """A 0.1 client without ids says the same words again, after more messages than are remembered."""
    task_id = str(uuid.uuid4())
    texts = ["Count my messages.", *"abcdefgh", "Count my messages.", "Count my messages"]
    for text in texts:
        clock.now += WINDOW + 1
        task = send(text, taskId=task_id)
    assert text_of(task["artifacts"][-1]["parts"]) == f"You have said {len(texts)} messages."


def test_a_lost_answer_is_answered_by_its_task_after_another_has_asked(once: Once, clock: Clock) -> None:
    first = once.send("patient", key="FIRST")
    reply: Any = {"body": "Ann", "key": "REPLY", "contextId": first["contextId"], "metadata": {}}
    once.lose("", **reply)
    second = once.send("patient", key="SECOND", contextId=first["contextId"])
    clock.now += 31
    answer = once.send("", **reply)
    assert (answer["id"], answer["status"]["state"]) == (first["id"], TaskState.COMPLETED)
    assert once.head(second["id"]).state == TaskState.INPUT_REQUIRED


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_repeated_answer_finds_its_task_after_another_has_asked(once: Once, has_ended: bool) -> None:
    """Whether the other question still waits or not. It does not get the answer as well."""
    first = once.send("patient", key="FIRST")
    reply: Any = {"body": "Ann", "key": "REPLY", "contextId": first["contextId"], "metadata": {}}
    once.lose("", **reply)
    second = once.send("patient", key="SECOND", contextId=first["contextId"])
    assert second["id"] != first["id"]
    if has_ended:
        once.send("", body="Bob", key="OTHER", taskId=second["id"], metadata={})
    start = asyncio.run(once.messages.intake.start(*once.asked("", **reply)))
    assert isinstance(start, Repeat)
    assert start.head.task_id == first["id"]
