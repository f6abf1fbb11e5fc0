"""Log lines as JSON, by Powertools' formatter, each with the ids of its invocation.

No record holds a key. The text of an exception may quote a message, so it is left out, unless `debug` is
on. The exception's type and frames stay.
Source: https://docs.aws.amazon.com/powertools/python/latest/core/logger/
"""

import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from a2a_lambda import telemetry, tracing
from a2a_lambda.errors import is_safe_to_log

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

CHATTY = ("botocore", "boto3", "urllib3", "s3transfer", "mangum", "opentelemetry", *telemetry.URL_LOGGERS)
"""Loggers that write whole requests, with secrets and messages, or their paths, which may be secret, at a low
level."""

DURABLE_SDK = "aws_durable_execution_sdk_python"
"""Logger of the SDK of durable functions, whose records carry AWS's errors in a field."""

LOGGED_EXCEPTIONS = 50
"""Exceptions of a chain, and of the groups in it, that are logged."""

LOGGED_FRAMES = 30
"""Frames of an exception that are logged, from each end of its stack."""

ERROR_CHARACTERS = 2_000
"""Characters of an exception's text that are logged."""

LOG_LINE_BYTES = 250_000
"""Bytes up to which no field of a line is cut. A longer line may be split, and then no piece is JSON. Lambda
documents no limit for a line; 256 KB is safe."""

SHORT_FIELD_CHARACTERS = 1_000
"""Characters of a field that are never cut: a line has at least its level, its time and its ids."""

logger = logging.getLogger(__name__)


class JsonFormatter(LambdaPowertoolsFormatter):
    """Formats a line of the log as JSON, without texts of users.

    service: name of the deployment. debug: log the text of exceptions.
    """

    def __init__(self, service: str, *, debug: bool) -> None:
        super().__init__(utc=True, use_rfc3339=True, serialize_stacktrace=False, service=service)
        self._shows_errors = debug

    def format(self, record: logging.LogRecord) -> str:
        record.__dict__.update(telemetry.ids())
        record.__dict__.update(tracing.ids())
        if not self._shows_errors:
            if record.name == "asyncio":  # the rest is the repr of an exception
                record.msg, record.args = re.split(r"[\n(%]", str(record.msg))[0], ()
            elif record.name == "py.warnings":  # file, line and category; the rest is text
                record.msg, record.args = ": ".join(record.getMessage().split(": ")[:2]), ()
            elif record.name.startswith(DURABLE_SDK) and (error := record.__dict__.get("Error")):
                # AWS's message may quote what a step returned.
                record.__dict__["Error"] = {"Code": error.get("Code")}
        line = super().format(record)
        characters = LOG_LINE_BYTES
        while (
            len(line.encode("utf-8", "backslashreplace")) > LOG_LINE_BYTES
            and characters > SHORT_FIELD_CHARACTERS
        ):
            characters = max(characters // 2, SHORT_FIELD_CHARACTERS)
            line = shorten_line(line, characters)
        # Half of a surrogate pair, as \ud800, is JSON, but no output can hold it.
        return line.encode("utf-8", "backslashreplace").decode()

    def formatException(self, ei: ExcInfo) -> str:  # logging's name
        if self._shows_errors or ei[1] is None:
            return super().formatException(ei)
        return "\n".join(_lines(ei[1], set()))


def install(service: str, level: str, *, debug: bool) -> None:
    """Make every logger of the process write such lines to standard output. Exceptions of threads and
    warnings become such lines, too."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter(service, debug=debug))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)
    threading.excepthook = log_thread_exception
    sys.unraisablehook = log_unraisable


def log_thread_exception(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
        logger.error("a thread ended with an exception", exc_info=args.exc_value)


def log_unraisable(args: Any) -> None:
    if args.exc_value is not None:
        logger.error("an exception could not be raised", exc_info=args.exc_value)


def shorten_line(line: str, characters: int) -> str:
    """A line whose fields have so many characters at most. Of an exception, the end stays, which says what
    was raised last."""
    fields = json.loads(line)
    for name, value in fields.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if len(text) > characters:
            fields[name] = f"…{text[-characters:]}" if name == "exception" else f"{text[:characters]}…"
    return json.dumps(fields, ensure_ascii=False)


def _lines(error: BaseException, ids: set[int]) -> Iterator[str]:
    """Frames and type of an exception, after those of its cause; each exception once."""
    if id(error) in ids or len(ids) >= LOGGED_EXCEPTIONS:
        return
    ids.add(id(error))
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        yield from _lines(cause, ids)
    frames = [line.rstrip() for line in traceback.format_tb(error.__traceback__)]
    if (more := len(frames) - 2 * LOGGED_FRAMES) > 0:
        frames[LOGGED_FRAMES:-LOGGED_FRAMES] = [f"  … {more} frames"]
    yield from frames
    text = f": {error}"[:ERROR_CHARACTERS] if is_safe_to_log(error) else ""
    yield type(error).__name__ + text
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _lines(inner, ids)
