"""Requests that come again: within the window they are one, behind it they are new, and agree."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from a2a_lambda import aws
from a2a_lambda.call import Call
from a2a_lambda.errors import UnsupportedOperation
from a2a_lambda.head import Request, Scope
from a2a_lambda.intake import Intake
from a2a_lambda.kit import Kit
from a2a_lambda.model import Message, Part, Role, Task, TaskState
from a2a_lambda.operation import SendMessageRequest
from a2a_lambda.service import Service
from a2a_lambda.settings import Settings
from a2a_lambda.store import Store
from tests.clock import Clock

WINDOW = 60.0


@pytest.fixture
def service(settings: Settings, kit: Kit, clock: Clock) -> Service:
    store = Store(aws.dynamodb(settings), settings.table, ttl=86_400, clock=clock)
    return Service(store, kit.agents, window=WINDOW)


Send = Callable[..., Task]


@pytest.fixture
def send(service: Service, scope: Scope) -> Send:
    """Sends a message; the same arguments are the same bytes."""

    def send(text: str = "hello", **fields: Any) -> Task:
        made = Message(messageId="always-the-same", role=Role.USER, parts=[Part(text=text)])
        made.update(fields)  # type: ignore[typeddict-item]
        body = json.dumps([text, fields]).encode()
        call = Call(scope, Request.of(scope, "message/send", body))
        return asyncio.run(service.send(call, SendMessageRequest(message=made)))["task"]

    return send


def test_behind_the_window_it_is_a_new_task(send: Send, clock: Clock) -> None:
    first = send()
    clock.now += WINDOW - 1
    assert send() == first
    clock.now += 1
    second = send()
    assert second["id"] != first["id"]
    assert send() == second
    ids = {first["id"], second["id"]}
    for _ in range(5):
        clock.now += WINDOW
        ids.add(send()["id"])
    assert len(ids) == 7


def test_late_retries_at_the_same_moment_agree(send: Send, clock: Clock) -> None:
    first = send()
    clock.now += WINDOW
    with ThreadPoolExecutor(8) as pool:
        found = [task["id"] for task in pool.map(lambda _: send(), range(8))]
    assert len(set(found)) == 1
    assert found[0] != first["id"]


def test_a_late_answer_is_no_retry(send: Send, clock: Clock) -> None:
    """The same words in the same context, an hour later, are said again."""
    asked = send("coach", contextId="c")
    assert asked["status"]["state"] == TaskState.INPUT_REQUIRED
    clock.now += 3600
    again = send("coach", contextId="c")
    assert again["id"] == asked["id"]
    assert len(again["history"]) == 4 - 1


def test_a_task_whose_run_was_lost_ends_as_failed(
    service: Service, scope: Scope, clock: Clock, settings: Settings
) -> None:
    """Its process died: nobody renews the lease, and the next look says so."""
    store = Store(aws.dynamodb(settings), settings.table, ttl=86_400, clock=clock)
    said = Message(messageId="m", role=Role.USER, parts=[Part(text="hi")])
    call = Call(scope, Request.of(scope, "message/send", b"1"))
    claim: Any = asyncio.run(Intake(store, window=WINDOW).begin(call, SendMessageRequest(message=said)))
    target = claim.head.task_id
    assert asyncio.run(service.get(scope, target)).task["status"]["state"] == TaskState.WORKING
    clock.now += 31
    task = asyncio.run(service.get(scope, target)).task
    assert task["status"]["state"] == TaskState.FAILED
    assert "lost" in task["status"]["message"]["parts"][0]["text"]
    assert asyncio.run(service.get(scope, target)).task == task
    follow = Message(messageId="m", role=Role.USER, parts=[Part(text="hi")], taskId=claim.head.task_id)
    later = Call(scope, Request.of(scope, "message/send", b"2"))
    with pytest.raises(UnsupportedOperation):
        asyncio.run(service.send(later, SendMessageRequest(message=follow)))


def test_what_makes_two_requests_the_same(scope: Scope) -> None:
    def key(
        scope: Scope = scope, operation: str = "send", body: bytes = b"x", name: str | None = None
    ) -> str:
        return Request.of(scope, operation, body, name).key

    assert key() == key()
    assert key(name="k") == key(name="k", body=b"other")
    different = [
        key(),
        key(Scope("other", scope.agent)),
        key(Scope(scope.owner, "other")),
        key(operation="stream"),
        key(body=b"y"),
        key(name="k"),
        key(name="x"),
    ]
    assert len(set(different)) == len(different)
