"""Clients of A2A 0.1 choose the ids of their tasks, and have no other id for a retry."""

import asyncio
import uuid
from typing import Any

import pytest

from a2a_lambda.agent.agent import Agent
from a2a_lambda.errors import TaskNotFound, UnsupportedOperation
from a2a_lambda.protocol.model import Task, TaskState, artifact_id, text_of
from a2a_lambda.tasks.head import Head
from a2a_lambda.turns.claim import Claim
from a2a_lambda.turns.recovery import load_live_head
from tests.helpers.clock import Clock
from tests.helpers.rest import user_texts
from tests.helpers.rpc import intent
from tests.operations.intake.senders import WINDOW, Once, Send, fails


def test_the_same_message_to_a_task_that_has_ended_is_another_message(
    send: Send, task_id: str, clock: Clock
) -> None:
    send("ping", taskId=task_id)
    clock.now += WINDOW + 1
    assert user_texts(send("ping", taskId=task_id)) == ["ping", "ping"]


@pytest.fixture
def task_id() -> str:
    return str(uuid.uuid4())


def send_to(once: Once, task_id: str, **options: Any) -> Task:
    return once.send("look", taskId=task_id, creates_task=True, **options)


def stop(once: Once, task_id: str, **options: Any) -> None:
    """A send that is stopped before its agent is done."""

    async def go() -> None:
        request = once.asked("pause", taskId=task_id, creates_task=True, **options)
        claim = await once.messages.intake.start(*request)
        assert isinstance(claim, Claim)
        run = once.messages.make_run(claim)
        run.stop("Send it again.")
        await run.run_to_end()

    asyncio.run(go())


def test_a_lost_turn_of_a_reopened_task_continues_under_its_id(
    once: Once, clock: Clock, task_id: str
) -> None:
    """Authors give it to other services, so that these count once what is done twice."""

    def start() -> str:
        request = once.asked("look", taskId=task_id, key="SECOND", body="b", creates_task=True)
        claim = asyncio.run(once.messages.intake.start(*request))
        assert isinstance(claim, Claim)
        return claim.turn.id

    send_to(once, task_id, key="FIRST", body="a")
    first = start()
    clock.now += 31
    asyncio.run(load_live_head(once.messages.store, once.namespace, task_id))
    assert start() == first


def test_a_lost_turn_of_a_reopened_task_counts_once(
    once: Once, clock: Clock, task_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process dies after it has stored the context."""
    context_id = send_to(once, task_id, key="FIRST", body="a")["contextId"]
    once.die("look", monkeypatch, taskId=task_id, key="SECOND", body="b", creates_task=True)
    clock.now += 31
    send_to(once, task_id, key="SECOND", body="b")
    context = once.messages.store.get_context(once.namespace, context_id)
    assert (context.memory["turns"], len(context.conversation)) == (2, 4)


def test_a_client_that_chooses_ids_keeps_its_conversation(send: Send) -> None:
    texts = []
    for _ in range(2):
        task = send(contextId="c", taskId=str(uuid.uuid4()), metadata=intent("ai-count"))
        assert task["contextId"] == "c"
        texts.append(task["artifacts"][0]["parts"][0]["text"])
    assert texts[0] != texts[1], texts


def test_a_conversation_outlives_its_task(send: Send, task_id: str, clock: Clock) -> None:
    """It expires counted from its last message, and the task from its first."""
    texts = set()
    for number in range(3):
        task = send(f"message {number}", taskId=task_id, metadata=intent("ai-count"))
        texts |= {artifact["parts"][0]["text"] for artifact in task["artifacts"]}
        clock.now += 80_000  # of 86,400
    assert len(task["artifacts"]) == 1, "the task is a new one"
    assert len(texts) == 3, texts


def test_of_two_first_messages_at_once_the_later_one_continues_the_task(
    once: Once, task_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = once.messages.store.create_head

    def create_later(head: Head) -> None:
        monkeypatch.undo()
        # The calls of the table come from threads, which have no event loop.
        send_to(once, task_id, key="FIRST", body="a")
        create(head)

    monkeypatch.setattr(once.messages.store, "create_head", create_later)
    task = send_to(once, task_id, key="SECOND", body="b")
    assert (task["id"], len(task["artifacts"])) == (task_id, 2)


def test_only_a_client_of_0_1_makes_a_task_by_naming_it(once: Once, task_id: str) -> None:
    with pytest.raises(TaskNotFound):
        once.send("look", taskId=task_id)
    assert once.messages.store.get_head(once.namespace, task_id) is None
    assert send_to(once, task_id)["id"] == task_id


def test_a_first_message_that_was_stopped_can_be_sent_again(once: Once, task_id: str) -> None:
    stop(once, task_id, key="FIRST")
    assert once.head(task_id).state == TaskState.FAILED
    task = send_to(once, task_id, key="FIRST")
    assert (task["id"], task["status"]["state"]) == (task_id, TaskState.COMPLETED)


def test_a_later_message_that_was_stopped_leaves_the_task_as_it_was(once: Once, task_id: str) -> None:
    task = send_to(once, task_id, key="FIRST")
    stop(once, task_id, key="SECOND")
    assert once.head(task_id).state == TaskState.COMPLETED
    again = send_to(once, task_id, key="SECOND")
    assert len(again["artifacts"]) == len(task["artifacts"]) + 1


def test_a_later_message_that_was_lost_leaves_the_task_as_it_was(
    once: Once, task_id: str, clock: Clock
) -> None:
    send_to(once, task_id, key="FIRST")
    call, request = once.asked("look", taskId=task_id, key="SECOND")
    asyncio.run(once.messages.intake.start(call, request | {"creates_task": True}))
    clock.now += 31
    status = asyncio.run(once.service.get(once.namespace, task_id)).task["status"]
    assert status["state"] == TaskState.COMPLETED
    assert "lost" in text_of(status["message"]["parts"]), "else it would look answered"
    assert send_to(once, task_id, key="SECOND")["status"]["state"] == TaskState.COMPLETED


def test_what_a_lost_attempt_said_is_replaced(once: Once, task_id: str, clock: Clock) -> None:
    task = send_to(once, task_id, key="FIRST")
    once.lose("look", taskId=task_id, key="SECOND", creates_task=True)
    head = once.head(task_id)
    ids = {"taskId": task_id, "contextId": head.context_id}
    count = len(task["artifacts"])
    halves: list[Any] = []
    for index in (count, count + 1):
        artifact = {"artifactId": artifact_id(index), "parts": [{"text": "Half of an an"}]}
        halves.append({"artifactUpdate": {**ids, "artifact": artifact, "append": False, "lastChunk": False}})
    _, last = once.messages.store.get_task(head)
    once.messages.store.append(head, halves, after=last)
    clock.now += 31
    again = send_to(once, task_id, key="SECOND")
    assert "Half" not in str(again["artifacts"])
    assert [artifact["parts"] for artifact in again["artifacts"][count + 1 :]] == [[{"text": ""}]]


def test_a_task_stays_in_its_session(once: Once, task_id: str) -> None:
    """Types of Google's samples make a new session for each message that names none."""
    first = send_to(once, task_id, key="FIRST", contextId="a")
    second = send_to(once, task_id, key="SECOND", contextId="b")
    assert (first["contextId"], second["contextId"]) == ("a", "a")


def test_a_task_that_failed_by_itself_takes_no_message(
    once: Once, task_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Agent, "perform", fails)
        assert send_to(once, task_id, key="FIRST")["status"]["state"] == TaskState.FAILED
    with pytest.raises(UnsupportedOperation, match="has ended"):
        send_to(once, task_id, key="SECOND")
