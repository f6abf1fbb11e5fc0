"""Log lines as JSON, each with the ids of what it is about, by Powertools' formatter.

A key is in no record. What an exception says may quote a message, so its text is left out, unless
`debug` lets it in; its type and its frames stay.
Source: https://docs.aws.amazon.com/powertools/python/latest/core/logger/
"""

import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from a2a_lambda import telemetry
from a2a_lambda.errors import KitError

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

CHATTY = ("botocore", "boto3", "urllib3", "s3transfer", "httpx2", "httpcore2", "aws_xray_sdk")
"""Loggers that write requests down, secrets and messages in them, when they may."""

LOGGED_EXCEPTIONS = 50
"""Exceptions of a chain, or of groups in it, that are told of."""

logger = logging.getLogger(__name__)


class Formatter(LambdaPowertoolsFormatter):
    """service: name of the deployment. debug: exceptions may say what they say."""

    def __init__(self, service: str, *, debug: bool) -> None:
        super().__init__(utc=True, use_rfc3339=True, serialize_stacktrace=False, service=service)
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        record.__dict__.update(telemetry.ids())
        if not self._debug:
            if record.name == "asyncio":  # what follows is an exception's repr
                record.msg, record.args = re.split(r"[\n(%]", str(record.msg))[0], ()
            elif record.name == "py.warnings":  # file, line and category; what follows is the text
                record.msg, record.args = ": ".join(record.getMessage().split(": ")[:2]), ()
        return super().format(record)

    def formatException(self, ei: ExcInfo) -> str:  # logging's name
        if self._debug or ei[1] is None:
            return super().formatException(ei)
        return "\n".join(_lines(ei[1], set()))


def install(service: str, level: str, *, debug: bool) -> None:
    """Make every logger of the process write such lines to standard output; and what else would end up
    on standard error."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(Formatter(service, debug=debug))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)
    threading.excepthook = _threw
    sys.unraisablehook = _unraisable


def _threw(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
        logger.error("a thread ended with an exception", exc_info=args.exc_value)


def _unraisable(args: Any) -> None:
    if args.exc_value is not None:
        logger.error("an exception had nowhere to go", exc_info=args.exc_value)


def _lines(error: BaseException, told: set[int]) -> Iterator[str]:
    """Frames and type of an exception, behind those of what led to it; each once."""
    if id(error) in told or len(told) >= LOGGED_EXCEPTIONS:
        return
    told.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _lines(before, told)
    yield from (line.rstrip() for line in traceback.format_tb(error.__traceback__))
    safe_to_log = isinstance(error, KitError) and error.safe_to_log
    yield f"{type(error).__name__}: {error}" if safe_to_log else type(error).__name__
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _lines(inner, told)
