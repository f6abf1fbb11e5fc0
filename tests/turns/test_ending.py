"""The end of a turn and its memory: both are stored, whatever fails meanwhile."""

import asyncio
import json
import threading
import time
import uuid
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from a2a_lambda.agent.event_builder import FAILED
from a2a_lambda.durable.engine import Suspended
from a2a_lambda.errors import MemoryFull, StoreError
from a2a_lambda.protocol.model import Task, TaskState
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.head import LEASE_SECONDS, Head, Place
from a2a_lambda.tasks.suspension import new_execution
from a2a_lambda.turns import ending, journal, lease, run
from a2a_lambda.turns.claim import Claim
from tests.conftest import replace_in
from tests.helpers.clock import PATIENCE_SECONDS, Clock
from tests.processes.death import die_after_context
from tests.turns.run_bench import RunBench, within

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("error", "text"), [(MemoryFull("full"), "full"), (TypeError("memory['n'] is not a number"), FAILED)]
)
def test_a_memory_that_was_refused_is_not_stored_by_a_retry(
    bench: RunBench, quick: None, monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    """Another turn may have made room meanwhile."""
    change, refusals = Context.after, [True]

    def refuse_once(*args: Any, **kwargs: Any) -> Any:
        if refusals and refusals.pop():
            raise error
        return change(*args, **kwargs)

    monkeypatch.setattr(Context, "after", refuse_once)
    context = str(uuid.uuid4())
    bench.fail_once("head", nth=2)
    task = within(bench.send("look", contextId=context))
    assert task["status"]["state"] == TaskState.FAILED
    assert task["status"]["message"]["parts"] == [{"text": text}]
    assert bench.store.get_context(bench.namespace, context).memory == {}


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("write", ["head", "context", "e#"])
def test_a_write_that_fails_once_is_made_again(bench: RunBench, quick: None, write: str, made: bool) -> None:
    bench.fail_once(write, nth=2 if write == "head" else 1, made=made)
    task = within(bench.send("pieces", slots={"count": "5", "every": "0.2"}, contextId="c"))
    assert task["status"]["state"] == TaskState.COMPLETED
    task_now = within(bench.get(task["id"]))
    assert task_now == task
    assert task_now["artifacts"][0]["parts"] == [{"text": "0 1 2 3 4 "}]
    assert len(bench.store.get_context(bench.namespace, "c").turns) == 1


@pytest.mark.parametrize("outlives_lease", [False, True])
def test_the_end_of_a_turn_is_tried_again_after_a_pause_unless_its_lease_is_over_by_then(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, outlives_lease: bool
) -> None:
    """Many runs may wait for the same throttled table."""
    steps: list[Any] = []
    update_context = bench.store.update_context

    def fail_first(*arguments: Any) -> None:
        steps.append("try")
        if len(steps) == 1:
            raise StoreError("throttled")
        update_context(*arguments)

    async def pause(seconds: float) -> None:
        steps.append("pause")

    replace_in(ending, asyncio, monkeypatch, sleep=pause)
    monkeypatch.setattr(bench.store, "update_context", fail_first)
    if outlives_lease:
        monkeypatch.setattr(ending, "END_RETRY_SECONDS", LEASE_SECONDS)
    with pytest.raises(StoreError) if outlives_lease else nullcontext():
        assert within(bench.send("echo"))["status"]["state"] == TaskState.COMPLETED
    assert steps == (["try"] if outlives_lease else ["try", "pause", "try"])


def test_a_suspension_is_stored_by_the_next_try(
    store: Store, head: Head, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable_head = replace(head, place=Place.EXECUTION, execution=new_execution("https://a.example"))
    durable_head = store.update_head(durable_head)
    update_head, until = store.update_head, store.clock() + 600
    results: list[Any] = [StoreError("throttled")]

    def fail_first(newer: Head) -> Head:
        if results:
            raise results.pop()
        return update_head(newer)

    async def suspend() -> None:
        lease_of_run = lease.Lease(store, durable_head)
        events = journal.Journal(store, lease_of_run, durable_head.sequence)
        claim: Any = SimpleNamespace(question_head=None)
        builder: Any = None
        await ending.Ending(store, claim, lease_of_run, events, builder).suspend(Suspended(until=until))

    monkeypatch.setattr(store, "update_head", fail_first)
    within(suspend())
    stored_head = store.get_head(head.namespace, head.task_id)
    assert stored_head is not None
    assert stored_head.is_suspended
    assert not stored_head.holder
    assert stored_head.execution is not None
    assert stored_head.execution.until == until


def test_a_table_that_stays_away_ends_the_tries_with_the_lease(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, now = list[float](), bench.store.clock

    def fail(*_: Any) -> None:
        tries.append(bench.store.clock())
        raise StoreError("throttled")

    async def pause(_: float) -> None:
        assert len(tries) == 1, "it continues after its lease"
        bench.store.clock = lambda: now() + LEASE_SECONDS

    replace_in(ending, asyncio, monkeypatch, sleep=pause)
    monkeypatch.setattr(bench.store, "update_context", fail)
    with pytest.raises(StoreError, match="throttled"):
        within(bench.send("echo"))
    assert len(tries) == 2


def test_a_turn_that_could_not_begin_can_be_sent_again(bench: RunBench) -> None:
    bench.fail_once("e#")
    with pytest.raises(StoreError):
        within(bench.send("echo", "same", text="y" * 5000))
    task = within(bench.send("echo", "same", text="y" * 5000))
    assert task["status"]["state"] == TaskState.COMPLETED
    assert within(bench.send("echo", "same", text="y" * 5000)) == task


@pytest.mark.parametrize("streamed", [False, True])
def test_a_turn_lost_after_its_context_can_be_sent_again(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    """The context has the request, and its task has no answer to it."""
    context = str(uuid.uuid4())
    bench.store.clock = clock = Clock()
    with monkeypatch.context() as patch:
        die_after_context(patch)
        call, request = bench.sent("look", "same", contextId=context)
        claim = within(bench.messages.intake.start(call, request))

        async def die() -> None:
            dying = bench.messages.make_run(claim)
            dying.start()
            assert [event async for event in dying.audience.events()]

        within(die())
    clock.now += 31
    if streamed:

        async def stream() -> Task:
            events = await bench.messages.stream(*bench.sent("look", "same", contextId=context))
            [*_, (_, last)] = [event async for event in events]
            assert last["statusUpdate"]["status"]["state"] == TaskState.COMPLETED
            return await bench.get(last["statusUpdate"]["taskId"])

        task = within(stream())
    else:
        task = within(bench.send("look", "same", contextId=context))
    assert task["status"]["state"] == TaskState.COMPLETED
    assert task["id"] != claim.head.task_id
    again = within(bench.send("look", "same", contextId=context))
    assert again["id"] == task["id"]


@pytest.mark.parametrize("flush_seconds", [0.0, 1e9], ids=["a write shows it", "no write"])
def test_a_turn_that_was_canceled_unseen_changes_no_memory(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flush_seconds: float
) -> None:
    """It ends before its next look at the head. If it has stored nothing by then, it looks before its end."""
    monkeypatch.setattr(lease, "CANCEL_POLL_SECONDS", 60.0)
    monkeypatch.setattr(lease, "LEASE_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(journal, "FLUSH_SECONDS", flush_seconds)
    context, gate = str(uuid.uuid4()), tmp_path / "gate"

    async def go() -> None:
        call, request = bench.sent("gated", contextId=context, slots={"gate": str(gate)})
        events = await bench.messages.stream(call, request)
        first = await anext(events)
        assert (await bench.cancel(first[1]["task"]["id"]))["status"]["state"] == TaskState.CANCELED
        gate.touch()
        async for _ in events:
            pass

    within(go())
    assert bench.store.get_context(bench.namespace, context).conversation == ()


def test_a_context_knows_which_task_waits_for_its_answer(bench: RunBench) -> None:
    """A message that names only the context is then the answer. The newest question counts."""
    context = str(uuid.uuid4())

    def asking_task() -> str:
        return bench.store.get_context(bench.namespace, context).asking_task_id

    first = within(bench.send("question", contextId=context))
    assert asking_task() == first["id"]
    within(bench.send("echo", contextId=str(uuid.uuid4())))
    assert asking_task() == first["id"]
    again = within(bench.send("question", contextId=context, taskId=first["id"]))
    assert (again["id"], asking_task()) == (first["id"], "")
    second = within(bench.send("question", contextId=context))
    within(bench.send("echo", contextId=context, taskId=second["id"]))
    assert asking_task() == ""


def test_what_a_lost_attempt_left_in_the_context_waits_for_no_answer(bench: RunBench) -> None:
    """It asked, stored the context and died; the second attempt answers."""
    context_id = str(uuid.uuid4())

    async def run_second() -> None:
        claim = await bench.messages.intake.start(*bench.sent("echo", contextId=context_id))
        assert isinstance(claim, Claim)
        claim.turn.attempt = 2
        turn_id, head = claim.turn.id, claim.head
        context = Context(turns=(turn_id,), requests=head.requests[-1:], asking_task_id=head.task_id)
        bench.store.update_context(bench.namespace, context_id, Context(), lambda _: context)
        await bench.messages.make_run(claim).run_to_end()

    within(run_second())
    assert not bench.store.get_context(bench.namespace, context_id).asking_task_id


def test_a_flush_that_has_begun_is_waited_for(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The end of a turn does not store the same events beside it."""
    monkeypatch.setattr(journal, "FLUSH_SECONDS", 0.05)
    monkeypatch.setattr(journal, "SILENT_FLUSH_SECONDS", 0.05)
    gate, puts = tmp_path / "gate", list[str]()

    def slow(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"].startswith("e#"):
            puts.append(arguments["Item"]["sk"]["S"])
            gate.touch()  # the skill ends while this is written
            time.sleep(0.5)

    bench.calls.before = slow
    task = within(bench.send("gated", slots={"gate": str(gate)}))
    assert task["status"]["state"] == TaskState.COMPLETED
    assert task["artifacts"][0]["parts"] == [{"text": "first second"}]
    assert len(puts) == len(set(puts))


def test_no_flush_begins_while_the_end_of_a_turn_is_stored(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would store events that the end stores, too."""
    monkeypatch.setattr(journal, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(journal, "SILENT_FLUSH_SECONDS", 0.05)
    puts: list[str] = []

    def slow(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item":
            puts.append(arguments["Item"]["sk"]["S"])
            if puts.count("head") == 2:
                time.sleep(0.5)
                puts.append("end")

    bench.calls.before = slow
    assert within(bench.send("echo"))["status"]["state"] == TaskState.COMPLETED
    assert puts[-2:] == ["head", "end"]


def test_nothing_is_lost_when_time_ends_in_mid_write(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was being stored at the deadline is sent, and stored, all the same."""

    deadline, puts = time.monotonic() + 5, list[str]()

    def slow(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"].startswith("e#"):
            puts.append(operation)
            if len(puts) == 1:
                time.sleep(max(0.0, deadline - time.monotonic()) + 0.4)

    bench.calls.before = slow
    monkeypatch.setattr(journal, "FLUSH_BYTES", 1)
    monkeypatch.setattr(run, "CLOSING_SECONDS", PATIENCE_SECONDS)
    task = within(bench.send("pieces", deadline=deadline))
    assert task["status"]["state"] == TaskState.FAILED
    assert task["artifacts"][0]["parts"] == [{"text": "0 "}]
    assert within(bench.get(task["id"])) == task


def test_a_table_that_hangs_does_not_hold_an_answer_past_its_time(bench: RunBench) -> None:
    over = threading.Event()

    def hang(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"] == "context":
            over.wait(PATIENCE_SECONDS)

    bench.calls.before = hang

    async def go() -> None:
        start_time = asyncio.get_running_loop().time()
        try:
            with pytest.raises(StoreError, match="in time"):
                await bench.send("pause", deadline=start_time + 0.3, slots={"seconds": "60"})
        finally:
            over.set()

    within(go())


def test_memory_changes_by_its_methods_and_not_at_all_when_the_turn_fails(bench: RunBench) -> None:
    assert within(bench.send("mutate", contextId="c"))["status"]["state"] == TaskState.COMPLETED
    assert (
        within(bench.send("mutate", contextId="c", slots={"fail": "true"}))["status"]["state"]
        == TaskState.FAILED
    )
    task = within(bench.send("mutate", contextId="c"))
    assert task["artifacts"][0]["parts"][0]["data"] == {"list": []}
    assert len(bench.store.get_context(bench.namespace, "c").conversation) == 5


def test_a_context_keeps_within_its_bounds(bench: RunBench) -> None:
    for number in range(25):
        within(bench.send("echo", contextId="c", text=f"{number} " + "x" * 4000))
    conversation = bench.store.get_context(bench.namespace, "c").conversation
    assert len(json.dumps([entry.parts for entry in conversation])) < 70_000
    assert conversation[-1].text.startswith("24 ")
    assert within(bench.send("look", contextId="c"))["status"]["state"] == TaskState.COMPLETED


def test_a_second_attempt_reads_the_context_before_it_ends(bench: RunBench, no_timed_calls: None) -> None:
    """The first one may have changed it, so that a write without a look would fail."""

    async def run_second() -> dict[str, int]:
        claim = await bench.messages.intake.start(*bench.sent("mutate"))
        assert isinstance(claim, Claim)
        claim.turn.attempt = 2
        bench.calls.during()
        await bench.messages.make_run(claim).run_to_end()
        return bench.calls.during()

    assert within(run_second()) == {"get_item": 1, "put_item": 2}


def test_a_first_attempt_reads_no_context_to_end(bench: RunBench, no_timed_calls: None) -> None:
    """The first send loads the agent; the second begins another conversation."""
    within(bench.send("mutate"))
    bench.calls.during()
    within(bench.send("mutate"))
    assert bench.calls.during() == {"put_item": 3}, "the claim, the context and the end"
