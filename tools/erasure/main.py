"""make erase: deletes what a stack stores about an owner: tasks, conversations, push configs and files.

make erase OWNER=alice STACK=my-stack                  everything of the owner
make erase OWNER=alice CONTEXT=… STACK=…               one conversation, with its tasks
make erase OWNER=alice TASK=… STACK=…                  one task
… AGENT=weather                                        only what the owner has with one agent
… without STACK                                        the same in the running development server

It reads the whole table, except for a task. If it is interrupted, the same command continues within a day
where it stopped. It asks before it begins, unless YES=1. docs/erasing.md says what backups still have.
"""

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.progress import Progress

from a2a_lambda.aws import clients
from a2a_lambda.aws.executions import LambdaExecutions
from a2a_lambda.catalog.agents import read_cards
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.identity import Namespace
from tools.access.parameters import stack_argument
from tools.command import reports_errors
from tools.deployment.stack import aws_errors, outputs_of
from tools.erasure.erasure import Counts, Erasure, Selection
from tools.state import BUCKET, TABLE, emulator_of

OWNER = re.compile(r"[^#\s]{1,512}")

CURSOR_SECONDS = 86_400
"""Seconds for which an interrupted erasure continues where it stopped. Later, much may have been written
before the cursor, so it begins again."""

FIRST_STATE: Mapping[str, Any] = {"cursor": None, "reads": 0, "counts": asdict(Counts()), "tasks": []}
"""State of an erasure that begins. tasks: agents and ids of erased tasks that were running, which are erased
again."""


def run(
    erasure: Erasure, selection: Selection, agents: Sequence[str], report: Callable[[int, int], None]
) -> None:
    """Erase a selection. Continues an erasure of the same that was interrupted.

    agents: names of agents with which a task may be. report: called with the items that were read, and how
        many there are, about. Raises ConfigurationError if there is no such task.
    """
    if selection.task:
        namespaces = [Namespace(selection.owner, agent) for agent in agents]
        if not any([erasure.erase_task(namespace, selection.task) for namespace in namespaces]):
            raise ConfigurationError(
                f"{selection.owner} has no task {selection.task} with {', '.join(agents)}. If it was erased"
                " before, nothing of it is left; otherwise, AGENT=… names another agent"
            )
        return
    table, total = erasure.describe_table()
    path = cursor_path(selection, table)
    state = _read_state(path)
    erasure.counts = Counts(**state["counts"])
    # Without its head, nothing says of which conversation a task was whose run has written more since then.
    for agent, task_id in state["tasks"]:
        erasure.erase_task(Namespace(selection.owner, agent), task_id)
    reads = state["reads"]
    for count, cursor in erasure.erase_pages(selection, state["cursor"]):
        reads += count
        report(reads, total)
        counts, tasks = asdict(erasure.counts), erasure.running_tasks
        _write_state(path, {"cursor": cursor, "reads": reads, "counts": counts, "tasks": tasks})
    if not selection.context:
        erasure.erase_files(selection)
    elif erasure.running_tasks:
        _write_state(path, {**FIRST_STATE, "tasks": erasure.running_tasks})
        return
    path.unlink(missing_ok=True)


def cursor_path(selection: Selection, table: str) -> Path:
    """Where an erasure that was interrupted continues: a file for each selection and table."""
    work = json.dumps([asdict(selection), table])
    return Path(f".erase-{hashlib.sha256(work.encode()).hexdigest()[:12]}.json")


def _read_state(path: Path) -> Mapping[str, Any]:
    """Where an erasure stopped; FIRST_STATE if it begins, also if the file is damaged."""
    try:
        is_recent = time.time() - path.stat().st_mtime <= CURSOR_SECONDS
        state: dict[str, Any] = {name: json.loads(path.read_text())[name] for name in FIRST_STATE}
        return state if is_recent and (state["cursor"] or state["tasks"]) else FIRST_STATE
    except (OSError, ValueError, TypeError, KeyError):
        return FIRST_STATE


def _write_state(path: Path, state: Mapping[str, Any]) -> None:
    new_path = path.with_suffix(f".{os.getpid()}")
    new_path.write_text(json.dumps(state))
    new_path.replace(path)  # all of it or nothing, whenever it is interrupted


def erasure_of(environ: Mapping[str, str]) -> Erasure:
    """The erasure in STACK, or in the running development server. Raises ConfigurationError."""
    if stack := environ.get("STACK"):
        outputs = outputs_of(stack)
        settings = Settings()
        table, bucket = outputs["TableName"], outputs.get("FileBucketName", "")
        executions = LambdaExecutions(lambda: clients.lambda_(settings), "")
    else:
        settings = Settings(local=True, emulator=emulator_of(environ, "AWS_ENDPOINT_URL_DYNAMODB"))
        table, bucket = environ.get("A2A_TABLE") or TABLE, BUCKET if settings.emulator else ""
        executions = None  # the server keeps them in its memory
    return Erasure(clients.dynamodb(settings), table, clients.s3(settings), bucket, executions)


def selection_of(environ: Mapping[str, str]) -> Selection:
    """Raises ConfigurationError."""
    owner, agent, context, task = (environ.get(name, "") for name in ("OWNER", "AGENT", "CONTEXT", "TASK"))
    for name in ("AGENT", "CONTEXT", "TASK"):
        if environ.get(name) == "":  # all of the owner's data would be erased
            raise ConfigurationError(f"{name} is empty: give it a value, or leave {name} out")
    if not OWNER.fullmatch(owner):
        raise ConfigurationError("name an owner, as make key lists it: make erase OWNER=alice STACK=…")
    if context and task:
        raise ConfigurationError("give CONTEXT or TASK, not both")
    return Selection(owner, agent, context, task)


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    selection = selection_of(environ)
    place = environ.get("STACK") or "the development server"
    with aws_errors(f"erasing in {place}"):
        erasure = erasure_of(environ)
        if not environ.get("YES"):
            try:
                answer = input(f"Erase {selection} in {place}? This cannot be undone. Write yes: ")
            except (EOFError, RuntimeError):  # it is at its end, or closed
                answer = ""
                print("\nthere is no terminal to ask in: add YES=1")
            if answer.strip() != "yes":
                print("nothing was erased")
                return 1
        agents = [selection.agent]
        if selection.task and not selection.agent:
            agents = sorted(read_cards(Settings().agents)[0])
        with Progress(transient=True) as progress:
            bar = progress.add_task("erasing", total=None)
            try:
                run(
                    erasure,
                    selection,
                    agents,
                    lambda reads, total: progress.update(bar, completed=reads, total=max(reads, total)),
                )
            except KeyboardInterrupt:
                raise ConfigurationError("interrupted; the same command continues") from None
    if erasure.counts == Counts():
        place = f" with the agent {selection.agent}" if selection.agent else ""
        print(
            f"nothing was found{place}; make key{stack_argument(environ)} lists the owners of keys; owners"
            " who sign in with tokens are in the logs"
        )
        return 0
    print(f"erased: {erasure.counts}")
    if erasure.counts.running:
        print(f"still running: {erasure.counts.running}. They may write more: run this again in 15 minutes")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
