"""The output of the development server: a line for each request, what agents log, and their errors in full.

14:03:22  POST /a2a/weather/stream  weather  7f3a91c2-…  200  312 ms
14:03:23  INFO     agents.weather.agent: the forecast took 280 ms
"""

import asyncio
import logging
import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import a2a_lambda
from a2a_lambda import telemetry
from a2a_lambda.errors import Unavailable
from a2a_lambda.http.app import CALLBACKS
from a2a_lambda.http.error_responses import error_response
from a2a_lambda.lambda_.json_logs import CHATTY
from a2a_lambda.mistakes import hints
from tools.terminal import log_text, printable

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

KIT = Path(a2a_lambda.__file__).parent

QUIET = (*CHATTY, "uvicorn", "watchfiles", "asyncio")
"""Loggers that write warnings and errors only."""

DIM, RED, GREEN, YELLOW = "2", "31", "32", "33"
"""Codes of ECMA-48's Select Graphic Rendition."""

COLORS = {logging.WARNING: YELLOW, logging.ERROR: RED, logging.CRITICAL: RED}

AWS_ADVICE = {
    "NoRegionError": "No AWS region is set: stop make run, set AWS_REGION or AWS_PROFILE, and start again.",
    "NoCredentialsError": "There are no AWS credentials: stop make run, set AWS_PROFILE, and start again.",
}
"""What to do about an error of botocore in an agent, by its type. Agents under make run call the real AWS."""

ENDING = "The server has stopped, or a file was edited. Please send the message again."
"""What clients read about turns and requests that were cut off."""

requests = logging.getLogger("a2a_lambda.requests")


class ConsoleFormatter(logging.Formatter):
    """Formats a line of the log for a terminal.

    colored: whether the lines are for a terminal.
    """

    def __init__(self, *, colored: bool) -> None:
        super().__init__()
        self._colored = colored

    def format(self, record: logging.LogRecord) -> str:
        message = log_text(record.getMessage())
        stamp = self._paint(time.strftime("%H:%M:%S", time.localtime(record.created)), DIM)
        if record.name == requests.name:
            status = record.__dict__.get("status", 0)
            color = GREEN if status < 400 else YELLOW if status < 500 else RED
            return f"{stamp}  {self._paint(message, color)}"
        severity = logging.WARNING if record.name == hints.name else record.levelno
        level = self._paint(f"{logging.getLevelName(severity):<8}", COLORS.get(severity, ""))
        lines = [f"{stamp}  {level} {record.name}: {message}"]
        if record.exc_info and record.exc_info[1] is not None:
            lines.append(trace_of(record.exc_info[1]))
            if advice := AWS_ADVICE.get(type(record.exc_info[1]).__name__):
                lines.append(advice)
        return "\n".join(lines)

    def _paint(self, text: str, color: str) -> str:
        return f"\x1b[{color}m{text}\x1b[0m" if self._colored and color else text


def install() -> None:
    """Write every logger's lines to standard error. Colors only on a terminal, and not if NO_COLOR is set
    (https://no-color.org)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ConsoleFormatter(colored=sys.stderr.isatty() and not os.environ.get("NO_COLOR")))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


class RequestLog:
    """An ASGI application, with a line for each request. "-": not known, or the request was refused
    before."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.monotonic()
        status = 0
        ids = telemetry.collect()

        async def watch(message: "Message") -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except asyncio.CancelledError:
            # The server ends, after an edit or Ctrl-C. A traceback would say nothing new.
            if not status:
                await error_response(Unavailable(ENDING))(scope, receive, watch)
        finally:
            path = scope.get("raw_path", b"").decode("ascii", "replace") or scope["path"]
            if CALLBACKS in path:  # whose rest is a secret
                path = f"{CALLBACKS}…"
            fields = (
                f"{scope['method']} {path}",
                str(ids.get("agent", "-")),
                str(ids.get("task_id", "-")),
                str(status or "no answer"),
                f"{(time.monotonic() - start) * 1000:.0f} ms",
            )
            requests.info("  ".join(fields), extra={"status": status})


def trace_of(error: BaseException) -> str:
    """A traceback. If it has frames of an agent, the kit's frames are left out."""
    trace = traceback.TracebackException.from_exception(error)
    _strip(trace)
    return printable("".join(trace.format()).rstrip())


def _strip(part: Any) -> None:
    frames = [frame for frame in part.stack if not Path(frame.filename).is_relative_to(KIT)]
    if any("agents" in Path(frame.filename).parts for frame in frames):
        part.stack = traceback.StackSummary.from_list(frames)
    for inner in (part.__cause__, part.__context__, *(part.exceptions or ())):
        if inner is not None:
            _strip(inner)
