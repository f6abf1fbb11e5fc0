"""make fire [AGENT=… SCHEDULE=…] [STACK=…]: lists the schedules of a stack, or of make run, or starts one
now.

make fire                                      the schedules of make run
make fire AGENT=reports SCHEDULE=nightly        starts one, as if its time had come
make fire AGENT=reports SCHEDULE=nightly STACK=my-stack
"""

import os
import sys
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import httpx2
from rich.console import Console
from rich.table import Table

from a2a_lambda.catalog.agents import read_cards
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.settings import Settings
from tools.command import HOST, reports_errors
from tools.deployment.stack import ask_worker
from tools.state import server_port

SECONDS = 30.0


def ask_server(port: int, selection: Mapping[str, str]) -> Any:
    """The answer of make run. Raises ConfigurationError."""
    try:
        answer = httpx2.post(
            f"http://{HOST}:{port}/playground/schedules", json=selection, timeout=SECONDS, trust_env=False
        )
        answer.raise_for_status()
        content = answer.json()
        if not isinstance(content, dict):
            raise ValueError("its answer is not an object")
        return content
    except (httpx2.HTTPError, ValueError) as error:
        raise ConfigurationError(
            f"port {port} does not answer as make run does ({error}): start make run, name its PORT, or name"
            " a STACK"
        ) from None


def show(schedules: list[dict[str, str]]) -> None:
    """Print a table."""
    if not schedules:
        print("no agent that is served has a schedule: add one to its card.yaml, under schedules:")
        return
    table = Table(box=None, pad_edge=False)
    for title in ("agent", "schedule", "cron", "time zone", "next", "owner"):
        table.add_column(title, overflow="fold")
    for entry in schedules:
        next_time = datetime.fromisoformat(entry["next"]).astimezone(ZoneInfo(entry["timezone"]))
        table.add_row(
            entry["agent"],
            entry["id"],
            entry["cron"],
            entry["timezone"],
            f"{next_time:%Y-%m-%d %H:%M}",
            entry["owner"],
        )
    Console(highlight=False).print(table)


@reports_errors
def main() -> int:
    agent, name, stack = (os.environ.get(variable, "") for variable in ("AGENT", "SCHEDULE", "STACK"))
    if bool(agent) != bool(name):
        raise ConfigurationError("give both AGENT and SCHEDULE to start one, or neither to list them")
    selection = {"agent": agent, "id": name, "key": str(uuid.uuid4())} if name else {}
    if not stack:
        for reason in read_cards(Settings.of(os.environ).agents)[1].values():
            print(f"warning: {reason}", file=sys.stderr)
    answer = (
        ask_worker(stack, {"schedules": selection})
        if stack
        else ask_server(server_port(os.environ), selection)
    )
    if "error" in answer:
        raise ConfigurationError(answer["error"])
    if not selection:
        show(answer["schedules"])
        return 0
    task = answer["task"]
    print(f"started: task {task}")
    print(
        f"Next: make logs STACK={stack} TASK={task}" if stack else "Its log is in the terminal of make run."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
