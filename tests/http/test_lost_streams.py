"""Streams that break: what one has shown is what is stored, also if its turn lost its task; and a client that
leaves at the beginning leaves nothing that is held for it."""

import asyncio
import json
import threading
import uuid
from contextlib import nullcontext
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.testclient import TestClient

from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Event, Json, Task, TaskState, make_status
from a2a_lambda.settings import Settings
from a2a_lambda.store.indexes import TaskQuery
from a2a_lambda.tasks.event_log import apply
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.turns import audience, journal
from a2a_lambda.turns.run import wait_for_turns
from a2a_lambda.wire import alibaba, qianfan, v0_1, v0_3, v1_0
from a2a_lambda.wire.interface import Wire
from tests.conftest import new_key
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import bare_events, intent, message, request
from tests.http.mcp.client import Mcp
from tests.wire import v0_3_http_reader

pytestmark = pytest.mark.slow(seconds=30)

SLOTS = {"count": "100000", "every": "0.01"}


class Stream(threading.Thread):
    """A stream that is read in a thread: pairs of `id:` and JSON."""

    def __init__(self, client: TestClient, path: str, body: Json, headers: dict[str, str]) -> None:
        super().__init__(daemon=True)
        self._call = (client, path, body, headers)
        self._grown = threading.Condition()
        self.seen: list[tuple[str, Json]] = []
        self.start()

    def run(self) -> None:
        client, path, body, headers = self._call
        identity = ""
        with client.stream("POST", path, json=body, headers=headers) as answer:
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    identity = line[4:]
                elif line.startswith("data: "):
                    with self._grown:
                        self.seen.append((identity, json.loads(line[6:])))
                        self._grown.notify_all()
                    identity = ""

    def until(self, count: int) -> None:
        with self._grown:
            assert self._grown.wait_for(lambda: len(self.seen) >= count, PATIENCE_SECONDS)


@pytest.fixture(params=["nothing stored", "some stored"])
def stored(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether chunks are stored before the cancel comes; the last ones never are."""
    if request.param == "nothing stored":
        monkeypatch.setattr(journal, "FLUSH_SECONDS", 1e9)
        monkeypatch.setattr(journal, "FLUSH_BYTES", 1e9)
        monkeypatch.setattr(journal, "SILENT_FLUSH_SECONDS", 1e9)
    return bool(request.param == "some stored")


CALLS: dict[str, tuple[Wire, str, str]] = {
    "1.0 HTTP": (v1_0.WIRE, "/a2a/probe/message:stream", ""),
    "1.0": (v1_0.WIRE, "/a2a/probe", "SendStreamingMessage"),
    "0.3": (v0_3.WIRE, "/a2a/probe", "message/stream"),
    "0.3 HTTP": (v0_3_http_reader.WIRE, "/a2a/probe/v1/message:stream", ""),
    "0.1": (v0_1.WIRE, "/a2a/probe", "tasks/sendSubscribe"),
    "Alibaba": (alibaba.WIRE, "/alibaba/probe", "message/stream"),
    "Qianfan": (qianfan.WIRE, "/v2/a2a/probe", "message/stream"),
}


@pytest.mark.parametrize("how", CALLS)
def test_a_cancelled_stream_ends_with_what_is_stored(
    client: TestClient, key: str, stored: bool, how: str
) -> None:
    wire, path, method = CALLS[how]
    metadata = intent("pieces", **SLOTS)
    params: Json = {
        "message": message_1_0(metadata=metadata) if wire is v1_0.WIRE else message(metadata=metadata)
    }
    if wire is v0_3_http_reader.WIRE:
        params = {
            "message": {
                "messageId": "m",
                "role": "ROLE_USER",
                "content": [{"text": "x"}],
                "metadata": metadata,
            }
        }
    if wire is v0_1.WIRE:
        parts = [{"type": "text", "text": "x"}]
        params = {
            "id": f"t-{key[-8:]}{stored}",
            "message": {"role": "user", "parts": parts, "metadata": metadata},
        }
    headers = {"X-API-Key": key} | ({"A2A-Version": "1.0"} if wire is v1_0.WIRE else {})
    stream = Stream(client, path, request(method, params) if method else params, headers)
    stream.until(60 if stored else 10)
    rest = Rest(client, key)
    [task_in_list] = rest.call("GET", "tasks")["tasks"]
    rest.call("POST", f"tasks/{task_in_list['id']}:cancel")
    stream.join(PATIENCE_SECONDS)
    assert not stream.is_alive()
    task = rest.call("GET", f"tasks/{task_in_list['id']}")
    text = "".join(part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"])
    identity, _ = stream.seen[-1]
    if not wire.replaces_artifacts:
        assert identity == "", "no id says that what was shown is stored"
        return
    assert identity, "the end has an id again"
    values = [value["result"] if method else value for _, value in stream.seen]
    tasks = [value for value in values if "task" in value or value.get("kind") == "task"]
    assert len(tasks) <= 1, "clients take one task a stream"
    assert shown(wire, values) == text


def shown(wire: Wire, seen: list[Any]) -> str:
    """Text a client has at the end, that does with events what the specification says."""
    events: list[Event] = [wire.decode_event(value) for value in seen]
    blank = Task(id="t", contextId="c", status=make_status(TaskState.SUBMITTED, 0))
    task: Task = events[0].get("task", blank)
    apply(task, events)
    return "".join(part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"])


def test_an_id_covers_only_what_is_stored(client: TestClient, key: str) -> None:
    """A follower that resumes after any id gets exactly what comes after it."""
    body = {"message": message_1_0(metadata=intent("pieces", count="60", every="0.02"))}
    headers = {"X-API-Key": key, "A2A-Version": "1.0"}
    stream = Stream(client, "/a2a/probe/message:stream", body, headers)
    stream.join(PATIENCE_SECONDS)
    events = [(identity, v1_0.WIRE.decode_event(value)) for identity, value in stream.seen]
    task_id = events[0][1]["task"]["id"]
    whole = Rest(client, key).call("GET", f"tasks/{task_id}")
    assert any(identity for identity, _ in events[:-1]), "no event has an id before the end"
    for index, (identity, _) in enumerate(events):
        if not identity or index == len(events) - 1:
            continue
        answer = client.get(
            f"/a2a/probe/tasks/{task_id}:subscribe", headers={**headers, "Last-Event-ID": identity}
        )
        task: Task = json.loads(json.dumps(events[0][1]["task"]))
        apply(task, [event for _, event in events[1 : index + 1]])
        apply(task, [v1_0.WIRE.decode_event(value) for value in bare_events(answer.text)])
        assert task["artifacts"] == whole["artifacts"]


@pytest.fixture
def own_kit(settings: Settings) -> Kit:
    return Kit(settings)


@pytest.fixture
def owner() -> str:
    return str(uuid.uuid4())


async def leave(
    kit: Kit, path: str, body: Json, headers: dict[str, str], after: int, *, is_told: bool
) -> None:
    """Call the server as a client whose connection breaks after so many messages of ASGI. is_told: the server
    hears of it as in ASGI before 2.4, and not by an error of `send`."""
    sent_messages: list[Any] = []
    has_left = asyncio.Event()
    has_asked = False

    async def receive() -> Any:
        nonlocal has_asked
        if has_asked:
            await has_left.wait()
            return {"type": "http.disconnect"}
        has_asked = True
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message: Any) -> None:
        sent_messages.append(message)
        if len(sent_messages) > after:
            has_left.set()
            if not is_told:
                raise OSError("the connection is closed")
            await asyncio.Event().wait()

    namespace = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3" if is_told else "2.4"},
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
    with nullcontext() if is_told else pytest.raises(ClientDisconnect):
        await create_app(kit)(namespace, receive, send)


@pytest.mark.parametrize("is_told", [False, True])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_turn_does_not_wait_for_a_client_that_has_left(
    own_kit: Kit, owner: str, after: int, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client leaves before the head of the answer, before its first event, or after it."""
    monkeypatch.setattr(audience, "UNREAD_SECONDS", 10 * PATIENCE_SECONDS)
    headers = {
        "X-API-Key": new_key(own_kit, owner=owner),
        "Content-Type": "application/json",
        "A2A-Version": "1.0",
    }
    body = {"message": message_1_0(metadata=intent("pieces", count=str(2 * audience.UNREAD_EVENTS)))}

    async def go() -> None:
        await leave(own_kit, "/a2a/probe/message:stream", body, headers, after, is_told=is_told)
        assert not own_kit.store.slots.list(owner)
        await asyncio.wait_for(wait_for_turns(), PATIENCE_SECONDS)

    asyncio.run(go())


@pytest.mark.parametrize("is_told", [False, True])
@pytest.mark.parametrize("after", [0, 1])
def test_a_client_of_mcp_that_leaves_cancels_its_call(
    own_kit: Kit, owner: str, after: int, is_told: bool
) -> None:
    mcp: Any = Mcp(None, new_key(own_kit, owner=owner))  # type: ignore[arg-type]
    call = {"name": "pause", "arguments": {"seconds": 600}}
    body = mcp.body("tools/call", call, meta={"progressToken": 1})

    async def go() -> None:
        await leave(own_kit, "/mcp/probe", body, mcp.headers(body), after, is_told=is_told)
        assert not own_kit.store.slots.list(owner)
        await asyncio.wait_for(wait_for_turns(), PATIENCE_SECONDS)

    asyncio.run(go())
    [(task_id, _)] = own_kit.store.indexes.list_tasks(Namespace(owner, "probe"), TaskQuery(size=5)).tasks
    head = own_kit.store.get_head(Namespace(owner, "probe"), task_id)
    assert head is not None
    assert head.state == TaskState.CANCELED
