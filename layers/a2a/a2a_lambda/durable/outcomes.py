"""What a durable turn stores of a step and of a branch: its result or its error, as JSON for replays."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from a2a_lambda import strictjson
from a2a_lambda.durable.engine import Wait, Work
from a2a_lambda.errors import (
    CodeChanged,
    ConfigurationError,
    SkillError,
    StepFailed,
    error_text,
    only_error,
)
from a2a_lambda.protocol.model import Json

RESULT_BYTES = 250_000
"""Maximum JSON bytes of a step's result. Lambda keeps 256 KB for an operation."""

ERROR_BYTES = 8_192
"""UTF-8 bytes of an error's text that are kept. A durable execution fails for good if an error has 32 KB."""


logger = logging.getLogger(__name__)


class NotKept(ValueError):
    """The result of a step cannot be kept. Another try would not help."""


MISTAKES = (ConfigurationError, NotKept)
"""Mistakes of an agent's code: a step that makes one is not tried again."""


def shorten_error(error: BaseException) -> Exception:
    """The error, or one whose type has the same name, with the beginning of its text: a durable execution
    keeps all of a string, and refuses a long one. Raises the error if it cancels the whole task, and not only
    a branch."""
    if (task := asyncio.current_task()) and task.cancelling():
        raise error
    text = error_text(error)
    if isinstance(error, Exception) and text and _shorten(text) == text:
        return error
    base = NotKept if isinstance(error, MISTAKES) else Exception
    short_error: Exception = type(type(error).__name__, (base,), {})(_shorten(text))
    return short_error


def timeout_of(wait: Wait) -> TimeoutError:
    """The error of a wait to which no reply came in time."""
    return TimeoutError(f"no reply to {wait.key!r} came within {wait.seconds} s")


def _shorten(text: str) -> str:
    """As much of an error's text as is kept."""
    content = text.encode(errors="replace")  # half an emoji has no bytes
    if len(content) <= ERROR_BYTES:
        return content.decode()
    return f"{content[:ERROR_BYTES].decode(errors='ignore')}…"


def encode_result(result: Any, source: str) -> bytes:
    """A result as JSON. source: what returned it, such as "a branch". Raises NotKept."""
    try:
        return strictjson.dumps_verified(to_jsonable_python(result))
    except UnicodeDecodeError:
        raise NotKept(
            f"the result of {source} has bytes that are not UTF-8, and cannot be kept as JSON: return base64,"
            " or keep the bytes in S3 and return their key"
        ) from None
    except (TypeError, ValueError) as error:
        raise NotKept(f"the result of {source} cannot be kept as JSON: {error}") from error


async def perform_step(name: str, call: Work, hint: Any, check: Callable[[Any, Any, str], None]) -> bytes:
    """Run a step, and return its outcome as JSON, which the engine keeps. A SkillError is an outcome, too: it
    is for the client, and another try would not help. Raises what else the step raises, and NotKept for a
    result that is not JSON, is too large, or is not what the function's annotation says.

    hint: return annotation of the step's function. check: raises NotKept if a replay would get something
        else; gets the result, what a replay gets, and what returned it.
    """
    try:
        result = await call()
    except Exception as group:
        if not isinstance(error := only_error(group), SkillError):
            raise
        return strictjson.dumps({"refused": _shorten(error_text(error))})
    body = b'{"value":%b}' % encode_result(result, f"step {name!r}")
    if len(body) > RESULT_BYTES:
        raise NotKept(
            f"the result of step {name!r} has {len(body):,} bytes of JSON, and at most {RESULT_BYTES:,}"
            " are allowed: keep it in S3 or a table, and return its key"
        )
    try:
        restored_result = read_step(body, hint)
    except Exception as error:  # a validator is code, and may raise anything
        field = ""
        if isinstance(error, ValidationError):  # without its text, which has the value
            field = ".".join(map(str, error.errors(include_input=False, include_url=False)[0]["loc"]))
        raise NotKept(
            f"the result of step {name!r}, of type {type(result).__name__}, does not fit the return"
            f" annotation of its function{f' at {field}' if field else ''}: return what the annotation"
            " says, or correct the annotation"
        ) from None
    check(result, restored_result, f"step {name!r}")
    return body


def is_refused_step(result: bytes) -> bool:
    """Whether the step has raised a SkillError."""
    return result.startswith(b'{"refused":')


def read_step(result: bytes, hint: Any) -> Any:
    """The value, in the type of its function's return annotation, or as plain JSON if pydantic cannot
    read that type. Raises SkillError, and what the type's validators raise."""
    return restore_step(value_of_step(result), hint)


def value_of_step(result: bytes) -> Json:
    """The value as plain JSON. Raises SkillError."""
    outcome = json.loads(result)
    if "refused" in outcome:
        raise SkillError(outcome["refused"])
    return outcome["value"]


def restore_step(value: Json, hint: Any) -> Any:
    """The JSON value of a step in the type of its function's return annotation: see `read_step`."""
    try:
        adapter: TypeAdapter[Any] | None = None if hint is Any else TypeAdapter(hint)
    except Exception:  # a type is code, and may raise anything
        adapter = None
    if adapter is None or not adapter.pydantic_complete:
        return value
    return adapter.validate_python(value)


async def perform_branch(name: str, branch: Callable[[], Awaitable[bytes]]) -> str:
    """Run a branch of `parallel`, and return as JSON what it has returned or raised. If it raised, AWS's SDK
    would leave it out of the results, and the next one would take its place. Raises Suspended, and what
    cancels the whole turn."""
    try:
        return json.dumps({"value": (await branch()).decode()})
    except CodeChanged as error:
        return json.dumps({"changed": error.what})
    except SkillError as error:
        return json.dumps({"refused": error_text(error)})
    except TimeoutError as error:
        return json.dumps({"late": str(error)})
    except StepFailed as error:
        return json.dumps({"failed": [error.name, error.kind, error.text]})
    except (Exception, asyncio.CancelledError, GeneratorExit) as error:
        short_error = shorten_error(error)
        logger.exception("branch %s failed", name)
        return json.dumps({"failed": [name, type(error).__name__, str(short_error)]})


def read_branch(text: str) -> bytes:
    """The result as JSON. Raises CodeChanged, SkillError, TimeoutError, StepFailed."""
    outcome = json.loads(text)
    if "value" in outcome:
        return str(outcome["value"]).encode()
    if "changed" in outcome:
        raise CodeChanged(outcome["changed"])
    if "refused" in outcome:
        raise SkillError(outcome["refused"])
    if "late" in outcome:
        raise TimeoutError(outcome["late"])
    raise StepFailed(*outcome["failed"])
