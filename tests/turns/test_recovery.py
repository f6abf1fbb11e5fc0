"""A task whose run died, as any process finds it."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda import telemetry
from a2a_lambda.errors import TaskNotFound
from a2a_lambda.protocol.model import Message, Role, TaskState, agent_message, make_status
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.head import LEASE_SECONDS, Head, Pending, Place
from a2a_lambda.turns.recovery import (
    LOST,
    end_task,
    load_live_head,
    load_progress,
    lost_status,
    wait_for_claim,
)
from tests.helpers.clock import Clock


def test_a_task_is_lost_when_its_lease_is_over(store: Store, head: Head, clock: Clock) -> None:
    assert asyncio.run(load_live_head(store, head.namespace, head.task_id)).is_held_by(head)
    assert not head.has_died(head.lease - 0.001)
    clock.now = head.lease
    head_at_end = asyncio.run(load_live_head(store, head.namespace, head.task_id))
    assert head_at_end.state == TaskState.FAILED
    assert head_at_end.is_lost
    assert not head_at_end.message_only
    assert head_at_end.status["message"]["parts"] == [{"text": LOST}]
    again = asyncio.run(load_live_head(store, head.namespace, head.task_id))
    assert (again.status, again.version) == (head_at_end.status, head_at_end.version)


def test_a_turn_that_runs_elsewhere_is_not_lost(store: Store, head: Head, clock: Clock) -> None:
    clock.now = head.lease + 60
    assert not replace(head, place=Place.WORKER).has_died(clock.now)


def test_a_follower_sees_the_end_of_a_run_that_died(store: Store, head: Head, clock: Clock) -> None:
    newer, events = asyncio.run(load_progress(store, head, after=0))
    assert (newer.version, events) == (head.version, [])
    clock.now = head.lease + 1
    newer, _ = asyncio.run(load_progress(store, head, after=0))
    assert newer.state == TaskState.FAILED


def test_a_message_that_is_written_ahead_has_time_to_be_claimed(store: Store, head: Head) -> None:
    """It has as long as the request that waits for it."""

    async def wait(seconds: float) -> Head:
        claim = asyncio.create_task(asyncio.to_thread(store.update_head, head))
        newer = await wait_for_claim(store, head, time.monotonic() + seconds)
        assert (await claim).version == newer.version
        return newer

    assert asyncio.run(wait(60)).version == head.version + 1
    with pytest.raises(Conflict):
        asyncio.run(wait_for_claim(store, head, time.monotonic()))


def test_a_follower_of_a_task_that_has_expired_is_told(store: Store, head: Head, clock: Clock) -> None:
    clock.now = head.expires + 1
    with pytest.raises(TaskNotFound):
        asyncio.run(load_progress(store, head, after=0))


@pytest.mark.parametrize("text", ["Which?", pytest.param("?" * 250_000, id="too large for the head")])
def test_the_question_of_a_task_that_is_ended_stays_in_its_history(
    store: Store, head: Head, text: str
) -> None:
    question = agent_message(head.task_id, "c", [{"text": text}])
    asking_head = store.update_head(
        head.with_closing_status(make_status(TaskState.INPUT_REQUIRED, store.clock(), question), 0)
    )
    result = asyncio.run(end_task(store, asking_head, lost_status(store, asking_head, "given up")))
    task, sequence = store.get_task(result)
    assert task["status"]["message"]["parts"] == [{"text": "given up"}]
    assert [message["parts"] for message in task["history"]] == [[{"text": text}]]
    assert sequence == result.sequence == 2


def test_the_log_of_a_lost_turn_names_its_task(
    store: Store, head: Head, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """No other line of the request, which may list many tasks, names it."""
    clock.now += LEASE_SECONDS + 1
    asyncio.run(load_live_head(store, head.namespace, head.task_id))
    [record] = [record for record in caplog.records if "is lost" in record.message]
    assert record.__dict__["task_id"] == head.task_id


def test_a_reply_whose_run_died_gives_its_question_back(store: Store, head: Head, clock: Clock) -> None:
    """The task has again what it was about to do, and is the open question of its conversation."""
    pending = Pending(skill="book", slots={}, asks="city")
    question = make_status(
        TaskState.INPUT_REQUIRED, store.clock(), agent_message(head.task_id, "c", [{"text": "?"}])
    )
    asking = store.update_head(head.with_closing_status(question, 0, pending))
    base = asking.with_new_epoch()
    reply = Message(messageId="m", role=Role.USER, parts=[{"text": "Rome"}])
    running, _ = (
        replace(base, reopened_at=base.committed + 1)
        .with_holder(store.clock())
        .with_events([asking.closing_event(), {"message": reply}])
    )
    store.update_head(running)
    clock.now = running.lease + 1
    again = asyncio.run(load_live_head(store, head.namespace, head.task_id))
    assert (again.state, again.status["message"]) == (TaskState.INPUT_REQUIRED, question["message"])
    assert again.pending == pending
    assert store.get_context(head.namespace, "c").asking_task_id == head.task_id


def test_a_reply_whose_question_is_not_in_the_log_fails(store: Store, head: Head, clock: Clock) -> None:
    """The table may have been restored from a backup. The task can be read all the same."""
    running = replace(head.with_holder(store.clock()), reopened_at=1, sequence=2, committed=2)
    store.update_head(running)
    clock.now = running.lease + 1
    head_at_end = asyncio.run(load_live_head(store, head.namespace, head.task_id))
    assert (head_at_end.state, head_at_end.requests) == (TaskState.FAILED, ())


def test_a_first_turn_whose_run_died_is_no_open_question(store: Store, head: Head, clock: Clock) -> None:
    store.update_head(replace(head, pending=Pending(skill="book", slots={}, asks=None)))
    clock.now = head.lease + 1
    head_at_end = asyncio.run(load_live_head(store, head.namespace, head.task_id))
    assert (head_at_end.state, head_at_end.pending) == (TaskState.FAILED, None)
    assert store.get_context(head.namespace, "c").asking_task_id == ""


def test_a_run_that_is_faster_than_the_end_of_its_task_wins(store: Store, head: Head) -> None:
    store.update_head(head)
    with pytest.raises(Conflict):
        asyncio.run(end_task(store, head, lost_status(store, head)))


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Values and dimensions of what is measured."""
    pairs: list[Any] = []
    monkeypatch.setattr(telemetry, "sink", lambda values, dimensions: pairs.append((values, dimensions)))
    return pairs


def test_a_lost_turn_is_counted_as_failed(
    store: Store, head: Head, clock: Clock, measurements: list[Any]
) -> None:
    clock.now = head.lease + 1
    asyncio.run(load_live_head(store, head.namespace, head.task_id))
    assert ({"Turns": 1}, {"agent": head.namespace.agent, "outcome": "failed"}) in measurements


def test_a_turn_that_is_ended_from_outside_is_counted(
    store: Store, head: Head, measurements: list[Any]
) -> None:
    """A question that is taken back is not: its turn was counted when it asked."""

    def counts() -> list[Any]:
        return [dimensions for values, dimensions in measurements if values == {"Turns": 1}]

    canceled = make_status(TaskState.CANCELED, store.clock())
    asyncio.run(end_task(store, head, canceled))
    [dimensions] = counts()
    assert dimensions.items() >= {"agent": head.namespace.agent, "outcome": "canceled"}.items()
    head_at_end = store.get_head(head.namespace, head.task_id)
    assert head_at_end is not None
    asking = store.update_head(
        replace(head_at_end, status=make_status(TaskState.INPUT_REQUIRED, store.clock()))
    )
    asyncio.run(end_task(store, asking, canceled))
    assert len(counts()) == 1
