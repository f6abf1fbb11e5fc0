"""Replies to questions whose process died: the question is open again, and takes the next reply."""

import asyncio
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda.errors import StoreError, UnsupportedOperation
from a2a_lambda.operations.follow import wait_until_stopped
from a2a_lambda.protocol.model import Role, Task, TaskState
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.head import Head
from a2a_lambda.turns import recovery
from tests.helpers.clock import Clock
from tests.helpers.rest import user_texts
from tests.operations.intake.senders import Once
from tests.processes.death import dying_before_write


@pytest.mark.parametrize("message_id", ["m", "another"])
def test_a_reply_whose_run_died_can_be_sent_again(once: Once, clock: Clock, message_id: str) -> None:
    """The task asks again, what it was about to do included. Some versions give the message a new id."""
    question = once.send("patient", key="ASK")
    old_head = once.head(question["id"])
    reply: Any = {"body": "Ann", "key": "REPLY", "taskId": question["id"], "metadata": {}}
    once.lose("", **reply)
    clock.now += 31
    again = asyncio.run(once.service.get(once.namespace, question["id"])).task
    assert again["status"]["state"] == TaskState.INPUT_REQUIRED
    assert again["status"]["message"] == question["status"]["message"]
    assert once.head(question["id"]).pending == old_head.pending is not None
    task = once.send("", **reply, messageId=message_id)
    assert (task["id"], task["status"]["state"]) == (question["id"], TaskState.COMPLETED)
    task_now = asyncio.run(once.service.get(once.namespace, question["id"])).task
    assert user_texts(task) == user_texts(task_now) == ["pay", "Ann"], "once, though it came twice"


def test_a_lost_reply_loses_no_other_request(once: Once, clock: Clock) -> None:
    question, _ = once.lose_reply()
    clock.now += 31
    assert once.send("patient", key="ASK")["id"] == question["id"], "it was answered, by the question"


def test_another_message_may_answer_a_question_whose_reply_was_lost(once: Once, clock: Clock) -> None:
    """Of a client that names its conversation alone, and before anyone has looked at the task."""
    context = str(uuid.uuid4())
    question = once.send("patient", contextId=context, key="ASK")
    reply: Any = {"body": "Ann", "key": "REPLY", "contextId": context, "metadata": {}}
    once.lose("", **reply)
    clock.now += 31
    task = once.send("", **{**reply, "body": "Bob", "key": "OTHER"})
    assert (task["id"], task["status"]["state"]) == (question["id"], TaskState.COMPLETED)


@pytest.mark.parametrize("write", [1, 2, 3, 4])
def test_a_large_reply_whose_process_dies_leaves_the_question(
    once: Once, write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies before it has stored the question, the message or the claim. The client sends the
    reply again."""
    monkeypatch.setattr(recovery, "CLAIM_SECONDS", 0.0)
    for body in ("Bob" * 5_000, "Bob" * 200_000, "Bob"):
        question = once.send("patient", key=f"ASK {body[:9]} {len(body)}")
        reply: Any = {"key": "REPLY", "taskId": question["id"], "metadata": {}}
        with dying_before_write(write, once.messages.store):
            once.send("", **reply, body="Ann" * 200_000)
        assert asyncio.run(once.service.get(once.namespace, question["id"])).task == question
        task = once.send("", **{**reply, "key": "OTHER"}, body=body)
        assert (task["id"], task["status"]["state"]) == (question["id"], TaskState.COMPLETED)
        assert task == asyncio.run(once.service.get(once.namespace, question["id"])).task
        assert user_texts(task) == ["pay", body]


def test_two_tries_of_a_reply_after_one_that_died_are_one_turn(
    once: Once, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both wait for the process that is dead. The one that is faster then claims the turn."""
    monkeypatch.setattr(recovery, "CLAIM_SECONDS", 0.5)
    question = once.send("patient", key="ASK")
    with dying_before_write(4, once.messages.store):
        once.send("", body="Ann" * 200_000, key="DEAD", taskId=question["id"], metadata={})

    def reply(_: int) -> Task:
        return once.send("", body="Bob" * 200_000, key="REPLY", taskId=question["id"], metadata={})

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(reply, range(2))
    assert first == second
    assert first["status"]["state"] == TaskState.COMPLETED


def test_a_task_with_a_reply_that_was_never_claimed_can_be_canceled(once: Once) -> None:
    question = once.send("patient", key="ASK")
    with dying_before_write(3, once.messages.store):
        once.send("", body="Ann" * 5_000, key="REPLY", taskId=question["id"], metadata={})
    canceled = asyncio.run(once.service.cancel(once.namespace, question["id"])).task
    assert canceled["status"]["state"] == TaskState.CANCELED
    assert [message["role"] for message in canceled["history"]] == [Role.USER, Role.AGENT]


@pytest.mark.parametrize("size", [5_000, 1_000_000])
def test_of_large_replies_at_once_one_is_the_reply(
    once: Once, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the one that was faster, instead of starting over. The table takes its time for a large
    item, and little for a small one."""
    question = once.send("patient", key="ASK")
    table, put = once.messages.store._table, once.messages.store._table.put

    def put_slowly(item: dict[str, Any], *condition: Any) -> None:
        if len(item.get("body", {}).get("B", b"")) > 100_000:
            time.sleep(0.03)
        put(item, *condition)

    monkeypatch.setattr(table, "put", put_slowly)
    monkeypatch.setattr(recovery, "CLAIM_SECONDS", 100.0)

    epoch = once.head(question["id"]).with_new_epoch().epoch

    def reply(name: str) -> Task | None:
        with suppress(UnsupportedOperation):
            return once.send("", body=name * size, key=name, taskId=question["id"], metadata={})
        return None

    with ThreadPoolExecutor(4) as pool:
        answers = [answer for answer in pool.map(reply, ("Ann", "Bob", "Cat", "Dan")) if answer is not None]
    [task] = answers
    assert task == asyncio.run(once.service.get(once.namespace, question["id"])).task
    assert user_texts(task) in [["pay", name * size] for name in ("Ann", "Bob", "Cat", "Dan")]
    assert once.head(question["id"]).epoch == epoch, "no one took the turn from a process that was alive"


def _end_lease_while_waited_for(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """A send that waits for another run's turn sees that run's lease end."""

    async def wait(store: Store, head: Head, deadline: float | None) -> Head:
        clock.now += 31
        return await wait_until_stopped(store, head, deadline)

    monkeypatch.setattr("a2a_lambda.operations.messages.wait_until_stopped", wait)


def test_a_reply_without_time_for_its_turn_leaves_the_question(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, reply = once.lose_reply()
    _end_lease_while_waited_for(monkeypatch, clock)
    call, request = once.asked("", **reply)
    call = replace(call, deadline=time.monotonic() + 9)
    task = asyncio.run(once.messages.send(call, request))["task"]
    assert (task["id"], task["status"]["state"]) == (question["id"], TaskState.INPUT_REQUIRED)
    assert once.send("", **reply)["status"]["state"] == TaskState.COMPLETED


def test_a_reply_that_waits_for_a_run_that_dies_starts_its_turn_again(
    once: Once, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came twice, and the process that had it first is gone."""
    question, reply = once.lose_reply()
    _end_lease_while_waited_for(monkeypatch, clock)
    task = once.send("", **reply)
    assert (task["id"], task["status"]["state"]) == (question["id"], TaskState.COMPLETED)


def test_a_reply_that_could_not_be_stored_leaves_the_question(
    once: Once, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = once.send("patient", key="ASK")
    reply = {"body": "Ann" * 5_000, "key": "REPLY", "taskId": question["id"], "metadata": {}}
    with monkeypatch.context() as patch:
        patch.setattr(Store, "append", _does_not_answer)
        with pytest.raises(StoreError):
            once.send("", **reply)
    assert asyncio.run(once.service.get(once.namespace, question["id"])).task == question
    task = once.send("", **reply)
    assert (task["id"], task["status"]["state"]) == (question["id"], TaskState.COMPLETED)


def _does_not_answer(*_: Any, **__: Any) -> int:
    raise StoreError("on purpose")
