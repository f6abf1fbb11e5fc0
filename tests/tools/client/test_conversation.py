"""A conversation of make chat with agents of any kind, which are played by records."""

import asyncio
import io
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.helpers.clock import until
from tools.callers.records import Record
from tools.client import conversation
from tools.client.conversation import Chat


class Away:
    """A caller that fails in the middle of a conversation."""

    agent = None

    def __init__(self, *answers: list[Record]) -> None:
        self._answers = iter(answers)
        self.sent: list[dict[str, Any]] = []

    async def call(self, operation: str, request: Any, after: str = "") -> AsyncGenerator[Record, None]:
        self.sent.append(request.get("message", request))
        for record in next(self._answers):
            yield record


def test_a_message_that_no_one_got_leaves_the_question_open(capsys: pytest.CaptureFixture[str]) -> None:
    status = {"state": "TASK_STATE_INPUT_REQUIRED"}
    question = {
        "kind": "event",
        "event": {"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": status}},
    }
    error = {"kind": "error", "message": "\x1b[2Jtry again"}
    caller = Away([question], [error], [question])
    chat = Chat(None, caller, Console(color_system=None))  # type: ignore[arg-type]

    async def talk() -> None:
        for text in ("ask", "answer", "answer"):
            await chat.send(text)

    asyncio.run(talk())
    assert [message.get("taskId") for message in caller.sent] == [None, "t1", "t1"]
    assert "\\x1b[2Jtry again" in capsys.readouterr().err, "no control sequence reaches the terminal"


def converse(
    *answers: list[Record], card: Any = None, lines: tuple[str, ...] = ("go",), is_conversation: bool = True
) -> tuple[Away, str]:
    """A conversation with a server that answers with these records: what was sent, and what was printed."""
    output = io.StringIO()
    caller = Away(*answers)
    console = Console(file=output, width=100)
    chat = Chat(None, caller, console, is_conversation=is_conversation)  # type: ignore[arg-type]
    chat._card = card or {}

    async def take() -> None:
        for line in lines:
            await chat.take(line)

    asyncio.run(take())
    return caller, output.getvalue()


ODD_METADATA: list[Any] = [
    {"operation": "search"},
    {"operation": {"kind": 1, "name": "a", "state": "b"}},
    {"operation": {"kind": "", "name": "", "state": ""}},
    {"operation": None, "commands": None, "choices": 3},
    {"commands": [None], "choices": {}},
]


@pytest.mark.parametrize("metadata", ODD_METADATA)
def test_metadata_of_another_kit_is_passed_over(metadata: Any) -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hello"}], "metadata": metadata}
    update = {"taskId": "t", "contextId": "", "metadata": metadata}
    completion = {"state": "TASK_STATE_COMPLETED", "message": message}
    _, output = converse([{"kind": "event", "event": {"statusUpdate": {**update, "status": completion}}}])
    assert output == "hello\n"


@pytest.mark.parametrize(
    "capabilities", [None, [], {"extensions": [None, {"params": "x"}]}, {"streaming": 1}]
)
def test_a_card_of_another_kit_may_have_anything(capabilities: Any) -> None:
    card = {"capabilities": capabilities, "skills": [None, {"id": "add"}, {"id": None}]}
    caller, output = converse([], [], card=card, lines=("/skill", "/skill nope", "/skill add a=1", "hello"))
    assert "add" in output
    assert len(caller.sent) == 2


def test_skills_are_listed_with_their_parameters() -> None:
    skills = [{"id": "add", "inputSchema": {"properties": {"a": {}, "b": {}}}}]
    card = {
        "capabilities": {"extensions": [{"params": {"skills": skills}}]},
        "skills": [{"id": "add", "description": "Adds."}, {"id": "greet", "description": "Greets."}],
    }
    _, output = converse(card=card, lines=("/skill",))
    assert output == "  add a=… b=…: Adds.\n  greet: Greets.\n"


def test_a_value_with_spaces_is_in_quotes() -> None:
    line = """/skill add title="hello world" who='Ann' count=2 it's for you"""
    caller, _ = converse([], card={"skills": [{"id": "add"}]}, lines=(line,))
    [message] = caller.sent
    [intent] = message["metadata"]["intentInfos"]
    slots = {slot["name"]: slot["value"] for slot in intent["slots"]}
    assert slots == {"title": "hello world", "who": "Ann", "count": "2"}
    assert message["parts"] == [{"text": "it's for you"}]


@pytest.mark.parametrize("until", [5, "soon", None, ""])
def test_a_pause_may_end_at_any_time(until: Any) -> None:
    operation = {"kind": "sleep", "name": "sleep", "state": "started", "until": until}
    working = {"state": "TASK_STATE_WORKING"}
    update = {"taskId": "t", "contextId": "c", "status": working, "metadata": {"operation": operation}}
    assert "⏸ sleeps\n" in converse([{"kind": "event", "event": {"statusUpdate": update}}])[1]


@pytest.mark.parametrize("value", ['title="hello world', "title='hello", 'q="say \\"hi\\""'])
def test_a_quote_that_does_not_end_with_its_value_is_a_mistake(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    caller, _ = converse(card={"skills": [{"id": "add"}]}, lines=(f"/skill add {value}",))
    assert not caller.sent
    assert "write parameters as name=value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("streams", "state", "is_left"),
    [(True, "started", True), (True, "ended", False), (False, "ended", True)],
)
def test_ctrl_c_leaves_a_task_that_may_pause(streams: bool, state: str, is_left: bool) -> None:
    """Ctrl-C cancels only a task that runs: no one wants to lose the work of days."""
    operation = {"kind": "sleep", "name": "sleep", "state": state}
    working = {"state": "TASK_STATE_WORKING"}
    update = {"taskId": "t", "contextId": "c", "status": working, "metadata": {"operation": operation}}
    operations: list[str] = []

    class Endless:
        agent = None

        async def call(self, operation: str, request: Any) -> AsyncGenerator[Record, None]:
            operations.append(operation)
            if operation == "cancel":
                return
            yield {"kind": "event", "event": {"statusUpdate": update}}
            await asyncio.Event().wait()

    output = io.StringIO()
    chat = Chat(None, Endless(), Console(file=output, width=100))  # type: ignore[arg-type]
    chat._card = {"capabilities": {"streaming": streams}}

    async def talk() -> None:
        sending = asyncio.create_task(chat.send("go"))
        await until(lambda: "sleep" in output.getvalue())
        sending.cancel()
        await sending

    asyncio.run(talk())
    send = "stream" if streams else "send"
    assert operations == ([send] if is_left else [send, "cancel"])
    assert ("The task continues without this terminal." in output.getvalue()) is is_left


def test_ids_that_an_agent_says_once_are_kept() -> None:
    task = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_SUBMITTED"}}
    update = {"taskId": "", "contextId": "", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}
    events: list[Record] = [
        {"kind": "event", "event": event} for event in ({"task": task}, {"statusUpdate": update})
    ]
    caller, _ = converse(events, [], lines=("go", "yes"))
    assert [caller.sent[1][name] for name in ("taskId", "contextId")] == ["t1", "c1"]


def test_a_stream_that_breaks_does_not_ask_for_a_second_task() -> None:
    working = {"taskId": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}
    events: list[Record] = [{"kind": "event", "event": {"statusUpdate": working}}]
    _, output = converse([*events, {"kind": "error", "message": "the connection closed"}])
    assert "The task may still run. /wait follows it." in output


@pytest.mark.parametrize(
    ("code", "is_over"), [(-32001, True), (-32004, True), (-32005, False), (None, False)]
)
def test_a_question_that_is_over_does_not_hold_the_conversation(
    code: int | None, is_over: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its task timed out, was canceled elsewhere, or the server has forgotten it."""
    status = {"state": "TASK_STATE_INPUT_REQUIRED"}
    question = {
        "kind": "event",
        "event": {"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": status}},
    }
    caller = Away([question], [{"kind": "error", "message": "no", "code": code}], [question])
    chat = Chat(None, caller, Console(color_system=None))  # type: ignore[arg-type]

    async def talk() -> None:
        for text in ("ask", "answer", "again"):
            await chat.send(text)

    asyncio.run(talk())
    assert [message.get("taskId") for message in caller.sent] == [None, "t1", None if is_over else "t1"]
    assert caller.sent[2]["contextId"] == "c1"
    assert ("The question is over." in capsys.readouterr().out) is is_over


def test_what_came_before_a_question_is_not_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    def chunk(text: str) -> Record:
        artifact = {"artifactId": "a", "parts": [{"text": text}]}
        update = {"taskId": "t1", "contextId": "c1", "artifact": artifact, "append": True, "lastChunk": False}
        return {"kind": "event", "event": {"artifactUpdate": update}}

    def status(state: str) -> Record:
        update = {"taskId": "t1", "contextId": "c1", "status": {"state": f"TASK_STATE_{state}"}}
        return {"kind": "event", "event": {"statusUpdate": update}}

    artifacts = [{"artifactId": "a", "parts": [{"text": "A plan for Oslo. "}]}]
    question = {"state": "TASK_STATE_INPUT_REQUIRED"}  # it may come with its old question
    task = {"id": "t1", "contextId": "c1", "status": question, "artifacts": artifacts}
    caller = Away(
        [chunk("A plan "), chunk("for Oslo. "), status("INPUT_REQUIRED"), chunk("Not read.")],
        [{"kind": "event", "event": {"task": task}}, chunk("Booked."), status("COMPLETED")],
    )
    chat = Chat(None, caller, Console(color_system=None))  # type: ignore[arg-type]

    async def talk() -> None:
        await chat.send("Oslo")
        await chat.send("yes")

    asyncio.run(talk())
    output = capsys.readouterr().out
    assert [output.count(text) for text in ("A plan for Oslo.", "Booked.", "Not read.")] == [1, 1, 0]


def test_a_text_is_for_the_wait_of_an_earlier_task() -> None:
    """It is not followed first: the text is what ends the wait."""
    task = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}
    caller = Away([{"kind": "result", "result": task}], [])
    chat = Chat(None, caller, Console(color_system=None))  # type: ignore[arg-type]

    async def talk() -> None:
        assert await chat.resume("t1", is_followed=False)
        await chat.send("yes")

    asyncio.run(talk())
    assert caller.sent[-1]["taskId"] == "t1"


@pytest.mark.parametrize("text", ["", "Done."])
def test_a_task_that_has_ended_is_followed_by_a_new_one(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    task = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}
    artifacts = [{"artifactId": "a", "parts": [{"text": text}]}] if text else []
    answer = {"kind": "event", "event": {"task": {**task, "id": "t2", "artifacts": artifacts}}}
    caller = Away([{"kind": "result", "result": task}], [answer])
    chat = Chat(None, caller, Console(color_system=None))  # type: ignore[arg-type]

    async def talk() -> None:
        assert await chat.resume("t1", is_followed=False)
        await chat.send("and then?")

    asyncio.run(talk())
    output = capsys.readouterr().out
    assert "The message begins a new task in the same conversation." in output
    assert ("without output" in output) is (not text)
    assert (caller.sent[-1]["contextId"], caller.sent[-1].get("taskId")) == ("c1", None)


def test_files_of_a_refused_message_are_kept_until_a_new_conversation(tmp_path: Path) -> None:
    (tmp_path / "sums.csv").write_text("1,2")
    error = {"kind": "error", "code": -32005, "message": "Incompatible content types"}
    status = {"state": "TASK_STATE_COMPLETED"}
    completion = {
        "kind": "event",
        "event": {"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": status}},
    }
    lines = (f"/file {tmp_path / 'sums.csv'}", "go", "again", "/new", "go on")
    caller, printed = converse([error], [error], [completion], lines=lines)
    assert [len(message["parts"]) for message in caller.sent] == [2, 2, 1]
    note = "Its files go with the next message. /new leaves them out."
    assert printed.count(note) == 2
    _, printed = converse([error], lines=lines[:2], is_conversation=False)
    assert note not in printed


def task_record(state: str, text: str = "") -> Record:
    artifacts = [{"artifactId": "a", "parts": [{"text": text}]}] if text else []
    status = {"state": f"TASK_STATE_{state}"}
    return {
        "kind": "result",
        "result": {"id": "t1", "contextId": "c1", "status": status, "artifacts": artifacts},
    }


def operation_record(kind: str, name: str, state: str) -> Record:
    operation = {"kind": kind, "name": name, "state": state}
    working = {"state": "TASK_STATE_WORKING"}
    update = {"taskId": "t1", "contextId": "c1", "status": working, "metadata": {"operation": operation}}
    return {"kind": "event", "event": {"statusUpdate": update}}


def test_a_server_that_answers_before_the_end_is_asked_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "POLL_SECONDS", 0.0)
    looks = [[task_record("WORKING")], [task_record("COMPLETED", "Done.")]]
    _, output = converse([task_record("SUBMITTED")], *looks)
    assert output == "Done.\n"


def test_a_task_that_takes_longer_is_left_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(conversation, "POLLS", 2)
    submission, completion = [task_record("SUBMITTED")], [task_record("COMPLETED", "Done.")]
    _, output = converse(*[submission] * 3, completion, lines=("go", "/wait"))
    assert output == "submitted\nThe task continues later. /wait follows it.\nDone.\ncompleted\n"


def test_a_server_that_refuses_a_subscription_is_asked_for_the_task(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It may have ended meanwhile."""
    error: Record = {"kind": "error", "code": -32004, "message": "the task has ended"}
    answers = [[operation_record("sleep", "sleep", "started")], [error], [task_record("COMPLETED", "Done.")]]
    card = {"capabilities": {"streaming": True}}
    _, output = converse(*answers, card=card, lines=("go", "/wait"))
    assert output.endswith("Done.\ncompleted\n")
    assert not capsys.readouterr().err


@pytest.mark.parametrize("word", ["input-required", "failed"])
def test_a_question_or_an_end_is_the_last_although_the_stream_stays_open(word: str) -> None:
    start, last = (operation_record("sleep", "sleep", state) for state in ("started", "ended"))
    last["event"]["statusUpdate"]["status"]["state"] = f"TASK_STATE_{word.replace('-', '_').upper()}"
    end, card = [last, task_record("COMPLETED", "Not read.")], {"capabilities": {"streaming": True}}
    for answers, lines in (([[start], end], ("go", "/wait")), ([end], ("go",))):
        assert converse(*answers, card=card, lines=lines)[1].endswith(f"{word}\n")


def test_a_reply_to_a_wait_that_no_one_got_is_sent_again_to_its_task() -> None:
    waits = [operation_record("wait", name, "started") for name in ("a", "b")]
    error: Record = {"kind": "error", "message": "no network"}
    end_records = [operation_record("wait", "a", "ended")]
    card = {"capabilities": {"streaming": True}}
    caller, _ = converse(waits, [error], end_records, [], card=card, lines=("go", "yes", "yes", "no"))
    assert [message.get("taskId") for message in caller.sent] == [None, "t1", "t1", "t1"]


@pytest.mark.parametrize(
    ("others", "waits"),
    [
        ([("step", "slow", "started"), ("step", "slow", "ended")], True),
        ([("sleep", "sleep", "started"), ("sleep", "sleep", "ended")], True),
        ([("wait", "other", "started"), ("wait", "other", "ended")], True),
        ([("wait", "ok", "ended")], False),
    ],
)
def test_a_reply_is_for_a_wait_that_is_open_beside_others(
    others: list[tuple[str, str, str]], waits: bool
) -> None:
    operations = [("wait", "ok", "started"), *others]
    records = [operation_record(*operation) for operation in operations]
    caller, _ = converse(records, [], card={"capabilities": {"streaming": True}}, lines=("go", "yes"))
    assert caller.sent[1].get("taskId") == ("t1" if waits else None)
