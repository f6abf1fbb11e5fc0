"""The sweep: what it queues again, what it ends, and when it stops."""

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda import telemetry
from a2a_lambda.background import sweep
from a2a_lambda.background.sweep import QUEUED_TURN_SECONDS, REQUEUE_MINUTES
from a2a_lambda.protocol.model import TaskState
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace, TurnReference
from tests.background.worker_bench import WorkerBench
from tests.conftest import replace_in

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(settings: Settings) -> WorkerBench:
    return WorkerBench(settings)


def test_the_sweep_heals_a_crash_between_head_and_queue(bench: WorkerBench) -> None:
    bench.queue.broken = True
    task = bench.send("echo")
    bench.queue.broken = False
    assert bench.queue.waiting == []
    bench.clock.now += 120
    asyncio.run(bench.sweep.run())
    assert bench.ticket(task["id"]) in bench.queue.waiting
    bench.work()
    assert bench.get(task["id"])["status"]["state"] == TaskState.COMPLETED


def test_the_sweep_does_not_grow_a_backlog(bench: WorkerBench) -> None:
    task = bench.send("echo")
    mine = bench.ticket(task["id"])
    bench.clock.now += 120
    for minute in range(REQUEUE_MINUTES):
        asyncio.run(bench.sweep.run())
        assert bench.queue.waiting.count(mine) == 2, minute
        bench.clock.now += 50
    bench.clock.now += 120
    asyncio.run(bench.sweep.run())
    assert bench.queue.waiting.count(mine) == 3
    assert bench.get(task["id"])["status"]["state"] == TaskState.SUBMITTED
    bench.clock.now += QUEUED_TURN_SECONDS
    asyncio.run(bench.sweep.run())
    assert bench.get(task["id"])["status"]["state"] == TaskState.FAILED


def test_a_turn_that_waits_after_a_death_fails_in_time_too(bench: WorkerBench) -> None:
    """SQS has deleted its message by then."""
    task = bench.send("echo")
    bench.died(task["id"])
    bench.clock.now += 90
    for _ in range(10):
        asyncio.run(bench.sweep.run())
        assert bench.get(task["id"])["status"]["state"] == TaskState.SUBMITTED
        bench.clock.now += 0.05 * QUEUED_TURN_SECONDS
    waiting = bench.queue.waiting.count(bench.ticket(task["id"]))
    for _ in range(16):
        bench.clock.now += 0.05 * QUEUED_TURN_SECONDS
        asyncio.run(bench.sweep.run())
    assert bench.queue.waiting.count(bench.ticket(task["id"])) > waiting, "again, before that"
    assert bench.get(task["id"])["status"]["state"] == TaskState.FAILED


def test_sweeps_that_overlap_queue_a_turn_once(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    task = bench.send("echo")
    bench.clock.now += 120
    send = bench.queue.send

    def sweep_meanwhile(turn: TurnReference) -> None:
        monkeypatch.setattr(bench.queue, "send", send)
        thread = threading.Thread(target=lambda: asyncio.run(bench.sweep.run()))
        thread.start()
        thread.join()
        send(turn)

    monkeypatch.setattr(bench.queue, "send", sweep_meanwhile)
    asyncio.run(bench.sweep.run())
    assert bench.queue.waiting.count(bench.ticket(task["id"])) == 2, "of the client, and of one sweep"


def test_a_sweep_that_lasts_long_keeps_the_pause(bench: WorkerBench) -> None:
    """It lists what is due, and comes to a task minutes later."""
    task = bench.send("echo")
    bench.clock.now += 120
    began = int(bench.clock()) // 60
    bench.clock.now += 60 * REQUEUE_MINUTES
    asyncio.run(bench.sweep.look_at(bench.namespace, task["id"], began))
    assert bench.head(task["id"]).due >= int(bench.clock()) // 60 + REQUEUE_MINUTES


def test_a_sweep_ends_in_time(bench: WorkerBench, caplog: pytest.LogCaptureFixture) -> None:
    task = bench.send("echo")
    bench.clock.now += 120
    assert asyncio.run(bench.sweep.run(time.monotonic() - 1)) == 0
    assert bench.queue.waiting.count(bench.ticket(task["id"])) == 1
    assert "left for the next sweep" in caplog.text


def test_a_sweep_says_how_many_tasks_it_leaves(
    bench: WorkerBench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        bench.send("echo")
    bench.clock.now += 120
    due_count = len(bench.store.indexes.list_due(int(bench.clock()) // 60))
    replace_in(sweep, time, monkeypatch, monotonic=iter([0.0, 2.0]).__next__)
    assert asyncio.run(bench.sweep.run(deadline=1.0)) == 1
    assert f"{due_count - 1} due tasks are left for the next sweep" in caplog.text


def test_a_late_sweep_enqueues_nothing_again(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It listed what was due before another looked at it."""
    task = bench.send("echo")
    bench.clock.now += 120
    minute = int(bench.clock()) // 60
    due_tasks = bench.store.indexes.list_due(minute)
    asyncio.run(bench.sweep.run())
    monkeypatch.setattr(bench.store.indexes, "list_due", lambda _: due_tasks)
    asyncio.run(bench.sweep.run())
    assert bench.queue.waiting.count(bench.ticket(task["id"])) == 2


def test_a_task_no_one_can_read_holds_up_no_other(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted, because the sweep's invocation succeeds."""
    measures: list[Mapping[str, float]] = []
    monkeypatch.setattr(telemetry, "sink", lambda values, _: measures.append(values))
    broken, whole = bench.send("echo")["id"], bench.send("echo")["id"]
    bench.clock.now += 120
    read = bench.store.get_head

    def head(namespace: Namespace, task_id: str) -> Head | None:
        if task_id == broken:
            raise KeyError("artifacts")
        return read(namespace, task_id)

    monkeypatch.setattr(
        bench.store.indexes, "list_due", lambda _: [(bench.namespace, broken), (bench.namespace, whole)]
    )
    monkeypatch.setattr(bench.store, "get_head", head)
    asyncio.run(bench.sweep.run())
    assert bench.queue.waiting.count(bench.ticket(whole)) == 2
    assert measures.count({"FailedRecords": 1}) == 1


def test_a_worker_that_dies_after_a_long_wait_is_missed_as_soon_as_any(bench: WorkerBench) -> None:
    task = bench.send("echo")
    for _ in range(60):  # a backlog of an hour
        bench.clock.now += 60
        asyncio.run(bench.sweep.run())
    waiting = bench.queue.waiting.count(bench.ticket(task["id"]))
    assert waiting < 8
    bench.died(task["id"])
    bench.clock.now += 90  # its lease, and the minute in which the sweep comes by
    asyncio.run(bench.sweep.run())
    assert bench.queue.waiting.count(bench.ticket(task["id"])) == waiting + 1


def test_the_sweep_ends_an_inline_turn_that_died(bench: WorkerBench) -> None:
    call, request = bench.sent("echo")
    request["configuration"]["returnImmediately"] = False
    claim: Any = asyncio.run(bench.messages.intake.start(call, request))
    bench.clock.now += 91
    asyncio.run(bench.sweep.run())
    head = bench.head(claim.head.task_id)
    assert head.state == TaskState.FAILED
    assert bench.queue.waiting == []


def test_dead_letters_end_their_tasks(bench: WorkerBench) -> None:
    task = bench.send("echo")
    ticket = bench.ticket(task["id"])
    asyncio.run(bench.worker.fail_turn(ticket))
    assert bench.get(task["id"])["status"]["state"] == TaskState.FAILED
    asyncio.run(bench.worker.fail_turn(ticket))
    asyncio.run(bench.worker.fail_turn(replace(ticket, task_id="nobody's")))
