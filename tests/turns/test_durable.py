"""Durable turns on AWS's SDK, against AWS's own emulation of durable executions: suspended, resumed,
answered, canceled, run again."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from a2a_lambda.agent.agent import Agent
from a2a_lambda.agent.agents import Agents
from a2a_lambda.aws import clients
from a2a_lambda.aws.executions import LambdaExecutions
from a2a_lambda.lambda_.durable import DurableHandler
from a2a_lambda.operations.service import Service
from a2a_lambda.protocol.model import Json, Message, Part, Role, Task, TaskState
from a2a_lambda.protocol.requests import SendMessageConfiguration, SendMessageRequest
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.call_context import CallContext
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import RequestIdentity, Scope
from a2a_lambda.turns.durable import DurableTurns
from a2a_lambda.turns.worker import Worker
from tests.conftest import AGENTS, DAY, ROOT
from tests.helpers.rpc import intent
from tests.turns.test_worker import Line
from tools import template
from tools.dev import emulator, event_sources

SECONDS = 30
"""More than any of these tests takes on a busy machine."""


@pytest.fixture(scope="module")
def durable_settings() -> Iterator[Settings]:
    """With an emulator in which a pause takes a fifth of a second at most."""
    with emulator.running(longest_pause="0.2") as url:
        made = Settings(
            table="durable",
            agents=AGENTS,
            base_url="https://agents.example.com",
            durable_function="durable:live",
            durable_timeout=30 * DAY,
            local=True,
            emulator=url,
        )
        template.create_table(clients.dynamodb(made), made.table, ROOT / "template.yaml")
        yield made


class Bench:
    """A deployment: its function is run in threads of this process."""

    def __init__(self, settings: Settings) -> None:
        self.agents = Agents.of(Agent.load(AGENTS / "traveler"))
        self.scope = Scope(f"owner-{uuid.uuid4()}", "traveler")
        self.store = Store(clients.dynamodb(settings), settings.table, ttl=30 * DAY)
        self.executions = LambdaExecutions(lambda: clients.lambda_(settings), settings.durable_function)
        self.turns = DurableTurns(self.store, self.agents, self.executions, url=settings.base_url)
        self.service = Service(
            self.store,
            self.agents,
            repeat_seconds=60,
            durable=self.turns,
            durable_seconds=settings.durable_timeout,
        )
        self.worker = Worker(self.store, self.agents, Line(), self.turns)
        self.handler = DurableHandler(self.turns, clients.lambda_(settings))
        self.runs: list[Json] = []
        event_sources.serve_runs(self.run, settings.emulator)

    def run(self, event: Json, context: Any) -> Json:
        answer = self.handler(event, context)
        self.runs.append(answer)
        return answer

    @property
    def calls(self) -> Any:
        """How often each step of the agent ran."""
        return self.agents.load("traveler").skills["now"].function.__globals__["CALLS"]

    def send(self, text: str = "", skill: str = "plan-trip", identity: str = "", **fields: Any) -> Task:
        said = Message(messageId="m", role=Role.USER, parts=[Part(text=text)])
        if "taskId" not in fields and "contextId" not in fields:
            said["metadata"] = intent(skill)
        said.update(fields)  # type: ignore[typeddict-item]
        request = SendMessageRequest(
            message=said, configuration=SendMessageConfiguration(returnImmediately=True)
        )
        body = (identity or str(uuid.uuid4())).encode()
        call = CallContext(self.scope, RequestIdentity.of(self.scope, "send", body), wire_name="1.0")
        return asyncio.run(self.service.send(call, request))["task"]

    def get(self, task_id: str) -> Task:
        return asyncio.run(self.service.get(self.scope, task_id)).task

    def head(self, task_id: str) -> Head:
        head = self.store.get_head(self.scope, task_id)
        assert head is not None
        return head

    def wait(self, task_id: str, until: Callable[[Head], bool]) -> Task:
        """The task, after its head is as wanted."""
        give_up_at = time.monotonic() + SECONDS
        while not until(self.head(task_id)):
            assert time.monotonic() < give_up_at, (self.head(task_id), self.runs)
            time.sleep(0.02)
        return self.get(task_id)

    def wait_for(self, task_id: str, state: TaskState) -> Task:
        return self.wait(task_id, lambda head: head.state == state)

    def wait_until_open(self, task_id: str) -> Task:
        """The task, after its turn waits for a reply."""
        return self.wait(task_id, lambda head: head.open_wait is not None)


@pytest.fixture
def bench(durable_settings: Settings) -> Iterator[Bench]:
    bench = Bench(durable_settings)
    yield bench
    bench.calls.clear()


def texts(task: Task) -> dict[str, str]:
    """Texts of the artifacts by name."""
    return {
        each.get("name", ""): "".join(part.get("text", "") for part in each["parts"])
        for each in task.get("artifacts", [])
    }


def test_a_trip_sleeps_asks_and_books(bench: Bench) -> None:
    task = bench.send("Oslo")
    assert task["status"]["state"] == TaskState.SUBMITTED
    asked = bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    assert asked["status"]["message"]["parts"] == [{"text": "Shall I book it?"}]
    assert texts(asked) == {"": "A plan for Oslo. 3 nights. "}
    answered = bench.send("yes", taskId=task["id"])
    assert answered["id"] == task["id"]
    done = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(done) == {
        "": "A plan for Oslo. 3 nights. Booked.",
        "report": "hotel in Oslo, train in Oslo, table in Oslo",
    }
    assert [text_of(each) for each in done["history"]] == ["Oslo", "Shall I book it?", "yes"]
    assert bench.calls == {"plan": 1, "hotel": 1, "train": 1, "table": 1}
    context = bench.store.get_context(bench.scope, task["contextId"])
    assert context.memory == {"city": "Oslo"}
    assert context.waiting == ""


def text_of(message: Message) -> str:
    return "".join(part.get("text", "") for part in message["parts"])
