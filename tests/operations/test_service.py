"""Tasks that exist: followers and subscriptions, which are shown all of them, and cancels."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import telemetry
from a2a_lambda.errors import (
    StoreError,
    TaskNotCancelable,
    TaskNotFound,
    UnsupportedOperation,
)
from a2a_lambda.kit import Kit
from a2a_lambda.operations import follow, service
from a2a_lambda.protocol.model import Published, TaskState, parts_of_artifacts
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.message_call import MessageCall
from tests.helpers.clock import PATIENCE_SECONDS, until
from tests.turns.run_bench import RunBench, states, within


@pytest.fixture
def bench(kit: Kit, settings: Settings) -> RunBench:
    return RunBench(kit, settings)


def test_a_follower_that_has_the_question_waits_for_more(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its version's subscriptions outlive a question."""
    limit = "a2a_lambda.operations.service.ANSWER_WAIT_SECONDS"
    monkeypatch.setattr(limit, 0.01)
    task = within(bench.send("question"))
    [(sequence, _), *_] = within(bench.follow(task["id"]))
    assert within(bench.follow(task["id"], after=sequence, needs_running=True)) == []

    async def answer() -> list[Published]:
        following = asyncio.create_task(bench.follow(task["id"], after=sequence, needs_running=True))
        await asyncio.sleep(0)
        await bench.send("question", taskId=task["id"])
        return await following

    monkeypatch.setattr(limit, 2 * PATIENCE_SECONDS)
    last = within(answer())[-1][1]
    assert last["statusUpdate"]["status"]["state"] == TaskState.COMPLETED


def test_a_follower_that_lacks_the_question_gets_it_without_a_wait(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets it even where its version's subscriptions wait for an answer."""
    monkeypatch.setattr("a2a_lambda.operations.service.ANSWER_WAIT_SECONDS", 2 * PATIENCE_SECONDS)
    task = within(bench.send("question"))
    events = within(bench.follow(task["id"], after=0, needs_running=True))
    assert states(events)[-1] == TaskState.INPUT_REQUIRED


def test_a_follower_beyond_the_log_gets_the_task(bench: RunBench) -> None:
    task = within(bench.send("echo"))
    events = within(bench.follow(task["id"], after=500))
    assert events[0][1]["task"] == task
    assert states(events) == [TaskState.COMPLETED]


def test_a_follower_beyond_the_log_of_a_running_task_gets_it_at_its_end(bench: RunBench) -> None:
    async def go() -> None:
        call, request = bench.sent("pause", slots={"seconds": "600"})
        task_id = call.identity.task_id()
        async with aclosing(await bench.messages.stream(call, request)) as stream:
            await anext(stream)
            bench.calls.during()
            following = asyncio.ensure_future(bench.follow(task_id, after=500))
            await until(lambda: bench.calls.count["get_item"] >= 2)  # it has looked, and looks again
            assert not following.done()
            await bench.cancel(task_id)
            events_seen = await following
        assert events_seen[0][1]["task"] == await bench.get(task_id)
        assert states(events_seen) == [TaskState.CANCELED]

    within(go())


def test_a_subscription_shows_a_running_task_to_its_end(bench: RunBench, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    async def go() -> None:
        call, request = bench.sent("gated", slots={"gate": str(gate)})
        sending = asyncio.create_task(bench.messages.send(call, request))
        task_id = call.identity.task_id()
        await until(lambda: bench.store.get_head(bench.namespace, task_id) is not None)
        bench.calls.during()
        following = asyncio.ensure_future(bench.follow(task_id))
        await until(lambda: bench.calls.count["get_item"] >= 2)  # it has looked, and looks again
        gate.touch()
        (sequence, first), *later = await following
        assert first["task"]["id"] == task_id
        assert states(later) == [TaskState.COMPLETED]
        assert [number for number, _ in later if number is not None][-1] > (sequence or 0)
        await sending

    within(go())


def test_a_subscription_to_a_task_that_has_ended(bench: RunBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows the task and its end, unless the version refuses it."""
    monkeypatch.setattr("a2a_lambda.operations.service.ANSWER_WAIT_SECONDS", 2 * PATIENCE_SECONDS)
    task = within(bench.send("echo"))
    items = within(bench.follow(task["id"]))
    assert [items[0][1]["task"], states(items)] == [task, [TaskState.COMPLETED]]
    assert states(within(bench.follow(task["id"], after=items[0][0]))) == [TaskState.COMPLETED]
    with pytest.raises(UnsupportedOperation, match="get it instead"):
        within(bench.follow(task["id"], needs_running=True))
    for after in (0, items[0][0]):  # of a client whose connection was lost, and who may have had all
        events = within(bench.follow(task["id"], after=after, needs_running=True))
        assert states(events) == [TaskState.COMPLETED]
    with pytest.raises(TaskNotFound):
        within(bench.follow("unknown"))


def test_a_subscription_ends_at_its_deadline(bench: RunBench) -> None:
    head = bench.run_elsewhere()

    async def go() -> list[Published]:
        soon = time.monotonic() + 2 * follow.FOLLOW_POLL_SECONDS
        subscription = await bench.service.subscribe(bench.namespace, head.task_id, after=None, deadline=soon)
        return [item async for item in subscription.events]

    assert [list(event) for _, event in within(go())] == [["task"]]


def test_a_task_that_has_ended_cannot_be_canceled(bench: RunBench) -> None:
    task = within(bench.send("echo"))
    with pytest.raises(TaskNotCancelable):
        within(bench.cancel(task["id"]))


def test_a_cancel_of_a_task_that_changes_meanwhile(bench: RunBench, monkeypatch: pytest.MonkeyPatch) -> None:
    head = bench.run_elsewhere()
    monkeypatch.setattr(service, "CANCEL_ATTEMPTS", 3)
    changes = 2

    def change(operation: str, arguments: dict[str, Any]) -> None:
        """The run renews its lease between the cancel's read and its write."""
        nonlocal changes
        is_end = operation == "put_item" and "CANCELED" in str(arguments["Item"].get("state"))
        if is_end and changes:
            changes -= 1
            newest = bench.head(head.task_id)
            bench.store.update_head(replace(newest, lease=newest.lease + 1))

    bench.calls.before = change
    assert within(bench.cancel(head.task_id))["status"]["state"] == TaskState.CANCELED
    head, changes = bench.run_elsewhere(), 3
    with pytest.raises(StoreError, match="faster"):
        within(bench.cancel(head.task_id))


def test_the_log_names_the_task_that_a_call_is_about(bench: RunBench) -> None:
    task = within(bench.send("echo"))

    async def read() -> dict[str, str]:
        ids = telemetry.collect()
        await bench.get(task["id"])
        return dict(ids)

    assert within(read()) == {"task_id": task["id"], "context_id": task["contextId"]}


def test_a_canceled_task_is_answered_whole(bench: RunBench) -> None:
    question = within(bench.send("question"))
    canceled = within(bench.cancel(question["id"]))
    assert canceled["status"]["state"] == TaskState.CANCELED
    assert canceled["history"][:1] == question["history"][:1]
    assert within(bench.get(question["id"])) == canceled


def test_a_repeated_stream_of_a_client_without_tasks_shows_its_own_turn(bench: RunBench) -> None:
    """Such a client takes each stream as the answer to its message alone."""

    async def stream(call: MessageCall, request: SendMessageRequest) -> list[str]:
        async with aclosing(await bench.messages.stream(call, request)) as events:
            tasks = [event["task"] async for _, event in events if "task" in event]
        return [part["text"] for task in tasks for part in parts_of_artifacts(task)]

    question = within(bench.send("order", slots={"how": "ask"}))
    call, request = bench.sent("order", slots={"how": "artifact"}, taskId=question["id"])
    within(bench.messages.send(call, request))
    assert within(stream(call, request)) == ["text", "text", "content"]
    assert within(stream(replace(call, names_tasks=False), request)) == ["text", "content"]
