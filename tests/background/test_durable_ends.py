"""How durable turns end when something goes wrong: canceled, never started, their function or execution
gone."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import telemetry
from a2a_lambda.aws import clients
from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.background.execution_worker import RUN_ATTEMPTS
from a2a_lambda.background.sweep import Sweep
from a2a_lambda.durable.engine import OperationKeys
from a2a_lambda.errors import (
    StoreError,
    Unavailable,
    UnsupportedOperation,
)
from a2a_lambda.files.files import Files
from a2a_lambda.operations.messages import Messages
from a2a_lambda.protocol.model import Event, TaskState
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Conflict
from a2a_lambda.tasks.execution import Execution
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.suspension import LATE_SECONDS, execution_of
from tests.background.durable_bench import (
    DurableBench,
    no_engine,
    text_of,
    texts,
    unreachable,
)
from tests.background.fake_queue import FakeQueue
from tests.conftest import DAY
from tests.helpers.clock import wait_until
from tools.erasure import main as erase
from tools.erasure.erasure import Erasure, Selection


def test_a_canceled_turn_that_is_suspended_never_continues(bench: DurableBench) -> None:
    task = bench.send("Oslo")
    question = bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    execution = bench.head(task["id"]).execution
    assert execution is not None
    canceled = asyncio.run(bench.service.cancel(bench.namespace, task["id"])).task
    assert canceled["status"]["state"] == TaskState.CANCELED
    assert not bench.executions.is_running(execution.arn)
    with pytest.raises(UnsupportedOperation):
        bench.send("yes", taskId=question["id"])
    assert bench.calls == {"plan": 1}


@pytest.mark.parametrize("skill", ["pay", "ask"])
@pytest.mark.parametrize("outcome", ["canceled", "failed"])
def test_a_turn_that_ends_while_it_waits_is_counted(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch, skill: str, outcome: str
) -> None:
    """A turn whose question is open, which the client sees as stopped, is counted, too."""
    outcomes: list[str] = []

    def count(values: dict[str, float], dimensions: dict[str, str]) -> None:
        if "Turns" in values:
            outcomes.append(dimensions["outcome"])

    task_id = bench.send(skill=skill)["id"]
    bench.wait_until_open(task_id)
    monkeypatch.setattr(telemetry, "sink", count)
    if outcome == "canceled":
        asyncio.run(bench.service.cancel(bench.namespace, task_id))
    else:
        arn = execution_of(bench.head(task_id)).arn
        bench.executions.stop(arn)
        asyncio.run(bench.sweep_all.end_execution(arn))
    assert outcomes == [outcome]


def test_a_cancel_reaches_the_code_of_a_turn_that_runs(bench: DurableBench) -> None:
    task = bench.send(skill="stall")
    bench.wait(task["id"], lambda _: bool(bench.calls["stall"]))
    asyncio.run(bench.service.cancel(bench.namespace, task["id"]))
    wait_until(lambda: bench.calls["stalled"])


def test_a_turn_is_started_once(bench: DurableBench) -> None:
    task = bench.send(skill="pay")
    head = bench.wait_until_open(task["id"]) and bench.head(task["id"])
    arn = bench.executions.start(head.turn_reference)
    assert head.execution is not None
    assert arn == head.execution.arn
    # An execution that is not the turn's finds nothing to do.
    asyncio.run(bench.execution_worker.run(head.turn_reference, "arn:another", no_engine, None))
    assert bench.head(task["id"]) == head


def test_a_message_whose_execution_was_not_started_is_started_by_the_sweep(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.executions, "start", unreachable)
    task = bench.send(skill="nap")
    monkeypatch.undo()
    assert bench.get(task["id"])["status"]["state"] == TaskState.SUBMITTED
    bench.sweep(task["id"])
    assert bench.wait_for(task["id"], TaskState.COMPLETED)


def test_a_reply_whose_turn_was_not_woken_is_delivered_by_the_sweep(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    monkeypatch.setattr(bench.executions, "wake", unreachable)
    bench.send("Oslo", taskId=task["id"])
    monkeypatch.undo()
    assert bench.get(task["id"])["status"]["state"] == TaskState.WORKING
    bench.sweep(task["id"])
    assert bench.wait(task["id"], lambda head: "nights" in json.dumps(head.status))


def sweep_without_function(bench: DurableBench, task_id: str, until: float) -> Execution:
    """A sweep of a release without durable skills; returns the execution that it looked at. until: Unix time
    at which the turn's pause ends."""
    head = bench.head(task_id)
    execution = replace(execution_of(head), until=until)
    bench.store.update_head(replace(head, due=0, execution=execution))
    sweep = Sweep(bench.store, Dispatcher(FakeQueue()))
    asyncio.run(sweep.look_at(bench.namespace, task_id, int(bench.store.clock()) // 60))
    return execution


@pytest.mark.parametrize("skill", ["pay", "ask"])
def test_a_turn_whose_function_was_removed_fails(bench: DurableBench, skill: str) -> None:
    """ExecutionTimeout became 0, or its function was deleted by hand: the task does not work for ever."""
    task = bench.send(skill=skill)
    bench.wait_until_open(task["id"])
    execution = sweep_without_function(bench, task["id"], until=bench.store.clock() - LATE_SECONDS)
    assert bench.get(task["id"])["status"]["state"] == TaskState.FAILED
    assert bench.head(task["id"]).execution is None
    bench.executions.stop(execution.arn)


def test_a_rollback_to_a_release_without_durable_skills_harms_no_turn(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function is still there, and ends pauses. A reply is refused, because nothing could wake it."""
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    execution = sweep_without_function(bench, task["id"], until=bench.store.clock())  # its pause ends now
    assert bench.head(task["id"]).execution == execution
    old_release = Messages(
        bench.store, bench.agents, dispatcher=Dispatcher(FakeQueue()), repeat_seconds=60, files=Files()
    )
    with monkeypatch.context() as patch:
        patch.setattr(bench, "messages", old_release)
        with pytest.raises(Unavailable):
            bench.send("Oslo", taskId=task["id"])
    bench.send("Oslo", taskId=task["id"])
    assert bench.wait(task["id"], lambda head: "nights" in json.dumps(head.status))


def test_a_turn_whose_execution_is_gone_fails(bench: DurableBench) -> None:
    task = bench.send(skill="pay")
    bench.wait_until_open(task["id"])
    execution = bench.head(task["id"]).execution
    assert execution is not None
    bench.sweep(task["id"])
    assert bench.get(task["id"])["status"]["state"] == TaskState.WORKING  # it only waits
    bench.executions.stop(execution.arn)
    bench.sweep(task["id"])
    assert bench.get(task["id"])["status"]["state"] == TaskState.FAILED


def test_a_stopped_execution_ends_its_task_even_if_it_asked(bench: DurableBench) -> None:
    """AWS reports the end of an execution as an event."""
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    assert head.execution is not None
    bench.executions.stop(head.execution.arn)
    asyncio.run(bench.sweep_all.end_execution(head.execution.arn))
    failed = bench.get(task["id"])
    assert failed["status"]["state"] == TaskState.FAILED
    assert [text_of(each) for each in failed["history"]] == ["", "Which city?"]


def test_the_task_outlives_its_longest_wait(bench: DurableBench) -> None:
    task = bench.send(skill="pay")
    head = bench.wait_until_open(task["id"]) and bench.head(task["id"])
    assert head.expires - head.created == pytest.approx(60 * DAY, abs=2)


def test_a_deployment_without_durable_functions_says_so(bench: DurableBench) -> None:
    bench.messages = Messages(bench.store, bench.agents, repeat_seconds=60, files=Files())
    with pytest.raises(Unavailable, match="does not run this agent's long tasks"):
        bench.send("Oslo")
    assert texts(bench.send("hi", "now")) == {"": "at once: hi"}


def test_a_task_of_a_process_that_dies_each_time_fails(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = bench.send(skill="pay")
    bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    bench.store.update_head(replace(head, attempts=RUN_ATTEMPTS))
    assert head.execution is not None
    claim = bench.execution_worker.run(head.turn_reference, head.execution.arn, no_engine, None)
    asyncio.run(claim)
    failed = bench.get(task["id"])
    assert text_of(failed["status"]["message"]) == "This turn could not be run to its end."


def test_a_cancel_reaches_parallel_steps(bench: DurableBench) -> None:
    task = bench.send(skill="crowd")
    bench.wait(task["id"], lambda _: bench.calls["stall"] == 2)
    asyncio.run(bench.service.cancel(bench.namespace, task["id"]))
    wait_until(lambda: bench.calls["stalled"] == 2)


def test_a_question_whose_execution_is_gone_fails_by_the_sweep(bench: DurableBench) -> None:
    """The event that says so may be lost."""
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    assert head.execution is not None
    bench.executions.stop(head.execution.arn)
    bench.store.update_head(replace(head, due=int(bench.store.clock()) // 60))
    asyncio.run(bench.sweep_all.run())
    assert bench.get(task["id"])["status"]["state"] == TaskState.FAILED


def test_an_execution_that_ended_before_its_first_run_ends_its_task(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.execution_worker, "run", unreachable)
    monkeypatch.setattr(bench.executions, "is_running", lambda _: False)
    task = bench.send(skill="nap")
    bench.sweep(task["id"])
    assert bench.get(task["id"])["status"]["state"] == TaskState.FAILED


def test_a_run_that_loses_its_lease_is_made_again(bench: DurableBench) -> None:
    """Otherwise, its execution would end, and its task would not."""
    task = bench.send(skill="pay")
    bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    assert head.execution is not None

    def steal(*_: Any) -> Any:
        head_under_lease = bench.head(task["id"])
        bench.store.update_head(replace(head_under_lease, holder="another"))
        raise Conflict

    with pytest.raises(StoreError, match="lost its task"):
        asyncio.run(bench.execution_worker.run(head.turn_reference, head.execution.arn, Thief(steal), None))


def test_a_task_that_changes_while_its_context_is_stored_is_taken_again(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, run = bench.store.append, bench.execution_worker.run
    refused_heads: list[Head] = []
    errors: list[BaseException] = []

    def refuse_once(head: Head, events: list[Event], *, after: int) -> int:
        if not refused_heads and "context" in events[0]:
            refused_heads.append(head)
            raise Conflict
        return append(head, events, after=after)

    async def run_and_note(*arguments: Any) -> None:
        try:
            await run(*arguments)
        except Conflict as error:
            errors.append(error)
            raise

    monkeypatch.setattr(bench.store, "append", refuse_once)
    monkeypatch.setattr(bench.execution_worker, "run", run_and_note)
    task = bench.send(skill="nap")
    assert bench.wait_for(task["id"], TaskState.COMPLETED)
    assert refused_heads
    assert not errors


def test_an_erased_task_leaves_no_execution(
    bench: DurableBench, durable_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep what its steps returned until its wait ends, and no one could find it again."""
    monkeypatch.chdir(tmp_path)
    task = bench.send("Oslo")
    assert bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    arn = execution_of(bench.head(task["id"])).arn
    assert bench.executions.is_running(arn)
    s3 = clients.s3(durable_settings)
    erasure = Erasure(bench.table, durable_settings.table, s3, "", bench.executions)
    erase.run(erasure, Selection(bench.namespace.owner), ["traveler"], lambda *_: None)
    assert erasure.counts.tasks == 1
    assert not bench.executions.is_running(arn)


def test_an_execution_that_starts_while_its_task_is_erased_is_stopped(
    bench: DurableBench, durable_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page of the table that the erasure has read does not name it yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench.executions, "start", lambda turn: "")
    task = bench.send("Oslo")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)

    class LateScan:
        def __getattr__(self, name: str) -> Any:
            return getattr(bench.table, name)

        def scan(self, **query: Any) -> Any:
            page = bench.table.scan(**query)
            bench.sweep(task["id"])
            bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
            return page

    arns: list[str] = []
    stop = bench.executions.stop

    def stop_known(arn: str) -> None:
        arns.append(arn)
        stop(arn)

    monkeypatch.setattr(bench.executions, "stop", stop_known)
    table: Any = LateScan()
    s3 = clients.s3(durable_settings)
    erasure = Erasure(table, durable_settings.table, s3, "", bench.executions)
    erase.run(erasure, Selection(bench.namespace.owner), ["traveler"], lambda *_: None)
    [arn] = arns
    assert not bench.executions.is_running(arn)


def test_an_execution_of_a_function_that_was_removed_ends_in_silence(bench: DurableBench) -> None:
    queue = FakeQueue()
    asyncio.run(Sweep(bench.store, Dispatcher(queue)).end_execution("arn:of:an:execution"))
    assert queue.waiting == []


class Thief:
    """An engine whose wait is when the run loses its task."""

    keys = OperationKeys()
    suspension = None

    def __init__(self, steal: Callable[[], Any]) -> None:
        self._steal = steal

    def __call__(self, _: Any, url: Callable[[str], str]) -> Any:
        self.callback_url = url  # the same as before: the turn puts it out
        return self

    def observe(self, _: Any) -> None:
        """It says nothing."""

    async def wait_for(self, _: Any) -> Any:
        self._steal()
