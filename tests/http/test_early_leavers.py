"""Clients that leave a stream at its beginning: nothing is held for them, and no one waits."""

import asyncio
import json
import uuid
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Json, TaskState
from a2a_lambda.settings import Settings
from a2a_lambda.store.indexes import TaskQuery
from a2a_lambda.tasks.identity import Scope
from a2a_lambda.turns import audience
from a2a_lambda.turns.run import wait_for_turns
from tests.conftest import new_key
from tests.helpers.rest import message_1_0
from tests.helpers.rpc import intent
from tests.http.mcp.client import Mcp

PATIENCE = 120.0


@pytest.fixture
def kit(settings: Settings) -> Kit:
    return Kit(settings)


@pytest.fixture
def owner() -> str:
    return str(uuid.uuid4())


async def leave(kit: Kit, path: str, body: Json, headers: dict[str, str], after: int) -> None:
    """Call the server as a client whose connection breaks after so many messages of ASGI."""
    sent: list[Any] = []

    async def receive() -> Any:
        if sent:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) > after:
            raise OSError("the connection is closed")

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "https",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "server": ("localhost", 443),
        "client": ("127.0.0.1", 1),
    }
    with pytest.raises(ClientDisconnect):
        await create_app(kit)(scope, receive, send)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_turn_does_not_wait_for_who_has_left(
    kit: Kit, owner: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the head of the answer, before its first event, after it."""
    monkeypatch.setattr(audience, "UNREAD_SECONDS", 10 * PATIENCE)
    headers = {
        "X-API-Key": new_key(kit, owner=owner),
        "Content-Type": "application/json",
        "A2A-Version": "1.0",
    }
    body = {"message": message_1_0(metadata=intent("pieces", count=str(2 * audience.UNREAD_EVENTS)))}

    async def go() -> None:
        await leave(kit, "/a2a/probe/message:stream", body, headers, after)
        assert not kit.store.slots.list(owner)
        await asyncio.wait_for(wait_for_turns(), PATIENCE)

    asyncio.run(go())


@pytest.mark.parametrize("after", [0, 1])
def test_a_client_of_mcp_that_leaves_cancels_its_call(kit: Kit, owner: str, after: int) -> None:
    mcp: Any = Mcp(None, new_key(kit, owner=owner))  # type: ignore[arg-type]
    call = {"name": "pause", "arguments": {"seconds": 600}}
    body = mcp.body("tools/call", call, meta={"progressToken": 1})

    async def go() -> None:
        await leave(kit, "/mcp/probe", body, mcp.headers(body), after)
        assert not kit.store.slots.list(owner)
        await asyncio.wait_for(wait_for_turns(), PATIENCE)

    asyncio.run(go())
    [(task_id, _)] = kit.store.list_tasks(Scope(owner, "probe"), TaskQuery(size=5)).tasks
    head = kit.store.get_head(Scope(owner, "probe"), task_id)
    assert head is not None
    assert head.state == TaskState.CANCELED
