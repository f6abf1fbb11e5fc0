"""Log lines as JSON, each with the ids of what it is about, by Powertools' formatter.

A key is in no record. What an exception says may quote a message, so its text is left out, unless
`debug` lets it in; its type and its frames stay.
Source: https://docs.aws.amazon.com/powertools/python/latest/core/logger/
"""

import logging
import sys
import traceback
from collections.abc import Iterator
from types import TracebackType

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from a2a_lambda import telemetry
from a2a_lambda.errors import KitError, SkillError

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class Formatter(LambdaPowertoolsFormatter):
    """service: name of the deployment. debug: exceptions may say what they say."""

    def __init__(self, service: str, *, debug: bool) -> None:
        super().__init__(utc=True, use_rfc3339=True, serialize_stacktrace=False, service=service)
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        record.__dict__.update(telemetry.ids())
        if record.name == "asyncio" and not self._debug:  # what follows is an exception's repr
            record.msg, record.args = record.getMessage().partition("\n")[0], ()
        return super().format(record)

    def formatException(self, ei: ExcInfo) -> str:  # logging's name
        if self._debug or ei[1] is None:
            return super().formatException(ei)
        return "\n".join(line for error in _chain(ei[1]) for line in _frames(error))


def install(service: str, level: str, *, debug: bool) -> None:
    """Make every logger of the process write such lines to standard output."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(Formatter(service, debug=debug))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception behind those that led to it."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _chain(before)
    yield error


def _frames(error: BaseException) -> Iterator[str]:
    for line in traceback.format_tb(error.__traceback__):
        yield line.rstrip()
    own = isinstance(error, KitError) and not isinstance(error, SkillError)  # it names ids at most
    yield f"{type(error).__name__}: {error}" if own else type(error).__name__
