"""What the log says of exceptions: nothing of a message."""

import gc
import json
import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda.catalog import agents
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.client import AgentError
from a2a_lambda.errors import AgentMistake, SkillError, Unavailable
from a2a_lambda.lambda_ import json_logs
from tests.agent.folders import write
from tests.lambda_.conftest import logging_kept

HINT = """class Hint:
    def __class_getitem__(cls, _):
        FAIL

@skill
def hello(value: "Hint[1]") -> str:
    return "hello"
"""

MODEL = """class Model:
    def __get_pydantic_core_schema__(*_):
        FAIL

@skill
def hello(value: Model) -> str:
    return "hello"
"""

TEXT = "what the client said in confidence"


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    """An exception that was thrown, and led to by another."""
    try:
        raise error from cause
    except Exception as thrown:
        return thrown


def quoting() -> Iterator[Exception]:
    """Exceptions that quote a message, in every way there is to carry one."""
    yield raised(ValueError(TEXT))
    yield raised(RuntimeError("x"), raised(ValueError(TEXT)))
    error = ValueError(TEXT)
    yield raised(error, error)  # it caused itself
    yield raised(ExceptionGroup(TEXT, [raised(KeyError(TEXT))]))
    yield raised(AgentError(TEXT))
    yield raised(SkillError(TEXT))


@pytest.mark.parametrize("error", [*quoting()], ids=lambda error: type(error).__name__)
def test_no_exception_quotes_a_message(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    gc.collect()  # or what other tests have dropped is logged here
    with logging_kept():
        json_logs.install("my-stack", "DEBUG", debug=False)
        logging.getLogger("agent").error("it failed", exc_info=error)
        logging.getLogger("asyncio").error(f"Task exception was never retrieved\nfuture: {TEXT}")
        logging.getLogger("asyncio").error(f"Exception in callback f({TEXT!r})", exc_info=error)
        logging.getLogger("py.warnings").warning("%s", f"agent.py:1: UserWarning: {TEXT}\n  warn(x)")
        fields = {"Error": {"Code": "InvalidParameterValueException", "Message": f"payload {TEXT!r}"}}
        logging.getLogger(f"{json_logs.DURABLE_SDK}.execution").error("Failed to checkpoint.", extra=fields)
        thread = threading.Thread(target=throw, args=(error,))
        thread.start()
        thread.join()
        text = holding(error)
        next(text)
        del text
    streams = capsys.readouterr()
    assert TEXT not in streams.out + streams.err
    lines = [json.loads(line) for line in streams.out.splitlines()]
    assert len(lines) == 7
    assert lines[4]["Error"] == {"Code": "InvalidParameterValueException"}
    for line in (lines[0], lines[2], lines[5], lines[6]):
        assert type(error).__name__ in line["exception"]
    assert lines[3]["message"] == "agent.py:1: UserWarning"
    assert "test_exceptions.py" in lines[0]["exception"]


@pytest.mark.parametrize(
    ("code", "summary"),
    [
        ("FAIL", "ValueError"),
        (HINT, "skill hello: its type hints raise ValueError"),
        (MODEL, "skill hello: parameter value has no JSON Schema"),
    ],
)
def test_what_an_agents_module_raises_is_logged_without_its_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: str, summary: str
) -> None:
    """It may hold a secret, such as the URL of a database. What imports and syntax are wrong stays."""
    write(tmp_path, code.replace("FAIL", "raise ValueError('postgres://app:' + 'hunter2')"), name="database")
    write(tmp_path, "import pandaz", name="pandas")
    with logging_kept():
        json_logs.install("my-stack", "INFO", debug=False)
        logging.root.handlers[0].addFilter(logging.Filter(agents.__name__))
        catalog = Agents.of_folder(tmp_path)
        for name in ("database", "pandas"):
            with pytest.raises(Unavailable):
                catalog.load(name)
    _default, *imports = map(json.loads, capsys.readouterr().out.splitlines())
    database, pandas = sorted(imports, key=lambda line: str(line["message"]))  # they run at the same time
    assert re.search(rf"database/agent\.py:\d+: {summary}$", database["message"])
    assert "app:hunter2" not in json.dumps(database)
    assert "database/agent.py" in database["exception"]
    assert database["exception"].endswith("ValueError")
    assert "there is no module 'pandaz'" in pandas["message"]


def holding(error: BaseException) -> Iterator[None]:
    try:
        yield
    finally:
        raise error


def throw(error: BaseException) -> None:
    raise error


def recurse(depth: int) -> None:
    """Raises an exception with many causes, each with a long text that may be logged."""
    if depth == 0:
        raise AgentMistake("x" * 300_000)
    try:
        recurse(depth - 1)
    except AgentMistake as error:
        raise AgentMistake("x" * 300_000) from error


@pytest.mark.parametrize("rest", ["", "m" * 300_000])
def test_half_of_a_character_is_escaped(capsys: pytest.CaptureFixture[str], rest: str) -> None:
    """No output can hold it. Python's own message on that would be a line with the whole message."""
    with logging_kept():
        json_logs.install("my-stack", "DEBUG", debug=False)
        logging.getLogger("agent").error(f"SECRET \ud800{rest}")
    output = capsys.readouterr()
    output.out.encode()
    assert json.loads(output.out)["message"].startswith("SECRET \ud800")
    assert output.err == ""


@pytest.mark.parametrize("message", ["m" * 300_000, "\0" * 300_000, "城" * 300_000])
def test_a_long_message_keeps_its_beginning(capsys: pytest.CaptureFixture[str], message: str) -> None:
    with logging_kept():
        json_logs.install("my-stack", "DEBUG", debug=False)
        logging.getLogger("agent").error(message)
    [line] = capsys.readouterr().out.splitlines()
    assert 50_000 < len(line.encode()) <= 250_000, "no more than needed is cut"
    assert json.loads(line)["message"][:10_000] == message[:10_000]


@pytest.mark.parametrize("message", ["m" * 300_000, {"key": "m" * 300_000}, ValueError("m" * 300_000)])
@pytest.mark.parametrize("extra", [{}, {"payload": "\n" * 300_000, "list": ["x" * 99] * 9_999}])
@pytest.mark.parametrize("debug", [False, True])
def test_the_long_fields_of_a_long_line_are_cut(
    capsys: pytest.CaptureFixture[str], message: Any, extra: dict[str, Any], debug: bool
) -> None:
    """A line that is split is no JSON."""

    def fail() -> None:
        try:
            recurse(200)
        except AgentMistake as error:
            raise AgentMistake("the last") from error

    with pytest.raises(AgentMistake) as caught:
        fail()
    capsys.readouterr()
    with logging_kept():
        json_logs.install("my-stack", "DEBUG", debug=debug)
        logging.getLogger("agent").error(message, exc_info=caught.value, extra=extra)
    [line] = capsys.readouterr().out.splitlines()
    assert len(line.encode()) <= 250_000
    fields = json.loads(line)
    assert fields["level"] == "ERROR"
    assert "mm" in str(fields["message"])
    assert "test_exceptions.py" in fields["exception"]
    assert fields["exception"].endswith("AgentMistake: the last"), "what was raised last"


def test_a_line_with_very_many_fields_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """It cannot be short, and must not be shortened forever. Metric filters need its level."""
    with logging_kept():
        json_logs.install("my-stack", "DEBUG", debug=False)
        many_fields = {f"field-{number}": "x" * 9 for number in range(20_000)}
        logging.getLogger("agent").error("it failed", extra={**many_fields, "long": "x" * 9_999})
    fields = json.loads(capsys.readouterr().out)
    assert (fields["level"], fields["field-19999"], len(fields["long"])) == ("ERROR", "x" * 9, 1_001)


def test_a_deep_stack_is_logged_from_both_ends(capsys: pytest.CaptureFixture[str]) -> None:
    def even() -> None:
        odd()

    def odd() -> None:
        even()

    with pytest.raises(RecursionError) as caught:
        even()
    capsys.readouterr()
    with logging_kept():
        json_logs.install("my-stack", "DEBUG", debug=False)
        logging.getLogger("agent").error("it failed", exc_info=caught.value)
    frames = json.loads(capsys.readouterr().out)["exception"]
    assert "test_a_deep_stack" in frames.splitlines()[0]
    assert "  … " in frames
    assert frames.endswith("RecursionError")
    assert len(frames.splitlines()) < 300
