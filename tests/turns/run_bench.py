"""The operations over a table whose calls can be made to fail."""

import asyncio
import uuid
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from botocore.exceptions import ReadTimeoutError

from a2a_lambda.aws import clients
from a2a_lambda.files.files import Files
from a2a_lambda.kit import Kit
from a2a_lambda.operations.messages import Messages
from a2a_lambda.operations.service import Service
from a2a_lambda.protocol.model import Message, Part, Published, Role, Task, TaskState, make_status
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace, RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rpc import intent
from tests.store.calls import Calls


class RunBench:
    """The service over a table whose calls can be made to fail."""

    def __init__(self, kit: Kit, settings: Settings, window: float = 60.0) -> None:
        self.calls = Calls(clients.dynamodb(settings))
        self.store = Store(Table(self.calls, settings.table), ttl=86_400)  # type: ignore[arg-type]
        self.messages = Messages(self.store, kit.agents, repeat_seconds=window, files=Files())
        self.service = Service(self.store, files=Files())
        self.namespace = Namespace(f"owner-{uuid.uuid4()}", "probe")

    def sent(
        self, skill: str, identity: str = "", deadline: float | None = None, **options: Any
    ) -> tuple[MessageCall, SendMessageRequest]:
        """A message; the same identity is the same request."""
        slots = options.pop("slots", {})
        text = options.pop("text", "x")
        message = Message(messageId="m", role=Role.USER, parts=[Part(text=text)])
        message["metadata"] = intent(skill, **slots)
        message.update(options)  # type: ignore[typeddict-item]
        body = (identity or str(uuid.uuid4())).encode()
        call = MessageCall(
            self.namespace, RequestIdentity.of(self.namespace, "message/send", body), deadline=deadline
        )
        return call, SendMessageRequest(message=message)

    async def send(self, skill: str, identity: str = "", **options: Any) -> Task:
        return (await self.messages.send(*self.sent(skill, identity, **options)))["task"]

    async def get(self, task_id: str) -> Task:
        return (await self.service.get(self.namespace, task_id)).task

    async def cancel(self, task_id: str) -> Task:
        return (await self.service.cancel(self.namespace, task_id)).task

    def head(self, task_id: str) -> Head:
        stored_head = self.store.get_head(self.namespace, task_id)
        assert stored_head is not None
        return stored_head

    def run_elsewhere(self, **fields: Any) -> Head:
        """Head of a new task that another process runs."""
        now = self.store.clock()
        head = self.store.new_head(
            self.namespace, str(uuid.uuid4()), "c", make_status(TaskState.WORKING, now)
        )
        head = replace(head, holder="another", lease=now + 600, **fields)
        self.store.create_head(head)
        return head

    async def follow(
        self, task_id: str, after: int | None = None, *, needs_running: bool = False
    ) -> list[Published]:
        subscription = await self.service.subscribe(
            self.namespace, task_id, after=after, deadline=None, needs_running=needs_running
        )
        return [item async for item in subscription.events]

    def fail_once(self, sort_key: str, nth: int = 1, *, made: bool = False) -> list[str]:
        """Let the nth put of such a key fail, with the write made or not; returns the puts so far."""
        puts: list[str] = []

        def fail(operation: str, arguments: dict[str, Any]) -> None:
            if operation == "put_item" and arguments["Item"]["sk"]["S"].startswith(sort_key):
                puts.append(sort_key)
                if len(puts) == nth:
                    raise ReadTimeoutError(endpoint_url="x")

        if made:
            self.calls.after = fail
        else:
            self.calls.before = fail
        return puts


def within(what: Awaitable[Any]) -> Any:
    async def waited() -> Any:
        return await asyncio.wait_for(what, PATIENCE_SECONDS)

    return asyncio.run(waited())


def states(published: list[Published]) -> list[str]:
    return [event["statusUpdate"]["status"]["state"] for _, event in published if "statusUpdate" in event]
