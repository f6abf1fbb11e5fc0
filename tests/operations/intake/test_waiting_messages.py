"""A message to a task whose turn runs elsewhere: it waits until that turn asks or ends."""

import asyncio
import uuid
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda.agent.agent import Agent
from a2a_lambda.background.placement import Placement
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.errors import UnsupportedOperation
from a2a_lambda.operations import intake
from a2a_lambda.protocol.model import Part, TaskState, make_status
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.context import Context, Utterance
from a2a_lambda.tasks.execution import StoredWait
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.suspension import new_execution, resumed_head
from a2a_lambda.turns import recovery
from a2a_lambda.turns.claim import Claim
from tests.agent.folders import write
from tests.background.worker_bench import WorkerBench
from tests.operations.intake.senders import Once

CARD = """
name: Shop
description: For a test.
version: 0.1.0
skills:
  - {{ id: order, name: Order, description: Takes an order. }}
"""

CODE = """
@skill
def order(turn):
    count = turn.memory.add("turns")
    return Ask(f"{count}: {', '.join(entry.text for entry in turn.history)}")
"""


@pytest.fixture
def bench(settings: Settings, tmp_path: Path) -> WorkerBench:
    agents = Agents.of(Agent.load(write(tmp_path, CODE, CARD, "probe")))
    return WorkerBench(settings, agents)


def question_of(bench: WorkerBench, task_id: str) -> str:
    status = bench.get(task_id)["status"]
    assert status["state"] == TaskState.INPUT_REQUIRED
    return status["message"]["parts"][0]["text"]


def test_a_retry_that_waited_for_the_turn_before_runs_nothing_again(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the first try has waited, too, and its turn has asked the next question."""
    task_id = bench.send("order")["id"]
    reply = bench.sent("order", taskId=task_id)

    async def wait(store: Store, head: Head, deadline: float | None, **_: Any) -> Head:
        monkeypatch.undo()
        await bench.worker.run_turn(bench.ticket(task_id), None)
        await bench.messages.send(*reply)
        await bench.worker.run_turn(bench.ticket(task_id), None)
        return bench.head(task_id)

    monkeypatch.setattr(intake, "wait_until_stopped", wait)
    answer = asyncio.run(bench.messages.send(*reply))["task"]
    assert (answer["id"], answer["status"]["state"]) == (task_id, TaskState.INPUT_REQUIRED)
    assert question_of(bench, task_id).startswith("2: "), "two turns, and not three"


def test_a_message_that_waited_sees_what_the_turn_before_has_said(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = bench.send("order")["id"]
    call, request = bench.sent("order", taskId=task_id)
    request["configuration"] = {"returnImmediately": False}

    async def wait(store: Store, head: Head, deadline: float | None, **_: Any) -> Head:
        monkeypatch.undo()
        await bench.worker.run_turn(bench.ticket(task_id), None)
        return bench.head(task_id)

    monkeypatch.setattr(intake, "wait_until_stopped", wait)
    asyncio.run(bench.messages.send(call, request))
    assert question_of(bench, task_id) == "2: hi, 1: "


@pytest.mark.parametrize("names_tasks", [True, False])
def test_a_message_waits_for_a_suspended_turn_whose_reply_has_come(
    once: Once, monkeypatch: pytest.MonkeyPatch, names_tasks: bool
) -> None:
    """The turn asks or ends soon."""
    store, head = once.messages.store, once.create_head_elsewhere()
    execution = replace(new_execution("u"), is_suspended=True, wakes=("callback",))
    working = make_status(TaskState.WORKING, store.clock())
    store.update_head(replace(head, place=Place.EXECUTION, execution=execution, status=working))

    async def wait(store: Store, head: Head, deadline: float | None, **_: Any) -> Head:
        return replace(head, status=make_status(TaskState.COMPLETED, store.clock()), execution=None)

    monkeypatch.setattr(intake, "wait_until_stopped", wait)
    monkeypatch.setattr(Placement, "may_suspend", lambda *_: True)
    place: dict[str, Any] = {"taskId": head.task_id} if names_tasks else {"contextId": head.context_id}
    call, request = once.asked("echo", **place)
    with pytest.raises(UnsupportedOperation, match="has ended"):
        asyncio.run(once.messages.send(replace(call, names_tasks=names_tasks), request))


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_timer_that_wakes_the_turn_does_not_take_the_question_from_its_answer(
    once: Once, monkeypatch: pytest.MonkeyPatch, is_answered: bool
) -> None:
    """Another branch of the turn wakes between the read and the write of the answer, which waits until the
    turn is suspended again. If the next question is open by then, the answer is refused."""
    store, head = once.messages.store, once.create_head_elsewhere()
    wait, next_wait = (StoredWait(key, f"callback-{key}", is_question=True) for key in ("city", "nights"))
    execution = replace(new_execution("u"), is_suspended=True, waits=(wait,))
    asking_status = make_status(TaskState.INPUT_REQUIRED, store.clock())
    head = replace(head, place=Place.EXECUTION, execution=execution, status=asking_status)
    asking = store.update_head(head)
    update = store.update_head

    def update_later(head: Head) -> Head:
        monkeypatch.setattr(store, "update_head", update)
        update(resumed_head(asking, "arn", store.clock())[0])
        return update(head)

    async def suspend(store: Store, head: Head, deadline: float | None, **_: Any) -> Head:
        waits = (next_wait,) if is_answered else (wait,)
        again = replace(head, status=asking_status, execution=replace(execution, waits=waits), holder="")
        return store.update_head(replace(again, lease=0.0))

    monkeypatch.setattr(store, "update_head", update_later)
    monkeypatch.setattr(intake, "wait_until_stopped", suspend)
    monkeypatch.setattr(once.messages.placement, "check_executions", lambda _: None)
    call, request = once.asked("echo", taskId=head.task_id)
    refusal = pytest.raises(UnsupportedOperation, match="the question is closed: it was answered")
    with refusal if is_answered else nullcontext():
        asyncio.run(once.messages.intake.start(call, request))
    answered_execution = once.head(head.task_id).execution
    assert answered_execution is not None
    assert answered_execution.wakes == (() if is_answered else ("callback-city",))


def test_a_new_task_sees_what_was_said_while_its_message_waited(
    once: Once, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message was for an open question of a running turn, and that turn has ended."""
    store, head = once.messages.store, once.create_head_elsewhere()
    question = StoredWait("city", "callback", is_question=True)
    execution = replace(new_execution("u"), is_suspended=True, waits=(question,))
    head = replace(head, place=Place.EXECUTION, execution=execution)
    head = replace(head, status=make_status(TaskState.INPUT_REQUIRED, store.clock()))
    running = store.update_head(resumed_head(store.update_head(head), "arn", store.clock())[0])
    store.update_context(
        once.namespace, "c", Context(), lambda context: replace(context, asking_task_id=head.task_id)
    )

    async def end(store: Store, head: Head, deadline: float | None, **_: Any) -> Head:
        context = store.get_context(once.namespace, "c")
        reply = Utterance("agent", [Part(text="booked")], head.task_id)
        store.update_context(once.namespace, "c", context, lambda old: replace(old, conversation=(reply,)))
        status = make_status(TaskState.COMPLETED, store.clock())
        return store.update_head(running.with_closing_status(status, running.sequence))

    monkeypatch.setattr(intake, "wait_until_stopped", end)
    claim = asyncio.run(once.messages.intake.start(*once.asked("echo", contextId="c")))
    assert isinstance(claim, Claim)
    assert claim.head.task_id != head.task_id
    assert [entry.text for entry in claim.turn.history] == ["booked"]


@pytest.mark.parametrize("name", ["taskId", "contextId"])
def test_an_answer_counts_though_the_turn_of_another_one_was_stopped_meanwhile(
    once: Once, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The same question is open again."""
    monkeypatch.setattr(recovery, "CLAIM_SECONDS", 0.5)
    store = once.messages.store
    task = once.send("question", key="ASK", contextId=str(uuid.uuid4()))
    place: dict[str, Any] = {name: {"taskId": task["id"], "contextId": task["contextId"]}[name]}
    update = store.update_head

    def update_later(head: Head) -> Head:
        monkeypatch.setattr(store, "update_head", update)

        async def lose() -> None:
            claim = await once.messages.intake.start(*once.asked("pause", "other", "OTHER", **place))
            assert isinstance(claim, Claim)
            run = once.messages.make_run(claim)
            run.start()
            run.stop("too many")
            async for _ in run.audience.events():
                pass

        asyncio.run(lose())
        return update(head)

    monkeypatch.setattr(store, "update_head", update_later)
    answer = asyncio.run(once.messages.send(*once.asked("question", "yes", "ANSWER", **place)))["task"]
    assert (answer["id"], answer["status"]["state"]) == (task["id"], TaskState.COMPLETED)


@pytest.mark.parametrize("name", ["taskId", "contextId"])
def test_of_two_answers_to_a_question_none_answers_the_next(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A double click sends two messages, which have two ids."""
    task = bench.send("order")
    task_id, place = task["id"], {name: {"taskId": task["id"], "contextId": task["contextId"]}[name]}
    bench.work()
    update = bench.store.update_head

    def update_later(head: Head) -> Head:
        monkeypatch.undo()
        # The calls of the table come from threads, which have no event loop.
        asyncio.run(bench.messages.send(*bench.sent("order", taskId=task_id)))
        bench.work()
        return update(head)

    monkeypatch.setattr(bench.store, "update_head", update_later)
    with pytest.raises(UnsupportedOperation, match="the question is closed: it was answered"):
        bench.send("order", **place)
    assert question_of(bench, task_id).startswith("2: ")
