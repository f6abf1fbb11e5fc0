"""A DynamoDB client that counts its calls, and fails on demand; and the operations over it."""

import json
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

from a2a_lambda.aws import clients
from a2a_lambda.files.files import Files
from a2a_lambda.kit import Kit
from a2a_lambda.operations.messages import Messages
from a2a_lambda.operations.service import Service
from a2a_lambda.protocol.model import Message, Part, Published, Role
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Namespace, RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall


class Calls:
    """Wraps a client: `count` says which operations were called."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.count: Counter[str] = Counter()
        self.before: Callable[[str, dict[str, Any]], None] = lambda operation, arguments: None
        self.after: Callable[[str, dict[str, Any]], None] = lambda operation, arguments: None

    def __getattr__(self, operation: str) -> Any:
        method = getattr(self._client, operation)

        def call(**arguments: Any) -> Any:
            self.count[operation] += 1
            self.before(operation, arguments)
            answer = method(**arguments)
            self.after(operation, arguments)
            return answer

        return call

    def during(self) -> dict[str, int]:
        """Counts since the last look."""
        counts = dict(self.count)
        self.count.clear()
        return counts


class Counted:
    """The service, and what each of its operations called."""

    def __init__(self, kit: Kit, settings: Settings, namespace: Namespace) -> None:
        self.calls = Calls(clients.dynamodb(settings))
        store = Store(Table(self.calls, settings.table), ttl=1000)  # type: ignore[arg-type]
        self.messages = Messages(store, kit.agents, repeat_seconds=60, files=Files())
        self.service = Service(store, files=Files())
        self.namespace = namespace

    def message(self, text: str, **fields: Any) -> tuple[MessageCall, SendMessageRequest]:
        parts = [Part(text=text)]
        new_message = Message(messageId=str(uuid.uuid4()), role=Role.USER, parts=parts)
        new_message.update(fields)  # type: ignore[typeddict-item]
        body = json.dumps(new_message).encode()
        return MessageCall(
            self.namespace, RequestIdentity.of(self.namespace, "send", body)
        ), SendMessageRequest(
            message=new_message,
        )

    async def send(self, text: str, **fields: Any) -> tuple[Any, dict[str, int]]:
        task = (await self.messages.send(*self.message(text, **fields)))["task"]
        return task, self.calls.during()

    async def stream(self, text: str, **fields: Any) -> tuple[list[Published], dict[str, int]]:
        events = await self.messages.stream(*self.message(text, **fields))
        return [item async for item in events], self.calls.during()
