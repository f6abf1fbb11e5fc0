"""A deployment with durable turns, on AWS's SDK, against AWS's own emulation of durable executions."""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda.agent.agent import Agent
from a2a_lambda.aws import clients
from a2a_lambda.aws.executions import LambdaExecutions
from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.background.execution_worker import ExecutionWorker
from a2a_lambda.background.sweep import Sweep
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.errors import StoreError
from a2a_lambda.files.bucket import Bucket
from a2a_lambda.files.files import Files
from a2a_lambda.lambda_.execution_handler import DurableHandler
from a2a_lambda.operations.messages import Messages
from a2a_lambda.operations.service import Service
from a2a_lambda.operations.waits import Waits
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.model import Event, Json, Message, Part, Role, Task, TaskState
from a2a_lambda.protocol.requests import SendMessageConfiguration, SendMessageRequest
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.callback_token import CallbackToken
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace, RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall
from tests.conftest import AGENTS, DAY, table_properties
from tests.files.fake_s3 import FakeS3
from tests.helpers.clock import wait_until
from tests.helpers.rpc import intent
from tools import template
from tools.dev import emulator, event_sources

RUNS: list[object] = []
"""The runs of durable turns that have not ended."""


@pytest.fixture(scope="module")
def durable_settings() -> Iterator[Settings]:
    """With an emulator in which a pause takes a fifth of a second at most."""
    with emulator.running(longest_pause="0.2") as url:
        settings = Settings(
            table="durable",
            agents=AGENTS,
            base_url="https://agents.example.com",
            durable_function="durable:live",
            execution_timeout=30 * DAY,
            local=True,
            emulator=url,
        )
        template.create_table(clients.dynamodb(settings), settings.table, table_properties())
        yield settings
        # One that finds no emulator at its end would log that for a minute, during other modules' tests.
        wait_until(lambda: not RUNS)


class DurableBench:
    """A deployment: its function is run in threads of this process, or elsewhere."""

    def __init__(self, settings: Settings, *, serves: bool = True) -> None:
        self.agents = Agents.of(Agent.load(AGENTS / "traveler"))
        self.namespace = Namespace(f"owner-{uuid.uuid4()}", "traveler")
        self.table = clients.dynamodb(settings)
        self.store = Store(
            Table(self.table, settings.table), ttl=30 * DAY, execution_seconds=settings.execution_timeout
        )
        self.executions = LambdaExecutions(lambda: clients.lambda_(settings), settings.durable_function)
        dispatcher = Dispatcher(executions=self.executions)
        self.s3 = FakeS3()
        files = Files(Bucket(lambda: self.s3, "files"))  # type: ignore[arg-type,return-value]
        self.messages = Messages(
            self.store,
            self.agents,
            dispatcher=dispatcher,
            repeat_seconds=60,
            files=files,
        )
        self.service = Service(self.store, dispatcher=dispatcher, files=files)
        self.waits = Waits(self.store, dispatcher)
        self.numbers: list[int] = []
        self.execution_worker = ExecutionWorker(self.store, self.agents, files)
        self.sweep_all = Sweep(self.store, dispatcher)
        self.client = clients.lambda_(settings)
        self.handler = DurableHandler(self.execution_worker, self.client)
        self.runs: list[Json] = []
        if serves:
            event_sources.serve_runs(self.run, settings.emulator)

    def run(self, event: Json, context: Any) -> Json:
        RUNS.append(event)
        try:
            answer = self.handler(event, context)
        finally:
            RUNS.remove(event)
        self.runs.append(answer)
        return answer

    @property
    def calls(self) -> Any:
        """How often each step of the agent ran."""
        return self.variable("CALLS")

    def variable(self, name: str) -> Any:
        """A variable of the agent's module."""
        return self.agents.load("traveler").skills["now"].function.__globals__[name]

    def send(
        self,
        text: str = "",
        skill: str = "plan-trip",
        identity: str = "",
        *,
        names_tasks: bool = True,
        caller: Caller | None = None,
        **fields: Any,
    ) -> Task:
        message = Message(messageId="m", role=Role.USER, parts=[Part(text=text)])
        if "taskId" not in fields and "contextId" not in fields:
            message["metadata"] = intent(skill)
        message.update(fields)  # type: ignore[typeddict-item]
        request = SendMessageRequest(
            message=message, configuration=SendMessageConfiguration(returnImmediately=True)
        )
        body = (identity or str(uuid.uuid4())).encode()
        same = RequestIdentity.of(self.namespace, "send", body)
        url = "https://agents.example.com"
        call = MessageCall(
            self.namespace, same, caller, wire_name="1.0", base_url=url, names_tasks=names_tasks
        )
        return asyncio.run(self.messages.send(call, request))["task"]

    def get(self, task_id: str) -> Task:
        return asyncio.run(self.service.get(self.namespace, task_id)).task

    def head(self, task_id: str) -> Head:
        head = self.store.get_head(self.namespace, task_id)
        assert head is not None
        return head

    def wait(self, task_id: str, condition: Callable[[Head], bool]) -> Task:
        """Wait until the task's head meets a condition; returns the task as it was then."""

        def task_at_condition() -> Task | None:
            if not condition(head := self.head(task_id)):
                return None
            task = self.get(task_id)
            # A timer may have woken the turn between the two looks.
            return task if self.head(task_id) == head else None

        task: Task = wait_until(task_at_condition)
        return task

    def wait_for(self, task_id: str, state: TaskState) -> Task:
        return self.wait(task_id, lambda head: head.state == state)

    def wait_for_runs(self, count: int) -> None:
        """Wait until the function has run so often; it has not run more often."""
        wait_until(lambda: len(self.runs) >= count)
        assert len(self.runs) == count

    def follow(self, task_id: str, *, after: int = 0, stop_after: int = 1_000) -> list[Event]:
        """Events of a task as a client that subscribes has them for good: up to the last number. `numbers`
        has the numbers."""

        async def follow() -> list[Event]:
            subscription = await self.service.subscribe(self.namespace, task_id, after=after, deadline=None)
            self.numbers = []
            received_events: list[Event] = []
            length = 0
            async with aclosing(subscription.events) as events:
                async for number, event in events:
                    received_events.append(event)
                    if number is not None:
                        self.numbers.append(number)
                        length = len(received_events)
                    if len(self.numbers) == stop_after:
                        break
            return received_events[:length]

        return asyncio.run(follow())

    def reply(self, url: str, data: Json) -> None:
        """What another system sends to a wait."""
        asyncio.run(self.waits.end(CallbackToken.read(url.rpartition("/")[2]), data))

    def sweep(self, task_id: str) -> None:
        """A sweep, when the task is due."""
        head = self.head(task_id)
        self.store.update_head(replace(head, due=int(self.store.clock()) // 60))
        minute = int(self.store.clock()) // 60
        with suppress(Conflict):  # the turn continues already
            asyncio.run(self.sweep_all.look_at(self.namespace, task_id, minute))

    def wait_until_open(self, task_id: str) -> Task:
        """The task, after its turn waits for a reply."""
        return self.wait(task_id, lambda head: bool(waits_of(head)))


@pytest.fixture
def bench(durable_settings: Settings) -> Iterator[DurableBench]:
    bench = DurableBench(durable_settings)
    yield bench
    bench.calls.clear()


def waits_of(head: Head) -> list[str]:
    """Keys of the waits of a turn that is suspended."""
    execution = head.execution
    return [wait.key for wait in execution.waits] if execution is not None else []


def texts(task: Task) -> dict[str, str]:
    """Texts of the artifacts by name."""
    return {
        artifact.get("name", ""): "".join(part.get("text", "") for part in artifact["parts"])
        for artifact in task.get("artifacts", [])
    }


def text_of(message: Message) -> str:
    return "".join(part.get("text", "") for part in message["parts"])


def no_engine(*_: Any) -> Any:
    raise AssertionError("the turn must not run")


def unreachable(*_: Any) -> str:
    raise StoreError("Lambda does not answer")


def parts_of(event: Event) -> list[Part]:
    return event["artifactUpdate"]["artifact"]["parts"] if "artifactUpdate" in event else []


def url_of(task: Task) -> str:
    url = task["artifacts"][0]["parts"][0]["data"]["pay at"]
    assert isinstance(url, str)
    return url


def operations(events: list[Event]) -> list[str]:
    """Kind, name and state of the operations that events report."""
    notices = [
        event["statusUpdate"].get("metadata", {}).get("operation")
        for event in events
        if "statusUpdate" in event
    ]
    return [f"{each['kind']} {each['name']} {each['state']}" for each in notices if each]
