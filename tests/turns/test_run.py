"""A turn's run: what its clients and its log see."""

import asyncio
import json
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import telemetry
from a2a_lambda.agent.agent import Agent
from a2a_lambda.agent.event_builder import FAILED, FILE_FAILED, FILE_GONE, EventBuilder
from a2a_lambda.agent.outputs import Batch, Command, File, Structured
from a2a_lambda.catalog.agents import AgentImport
from a2a_lambda.durable.engine import OpenWait, Suspended, Wait
from a2a_lambda.errors import AgentMistake, FileAbsent, FilesUnavailable, SkillError
from a2a_lambda.files.files import Files
from a2a_lambda.protocol.model import Message, Part, Published, Role, Task, TaskState, make_status
from a2a_lambda.tasks.head import Place
from a2a_lambda.tasks.suspension import new_execution
from a2a_lambda.turns import journal, run
from a2a_lambda.turns.claim import Claim
from tests.helpers.clock import PATIENCE_SECONDS, until
from tests.turns.run_bench import RunBench, states, within

pytestmark = pytest.mark.slow


def test_a_status_that_comes_back_has_no_command_of_the_turn() -> None:
    builder = EventBuilder("task", "context")
    builder.build(Batch((Command("beep"),), is_last=False))
    question = Message(messageId="q", role=Role.AGENT, parts=[Part(text="Which?")])
    builder.restore(make_status(TaskState.INPUT_REQUIRED, 0, question))
    assert builder.closing_status is not None
    assert "metadata" not in builder.closing_status["message"]


@pytest.mark.parametrize("read", [0, 1, 2])
def test_a_turn_continues_when_no_one_listens(bench: RunBench, read: int) -> None:
    async def go() -> None:
        call, request = bench.sent("pieces", slots={"every": "0.05"})
        events = await bench.messages.stream(call, request)
        for _ in range(read):
            await anext(events)
        await events.aclose()
        task_id = call.identity.task_id()
        await until(lambda: bench.head(task_id).is_stopped)
        assert (await bench.get(task_id))["status"]["state"] == TaskState.COMPLETED

    within(go())


def test_a_long_answer_to_a_long_question_is_read_as_working(bench: RunBench, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    async def go() -> None:
        question = await bench.send("question")
        options: dict[str, Any] = {"slots": {"gate": str(gate)}, "taskId": question["id"], "text": "y" * 5000}
        answering = asyncio.create_task(bench.send("gated", **options))
        await until(lambda: not bench.head(question["id"]).is_stopped)
        assert (await bench.get(question["id"]))["status"]["state"] == TaskState.WORKING
        gate.touch()
        follow_events = await bench.follow(question["id"], after=1)
        assert states(follow_events) == [TaskState.INPUT_REQUIRED, TaskState.COMPLETED]
        task_at_end = await answering
        assert len(task_at_end["history"]) == 3
        assert await bench.get(question["id"]) == task_at_end

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


def test_an_answer_whose_turn_fails_leaves_no_question_open(bench: RunBench) -> None:
    question = within(bench.send("question"))
    answer = within(bench.send("boom", taskId=question["id"]))
    assert (answer["id"], answer["status"]["state"]) == (question["id"], TaskState.FAILED)


def test_outputs_of_nothing_weigh_nothing() -> None:
    """A skill may yield None as often as it likes. The journal waits for room if too much is pending."""
    builder = EventBuilder("task", "context")
    assert builder.build(Batch((), is_last=False)) == []
    assert builder.size_bytes == 0
    assert builder.build(Batch(("text",), is_last=False))
    assert builder.size_bytes > 4


@pytest.mark.parametrize(
    ("batches", "end"),
    [
        ([("text",)], [{"text": ""}]),
        ([(File("a", b"1"),)], []),
        ([(File("a", b"1"),), ("text",)], [{"text": ""}]),
        ([("text",), (File("a", b"1"), Structured(float("nan")))], [{"text": ""}]),
    ],
)
def test_an_artifact_whose_end_was_not_known_ends_as_it_is(batches: Any, end: Any) -> None:
    """It ends with an empty text if it ends in text. A batch that cannot be sent changes nothing."""
    builder = EventBuilder("task", "context")
    for outputs in batches:
        with suppress(AgentMistake):
            builder.build(Batch(outputs, is_last=False))
    [closing] = builder.build(Batch((), is_last=True))
    assert closing["artifactUpdate"]["lastChunk"]
    assert closing["artifactUpdate"]["artifact"]["parts"] == end


def test_a_reason_no_status_can_carry_is_a_neutral_one() -> None:
    for text in ("\ud800", "x" * 100_000):
        reply = EventBuilder("task", "context")
        reply.fail(text)
        assert reply.closing_status is not None
        assert reply.closing_status["message"]["parts"] == [{"text": FAILED}]


def test_a_question_too_long_for_a_status_fails_in_words(bench: RunBench) -> None:
    task = within(bench.send("wrong", slots={"how": "long"}))
    assert task["status"]["state"] == TaskState.FAILED
    assert "at most" in task["status"]["message"]["parts"][0]["text"]


def test_a_slot_as_long_as_a_book_is_asked_for_again(bench: RunBench) -> None:
    task = within(bench.send("add", slots={"a": "x" * 500_000}))
    assert task["status"]["state"] == TaskState.INPUT_REQUIRED
    assert len(json.dumps(task["status"])) < 1000


@pytest.mark.parametrize("skill", ["pause", "block"])
def test_a_turn_ends_at_its_deadline(
    bench: RunBench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, skill: str
) -> None:
    monkeypatch.setattr(run, "CLOSING_SECONDS", PATIENCE_SECONDS)

    async def go() -> Task:
        loop = asyncio.get_running_loop()
        start_time = loop.time()
        task = await bench.send(skill, deadline=start_time + 2, slots={"seconds": "60"})
        assert loop.time() - start_time < 50, "before the skill's own end"
        return task

    task = within(go())
    assert task["status"]["state"] == TaskState.FAILED
    assert "time" in task["status"]["message"]["parts"][0]["text"]
    assert f"skill {skill} ran out of time" in caplog.text
    assert task["artifacts"][0]["parts"] == [{"text": "waiting "}]


@pytest.mark.parametrize("breaks", [False, True])
def test_a_turn_waits_for_the_import_of_its_agent(
    bench: RunBench, caplog: pytest.LogCaptureFixture, breaks: bool
) -> None:
    """It holds its lease, so that its client hears of it, and no one else takes it."""

    async def go() -> Task:
        call, request = bench.sent("echo", text="hello")
        claim = await bench.messages.intake.start(call, request)
        assert isinstance(claim, Claim)
        agent_import: AgentImport = Future()
        run_ = run.Run(bench.store, agent_import, claim, files=Files())
        run_.start()
        first = asyncio.ensure_future(anext(run_.audience.events()))
        done, _ = await asyncio.wait({first}, timeout=0.3)
        assert not done, "nothing has happened yet"
        assert bench.head(claim.head.task_id).state == TaskState.WORKING
        agent_import.set_result(
            "the agent is broken" if breaks else bench.messages.agents.start("probe").result()
        )
        await first
        await until(lambda: bench.head(claim.head.task_id).is_stopped)
        return await bench.get(claim.head.task_id)

    task = within(go())
    assert task["status"]["state"] == (TaskState.FAILED if breaks else TaskState.COMPLETED)
    if breaks:
        assert task["status"]["message"]["parts"] == [{"text": "the agent is broken"}]
    assert ("the agent is broken" in caplog.messages) == breaks, "the operator hears of it, too"


def test_what_is_shown_before_it_is_stored_has_no_number(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that comes back names the last number that it has, and must not miss what has none."""
    monkeypatch.setattr(journal, "FLUSH_SECONDS", 1e9)

    async def go() -> list[Published]:
        call, request = bench.sent("pieces", slots={"count": "3"})
        return [item async for item in await bench.messages.stream(call, request)]

    shown_events = within(go())
    assert [number for number, event in shown_events if "artifactUpdate" in event][:-1] == [None, None]
    assert shown_events[-1][0] is not None


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
    stored_numbers = [number for number in numbers if number is not None]
    assert stored_numbers == sorted(set(stored_numbers))


def test_what_failed_is_told_as_far_as_a_client_may_know_it(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that is gone, and a bucket that does not answer, have sentences of their own."""

    class Broken(SkillError):
        def __str__(self) -> str:
            raise KeyError("its own mistake")

    errors: list[tuple[Exception, str]] = [
        (FileAbsent("key"), FILE_GONE),
        (FilesUnavailable("key"), FILE_FAILED),
        (Broken(), FAILED),
        (SkillError(), FAILED),
        (ExceptionGroup("of a TaskGroup", [SkillError("The city is unknown.")]), "The city is unknown."),
        (ExceptionGroup("", [ExceptionGroup("", [FileAbsent("key")])]), FILE_GONE),
        (ExceptionGroup("", [SkillError("a"), SkillError("b")]), FAILED),
    ]
    for error, text in errors:

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("a2a_lambda.agent.files.output_files.store", fail)
        task = within(bench.send("echo"))
        assert task["status"]["state"] == TaskState.FAILED
        assert task["status"]["message"]["parts"] == [{"text": text}]
    assert "skill echo failed" in caplog.text


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
    assert 0 < times["RunTime"] < PATIENCE_SECONDS


def test_a_turn_that_is_suspended_with_a_question_is_not_counted_yet(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task is stopped for the client, and the turn continues with the answer."""
    measures: list[Any] = []
    monkeypatch.setattr(telemetry, "sink", lambda values, _: measures.append(values))

    async def ask(*_: Any) -> Any:
        raise Suspended([OpenWait(Wait("city", question="Which city?"))])
        yield

    async def go() -> None:
        claim = await bench.messages.start(*bench.sent("echo"))
        assert isinstance(claim, Claim)
        head = replace(claim.head, place=Place.EXECUTION, execution=new_execution("https://x"))
        durable = replace(claim, head=bench.store.update_head(head))
        await bench.messages.make_run(durable).run_to_end()
        assert bench.head(head.task_id).state == TaskState.INPUT_REQUIRED

    monkeypatch.setattr(Agent, "perform", ask)
    within(go())
    assert [values for values in measures if "RunTime" in values]
    assert {"Turns": 1} not in measures


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


def test_what_a_failed_turn_began_is_stored_as_ended(bench: RunBench) -> None:
    """A client that follows the task later must not wait for the rest of the text."""
    task = within(bench.send("wrong", slots={"how": "message"}))
    assert task["status"]["state"] == TaskState.FAILED
    events = [event for _, event in within(bench.follow(task["id"], after=0))]
    chunks = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
    assert [chunk["artifact"]["parts"] for chunk in chunks][:1] == [[{"text": "said first"}]]
    assert chunks[-1]["lastChunk"]


def test_events_of_the_last_batch_are_stored_with_the_end(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are one write, and not two, however long the skill took."""
    monkeypatch.setattr(journal, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(journal, "SILENT_FLUSH_SECONDS", 600.0)
    task = within(bench.send("echo", text="hi"))
    assert task["artifacts"][0]["parts"] == [{"text": "hi"}]
    assert bench.calls.count["put_item"] == 3, "the task's head twice, and its context"


def test_a_message_takes_the_place_of_its_task_only_in_a_first_turn(bench: RunBench) -> None:
    """A client that continues a task knows it, so it gets the task, which stays in its list."""

    def send(**options: Any) -> tuple[bool, bool]:
        call, request = bench.sent("words", **options)
        response = within(bench.messages.send(replace(call, takes_message=True), request))
        return "message" in response, bench.head(response["task"]["id"]).message_only

    question = within(bench.send("question"))
    assert [send(), send(taskId=question["id"])] == [(True, True), (False, False)]
