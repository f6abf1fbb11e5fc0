"""What the log says of exceptions: nothing of a message."""

import json
import logging
import threading
from collections.abc import Iterator

import pytest

from a2a_lambda.client import AgentError
from a2a_lambda.errors import SkillError
from a2a_lambda.lambda_ import json_logs
from tests.lambda_.conftest import logging_kept

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
    with logging_kept():
        json_logs.install("my-stack", "DEBUG", debug=False)
        logging.getLogger("agent").error("it failed", exc_info=error)
        logging.getLogger("asyncio").error(f"Task exception was never retrieved\nfuture: {TEXT}")
        logging.getLogger("asyncio").error(f"Exception in callback f({TEXT!r})", exc_info=error)
        logging.getLogger("py.warnings").warning("%s", f"agent.py:1: UserWarning: {TEXT}\n  warn(x)")
        thread = threading.Thread(target=throw, args=(error,))
        thread.start()
        thread.join()
        dropped = holding(error)
        next(dropped)
        del dropped
    told = capsys.readouterr()
    assert TEXT not in told.out + told.err
    lines = [json.loads(line) for line in told.out.splitlines()]
    assert len(lines) == 6
    for line in (lines[0], lines[2], lines[4], lines[5]):
        assert type(error).__name__ in line["exception"]
    assert lines[3]["message"] == "agent.py:1: UserWarning"
    assert "test_exceptions.py" in lines[0]["exception"]


def holding(error: BaseException) -> Iterator[None]:
    try:
        yield
    finally:
        raise error


def throw(error: BaseException) -> None:
    raise error
