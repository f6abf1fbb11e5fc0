"""What no agent can do to its process, to the table, or to other turns."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from a2a_lambda import Agent, agent_threads, telemetry
from a2a_lambda.agent import executor
from a2a_lambda.agent.event_builder import FAILED, MAX_ARTIFACTS, EventBuilder
from a2a_lambda.agent.outputs import Batch
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Event, Role, Task, TaskState, text_of
from a2a_lambda.settings import Settings
from a2a_lambda.turns import audience, run
from a2a_lambda.turns.claim import Claim
from a2a_lambda.turns.journal import Journal
from tests.conftest import ROOT, count_running_code
from tests.helpers.clock import until
from tests.turns.run_bench import RunBench, within


@pytest.fixture
def bench(kit: Kit, settings: Settings) -> RunBench:
    return RunBench(kit, settings)


def reason(task: Task) -> str:
    return task["status"]["message"]["parts"][0]["text"]


@pytest.mark.parametrize("how", ["message", "commands"])
def test_a_last_word_larger_than_an_item_fails_at_once(bench: RunBench, how: str) -> None:
    task = within(bench.send("wrong", slots={"how": how}))
    assert task["status"]["state"] == TaskState.FAILED
    assert "256,000 bytes" in reason(task)
    assert within(bench.get(task["id"])) == task
    assert bench.calls.count["put_item"] <= 4


def test_a_command_too_large_for_a_failed_turn_is_left_out() -> None:
    reply = EventBuilder("task", "context")
    reply.build(Batch((_command(),), is_last=False))
    reply.fail("No.")
    assert reply.closing_status is not None
    assert "metadata" not in reply.closing_status["message"]


def _command() -> Any:
    from a2a_lambda import Command

    return Command("beep", words="x" * 500_000)


def refuse_puts(bench: RunBench, key: str) -> list[str]:
    """Let the table refuse items whose sort key begins so, for good; of heads only the second, since the
    first is the claim. Returns the sort keys that were refused."""
    puts, refusals = list[str](), list[str]()

    def refuse(operation: str, arguments: dict[str, Any]) -> None:
        if operation != "put_item" or not (sort_key := arguments["Item"]["sk"]["S"]).startswith(key):
            return
        puts.append(sort_key)
        if key != "head" or len(puts) == 2:
            refusals.append(sort_key)
            raise ClientError({"Error": {"Code": "ValidationException", "Message": "too large"}}, operation)

    bench.calls.before = refuse
    return refusals


@pytest.mark.parametrize("key", ["e#", "context", "head"])
def test_a_write_that_is_refused_ends_the_turn_and_is_not_tried_again(bench: RunBench, key: str) -> None:
    refusals = refuse_puts(bench, key)
    task = within(bench.send("pieces", slots={"count": "3", "every": "0.3"}))
    assert task["status"]["state"] == TaskState.FAILED
    assert reason(task) == FAILED
    assert len(refusals) == 1, "a retry cannot help"
    bench.calls.before = lambda operation, arguments: None
    assert within(bench.get(task["id"]))["status"] == task["status"]


def test_a_client_that_saw_what_could_not_be_stored_gets_the_task_again(bench: RunBench) -> None:
    async def stream() -> list[Event]:
        call, request = bench.sent("pieces", slots={"count": "3", "every": "0.3"})
        return [event async for _, event in await bench.messages.stream(call, request)]

    refuse_puts(bench, "e#")
    events = within(stream())
    texts = [
        text_of(event["artifactUpdate"]["artifact"]["parts"]) for event in events if "artifactUpdate" in event
    ]
    assert any(texts)
    task = events[-2]["task"]
    assert [text_of(artifact["parts"]) for artifact in task["artifacts"]] == [""]
    assert events[-1]["statusUpdate"]["status"] == within(bench.get(task["id"]))["status"]


@pytest.mark.usefixtures("own_agent_threads")
@pytest.mark.parametrize("how", ["exit", "interrupt", "stop"])
def test_an_agent_that_ends_the_loop_fails_alone_with_its_like(bench: RunBench, how: str) -> None:
    """The turns on the loop fail at once, whether a thread waits for them or not; the next has a new one."""

    async def go() -> None:
        beside = [asyncio.create_task(bench.send(skill)) for skill in ("pause", "wait")]
        await until(lambda: count_running_code() == 3)  # "wait" is a plain function, and its awaitable
        task = await bench.send("end-loop", slots={"how": how})
        assert task["status"]["state"] == TaskState.FAILED
        assert reason(task) == FAILED
        for other in await asyncio.gather(*beside):
            assert other["status"]["state"] == TaskState.FAILED
        assert (await bench.send("pieces"))["status"]["state"] == TaskState.COMPLETED

    within(go())


def test_a_process_whose_loop_was_ended_is_replaced() -> None:
    """Lambda's, after the answer is out."""
    code = (
        "import asyncio\n"
        "from a2a_lambda import Agent\n"
        "from a2a_lambda import agent_threads\n"
        f"agent = Agent.load({str(ROOT / 'tests' / 'agents' / 'probe')!r})\n"
        "agent_threads.end_stragglers()\n"
        "try: asyncio.run(agent.run(skill='end-loop', slots={'how': 'exit'}))\n"
        "except RuntimeError as error: print(error, flush=True)\n"
        "agent_threads.end_stragglers()\n"
        "print('still here')"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "layers" / "a2a")}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1, result.stderr
    assert result.stdout == "an agent ended the event loop that asynchronous skills share\n"


@pytest.mark.usefixtures("own_agent_threads")
def test_an_agent_that_breaks_the_loop_for_others_is_noticed(bench: RunBench) -> None:
    """The next turn fails at once, with the reason in the log, and does not wait for its time limit."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no more tasks")

    within(bench.send("pieces"))
    loop = agent_threads.get_agent_loop()
    loop._loop.set_task_factory(refuse)
    task = within(bench.send("pieces"))
    assert (task["status"]["state"], reason(task)) == (TaskState.FAILED, FAILED)
    assert within(bench.send("pieces"))["status"]["state"] == TaskState.COMPLETED, "on a new loop"


def test_a_run_that_was_frozen_before_it_began_does_not_begin(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its successor may have the task."""
    turns: list[Any] = []

    async def perform(_: Any, turn: Any) -> Any:
        turns.append(turn)
        yield Batch(("hi",), is_last=True)

    async def go() -> None:
        call, request = bench.sent("pieces")
        claim = await bench.messages.intake.start(call, request)
        assert isinstance(claim, Claim)
        late = bench.messages.make_run(claim)
        bench.store.clock = lambda: claim.head.lease + 1
        await late.run_to_end()
        assert late.has_diverged

    monkeypatch.setattr(Agent, "perform", perform)
    within(go())
    assert turns == []


@pytest.mark.parametrize("unstorable", ["false", "true"])
def test_a_skill_that_edits_its_message_leaves_the_history_as_it_is(bench: RunBench, unstorable: str) -> None:
    task = within(bench.send("edit", text="as it was said", contextId="c", slots={"unstorable": unstorable}))
    assert task["status"]["state"] == TaskState.COMPLETED
    [entry] = within(bench.get(task["id"]))["history"]
    assert (entry["parts"], entry["role"]) == ([{"text": "as it was said"}], Role.USER)
    assert "seen" not in entry["metadata"]
    context = bench.store.get_context(bench.namespace, "c")
    assert context.conversation[0].parts == [{"text": "as it was said"}], "what the next turn sees of it"


def test_the_time_of_a_run_is_measured(bench: RunBench, monkeypatch: pytest.MonkeyPatch) -> None:
    measures: dict[str, float] = {}
    monkeypatch.setattr(telemetry, "measure", lambda values, **_: measures.update(values))
    within(bench.send("pieces", slots={"count": "2", "every": "0.05"}))
    assert 0.05 <= measures["RunTime"] < 600
    assert 0 <= measures["FirstEventTime"] < 600


def test_ten_thousand_artifacts_take_a_few_writes(bench: RunBench) -> None:
    task = within(bench.send("shelf", slots={"count": str(MAX_ARTIFACTS)}))
    assert task["status"]["state"] == TaskState.COMPLETED
    assert len(within(bench.get(task["id"]))["artifacts"]) == MAX_ARTIFACTS
    assert bench.calls.count["put_item"] <= 20


def test_a_turn_with_too_many_artifacts_fails_with_the_reason(
    bench: RunBench, caplog: pytest.LogCaptureFixture
) -> None:
    task = within(bench.send("shelf", slots={"count": str(MAX_ARTIFACTS + 1)}))
    assert task["status"]["state"] == TaskState.FAILED
    assert reason(task) == "A turn may output at most 10,000 artifacts."
    # Turns of other tests, whose emulator has ended, may still be logged.
    [line] = [record for record in caplog.records if reason(task) in record.getMessage()]
    assert line.exc_info is None
    assert "agent.py" in line.getMessage()


@pytest.mark.parametrize("skill", ["flood", "pour"])
def test_an_endless_agent_whose_client_left_is_stopped(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, skill: str
) -> None:
    monkeypatch.setattr(run, "OUTPUT_BYTES", 300_000)

    async def go() -> None:
        call, request = bench.sent(skill)
        events = await bench.messages.stream(call, request)
        await anext(events)
        await events.aclose()
        await until(lambda: bench.head(call.identity.task_id()).is_stopped)
        await until(lambda: not count_running_code())

    within(go())
    [task_id] = _tasks(bench)
    assert "300,000 bytes" in reason(within(bench.get(task_id)))


def test_a_turn_may_put_out_exactly_the_most_bytes(bench: RunBench, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    add = Journal.add

    def count(journal: Journal, events: Sequence[Event], size: int) -> bool:
        sizes.append(size)
        return add(journal, events, size)

    monkeypatch.setattr(Journal, "add", count)
    assert within(bench.send("echo"))["status"]["state"] == TaskState.COMPLETED
    most = sum(sizes)
    for limit, state in ((most, TaskState.COMPLETED), (most - 1, TaskState.FAILED)):
        monkeypatch.setattr(run, "OUTPUT_BYTES", limit)
        assert within(bench.send("echo"))["status"]["state"] == state


def _tasks(bench: RunBench) -> list[str]:
    from a2a_lambda.store.indexes import TaskQuery

    return [
        task_id for task_id, _ in bench.store.indexes.list_tasks(bench.namespace, TaskQuery(size=10)).tasks
    ]


@pytest.mark.parametrize("skill", ["flood", "pour"])
@pytest.mark.parametrize("slow", ["table", "client"])
def test_an_agent_waits_for_what_is_slower(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, skill: str, slow: str
) -> None:
    """Counted in outputs: what is in memory has a bound, however long it takes."""
    post_count, channels = 0, set[executor._Channel]()
    post = executor._Channel.post

    def count(channel: executor._Channel, item: Any) -> None:
        nonlocal post_count
        post_count += 1
        channels.add(channel)  # also one of an earlier test, whose skill ends only now
        post(channel, item)

    monkeypatch.setattr(executor._Channel, "post", count)
    may_store = asyncio.Event()

    def hold(operation: str, arguments: dict[str, Any]) -> None:
        while slow == "table" and operation == "put_item" and not may_store.is_set():
            if not arguments["Item"]["sk"]["S"].startswith("e#"):
                return
            time.sleep(0.01)

    async def go() -> None:
        call, request = bench.sent(skill)
        bench.calls.before = hold
        events = await bench.messages.stream(call, request)
        await anext(events)
        least = audience.UNREAD_EVENTS if slow == "client" else executor.AHEAD_OUTPUTS
        await until(lambda: post_count >= least and any(channel._is_blocked for channel in channels.copy()))
        assert post_count <= audience.UNREAD_EVENTS + executor.AHEAD_OUTPUTS + 70
        may_store.set()
        await bench.service.cancel(bench.namespace, call.identity.task_id())
        await events.aclose()

    within(go())


@pytest.mark.parametrize("skill", ["return-much", "flood"])
def test_no_output_is_stored_beyond_the_limit(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, skill: str
) -> None:
    monkeypatch.setattr(run, "OUTPUT_BYTES", 100_000)
    task = within(bench.send(skill, slots={"bytes": "30000" if skill == "flood" else "200000"}))
    assert "100,000 bytes" in reason(task)
    texts = [part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"]]
    assert len("".join(texts)) <= 100_000


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_large_outputs_count_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a megabyte, here a hundredth of that: a few of them are in memory, not 64."""
    monkeypatch.setattr(executor, "AHEAD_BYTES", 10_000)
    post = executor._Channel.post
    waiting: list[tuple[int, int]] = []

    def post_noted(channel: executor._Channel, item: Any) -> None:
        post(channel, item)
        (count, size), (taken_count, read) = channel._posted, channel._taken
        waiting.append((count - taken_count, size - read))
        if count == 500:  # only once, because the error is posted, too
            raise RuntimeError("enough")

    monkeypatch.setattr(executor._Channel, "post", post_noted)
    agent = Agent.load(ROOT / "tests" / "agents" / "probe")
    with pytest.raises(RuntimeError, match="enough"):
        asyncio.run(agent.run(skill="flood", slots={"bytes": "3000"}))
    counts, sizes = zip(*waiting, strict=True)
    assert max(sizes) < 15_000
    assert 1 < max(counts) < 6


@pytest.mark.usefixtures("own_agent_threads")
def test_the_cleanup_of_a_generator_that_waited_is_part_of_its_turn(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "OUTPUT_BYTES", 200_000)
    probe = bench.messages.agents.load("probe")
    cleanups = vars(probe.skills["tidy"].function)["cleaned"] = []
    task = within(bench.send("tidy"))
    assert "200,000 bytes" in reason(task)

    async def over() -> None:
        await until(lambda: not count_running_code())

    within(over())
    assert cleanups == ["cleaned"]
