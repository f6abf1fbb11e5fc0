"""Sends and streams: what their clients are shown, whatever happens to the turn."""

import asyncio
import base64
import math
from contextlib import aclosing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from a2a_lambda import errors, telemetry
from a2a_lambda.agent.agent import Agent
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.files.bucket import Bucket
from a2a_lambda.files.files import Files
from a2a_lambda.kit import Kit
from a2a_lambda.operations import messages
from a2a_lambda.operations.follow import wait_until_stopped
from a2a_lambda.operations.messages import Messages
from a2a_lambda.protocol.model import Part, Published, TaskState, make_status
from a2a_lambda.protocol.requests import SendMessageConfiguration
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.event_log import apply
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.turns import audience
from a2a_lambda.turns.claim import Repeat
from tests.agent.folders import CARD, write
from tests.files.fake_s3 import FakeS3
from tests.helpers.clock import until
from tests.turns.run_bench import RunBench, within


@pytest.fixture
def bench(kit: Kit, settings: Settings) -> RunBench:
    return RunBench(kit, settings)


def test_a_running_task_is_joined_whatever_its_age(
    kit: Kit, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, gate, is_joined = RunBench(kit, settings, window=0.0), tmp_path / "gate", asyncio.Event()

    async def wait(*args: Any) -> Head:
        is_joined.set()
        return await wait_until_stopped(*args)

    monkeypatch.setattr(messages, "wait_until_stopped", wait)

    async def go() -> None:
        first = asyncio.create_task(bench.send("gated", "same", slots={"gate": str(gate)}))
        await until(lambda: bool(bench.calls.count["put_item"]))
        second = asyncio.create_task(bench.send("gated", "same", slots={"gate": str(gate)}))
        await is_joined.wait()
        gate.touch()
        assert await second == await first
        assert (await second)["status"]["state"] == TaskState.COMPLETED

    within(go())


def test_a_retry_does_not_answer_someone_elses_question(bench: RunBench, tmp_path: Path) -> None:
    async def go() -> None:
        again = {"slots": {"gate": str(tmp_path / "gate")}, "contextId": "c"}
        first = asyncio.create_task(bench.send("gated", "same", **again))
        await until(lambda: bool(bench.calls.count["put_item"]))
        question = await bench.send("question", contextId="c")
        assert question["status"]["state"] == TaskState.INPUT_REQUIRED
        retry = asyncio.create_task(bench.send("gated", "same", **again))
        bench.calls.during()
        await until(lambda: bench.calls.count["get_item"] > 2)  # the context, the question, its own task
        (tmp_path / "gate").touch()
        assert (await retry)["id"] == (await first)["id"] != question["id"]

    within(go())


def test_a_client_that_is_too_slow_reads_the_rest_from_the_log(
    kit: Kit, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn does not wait for it, and it misses nothing."""
    monkeypatch.setattr(audience, "UNREAD_SECONDS", 0.2)
    bench = RunBench(kit, settings)

    async def go() -> None:
        call, request = bench.sent("pieces", slots={"count": "600"})
        events = await bench.messages.stream(call, request)
        await anext(events)
        await until(lambda: bench.head(call.identity.task_id()).is_stopped)
        received_events = [event async for _, event in events]
        task_at_end = await bench.get(call.identity.task_id())
        [at] = [index for index, event in enumerate(received_events) if "task" in event]
        task = received_events[at]["task"]
        apply(task, received_events[at + 1 :])
        assert task["artifacts"] == task_at_end["artifacts"]
        assert received_events[-1]["statusUpdate"]["status"]["state"] == TaskState.COMPLETED

    within(go())


def test_what_is_shown_of_a_turn_whose_end_is_refused_is_taken_back(bench: RunBench) -> None:
    def refuse(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"].startswith("e#"):
            raise ClientError({"Error": {"Code": "ValidationException", "Message": ""}}, operation)

    bench.calls.before = refuse

    async def go() -> None:
        call, request = bench.sent("pieces", slots={"count": "3", "every": "0.3"})
        events = [event async for event in await bench.messages.stream(call, request)]
        assert [
            event["artifactUpdate"]["artifact"]["parts"] for _, event in events if "artifactUpdate" in event
        ]
        (_, restatement), (identity, closing) = events[-2:]
        assert [artifact["parts"] for artifact in restatement["task"]["artifacts"]] == [[{"text": ""}]]
        assert closing["statusUpdate"]["status"]["state"] == TaskState.FAILED
        assert identity is not None

    within(go())


@pytest.mark.parametrize(("length", "roles"), [(None, 3), (0, 0), (2, 2)])
def test_an_answer_has_as_much_history_as_was_asked_for(
    bench: RunBench, length: int | None, roles: int
) -> None:
    question = within(bench.send("question"))
    call, request = bench.sent("question", taskId=question["id"])
    if length is not None:
        request["configuration"] = SendMessageConfiguration(historyLength=length)
    task = within(bench.messages.send(call, request))["task"]
    assert len(task.get("history", [])) == roles
    answer = within(bench.messages.send(call, request))["task"]
    assert answer == task

    async def stream() -> Published:
        return await anext(await bench.messages.stream(call, request))

    assert len(within(stream())[1]["task"].get("history", [])) == roles


@pytest.mark.parametrize("at_once", [True, False])
def test_a_send_to_a_task_that_runs_elsewhere(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """A version whose sends do not block is answered at once, unless the client says otherwise."""
    head = bench.run_elsewhere(place=Place.WORKER)
    heads: list[str] = []

    async def start(*_: Any) -> Repeat:
        return Repeat(head)

    async def wait(_: Any, head: Head, deadline: float | None) -> Head:
        heads.append(head.task_id)
        return head

    monkeypatch.setattr(bench.messages.intake, "start", start)
    monkeypatch.setattr(messages, "wait_until_stopped", wait)
    call, request = bench.sent("echo")
    assert within(bench.messages.send(call, request))["task"]["id"] == head.task_id
    within(bench.messages.send(replace(call, blocking_by_default=True), request))
    assert len(heads) == 1, "only the version that blocks waits"
    request["configuration"] = SendMessageConfiguration(returnImmediately=at_once)
    for blocks in (True, False):
        within(bench.messages.send(replace(call, blocking_by_default=blocks), request))
    assert len(heads) == (1 if at_once else 3)


def test_a_repeated_send_waits_for_its_turn_in_another_request(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits whatever the version's default is: the first request gets an answer, and so does this one."""
    head = bench.run_elsewhere()
    heads: list[Head] = []

    async def start(*_: Any) -> Repeat:
        return Repeat(head)

    async def wait(_: Any, head: Head, deadline: float | None) -> Head:
        heads.append(head)
        return head

    monkeypatch.setattr(bench.messages.intake, "start", start)
    monkeypatch.setattr(messages, "wait_until_stopped", wait)
    within(bench.messages.send(*bench.sent("echo")))
    assert len(heads) == 1


def test_a_message_that_is_repeated_while_its_turn_runs_is_not_stored_again(bench: RunBench) -> None:
    """Its turn ends without it. If the run dies, the repeated message starts the turn anew."""
    s3: Any = FakeS3()
    bench.messages.files = Files(Bucket(lambda: s3, "files"), repeat_seconds=math.inf)
    raw = base64.b64encode(bytes(300_000)).decode()
    call, request = bench.sent("echo", parts=[Part(raw=raw, filename="large.bin")])
    head = bench.store.new_head(
        bench.namespace, call.identity.task_id(), "c", make_status(TaskState.WORKING, bench.store.clock())
    )
    head = head.with_request(call.identity, bench.store.clock())
    bench.store.create_head(replace(head, holder="another", lease=bench.store.clock() + 600))
    assert within(bench.messages.receive(call, request)) is None
    bench.store.update_head(replace(bench.head(head.task_id), lease=1.0))
    for _ in range(2):  # the second time, someone has seen that the run died
        received_request = within(bench.messages.receive(call, request))
        assert received_request["message"]["parts"][0].keys() == {"url", "filename"}
        failed_status = make_status(TaskState.FAILED, bench.store.clock())
        bench.store.update_head(replace(bench.head(head.task_id).as_lost(), status=failed_status))
    assert len(s3.objects) == 1


@pytest.mark.parametrize("creates_task", [True, False])
def test_a_large_file_for_an_unknown_task_is_stored_only_if_the_message_creates_it(
    bench: RunBench, creates_task: bool
) -> None:
    """Clients of A2A 0.1 choose the ids."""
    s3: Any = FakeS3()
    bench.messages.files = Files(Bucket(lambda: s3, "files"))
    raw = base64.b64encode(bytes(300_000)).decode()
    call, request = bench.sent("echo", parts=[Part(raw=raw, filename="large.bin")], taskId="unknown")
    request["creates_task"] = creates_task
    with nullcontext() if creates_task else pytest.raises(errors.TaskNotFound):
        within(bench.messages.receive(call, request))
    assert len(s3.objects) == creates_task


def test_a_send_stores_its_large_files(bench: RunBench) -> None:
    s3: Any = FakeS3()
    bench.messages.files = Files(Bucket(lambda: s3, "files"))
    raw = base64.b64encode(bytes(300_000)).decode()
    task = within(bench.send("echo", parts=[Part(raw=raw, filename="large.bin")]))
    assert [len(content) for content in s3.objects.values()] == [300_000]
    assert "raw" not in task["history"][0]["parts"][0]


def test_log_lines_of_a_turn_name_its_task(bench: RunBench, monkeypatch: pytest.MonkeyPatch) -> None:
    ids: dict[str, str] = {}
    monkeypatch.setattr(telemetry, "bind", lambda **more: ids.update(more))
    task = within(bench.send("echo"))
    assert ids == {"task_id": task["id"], "context_id": task["contextId"]}


def test_a_message_to_a_task_of_another_context_is_refused(bench: RunBench) -> None:
    question = within(bench.send("question"))
    with pytest.raises(errors.InvalidParams, match="another context"):
        within(bench.send("question", taskId=question["id"], contextId="another"))
    same = within(bench.send("question", taskId=question["id"], contextId=question["contextId"]))
    assert same["status"]["state"] == TaskState.COMPLETED


def test_a_message_to_a_task_that_has_ended_is_refused(bench: RunBench) -> None:
    task = within(bench.send("echo", "first"))
    with pytest.raises(errors.UnsupportedOperation, match="has ended"):
        within(bench.send("echo", "second", taskId=task["id"]))


def test_a_repeated_answer_is_one_answer(bench: RunBench) -> None:
    """It is one, too, while the run of the first one still works."""
    question = within(bench.send("question"))
    answer = within(bench.send("question", "answer", taskId=question["id"]))
    writes = bench.calls.count["put_item"]
    assert within(bench.send("question", "answer", taskId=question["id"])) == answer
    assert bench.calls.count["put_item"] == writes


def test_two_answers_at_once_are_one_turn(bench: RunBench) -> None:
    """The second to be stored finds the first one's turn."""
    question = within(bench.send("question"))

    async def go() -> list[Any]:
        answers = (bench.send("question", "answer", taskId=question["id"]) for _ in range(4))
        return await asyncio.gather(*answers)

    tasks = within(go())
    assert all(task == tasks[0] for task in tasks)
    assert len(tasks[0]["history"]) == 3


def test_a_stream_that_answers_a_question_begins_with_a_submitted_task(bench: RunBench) -> None:
    """It does not begin with the question, which its client has just answered."""

    async def go() -> None:
        question = await bench.send("question")
        stream = await bench.messages.stream(*bench.sent("question", taskId=question["id"]))
        async with aclosing(stream) as events:
            _, first = await anext(events)
            assert first["task"]["status"]["state"] == TaskState.SUBMITTED
            assert "message" not in first["task"]["status"]
            last = [event async for _, event in events][-1]
        assert last["statusUpdate"]["status"]["state"] == TaskState.COMPLETED

    within(go())


def test_a_task_that_is_canceled_while_a_large_reply_is_stored(bench: RunBench) -> None:
    question = within(bench.send("question"))

    def cancel(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"].startswith("e#"):
            bench.calls.before = lambda *_: None
            # The calls of the table come from threads, which have no event loop.
            asyncio.run(bench.cancel(question["id"]))

    bench.calls.before = cancel
    with pytest.raises(errors.UnsupportedOperation, match="has ended"):
        within(bench.send("question", text="x" * 500_000, taskId=question["id"]))
    task = within(bench.get(question["id"]))
    assert task["status"]["state"] == TaskState.CANCELED
    assert len(task["history"]) == 2, "the question, and what was asked first"


def test_a_part_of_a_type_that_the_agent_does_not_take_is_refused(kit: Kit, settings: Settings) -> None:
    bench = RunBench(kit, settings)
    bench.namespace = Namespace(bench.namespace.owner, "plain")
    parts = [Part(text="x"), Part(url="https://example.com/a.mp4", mediaType="video/mp4")]
    with pytest.raises(errors.ContentTypeNotSupported, match=r"params.message.parts\[1\]"):
        within(bench.send("echo", parts=parts))
    assert within(bench.service.list(bench.namespace, {}))["tasks"] == []


@pytest.mark.parametrize(
    ("more", "parts", "takes"),
    [
        ("", [Part(text="x"), Part(data={}, mediaType="application/vnd.ag2.history+json")], True),  # from AG2
        (", n: int = 0", [Part(data={}, mediaType="application/json")], True),
        ("", [Part(data={}, mediaType="application/json")] * 2, False),
        (", n: int = 0", [Part(text="{}", mediaType="application/json")], False),
    ],
)
def test_the_media_type_of_data(bench: RunBench, tmp_path: Path, more: str, parts: Any, takes: bool) -> None:
    agent = Agent.load(write(tmp_path, f"@skill\ndef hello(turn{more}): return 'hi'"))
    bench.messages = Messages(bench.store, Agents.of(agent), repeat_seconds=60, files=Files())
    bench.namespace = Namespace(bench.namespace.owner, "hello")
    with nullcontext() if takes else pytest.raises(errors.ContentTypeNotSupported):
        assert within(bench.send("", parts=parts))["status"]["state"] == TaskState.COMPLETED


def test_a_message_must_activate_what_the_card_requires(bench: RunBench, tmp_path: Path) -> None:
    card = CARD + "extensions: [{{ uri: 'urn:x', required: true }}]\n"
    agents = Agents.of(Agent.load(write(tmp_path, "@skill\ndef hello(turn): return 'hi'", card)))
    bench.messages = Messages(bench.store, agents, repeat_seconds=60, files=Files())
    bench.namespace = Namespace(bench.namespace.owner, "hello")
    call, request = bench.sent("hello")
    with pytest.raises(errors.ExtensionSupportRequired, match="urn:x"):
        within(bench.messages.send(call, request))
    assert within(bench.service.list(bench.namespace, {}))["tasks"] == []
    assert within(bench.messages.send(replace(call, extensions=("urn:x",)), request))["task"]


@pytest.mark.parametrize("has_artifact", [False, True], ids=["a message", "an artifact, too"])
@pytest.mark.parametrize("takes_message", [False, True], ids=["a task", "either"])
def test_an_answer_of_a_message_alone_is_a_message(
    bench: RunBench, *, has_artifact: bool, takes_message: bool
) -> None:
    """The client takes one. Its task is in no list, because the client has not heard of it."""

    async def go() -> None:
        call, request = bench.sent("words", slots={"before": "true"} if has_artifact else {})
        response = await bench.messages.send(replace(call, takes_message=takes_message), request)
        assert response["task"]["status"]["message"]["parts"] == [{"text": "Just words."}]
        is_message = takes_message and not has_artifact
        message = dict(response["task"]["status"]["message"])
        del message["taskId"]
        assert response.get("message") == (message if is_message else None)
        tasks = (await bench.service.list(bench.namespace, {}))["tasks"]
        assert [task["id"] for task in tasks] == ([] if is_message else [response["task"]["id"]])
        call, request = bench.sent("echo")
        assert "message" not in await bench.messages.send(replace(call, takes_message=True), request)

    within(go())
