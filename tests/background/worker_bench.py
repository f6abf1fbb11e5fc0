"""A deployment with a worker, and a clock that tests move."""

import asyncio
import uuid
from typing import Any

from a2a_lambda.agent.agent import Agent
from a2a_lambda.aws import clients
from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.background.sweep import Sweep
from a2a_lambda.background.worker import Worker
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.files.files import Files
from a2a_lambda.operations.messages import Messages
from a2a_lambda.operations.service import Service
from a2a_lambda.protocol.model import Json, Message, Part, Role, Task
from a2a_lambda.protocol.requests import SendMessageConfiguration, SendMessageRequest
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace, RequestIdentity, TurnReference
from a2a_lambda.tasks.message_call import MessageCall
from tests.background.fake_queue import FakeQueue
from tests.conftest import AGENTS
from tests.helpers.clock import Clock
from tests.helpers.rpc import intent


class WorkerBench:
    def __init__(self, settings: Settings, agents: Agents | None = None) -> None:
        """agents: one of them is called probe."""
        self.agents = agents = agents or Agents.of(Agent.load(AGENTS / "probe"))
        self.namespace = Namespace(f"owner-{uuid.uuid4()}", "probe")
        self.clock = Clock()
        self.store = Store(
            Table(clients.dynamodb(settings), settings.table, clock=self.clock), ttl=30 * 86_400
        )
        self.queue = FakeQueue()
        dispatcher = Dispatcher(self.queue)
        self.messages = Messages(self.store, agents, dispatcher=dispatcher, repeat_seconds=60, files=Files())
        self.service = Service(self.store, dispatcher=dispatcher, files=Files())
        self.worker = Worker(self.store, agents, files=Files())
        self.sweep = Sweep(self.store, dispatcher)

    def sent(self, skill: str, identity: str = "", **fields: Any) -> tuple[MessageCall, SendMessageRequest]:
        message = Message(messageId="m", role=Role.USER, parts=[Part(text="hi")])
        message["metadata"] = intent(skill, **fields.pop("slots", {}))
        message.update(fields)  # type: ignore[typeddict-item]
        request = SendMessageRequest(
            message=message,
            configuration=SendMessageConfiguration(
                returnImmediately=True, acceptedOutputModes=["text/plain"]
            ),
            metadata={"around": 9007199254740993},
        )
        body = (identity or str(uuid.uuid4())).encode()
        return MessageCall(
            self.namespace, RequestIdentity.of(self.namespace, "send", body), extensions=("urn:x",)
        ), request

    def send(self, skill: str, identity: str = "", **fields: Any) -> Task:
        return asyncio.run(self.messages.send(*self.sent(skill, identity, **fields)))["task"]

    def work(self) -> int:
        """Work off what waits; returns how much that was."""
        waiting, self.queue.waiting = self.queue.waiting, []
        for ticket in waiting:
            asyncio.run(self.worker.run_turn(ticket, None))
        return len(waiting)

    def get(self, task_id: str) -> Task:
        return asyncio.run(self.service.get(self.namespace, task_id)).task

    def head(self, task_id: str) -> Head:
        head = self.store.get_head(self.namespace, task_id)
        assert head is not None
        return head

    def ticket(self, task_id: str) -> TurnReference:
        return self.head(task_id).turn_reference

    def died(self, task_id: str, *, said: str = "") -> None:
        """Its worker took the task, stored something, and is no more."""
        head = self.head(task_id)
        if head.holder:
            head = self.store.take_over(head)
        head = self.store.update_head(head.with_holder(self.clock()))
        if said:
            artifact = {"artifactId": "artifact-1", "parts": [{"text": said}]}
            ids = {"taskId": task_id, "contextId": head.context_id}
            update: Json = {**ids, "artifact": artifact, "append": False, "lastChunk": False}
            _, last = self.store.get_task(head)
            self.store.append(head, [{"artifactUpdate": update}], after=last)
        self.clock.now += 31
