"""Runs that are canceled or stopped, or lose their lease."""

import asyncio
import json
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import telemetry
from a2a_lambda.errors import StoreError
from a2a_lambda.protocol.model import Published, Task, TaskState, make_status
from a2a_lambda.settings import Settings
from a2a_lambda.store import items
from a2a_lambda.tasks.event_log import Entry
from a2a_lambda.tasks.head import Head
from a2a_lambda.turns import lease, run
from a2a_lambda.turns.claim import Claim
from tests.helpers.clock import PATIENCE_SECONDS, until
from tests.turns.run_bench import RunBench, states, within

pytestmark = pytest.mark.slow


def test_a_cancel_ends_every_stream_with_its_status(bench: RunBench) -> None:
    """Events may be stored already, so that the log is longer than the head says."""

    async def go() -> None:
        events = await bench.messages.stream(*bench.sent("pause"))
        published_items: list[Published] = []

        async def read() -> None:
            async for item in events:
                published_items.append(item)

        reading = asyncio.create_task(read())
        await until(lambda: len(published_items) == 2)
        task_id = published_items[0][1]["task"]["id"]
        await until(lambda: len(bench.store.get_events(bench.head(task_id))) == 2)
        following = asyncio.create_task(bench.follow(task_id))
        await asyncio.sleep(0)
        await bench.cancel(task_id)
        await reading
        assert states(published_items) == states(await following) == [TaskState.CANCELED]
        assert states(await bench.follow(task_id, after=1)) == [TaskState.CANCELED]

    within(go())


def test_a_turn_that_is_canceled_while_its_end_is_stored_answers_as_canceled(bench: RunBench) -> None:
    call, request = bench.sent("echo")

    def cancel(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and "COMPLETED" in str(arguments["Item"].get("state")):
            bench.calls.before = lambda operation, arguments: None
            canceled_status = make_status(TaskState.CANCELED, bench.store.clock())
            bench.store.seal(bench.head(call.identity.task_id()), canceled_status)

    bench.calls.before = cancel
    task = within(bench.messages.send(call, request))["task"]
    assert task["status"]["state"] == TaskState.CANCELED


def test_the_turns_of_one_event_loop_are_stopped(bench: RunBench) -> None:
    """Those of others continue. A turn fails with the reason, unless it ends by itself in time."""

    async def start(seconds: str) -> "tuple[asyncio.Task[Task], str]":
        identity = str(uuid.uuid4())
        sending = asyncio.create_task(bench.send("pause", identity, slots={"seconds": seconds}))
        task_id = bench.sent("pause", identity)[0].identity.task_id()
        await until(lambda: bench.store.get_head(bench.namespace, task_id) is not None)
        return sending, task_id

    def reason_of(task: Task) -> str:
        assert task["status"]["state"] == TaskState.FAILED
        return task["status"]["message"]["parts"][0]["text"]

    async def go() -> None:
        other, other_id = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(start("60"), other_loop))
        (long, long_id), (short, _) = await start("60"), await start("0.1")
        await run.stop_turns("edited", after=5)
        assert bench.head(long_id).is_stopped
        await run.stop_turns("edited", after=0)  # no turn of this loop is left
        assert (await short)["status"]["state"] == TaskState.COMPLETED
        assert reason_of(await long) == "edited"
        assert not bench.head(other_id).is_stopped
        stopping = asyncio.run_coroutine_threadsafe(run.stop_turns("ended", after=0), other_loop)
        await asyncio.wrap_future(stopping)
        await until(other.done)
        assert reason_of(other.result()) == "ended"

    other_loop = asyncio.new_event_loop()
    thread = threading.Thread(target=other_loop.run_forever, daemon=True)
    thread.start()
    try:
        within(go())
    finally:
        other_loop.call_soon_threadsafe(other_loop.stop)
        thread.join()
        other_loop.close()


def test_a_lease_is_renewed(bench: RunBench, quick: None, tmp_path: Path) -> None:
    async def go() -> None:
        call, request = bench.sent("block", slots={"gate": str(tmp_path / "gate")})
        sending = asyncio.create_task(bench.messages.send(call, request))
        await until(lambda: bench.store.get_head(bench.namespace, call.identity.task_id()))
        lease = bench.head(call.identity.task_id()).lease
        await until(lambda: bench.head(call.identity.task_id()).lease > lease)
        (tmp_path / "gate").touch()
        assert (await sending)["task"]["status"]["state"] == TaskState.COMPLETED

    within(go())


def test_a_lease_is_renewed_while_the_context_is_stored(bench: RunBench, quick: None) -> None:
    """The table may be slow. Without a lease, another process would end the task."""
    renewals: list[bool] = []

    def wait_for_renewal(operation: str, arguments: Any) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"] == "context":
            task_id = call.identity.task_id()
            lease, give_up_at = bench.head(task_id).lease, time.monotonic() + PATIENCE_SECONDS
            while bench.head(task_id).lease <= lease and time.monotonic() < give_up_at:
                time.sleep(0.02)
            renewals.append(time.monotonic() < give_up_at)

    call, request = bench.sent("block", slots={"seconds": "0.1"}, contextId=str(uuid.uuid4()))
    bench.calls.before = wait_for_renewal
    task = within(bench.messages.send(call, request))["task"]
    assert renewals == [True]
    assert task["status"]["state"] == bench.head(task["id"]).state == TaskState.COMPLETED


@pytest.mark.parametrize("made", [False, True])
def test_a_renewal_whose_answer_is_lost_costs_nothing(
    bench: RunBench, quick: None, tmp_path: Path, made: bool
) -> None:
    head_puts = bench.fail_once("head", nth=2, made=made)

    async def go() -> Task:
        sending = asyncio.create_task(bench.send("block", slots={"gate": str(tmp_path / "gate")}))
        await until(lambda: len(head_puts) >= 2)
        (tmp_path / "gate").touch()
        return await sending

    task = within(go())
    assert task["status"]["state"] == TaskState.COMPLETED
    assert bench.head(task["id"]).state == TaskState.COMPLETED


@pytest.mark.parametrize("answers", [False, True])
def test_a_turn_that_is_stopped_says_why_and_can_be_made_again(bench: RunBench, answers: bool) -> None:
    """The question that it was to answer waits for its answer again."""
    context = str(uuid.uuid4())

    async def go() -> tuple[Task, Task]:
        fields: dict[str, Any] = {"contextId": context}
        if answers:
            fields["taskId"] = (await bench.send("question", contextId=context))["id"]
        call, request = bench.sent("pause", "same", slots={"seconds": "60"}, **fields)
        claim = await bench.messages.intake.start(call, request)
        assert isinstance(claim, Claim)
        new_run = bench.messages.make_run(claim)
        new_run.start()
        events = new_run.audience.events()
        await anext(events)
        new_run.stop("too many")
        new_run.stop("later")  # the first reason counts
        async for _ in events:
            pass
        task = await bench.get(claim.head.task_id)
        again = await bench.messages.intake.start(call, request)
        assert isinstance(again, Claim), "it is no repetition: nothing has answered it"
        return task, await bench.cancel(again.head.task_id)

    task, canceled = within(go())
    assert canceled["status"]["state"] == TaskState.CANCELED
    if answers:
        assert task["status"]["state"] == TaskState.INPUT_REQUIRED
        assert canceled["id"] == task["id"]
    else:
        assert task["status"]["state"] == TaskState.FAILED
        assert task["status"]["message"]["parts"] == [{"text": "too many"}]
    assert len(bench.store.get_context(bench.namespace, context).conversation) == (2 if answers else 0)


def test_a_run_that_was_stopped_before_it_began_runs_no_skill(bench: RunBench) -> None:
    async def go() -> Task:
        claim = await bench.messages.intake.start(*bench.sent("pieces"))
        assert isinstance(claim, Claim)
        new_run = bench.messages.make_run(claim)
        new_run.start()
        new_run.stop("too many")
        async for _ in new_run.audience.events():
            pass
        return await bench.get(claim.head.task_id)

    task = within(go())
    assert task["status"]["state"] == TaskState.FAILED
    assert task["status"]["message"]["parts"] == [{"text": "too many"}]
    assert "artifacts" not in task


def test_a_half_made_cancel_is_made_whole(bench: RunBench) -> None:
    task = within(bench.send("question"))
    bench.fail_once("head")
    with pytest.raises(StoreError):
        within(bench.cancel(task["id"]))
    canceled = within(bench.cancel(task["id"]))
    assert canceled["status"]["state"] == TaskState.CANCELED
    assert len(canceled["history"]) == 2


@pytest.mark.parametrize("then", ["cancel", "answer"])
def test_a_seal_that_was_overtaken_by_a_question_blocks_nothing(
    bench: RunBench, settings: Settings, then: str
) -> None:
    """Its entry stands where the question's status has to go."""
    question = within(bench.send("question", slots={"length": "10000"}))
    head = bench.head(question["id"])
    seal = items.from_entry(head, Entry(head.sequence, head.epoch + 1, b"{}"))
    bench.calls.put_item(TableName=settings.table, Item=seal)
    if then == "cancel":
        task = within(bench.cancel(question["id"]))
        assert task["status"]["state"] == TaskState.CANCELED
        assert len(task["history"]) == 2
    else:
        task = within(bench.send("question", taskId=question["id"], text="y" * 10_000))
        assert task["status"]["state"] == TaskState.COMPLETED
        assert len(task["history"]) == 3
    assert within(bench.get(question["id"])) == task


def test_a_run_whose_lease_is_over_stores_nothing_more(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own clock stops it: someone else may hold the task. The message is run anew."""

    async def go() -> None:
        monkeypatch.setattr(lease, "CANCEL_POLL_SECONDS", 30.0)
        call, request = bench.sent("pause", slots={"seconds": "0.6"})
        sending = asyncio.create_task(bench.messages.send(call, request))
        await until(lambda: bool(bench.calls.count["put_item"]))
        real = bench.store.clock
        monkeypatch.setattr(bench.store, "clock", lambda: real() + 31)
        task = (await sending)["task"]
        first = bench.head(call.identity.task_id())
        assert (first.state, first.is_lost) == (TaskState.FAILED, True)
        assert "done" not in json.dumps(bench.store.get_events(first))
        assert task["id"] != first.task_id
        assert task["status"]["state"] == TaskState.COMPLETED

    within(go())


def test_a_run_whose_renewal_fails_gives_its_task_up(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing more is stored, and the client gets the task as the table has it."""

    async def fail(_: object) -> None:
        raise RuntimeError("a fault of the kit's own")

    measures: list[Any] = []
    monkeypatch.setattr(telemetry, "sink", lambda values, _: measures.append(values))
    monkeypatch.setattr("a2a_lambda.turns.lease.Lease.renew_until_lost", fail)
    call, request = bench.sent("pause", deadline=time.monotonic() + 2)
    task = within(bench.messages.send(call, request))["task"]
    assert task["status"]["state"] == TaskState.WORKING
    assert "was given up" in caplog.text
    assert "a fault of the kit's own" in caplog.text
    assert {"Turns": 1} not in measures, "who ends the task counts its turn"


def test_a_run_that_is_stopped_before_it_starts_runs_no_code(bench: RunBench) -> None:
    async def go() -> Head:
        claim = await bench.messages.start(*bench.sent("boom"))
        assert isinstance(claim, Claim)
        run = bench.messages.make_run(claim)
        run.stop("Not now.")
        await run.run_to_end()
        run.stop("too late")
        return run.head

    head = within(go())
    assert (head.state, head.requests) == (TaskState.FAILED, ())
    assert head.status["message"]["parts"] == [{"text": "Not now."}]
