"""Messages over a table with a clock of its own, and two ways to send."""

import asyncio
import json
from typing import Any

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.files.files import Files
from a2a_lambda.kit import Kit
from a2a_lambda.operations.messages import Messages
from a2a_lambda.operations.service import Service
from a2a_lambda.protocol.model import Message, Part, Role, Task
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Namespace, RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall
from tests.helpers.clock import Clock
from tests.operations.intake.senders import WINDOW, Once, Send


@pytest.fixture
def messages(settings: Settings, kit: Kit, clock: Clock) -> Messages:
    store = Store(Table(clients.dynamodb(settings), settings.table, clock=clock), ttl=86_400)
    return Messages(store, kit.agents, repeat_seconds=WINDOW, files=Files())


@pytest.fixture
def service(messages: Messages) -> Service:
    return Service(messages.store, files=Files())


@pytest.fixture
def send(messages: Messages, namespace: Namespace) -> Send:
    """Sends a message; the same arguments are the same bytes."""

    def send(text: str = "hello", **fields: Any) -> Task:
        message = Message(messageId="always-the-same", role=Role.USER, parts=[Part(text=text)])
        message.update(fields)  # type: ignore[typeddict-item]
        body = json.dumps([text, fields]).encode()
        call = MessageCall(namespace, RequestIdentity.of(namespace, "message/send", body))
        request = SendMessageRequest(message=message, creates_task="taskId" in fields)
        return asyncio.run(messages.send(call, request))["task"]

    return send


@pytest.fixture
def once(messages: Messages, namespace: Namespace) -> Once:
    return Once(messages, namespace)
