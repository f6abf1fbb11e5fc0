"""What a developer reads while the server runs."""

import io
import logging
import sys
from collections.abc import Iterator

import pytest
from botocore.exceptions import NoCredentialsError, NoRegionError
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from tools.dev import console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    """Logging as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    levels = {name: logging.getLogger(name).level for name in console.QUIET}
    yield
    root.handlers = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def lines(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    console.install()
    console.requests.info("GET /tasks  weather  -  404  3 ms", extra={"status": 404})
    logging.getLogger("mine").info("hello")
    logging.getLogger("botocore").info("chatter")
    try:
        raise ValueError("no") from KeyError("first")
    except ValueError:
        logging.getLogger("mine").exception("it failed")
    return stream.getvalue()


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[33mGET /tasks" in lines(monkeypatch, Terminal())
    assert "\x1b" not in lines(monkeypatch, io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in lines(monkeypatch, Terminal())


def test_agents_log_what_they_like_and_errors_come_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    output_lines = lines(monkeypatch, io.StringIO())
    assert "INFO     mine: hello\n" in output_lines
    assert "chatter" not in output_lines
    assert "KeyError: 'first'" in output_lines
    assert "ValueError: no" in output_lines


@pytest.mark.parametrize(
    ("error", "advice"), [(NoRegionError(), "AWS_REGION"), (NoCredentialsError(), "credentials")]
)
def test_an_agent_that_calls_aws_without_an_account_is_told_what_to_set(
    error: Exception, advice: str
) -> None:
    record = logging.LogRecord("a", logging.ERROR, "a.py", 1, "it failed", (), (type(error), error, None))
    text = console.ConsoleFormatter(colored=False).format(record)
    last_line = text.splitlines()[-1]
    assert advice in last_line
    assert last_line.endswith("and start again.")


def test_the_secret_of_a_callbacks_url_is_not_printed(caplog: pytest.LogCaptureFixture) -> None:
    client = TestClient(console.RequestLog(PlainTextResponse("ok")))
    with caplog.at_level(logging.INFO, logger=console.requests.name):
        client.post("/callbacks/secret-token")
        client.get("/a2a/hello")
    lines = [record.getMessage() for record in caplog.records if record.name == console.requests.name]
    assert [line.split("  ")[0] for line in lines] == ["POST /callbacks/…", "GET /a2a/hello"]
