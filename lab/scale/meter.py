"""Runs the kit on a table in memory, and writes down the calls to DynamoDB of each operation."""

import asyncio
import time
import uuid
from pathlib import Path
from typing import Any

from a2a_lambda.agent.agent import Agent
from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.background.worker import Worker
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.files.files import Files
from a2a_lambda.operations.call_slots import CallSlots
from a2a_lambda.operations.follow import follow
from a2a_lambda.operations.messages import Messages
from a2a_lambda.operations.service import Service
from a2a_lambda.protocol.model import Message, Part, Role
from a2a_lambda.protocol.requests import ListTasksRequest, SendMessageConfiguration, SendMessageRequest
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Namespace, RequestIdentity, TurnReference
from a2a_lambda.tasks.message_call import MessageCall
from lab.memory_table import MemoryTable
from tools.costs.units import TableCall, of_batch, of_read, of_write

AGENT = Path(__file__).parent / "agents" / "model"

STREAM_SECONDS = 30
"""Seconds of the stream, the background turn and the follower that are measured: long enough for renewals of
a lease, and for the slower pace of later writes and looks."""

LISTED = 50
"""Tasks on a page, as many as a client gets that does not ask for a number."""

SCOPE = Namespace("owner", "model")

Item = dict[str, Any]


class Metered:
    """A client whose calls are written down. Methods, arguments and answers are botocore's."""

    def __init__(self) -> None:
        self._table = MemoryTable()
        self._items: dict[tuple[str, str], Item] = {}
        self._began = time.monotonic()
        self._calls: list[TableCall] = []

    def taken(self) -> list[TableCall]:
        """The calls since the last look. The next operation begins now."""
        calls, self._calls, self._began = self._calls, [], time.monotonic()
        return calls

    def put_item(self, **arguments: Any) -> Item:
        self._write(arguments["Item"])
        return self._table.put_item(**arguments)

    def delete_item(self, **arguments: Any) -> Item:
        self._write(arguments["Key"])
        return self._table.delete_item(**arguments)

    def get_item(self, **arguments: Any) -> Item:
        answer = self._table.get_item(**arguments)
        items = [answer["Item"]] if "Item" in answer else []
        self._calls.append(of_read(self._now(), arguments["Key"]["pk"]["S"], items, is_consistent=True))
        return answer

    def batch_get_item(self, **arguments: Any) -> Item:
        answer = self._table.batch_get_item(**arguments)
        [items] = answer["Responses"].values()
        self._calls.append(of_batch(self._now(), items))
        return answer

    def query(self, **arguments: Any) -> Item:
        answer = self._table.query(**arguments)
        values = arguments["ExpressionAttributeValues"]
        partition = values.get(":pk", values.get(":listing"))["S"]
        items = answer.get("Items", [])
        is_consistent = "IndexName" not in arguments
        self._calls.append(of_read(self._now(), partition, items, is_consistent=is_consistent))
        return answer

    def _write(self, item: Item) -> None:
        key = item["pk"]["S"], item["sk"]["S"]
        self._calls.append(of_write(self._now(), self._items.get(key, {}), item))
        self._items[key] = item

    def _now(self) -> float:
        return time.monotonic() - self._began


class Line:
    """A queue in a list."""

    def __init__(self) -> None:
        self.waiting: list[TurnReference] = []

    def send(self, turn: TurnReference) -> None:
        self.waiting.append(turn)

    def postpone(self, arn: str, handle: str, attempt: int) -> None:
        """Nothing comes twice here."""


class Bench:
    """A deployment with a table of its own."""

    def __init__(self) -> None:
        self.client, self.line = Metered(), Line()
        self.store = Store(Table(self.client, "scale"), ttl=86_400)  # type: ignore[arg-type]
        agents = Agents.of(Agent.load(AGENT))
        self._slots = CallSlots(self.store, 20)
        self.messages = Messages(
            self.store,
            agents,
            dispatcher=Dispatcher(self.line),
            repeat_seconds=60,
            call_slots=self._slots,
            files=Files(),
        )
        self.service = Service(self.store, files=Files())
        self._worker = Worker(self.store, agents, files=Files())

    async def send(
        self, skill: str = "answer", text: str = "hi", in_background: bool = False
    ) -> list[TableCall]:
        self.client.taken()
        await self.messages.send(*_request(skill, text, in_background))
        return self.client.taken()

    async def stream(self) -> list[TableCall]:
        async with self._slots.hold(SCOPE.owner):
            async for _ in await self.messages.stream(*_request("write", str(STREAM_SECONDS))):
                pass
        return self.client.taken()

    async def follow_in_silence(self) -> list[TableCall]:
        """A follower of a turn that waits for the worker."""
        await self.send("write", str(STREAM_SECONDS), in_background=True)
        head = self.store.get_head(SCOPE, self.line.waiting.pop().task_id)
        assert head is not None
        self.client.taken()
        async for _ in follow(self.store, head, deadline=time.monotonic() + STREAM_SECONDS):
            pass
        return self.client.taken()

    async def work(self) -> list[TableCall]:
        await self.send("write", str(STREAM_SECONDS), in_background=True)
        await self._worker.run_turn(self.line.waiting.pop(), None)
        return self.client.taken()

    async def list(self) -> list[TableCall]:
        for _ in range(LISTED):
            await self.send()
        await self.service.list(SCOPE, ListTasksRequest(pageSize=LISTED))
        return self.client.taken()


async def measure() -> dict[str, list[TableCall]]:
    """Calls of each operation, in their order. Takes a little longer than STREAM_SECONDS."""
    operations = {
        "send": Bench().send(),
        "background send": Bench().send("write", in_background=True),
        "list": Bench().list(),
        "stream": Bench().stream(),
        "background turn": Bench().work(),
        "follower": Bench().follow_in_silence(),
    }
    return dict(zip(operations, await asyncio.gather(*operations.values()), strict=True))


def _request(skill: str, text: str, in_background: bool = False) -> tuple[MessageCall, SendMessageRequest]:
    message = Message(messageId=str(uuid.uuid4()), role=Role.USER, parts=[Part(text=text)])
    message["metadata"] = {"intentInfos": [{"intent": skill, "slots": []}]}
    identity = RequestIdentity.of(SCOPE, "send", message["messageId"].encode())
    options = SendMessageConfiguration(returnImmediately=in_background)
    return MessageCall(SCOPE, identity), SendMessageRequest(message=message, configuration=options)
