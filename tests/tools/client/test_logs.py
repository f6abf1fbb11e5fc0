"""The log of a stack, against an emulated CloudWatch."""

import json
import time
import uuid
from typing import Any

import pytest
from rich.console import Console

from a2a_lambda.aws import clients
from tools.client.logs import Log, entry_of, text_of


@pytest.fixture
def logs(emulator_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    return clients.session().create_client("logs", endpoint_url=emulator_url)


def group(logs: Any) -> str:
    name = f"/aws/lambda/{uuid.uuid4()}"
    logs.create_log_group(logGroupName=name)
    logs.create_log_stream(logGroupName=name, logStreamName="one")
    return name


def write(logs: Any, place: str, *lines: str, at: float) -> None:
    moment = int(at * 1000)
    events = [{"timestamp": moment, "message": line} for line in lines]
    logs.put_log_events(logGroupName=place, logStreamName="one", logEvents=events)


def line(text: str, **fields: str) -> str:
    return json.dumps({"level": "INFO", "location": "f:1", "message": text, **fields})


def test_new_lines_of_all_functions_come_once_and_in_order(logs: Any) -> None:
    first, second, now = group(logs), group(logs), time.time()
    write(logs, first, line("second"), at=now - 2)
    write(logs, second, line("first"), "START RequestId: 1", at=now - 4)
    log = Log(logs, [first, second])
    assert [entry["message"] for entry in log.read()] == ["first", "second"]
    assert log.read() == []
    write(logs, second, line("late"), at=now - 3)
    assert [entry["message"] for entry in log.read()] == ["late"], "CloudWatch shows lines late"


def test_a_task_is_asked_for(logs: Any) -> None:
    query: dict[str, Any] = {}

    class Pages:
        def paginate(self, **options: Any) -> list[Any]:
            query.update(options)
            return [{"events": []}]

    class Client:
        def get_paginator(self, name: str) -> Pages:
            assert name == "filter_log_events"
            return Pages()

    Log(Client(), ["group"], task='t"1').read()
    assert query["filterPattern"] == '{ $.task_id = "t\\"1" }'


def test_lines_are_read() -> None:
    entry = entry_of(line("it failed", level="ERROR", task_id="t", agent="a", exception="KeyError"), 5)
    assert entry == {
        "at": 5,
        "level": "ERROR",
        "logger": "f:1",
        "message": "it failed",
        "agent": "a",
        "task": "t",
        "trace": "KeyError",
    }
    assert entry_of(json.dumps({"_aws": {"CloudWatchMetrics": []}, "turns": 1}), 5) is None, "metrics"
    plain = entry_of("Runtime exited\n", 5)
    assert plain is not None
    assert plain["message"] == "Runtime exited"
    for printed_line in ("42", "[1, 2]", '"text"', "true", "null"):
        number = entry_of(f"{printed_line}\n", 5)
        assert number is not None
        assert number["message"] == printed_line
    for own in ("REPORT RequestId: 1", "INIT_START Runtime", '{"type": "platform.report"}'):
        assert entry_of(own, 5) is None


def test_a_line_for_the_terminal_has_what_matters() -> None:
    fields = {"level": "ERROR", "task_id": "task-7", "exception": "KeyError"}
    entry = entry_of(line("[bold]not markup[/bold]", **fields), 5)
    assert entry is not None
    console = Console(record=True, width=200)
    console.print(text_of(entry))
    output = console.export_text()
    for text in ("ERROR", "f:1: [bold]not markup[/bold]", "task-7", "KeyError"):
        assert text in output


@pytest.mark.parametrize("wrong", ['{"type": 5}', "[]", "null", '{"message": null}', '{"at'])
def test_a_line_of_any_form_is_read(wrong: str) -> None:
    entry = entry_of(wrong, 5)
    assert entry is not None
    assert entry["message"]


def test_the_window_moves_without_lines(logs: Any) -> None:
    log = Log(logs, [group(logs)], task="t")
    day_ago = log._since
    log.read()
    assert log._since - day_ago > 80_000_000, "the next look does not read the whole day again"


def test_no_line_controls_the_terminal() -> None:
    entry = entry_of(line("\x1b]52;c;aGk=\x07", exception="\x1b[2J"), 5)
    assert entry is not None
    assert "\x1b" not in text_of(entry).plain


def test_no_text_looks_like_a_line_of_the_log() -> None:
    forged_line = "12:00:00  ERROR    a2a_lambda: forged"
    entry = entry_of(line(f"hello\n{forged_line}"), 5)
    assert entry is not None
    assert f"\n    {forged_line}" in text_of({**entry, "task": f"t\n{forged_line}"}).plain
    assert f"\n{forged_line}" not in text_of({**entry, "task": f"t\n{forged_line}"}).plain
