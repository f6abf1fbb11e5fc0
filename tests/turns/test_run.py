"""A turn under a lease: what is promised of it when processes, tables and clients fail."""

import asyncio
import json
import threading
import time
import uuid
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from a2a_lambda import telemetry
from a2a_lambda.agent.event_builder import FAILED, FILE_FAILED, FILE_GONE, EventBuilder
from a2a_lambda.agent.outputs import Batch
from a2a_lambda.catalog.agents import Loading
from a2a_lambda.errors import FileAbsent, FilesUnavailable, MemoryFull, StoreError
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Published, Task, TaskState
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.event_log import Entry
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.turns import ending, journal, lease, run
from a2a_lambda.turns.claim import Claim
from tests.helpers.clock import Clock
from tests.processes.death import die_after_context
from tests.turns.run_bench import PATIENCE, RunBench, until, within

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(kit: Kit, settings: Settings) -> RunBench:
    return RunBench(kit, settings)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases and looks at the head ten times as fast."""
    for module, name in (
        (lease, "LEASE_RENEWAL_SECONDS"),
        (lease, "CANCEL_POLL_SECONDS"),
        (ending, "END_RETRY_SECONDS"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name) / 20)


def states(published: list[Published]) -> list[str]:
    return [event["statusUpdate"]["status"]["state"] for _, event in published if "statusUpdate" in event]


def test_a_cancel_ends_every_stream_with_its_status(bench: RunBench) -> None:
    """Also if events are stored already, so that the log is longer than the head says."""

    async def go() -> None:
        events = await bench.messages.stream(*bench.sent("pause"))
        seen: list[Published] = []

        async def read() -> None:
            async for published in events:
                seen.append(published)

        reading = asyncio.create_task(read())
        await until(lambda: len(seen) == 2)
        task_id = seen[0][1]["task"]["id"]
        await until(lambda: len(bench.store.get_events(bench.head(task_id))) == 2)
        following = asyncio.create_task(bench.follow(task_id))
        await asyncio.sleep(0)
        await bench.cancel(task_id)
        await reading
        assert states(seen) == states(await following) == [TaskState.CANCELED]
        assert states(await bench.follow(task_id, after=1)) == [TaskState.CANCELED]

    within(go())


@pytest.mark.parametrize("read", [0, 1, 2])
def test_a_turn_continues_when_no_one_listens(bench: RunBench, read: int) -> None:
    async def go() -> None:
        call, sent = bench.sent("pieces", slots={"every": "0.05"})
        events = await bench.messages.stream(call, sent)
        for _ in range(read):
            await anext(events)
        await events.aclose()
        task_id = call.request.task_id()
        await until(lambda: bench.head(task_id).is_stopped)
        assert (await bench.get(task_id))["status"]["state"] == TaskState.COMPLETED

    within(go())


def test_a_lease_is_renewed(bench: RunBench, quick: None) -> None:
    async def go() -> None:
        call, sent = bench.sent("block", slots={"seconds": "1.5"})
        sending = asyncio.create_task(bench.messages.send(call, sent))
        await until(lambda: bool(bench.calls.count["put_item"]))
        lease = bench.head(call.request.task_id()).lease
        await until(lambda: bench.head(call.request.task_id()).lease > lease)
        assert (await sending)["task"]["status"]["state"] == TaskState.COMPLETED

    within(go())


def test_a_lease_is_renewed_while_the_context_is_stored(bench: RunBench, quick: None) -> None:
    """The table may be slow. Without a lease, another process would end the task."""
    renewed: list[bool] = []

    def wait_for_renewal(operation: str, arguments: Any) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"] == "context":
            task_id = call.request.task_id()
            lease, give_up = bench.head(task_id).lease, time.monotonic() + PATIENCE
            while bench.head(task_id).lease <= lease and time.monotonic() < give_up:
                time.sleep(0.02)
            renewed.append(time.monotonic() < give_up)

    call, sent = bench.sent("block", slots={"seconds": "0.1"}, contextId=str(uuid.uuid4()))
    bench.calls.before = wait_for_renewal
    task = within(bench.messages.send(call, sent))["task"]
    assert renewed == [True]
    assert task["status"]["state"] == bench.head(task["id"]).state == TaskState.COMPLETED


def test_a_memory_that_was_refused_is_not_stored_by_a_retry(
    bench: RunBench, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another turn may have made room meanwhile."""
    change, refused = Context.after, [True]

    def refuse_once(*args: Any, **kwargs: Any) -> Any:
        if refused and refused.pop():
            raise MemoryFull("full")
        return change(*args, **kwargs)

    monkeypatch.setattr(Context, "after", refuse_once)
    context = str(uuid.uuid4())
    bench.fail_once("head", nth=2)
    task = within(bench.send("look", contextId=context))
    assert task["status"]["state"] == TaskState.FAILED
    assert bench.store.get_context(bench.scope, context).memory == {}


@pytest.mark.parametrize("made", [False, True])
def test_a_renewal_whose_answer_is_lost_costs_nothing(bench: RunBench, quick: None, made: bool) -> None:
    bench.fail_once("head", nth=2, made=made)
    task = within(bench.send("block", slots={"seconds": "1.5"}))
    assert task["status"]["state"] == TaskState.COMPLETED
    assert bench.head(task["id"]).state == TaskState.COMPLETED


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("write", ["head", "context", "e#"])
def test_a_write_that_fails_once_is_made_again(bench: RunBench, quick: None, write: str, made: bool) -> None:
    bench.fail_once(write, nth=2 if write == "head" else 1, made=made)
    task = within(bench.send("pieces", slots={"count": "5", "every": "0.2"}, contextId="c"))
    assert task["status"]["state"] == TaskState.COMPLETED
    stored = within(bench.get(task["id"]))
    assert stored == task
    assert stored["artifacts"][0]["parts"] == [{"text": "0 1 2 3 4 "}]
    assert len(bench.store.get_context(bench.scope, "c").turns) == 1


def test_a_pause_precedes_the_next_try_to_store_the_end_of_a_turn(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
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
        steps.append(seconds)

    monkeypatch.setattr(ending, "asyncio", SimpleNamespace(sleep=pause))
    monkeypatch.setattr(bench.store, "update_context", fail_first)
    assert within(bench.send("echo"))["status"]["state"] == TaskState.COMPLETED
    assert steps == ["try", ending.END_RETRY_SECONDS, "try"]


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
            dying = run.Run(bench.store, bench.messages.agents.start("probe"), claim)
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


@pytest.mark.parametrize("flush_seconds", [journal.FLUSH_SECONDS, 1e9], ids=["a write shows it", "no write"])
def test_a_turn_that_was_canceled_unseen_changes_no_memory(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, flush_seconds: float
) -> None:
    """It ends before its next look at the head. If it has stored nothing by then, it looks before its end."""
    monkeypatch.setattr(lease, "CANCEL_POLL_SECONDS", 60.0)
    monkeypatch.setattr(lease, "LEASE_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(journal, "FLUSH_SECONDS", flush_seconds)
    context = str(uuid.uuid4())

    async def go() -> None:
        call, request = bench.sent("pause", contextId=context, slots={"seconds": "0.5"})
        events = await bench.messages.stream(call, request)
        first = await anext(events)
        assert (await bench.cancel(first[1]["task"]["id"]))["status"]["state"] == TaskState.CANCELED
        async for _ in events:
            pass

    within(go())
    assert bench.store.get_context(bench.scope, context).conversation == ()


def test_a_context_knows_which_task_waits_for_its_answer(bench: RunBench) -> None:
    """So a message that names only the context is the answer. The newest question counts."""
    context = str(uuid.uuid4())

    def waiting() -> str:
        return bench.store.get_context(bench.scope, context).waiting

    first = within(bench.send("question", contextId=context))
    assert waiting() == first["id"]
    within(bench.send("echo", contextId=str(uuid.uuid4())))
    assert waiting() == first["id"]
    again = within(bench.send("question", contextId=context, taskId=first["id"]))
    assert (again["id"], waiting()) == (first["id"], "")
    second = within(bench.send("question", contextId=context))
    within(bench.send("echo", contextId=context, taskId=second["id"]))
    assert waiting() == ""


def test_a_flush_that_has_begun_is_waited_for(bench: RunBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a turn does not store the same events beside it."""
    monkeypatch.setattr(journal, "FLUSH_SECONDS", 0.05)
    monkeypatch.setattr(journal, "SILENT_FLUSH_SECONDS", 0.05)
    is_writing, puts = threading.Event(), []

    def slow(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"].startswith("e#"):
            puts.append(arguments["Item"]["sk"]["S"])
            is_writing.set()
            time.sleep(0.5)

    bench.calls.before = slow
    task = within(bench.send("pause", slots={"seconds": "0.3"}))
    assert is_writing.is_set()
    assert task["status"]["state"] == TaskState.COMPLETED
    assert task["artifacts"][0]["parts"] == [{"text": "waiting done"}]
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
        stopped = run.Run(bench.store, bench.messages.agents.start("probe"), claim)
        stopped.start()
        events = stopped.audience.events()
        await anext(events)
        stopped.stop("too many")
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
    assert len(bench.store.get_context(bench.scope, context).conversation) == (2 if answers else 0)


def test_a_half_made_cancel_is_made_whole(bench: RunBench) -> None:
    task = within(bench.send("question"))
    bench.fail_once("head")
    with pytest.raises(StoreError):
        within(bench.cancel(task["id"]))
    canceled = within(bench.cancel(task["id"]))
    assert canceled["status"]["state"] == TaskState.CANCELED
    assert len(canceled["history"]) == 2


@pytest.mark.parametrize("then", ["cancel", "answer"])
def test_a_seal_that_was_overtaken_by_a_question_blocks_nothing(bench: RunBench, then: str) -> None:
    """Its entry stands where the question's status has to go."""
    asked = within(bench.send("question", slots={"length": "10000"}))
    head = bench.head(asked["id"])
    sealed = Entry(head.sequence, head.epoch + 1, b"{}")
    bench.store._append(head, sealed, over=head.epoch)
    if then == "cancel":
        task = within(bench.cancel(asked["id"]))
        assert task["status"]["state"] == TaskState.CANCELED
        assert len(task["history"]) == 2
    else:
        task = within(bench.send("question", taskId=asked["id"], text="y" * 10_000))
        assert task["status"]["state"] == TaskState.COMPLETED
        assert len(task["history"]) == 3
    assert within(bench.get(asked["id"])) == task


def test_nothing_is_lost_when_time_ends_in_mid_write(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was being stored at the deadline is sent, and stored, all the same."""

    stored: list[str] = []

    def slow(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"].startswith("e#"):
            stored.append(operation)
            time.sleep(0.8 if len(stored) == 1 else 0)

    bench.calls.before = slow
    monkeypatch.setattr(journal, "FLUSH_BYTES", 1)

    async def go() -> Task:
        deadline = asyncio.get_running_loop().time() + 0.4
        return await bench.send("pieces", deadline=deadline)

    task = within(go())
    assert task["status"]["state"] == TaskState.FAILED
    assert task["artifacts"][0]["parts"] == [{"text": "0 "}]
    assert within(bench.get(task["id"])) == task


def test_a_table_that_hangs_does_not_hold_an_answer_past_its_time(bench: RunBench) -> None:
    over = threading.Event()

    def hang(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"] == "context":
            over.wait(PATIENCE)

    bench.calls.before = hang

    async def go() -> None:
        begun = asyncio.get_running_loop().time()
        try:
            with pytest.raises(StoreError, match="in time"):
                await bench.send("pause", deadline=begun + 0.3, slots={"seconds": "60"})
        finally:
            over.set()

    within(go())


def test_a_long_answer_to_a_long_question_is_read_as_working(bench: RunBench) -> None:
    async def go() -> None:
        asked = await bench.send("question")
        options: dict[str, Any] = {"slots": {"seconds": "1"}, "taskId": asked["id"], "text": "y" * 5000}
        answering = asyncio.create_task(bench.send("pause", **options))
        await until(lambda: not bench.head(asked["id"]).is_stopped)
        assert (await bench.get(asked["id"]))["status"]["state"] == TaskState.WORKING
        followed = await bench.follow(asked["id"], after=1)
        assert states(followed) == [TaskState.INPUT_REQUIRED, TaskState.COMPLETED]
        done = await answering
        assert len(done["history"]) == 3
        assert await bench.get(asked["id"]) == done

    within(go())


@pytest.mark.parametrize(
    "how",
    [
        "metadata",
        "memory",
        "surrogate",
        "deep",
        "known",
        "command",
        "words",
        "half",
        "slots",
        "exit",
        "cancel",
    ],
)
def test_what_no_event_can_carry_fails_the_turn(bench: RunBench, how: str) -> None:
    task = within(bench.send("wrong", slots={"how": how}))
    assert task["status"]["state"] == TaskState.FAILED
    assert within(bench.get(task["id"])) == task
    assert "artifacts" not in task
    json.dumps(task)


def test_a_run_whose_lease_is_over_stores_nothing_more(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own clock stops it: someone else may hold the task. The message is run anew."""

    async def go() -> None:
        monkeypatch.setattr(lease, "CANCEL_POLL_SECONDS", 30.0)
        call, sent = bench.sent("pause", slots={"seconds": "0.6"})
        sending = asyncio.create_task(bench.messages.send(call, sent))
        await until(lambda: bool(bench.calls.count["put_item"]))
        real = bench.store.clock
        monkeypatch.setattr(bench.store, "clock", lambda: real() + 31)
        task = (await sending)["task"]
        first = bench.head(call.request.task_id())
        assert (first.state, first.is_lost) == (TaskState.FAILED, True)
        assert "done" not in json.dumps(bench.store.get_events(first))
        assert task["id"] != first.task_id
        assert task["status"]["state"] == TaskState.COMPLETED

    within(go())


def test_outputs_of_nothing_weigh_nothing() -> None:
    """A skill may yield None as often as it likes. The journal waits for room if too much is pending."""
    builder = EventBuilder("task", "context")
    assert builder.build(Batch((), last=False)) == []
    assert builder.size_bytes == 0
    assert builder.build(Batch(("text",), last=False))
    assert builder.size_bytes > 4


def test_a_reason_no_status_can_carry_is_a_neutral_one() -> None:
    for text in ("\ud800", "x" * 100_000):
        reply = EventBuilder("task", "context")
        reply.fail(text)
        assert reply.closing is not None
        assert reply.closing["message"]["parts"] == [{"text": FAILED}]


def test_a_question_too_long_for_a_status_fails_in_words(bench: RunBench) -> None:
    task = within(bench.send("wrong", slots={"how": "long"}))
    assert task["status"]["state"] == TaskState.FAILED
    assert "at most" in task["status"]["message"]["parts"][0]["text"]


def test_a_slot_as_long_as_a_book_is_asked_for_again(bench: RunBench) -> None:
    task = within(bench.send("add", slots={"a": "x" * 500_000}))
    assert task["status"]["state"] == TaskState.INPUT_REQUIRED
    assert len(json.dumps(task["status"])) < 1000


@pytest.mark.parametrize("skill", ["pause", "block"])
def test_a_turn_ends_at_its_deadline(bench: RunBench, caplog: pytest.LogCaptureFixture, skill: str) -> None:
    async def go() -> Task:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        task = await bench.send(skill, deadline=begun + 0.5, slots={"seconds": "60"})
        assert loop.time() - begun < 50, "before the skill's own end"
        return task

    task = within(go())
    assert task["status"]["state"] == TaskState.FAILED
    assert "time" in task["status"]["message"]["parts"][0]["text"]
    assert f"skill {skill} ran out of time" in caplog.text
    assert task["artifacts"][0]["parts"] == [{"text": "waiting "}]


def test_memory_changes_by_its_methods_and_not_at_all_when_the_turn_fails(bench: RunBench) -> None:
    assert within(bench.send("mutate", contextId="c"))["status"]["state"] == TaskState.COMPLETED
    assert (
        within(bench.send("mutate", contextId="c", slots={"fail": "true"}))["status"]["state"]
        == TaskState.FAILED
    )
    task = within(bench.send("mutate", contextId="c"))
    assert task["artifacts"][0]["parts"][0]["data"] == {"list": []}
    assert len(bench.store.get_context(bench.scope, "c").conversation) == 5


def test_a_context_keeps_within_its_bounds(bench: RunBench) -> None:
    for number in range(25):
        within(bench.send("echo", contextId="c", text=f"{number} " + "x" * 4000))
    conversation = bench.store.get_context(bench.scope, "c").conversation
    assert len(json.dumps([said.parts for said in conversation])) < 70_000
    assert conversation[-1].text.startswith("24 ")
    assert within(bench.send("look", contextId="c"))["status"]["state"] == TaskState.COMPLETED


@pytest.mark.parametrize("breaks", [False, True])
def test_a_turn_waits_for_the_import_of_its_agent(bench: RunBench, breaks: bool) -> None:
    """Under its lease, so that its client hears of it, and no one else takes it."""

    async def go() -> Task:
        call, request = bench.sent("echo", text="hello")
        claim = await bench.messages.intake.start(call, request)
        assert isinstance(claim, Claim)
        loading: Loading = Future()
        run_ = run.Run(bench.store, loading, claim)
        run_.start()
        first = asyncio.ensure_future(anext(run_.audience.events()))
        done, _ = await asyncio.wait({first}, timeout=0.3)
        assert not done, "nothing has happened yet"
        assert bench.head(claim.head.task_id).state == TaskState.WORKING
        loading.set_result("the agent is broken" if breaks else bench.messages.agents.start("probe").result())
        await first
        await until(lambda: bench.head(claim.head.task_id).is_stopped)
        return await bench.get(claim.head.task_id)

    task = within(go())
    assert task["status"]["state"] == (TaskState.FAILED if breaks else TaskState.COMPLETED)
    if breaks:
        assert task["status"]["message"]["parts"] == [{"text": "the agent is broken"}]


def test_what_is_shown_before_it_is_stored_has_no_number(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that comes back names the last number that it has, and must not miss what has none."""
    monkeypatch.setattr(journal, "FLUSH_SECONDS", 1e9)

    async def go() -> list[Published]:
        call, request = bench.sent("pieces", slots={"count": "3"})
        return [item async for item in await bench.messages.stream(call, request)]

    shown = within(go())
    assert [number for number, event in shown if "artifactUpdate" in event][:-1] == [None, None]
    assert shown[-1][0] is not None


def test_what_could_not_be_stored_has_no_number(bench: RunBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the number of the event before it, a client that comes back would get it twice."""
    monkeypatch.setattr(journal, "FLUSH_SECONDS", 0.0)
    bench.fail_once("e#", nth=2)

    async def go() -> list[Published]:
        call, request = bench.sent("pieces", slots={"count": "4", "every": "0.1"})
        return [item async for item in await bench.messages.stream(call, request)]

    numbers = [number for number, event in within(go()) if "artifactUpdate" in event]
    assert numbers[0] is not None
    assert numbers[1] is None
    stored = [number for number in numbers if number is not None]
    assert stored == sorted(set(stored))


def test_a_first_attempt_reads_no_context_to_end(bench: RunBench) -> None:
    """The first send loads the agent; the second begins another conversation."""
    within(bench.send("mutate"))
    bench.calls.during()
    within(bench.send("mutate"))
    counts = bench.calls.during()
    assert counts == {"put_item": 3}, "the claim, the context and the end"


def test_what_failed_is_told_as_far_as_a_client_may_know_it(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that is gone, and a bucket that does not answer, have sentences of their own."""
    for error, text in ((FileAbsent("key"), FILE_GONE), (FilesUnavailable("key"), FILE_FAILED)):

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("a2a_lambda.agent.files.sent.store", fail)
        task = within(bench.send("echo"))
        assert task["status"]["state"] == TaskState.FAILED
        assert task["status"]["message"]["parts"] == [{"text": text}]
    assert "skill echo failed" in caplog.text


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


@pytest.mark.parametrize(
    ("skill", "outcome"), [("echo", "completed"), ("boom", "failed"), ("refuse", "rejected")]
)
def test_a_turn_is_counted_with_its_outcome_and_its_times(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, skill: str, outcome: str
) -> None:
    measures: list[Any] = []
    monkeypatch.setattr(telemetry, "sink", lambda values, dimensions: measures.append((values, dimensions)))
    within(bench.send(skill))
    [dimensions] = [dimensions for values, dimensions in measures if values == {"Turns": 1}]
    assert dimensions.items() >= {"agent": "probe", "outcome": outcome}.items()
    [times] = [values for values, _ in measures if "RunTime" in values]
    assert times["FirstEventTime"] > 0
    assert 0 < times["RunTime"] < PATIENCE


def test_no_client_waits_for_the_first_event_of_a_turn_that_runs_elsewhere(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    measures: list[Any] = []
    monkeypatch.setattr(telemetry, "sink", lambda values, _: measures.append(values))

    async def go() -> None:
        claim = await bench.messages.start(*bench.sent("echo"))
        assert isinstance(claim, Claim)
        elsewhere = replace(claim, head=replace(claim.head, place=Place.WORKER))
        await bench.messages.make_run(elsewhere).run_to_end()

    within(go())
    [times] = [values for values in measures if "RunTime" in values]
    assert times.keys() == {"RunTime"}


@pytest.mark.parametrize(("count", "is_hinted_at"), [("0", True), ("1", False)])
def test_the_author_of_a_skill_that_says_nothing_gets_a_hint(
    bench: RunBench, caplog: pytest.LogCaptureFixture, *, count: str, is_hinted_at: bool
) -> None:
    with caplog.at_level("INFO", logger="a2a_lambda.hints"):
        within(bench.send("pieces", slots={"count": count}))
    assert ("skill pieces returned nothing" in caplog.text) == is_hinted_at
