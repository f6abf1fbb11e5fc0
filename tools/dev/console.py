"""What a developer reads while the server runs: a line for each request, what agents log, and their errors
in full.

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
from a2a_lambda.http.error_responses import error_response
from a2a_lambda.lambda_.json_logs import CHATTY

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

KIT = Path(a2a_lambda.__file__).parent

QUIET = (*CHATTY, "uvicorn", "watchfiles", "asyncio")
"""Loggers whose warnings are enough."""

DIM, RED, GREEN, YELLOW = "2", "31", "32", "33"
"""Codes of ECMA-48's Select Graphic Rendition."""

COLOURS = {logging.WARNING: YELLOW, logging.ERROR: RED, logging.CRITICAL: RED}

ENDING = "the development server was stopped or starts anew, and this turn is lost: send the message again"

requests = logging.getLogger("a2a_lambda.requests")


class Formatter(logging.Formatter):
    """coloured: for a terminal."""

    def __init__(self, *, coloured: bool) -> None:
        super().__init__()
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        message = _printable(record.getMessage())
        at = self._paint(time.strftime("%H:%M:%S", time.localtime(record.created)), DIM)
        if record.name == requests.name:
            status = record.__dict__.get("status", 0)
            colour = GREEN if status < 400 else YELLOW if status < 500 else RED
            return f"{at}  {self._paint(message, colour)}"
        level = self._paint(f"{record.levelname:<8}", COLOURS.get(record.levelno, ""))
        lines = [f"{at}  {level} {record.name}: {message}"]
        if record.exc_info and record.exc_info[1] is not None:
            lines.append(_trace(record.exc_info[1]))
        return "\n".join(lines)

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._coloured and colour else text


def install() -> None:
    """Write every logger's lines to standard error. Colours only on a terminal, and not if NO_COLOR is set
    (https://no-color.org)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(coloured=sys.stderr.isatty() and not os.environ.get("NO_COLOR")))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


class RequestLog:
    """An ASGI application, and a line for each request it has answered. "-": not known, or refused before
    it was."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        status = 0
        ids = telemetry.collect()

        async def watch(message: "Message") -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except (
            asyncio.CancelledError
        ):  # the server ends, after an edit or Ctrl-C; a traceback would say nothing new
            if not status:
                await error_response(Unavailable(ENDING))(scope, receive, watch)
        finally:
            fields = (
                f"{scope['method']} {scope.get('raw_path', b'').decode('ascii', 'replace') or scope['path']}",
                str(ids.get("agent", "-")),
                str(ids.get("task_id", "-")),
                str(status or "no answer"),
                f"{(time.monotonic() - began) * 1000:.0f} ms",
            )
            requests.info("  ".join(fields), extra={"status": status})


def _printable(text: str) -> str:
    """Text without what a terminal would take for a command: any page can call a local server."""
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)


def _trace(error: BaseException) -> str:
    """A traceback; without the kit's own frames, if there are an agent's."""
    whole = traceback.TracebackException.from_exception(error)
    _strip(whole)
    return _printable("".join(whole.format()).rstrip())


def _strip(part: Any) -> None:
    frames = [frame for frame in part.stack if not Path(frame.filename).is_relative_to(KIT)]
    if any("agents" in Path(frame.filename).parts for frame in frames):
        part.stack = traceback.StackSummary.from_list(frames)
    for inner in (part.__cause__, part.__context__, *(part.exceptions or ())):
        if inner is not None:
            _strip(inner)
