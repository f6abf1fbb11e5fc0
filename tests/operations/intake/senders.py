"""Sends messages straight to the operations, and lets their processes die."""

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda.files.files import Files
from a2a_lambda.operations.messages import Messages
from a2a_lambda.operations.service import Service
from a2a_lambda.protocol.model import Message, Part, Role, Task, TaskState, make_status
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.identity import Namespace, RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall
from a2a_lambda.turns.claim import Claim, Repeat
from a2a_lambda.turns.recovery import load_live_head
from tests.helpers.rpc import intent
from tests.processes.death import die_after_context

WINDOW = 60.0
"""Seconds for which equal bytes are one request."""

Send = Callable[..., Task]
"""Sends a message; the same arguments are the same bytes."""


class Once:
    """Sends under an Idempotency-Key, and lets a process die between its two writes."""

    def __init__(self, messages: Messages, namespace: Namespace) -> None:
        self.messages, self.service = messages, Service(messages.store, files=Files())
        self.namespace = Namespace(namespace.owner, "probe")

    def asked(
        self,
        skill: str,
        body: str = "pay",
        key: str | None = "PAY-1",
        *,
        creates_task: bool = False,
        **fields: Any,
    ) -> tuple[MessageCall, Any]:
        message = Message(messageId="m", role=Role.USER, parts=[Part(text=body)], metadata=intent(skill))
        message.update(fields)  # type: ignore[typeddict-item]
        request = RequestIdentity.of(self.namespace, "message/send", body.encode(), key)
        deadline = time.monotonic() + 120  # more than any of these tests takes
        call = MessageCall(self.namespace, request, deadline=deadline)
        return call, SendMessageRequest(message=message, creates_task=creates_task)

    def send(self, skill: str, **options: Any) -> Task:
        return asyncio.run(self.messages.send(*self.asked(skill, **options)))["task"]

    def head(self, task_id: str) -> Head:
        head = self.messages.store.get_head(self.namespace, task_id)
        assert head is not None
        return head

    def create_head_elsewhere(self) -> Head:
        """Head of a task whose turn the worker has."""
        store = self.messages.store
        submitted_status = make_status(TaskState.SUBMITTED, store.clock())
        head = store.new_head(self.namespace, str(uuid.uuid4()), "c", submitted_status)
        head = replace(head, place=Place.WORKER)
        store.create_head(head)
        return head

    def die(self, skill: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> str:
        """The turn's id; its context is stored, its head is not."""

        async def go() -> str:
            while isinstance(
                claim := await self.messages.intake.start(*self.asked(skill, **options)), Repeat
            ):
                await load_live_head(self.messages.store, self.namespace, claim.head.task_id)
            assert isinstance(claim, Claim)
            run = self.messages.make_run(claim)
            with monkeypatch.context() as patch:
                die_after_context(patch)
                run.start()
                _ = [event async for event in run.audience.events()]
            return claim.turn.id

        return asyncio.run(go())

    def lose(self, skill: str, **options: Any) -> None:
        """Store a message whose process dies before it has run the turn."""
        asyncio.run(self.messages.intake.start(*self.asked(skill, **options)))

    def lose_reply(self) -> tuple[Task, Any]:
        """A task that asks, and the options of a reply to it that is lost."""
        task = self.send("patient", key="ASK")
        reply: Any = {"body": "Ann", "key": "REPLY", "taskId": task["id"], "metadata": {}}
        self.lose("", **reply)
        return task, reply


async def fails(self: Any, turn: Any) -> Any:
    """A skill that fails, in place of `Agent.perform`."""
    raise RuntimeError("on purpose")
    yield
