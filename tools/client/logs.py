"""make logs STACK=… [TASK=…]: follows the log of a deployed stack.

It reads the log groups of the stack's functions every two seconds. CloudWatch shows a line some seconds after
it was written, so the last two minutes are read again each time.
Source: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_FilterLogEvents.html
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rich.console import Console
from rich.text import Text

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from tools.command import reports_errors
from tools.deployment.stack import aws_errors, functions_of, resources_of
from tools.log_entry import LogEntry
from tools.terminal import log_text

PAUSE_SECONDS = 2.0
"""Seconds between looks."""

LATE_MS = 120_000
"""Milliseconds after which a line is expected to be in CloudWatch."""

SHOWN_MS = 600_000
"""The log begins so many milliseconds ago; with a task, at its beginning."""

DAY_MS = 86_400_000

STYLES = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}

LogsClient = Any


class Log:
    """The log of a stack. task: only lines about this task. groups: names of its log groups."""

    def __init__(self, client: LogsClient, groups: list[str], task: str = "") -> None:
        self._client = client
        self._groups = groups
        self._task = task
        self._seen: set[str] = set()
        self._since = int(time.time() * 1000) - (DAY_MS if task else SHOWN_MS)

    def read(self) -> list[LogEntry]:
        """Lines that were not returned before, by time. Raises ClientError and BotoCoreError."""
        start = int(time.time() * 1000)
        with ThreadPoolExecutor(len(self._groups)) as pool:
            lines = [event for events in pool.map(self._events, self._groups) for event in events]
        new = [event for event in lines if _identity(event) not in self._seen]
        new.sort(key=lambda event: event["timestamp"])
        entries = [entry_of(event["message"], event["timestamp"]) for event in new]
        self._since = max(self._since, start - LATE_MS)
        self._seen = {_identity(event) for event in lines if event["timestamp"] >= self._since}
        return [entry for entry in entries if entry is not None]

    def _events(self, group: str) -> list[dict[str, Any]]:
        pattern = {"filterPattern": f"{{ $.task_id = {json.dumps(self._task)} }}"} if self._task else {}
        pages = self._client.get_paginator("filter_log_events").paginate(
            logGroupName=group, startTime=self._since, **pattern
        )
        return [event for page in pages for event in page["events"]]


def _identity(event: Mapping[str, Any]) -> str:
    """An emulator's events have no ids."""
    return str(event.get("eventId") or f"{event['timestamp']} {event['message']}")


def entry_of(line: str, at: int) -> LogEntry | None:
    """A line of CloudWatch; None for metrics, and for Lambda's own lines about a start or an end.

    at: Unix time, ms.
    """
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):  # what an agent prints may be JSON, too
        value = {"message": line.rstrip()}
    if str(value.get("type", "")).startswith("platform."):
        return None
    if line.startswith(("START ", "END ", "REPORT ", "INIT_START ")) or "_aws" in value:
        return None
    entry = LogEntry(
        at=at,
        level=str(value.get("level", "INFO")),
        logger=str(value.get("logger") or value.get("location") or value.get("service") or "lambda"),
        message=str(value.get("message") or value.get("errorMessage") or line.rstrip()),
        agent=str(value.get("agent", "")),
        task=str(value.get("task_id", "")),
    )
    if value.get("exception"):
        entry["trace"] = str(value["exception"])
    return entry


def log_of(stack: str, task: str = "") -> Log:
    """Raises ConfigurationError if there is no such stack."""
    groups = groups_of(resources_of(stack))
    return Log(clients.session().create_client("logs"), groups, task)


def groups_of(resources: Mapping[str, str]) -> list[str]:
    """Names of the log groups of a stack's functions. resources: physical ids by logical ones."""
    names = [function.removesuffix("Function") for function in functions_of(resources)]
    return [resources[f"{name}Lines"] for name in names]


def follow(log: Log) -> Iterator[LogEntry]:
    """The lines, until the caller stops. Raises ConfigurationError."""
    while True:
        with aws_errors("reading the log"):
            entries = log.read()
        yield from entries
        time.sleep(PAUSE_SECONDS)


def text_of(entry: LogEntry) -> Text:
    """A line for the terminal."""
    stamp = time.strftime("%H:%M:%S", time.localtime(entry["at"] / 1000))
    text = Text(f"{stamp}  ", style="dim")
    text.append(f"{entry['level']:<8} ", style=STYLES.get(entry["level"], "default"))
    text.append(log_text(f"{entry['logger']}: {entry['message']}"), style="not dim")
    if entry["task"]:
        text.append(log_text(f"  {entry['task']}"))
    if trace := entry.get("trace"):
        text.append(log_text(f"\n{trace}"), style="not dim red")
    return text


@reports_errors
def main() -> int:
    """Print the lines until Ctrl-C."""
    stack, task = os.environ.get("STACK", ""), os.environ.get("TASK", "")
    if not stack:
        raise ConfigurationError("name a stack: make logs STACK=<stack> [TASK=<task id>]")
    console = Console(highlight=False, soft_wrap=True)
    for entry in follow(log_of(stack, task)):
        console.print(text_of(entry))
    return 0


if __name__ == "__main__":
    sys.exit(main())
