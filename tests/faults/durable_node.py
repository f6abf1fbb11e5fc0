"""A process that runs durable turns, and dies: python -m tests.faults.durable_node LOG [PLACE N].

PLACE: where it is killed, as a container is, when it comes there for the Nth time: before or after a `write`
to the table or a `checkpoint` of the execution, or at the beginning or end of a `step`. LOG: file that gets
a line for every step that runs. Leases are short, so that no test waits long.
"""

import os
import signal
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from a2a_lambda.agent import steps
from a2a_lambda.aws import clients
from a2a_lambda.aws.lean.connections import HttpAnswer
from a2a_lambda.aws.lean.json_client import JsonClient
from a2a_lambda.durable.engine import Work
from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.execution_handler import DurableHandler
from tools.dev import event_sources

PLACES = (
    *("before write", "after write", "before checkpoint", "after checkpoint"),
    *("before step", "after step"),
)


class Death:
    """Kills this process at a place."""

    def __init__(self, place: str, number: int) -> None:
        self._place, self._left = place, number
        self._lock = threading.Lock()

    def at(self, place: str) -> None:
        if place != self._place:
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)


def watch(death: Death, log: Path) -> None:
    """Make the process pass all places."""
    post, perform_step = JsonClient._post, steps.perform_step  # type: ignore[attr-defined]

    def post_between(self: JsonClient, operation: str, body: bytes) -> HttpAnswer:
        is_write = operation == "PutItem"
        if is_write:
            death.at("before write")
        answer = post(self, operation, body)
        if is_write:
            death.at("after write")
        return answer

    async def perform_step_between(name: str, call: Work, *arguments: Any, **options: Any) -> bytes:
        with log.open("a") as lines:
            lines.write(f"{name}\n")
        death.at("before step")
        outcome = await perform_step(name, call, *arguments, **options)
        death.at("after step")
        return outcome

    def checkpoint_hook(place: str) -> Any:
        return lambda **_: death.at(place)

    JsonClient._post = post_between  # type: ignore[method-assign]
    steps.perform_step = perform_step_between  # type: ignore[attr-defined]
    events = clients.session().get_component("event_emitter")
    events.register("before-call.lambda.CheckpointDurableExecution", checkpoint_hook("before checkpoint"))
    events.register("after-call.lambda.CheckpointDurableExecution", checkpoint_hook("after checkpoint"))


def main(serving: Connection, log: str, place: str = "", number: str = "0") -> None:
    watch(Death(place, int(number)), Path(log))
    kit = Kit.of_environment()
    kit.agents.load("traveler")
    handler = DurableHandler(kit.execution_worker, kit.make_lambda_client())
    event_sources.serve_runs(handler, kit.settings.emulator)
    serving.send(True)
    threading.Event().wait()
