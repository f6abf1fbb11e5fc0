"""An agent's skills as tools of MCP, in every revision."""

import asyncio
import base64
import json
import subprocess
import sys
import time
import uuid
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.aws.lean.json_client import JsonClient
from a2a_lambda.files.bucket import Bucket
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import TaskState, make_status
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.wire.mcp.revisions import CONTEXT_KEY, STATELESS, SUPPORTED, WITH_HANDSHAKE, WITHOUT_LINKS
from tests.agents.probe.drawings import drawing
from tests.conftest import BASE_URL, new_key
from tests.helpers.clock import wait_until
from tests.helpers.rest import Rest
from tests.http.mcp.client import Mcp, error_of, messages_of, text_of


def in_revision(mcp: Mcp, revision: str) -> Mcp:
    return Mcp(mcp.client, mcp.key, mcp.path, revision, **mcp.capabilities)


@pytest.mark.parametrize("revision", SUPPORTED)
def test_results(mcp: Mcp, revision: str) -> None:
    mcp = in_revision(mcp, revision)
    warm = mcp.call("weather", {"city": "Rome"})
    assert warm["structuredContent"] == {"city": "Rome", "degrees": 21.5}
    assert json.loads(text_of(warm)) == warm["structuredContent"]
    assert text_of(mcp.call("talk", {"message": "hi ", "times": 3})) == "hi hi hi "
    image, sound, paper, far = mcp.call("media", {"message": "x"})["content"]
    assert (image["type"], image["mimeType"], image["data"]) == ("image", "image/png", "cG5n")
    assert (sound["type"], sound["mimeType"]) == ("audio", "audio/wav")
    assert paper["resource"]["uri"] == "attachment:///%C3%A4%20b.pdf"
    assert paper["resource"]["blob"] == "cGRm"
    if revision == WITHOUT_LINKS:
        assert far == {"type": "text", "text": "far.zip: https://example.com/far.zip"}
    else:
        assert (far["type"], far["uri"]) == ("resource_link", "https://example.com/far.zip")


def test_a_task_whose_answer_is_a_message_is_listed(client: TestClient, key: str) -> None:
    """A2A leaves it out when its client was answered with the message alone. Clients of MCP never are."""
    assert text_of(Mcp(client, key).call("words", {"message": "hi"})) == "Just words."
    assert len(Rest(client, key, "/a2a/probe").call("GET", "tasks")["tasks"]) == 1


@pytest.mark.parametrize("revision", SUPPORTED)
@pytest.mark.parametrize(("skill", "words"), [("boom", "could not finish"), ("refuse", "Not mine.")])
def test_what_fails_is_told_to_the_model(
    client: TestClient, key: str, revision: str, skill: str, words: str
) -> None:
    result = Mcp(client, key, revision=revision).call(skill, {"message": "secret"})
    assert result["isError"] is True
    assert words in text_of(result)
    assert "secret" not in json.dumps(result)


@pytest.mark.parametrize("revision", WITH_HANDSHAKE)
def test_a_handshake(mcp: Mcp, revision: str) -> None:
    mcp = in_revision(mcp, revision)
    client = {"name": "c", "version": "1"}
    hello = mcp.ask("initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": client})
    assert hello["protocolVersion"] == revision
    assert hello["serverInfo"] == {"name": "tools", "title": "Tools", "version": "0.2.0"}
    assert hello["instructions"] == "What it is for."
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answer = mcp.post(notification)
    assert (answer.status_code, answer.content) == (202, b"")
    assert mcp.ask("ping") == {}
    assert "mcp-session-id" not in answer.headers
    assert mcp.refusal("resources/list", status=200)["code"] == -32601
    unknown = mcp.ask("initialize", {"protocolVersion": "1999", "capabilities": {}, "clientInfo": client})
    assert unknown["protocolVersion"] == WITH_HANDSHAKE[0]


def test_discovery(mcp: Mcp) -> None:
    answer = mcp.ask("server/discover")
    assert answer["supportedVersions"] == [*SUPPORTED]
    assert answer["capabilities"] == {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}


@pytest.mark.parametrize("revision", SUPPORTED)
def test_progress_only_for_those_who_ask(client: TestClient, key: str, revision: str) -> None:
    mcp = Mcp(client, key, revision=revision)
    arguments = {"count": 3, "every": 0.01}
    assert "progressToken" not in json.dumps(mcp.call("pieces", arguments))
    for token in ("token", 7):
        body = mcp.body(
            "tools/call", {"name": "pieces", "arguments": arguments}, meta={"progressToken": token}
        )
        answer = mcp.post(body)
        assert answer.headers["content-type"].startswith("text/event-stream")
        *notifications, last = messages_of(answer)
        params = [notification["params"] for notification in notifications]
        assert [each["progress"] for each in params] == [1, 2, 3]
        assert {each["progressToken"] for each in params} == {token}
        assert "".join(each["message"] for each in params) == text_of(last["result"]) == "0 1 2 "
        plain = mcp.post(body, Accept="application/json")
        assert plain.headers["content-type"] == "application/json"


@pytest.mark.parametrize("revision", [STATELESS, "2025-11-25"])
def test_a_client_that_leaves_cancels_its_call_in_the_stateless_revision_alone(
    client: TestClient, key: str, revision: str
) -> None:
    """In the older revisions it does so by a message of its own: its connection may just have broken."""
    mcp, rest = in_revision(Mcp(client, key), revision), Rest(client, key, "/a2a/probe")
    call = {"name": "pause", "arguments": {"seconds": 600 if revision == STATELESS else 0.5}}
    body = mcp.body("tools/call", call, meta={"progressToken": 1})
    namespace = {
        "type": "http",
        "method": "POST",
        "path": mcp.path,
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in mcp.headers(body).items()],
    }

    async def leave_after_progress() -> None:
        is_streaming = asyncio.Event()
        messages = iter([{"type": "http.request", "body": json.dumps(body).encode()}])

        async def receive() -> Any:
            for message in messages:
                return message
            await is_streaming.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if b"waiting" in message.get("body", b""):
                is_streaming.set()

        await asyncio.wait_for(client.app(namespace, receive, send), 60)

    client.portal.call(leave_after_progress)  # type: ignore[union-attr]
    end = "TASK_STATE_CANCELED" if revision == STATELESS else "TASK_STATE_COMPLETED"
    wait_until(lambda: rest.call("GET", "tasks")["tasks"][0]["status"]["state"] == end)


def test_a_conversation_needs_its_context(client: TestClient, key: str) -> None:
    mcp = Mcp(client, key, "/mcp/assistant")
    first = mcp.call("ai-count", {"message": "one"})
    context = first["_meta"][CONTEXT_KEY]
    second = mcp.call("ai-count", {"message": "two"}, meta={CONTEXT_KEY: context})
    assert second["_meta"][CONTEXT_KEY] == context
    assert text_of(second) != text_of(first)
    alone = mcp.call("ai-count", {"message": "three"})
    assert alone["_meta"][CONTEXT_KEY] != context
    assert text_of(alone) == text_of(first)


def test_a_call_in_a_conversation_answers_no_question_of_another_tool(client: TestClient, key: str) -> None:
    mcp = Mcp(client, key, "/mcp/assistant")
    question = mcp.call("ai-coach", {"message": "Teach me."})
    context = {CONTEXT_KEY: question["_meta"][CONTEXT_KEY]}
    assert text_of(mcp.call("ai-repeat", {"message": "football"}, meta=context)) == "football"
    rest = Rest(client, key, "/a2a/assistant")
    tasks = rest.call("GET", f"tasks?contextId={context[CONTEXT_KEY]}")["tasks"]
    [waiting] = [task["id"] for task in tasks if task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"]
    answer = mcp.call("ai-coach", {"task": waiting, "message": "football"})
    assert "Football, then." in text_of(answer)


def test_two_calls_with_one_id_are_two_turns(client: TestClient, key: str) -> None:
    """Every client counts from one. An Idempotency-Key says that a call is a repetition."""
    mcp = Mcp(client, key)
    body = mcp.body("tools/call", {"name": "echo", "arguments": {"message": "hi"}}, id=1)
    contexts = [mcp.post(body).json()["result"]["_meta"][CONTEXT_KEY] for _ in range(2)]
    assert contexts[0] != contexts[1]
    name = str(uuid.uuid4())
    repeated_contexts = [
        mcp.post(body, **{"Idempotency-Key": name}).json()["result"]["_meta"][CONTEXT_KEY] for _ in range(2)
    ]
    assert repeated_contexts[0] == repeated_contexts[1]
    later = mcp.body(
        "tools/call", {"name": "echo", "arguments": {"message": "hi"}}, id=2, meta={"progressToken": 9}
    )
    answer = mcp.post(later, **{"Idempotency-Key": name, "Accept": "application/json"})
    assert answer.json()["result"]["_meta"][CONTEXT_KEY] == repeated_contexts[0], (
        "of another id and progress token"
    )
    other = mcp.body("tools/call", {"name": "echo", "arguments": {"message": "bye"}})
    for wrong_name in (name, "", "x" * 256):
        error = error_of(mcp.post(other, **{"Idempotency-Key": wrong_name}), 400)
        assert (error["code"], "Idempotency-Key" in error["message"]) == (-32602, True)
    arguments = {"name": "echo", "arguments": {"message": "hi"}}
    elsewhere = mcp.body("tools/call", arguments, meta={CONTEXT_KEY: "another-conversation"})
    assert "Idempotency-Key" in error_of(mcp.post(elsewhere, **{"Idempotency-Key": name}), 400)["message"]


def test_who_looks_at_a_task_or_at_progress_holds_a_slot(settings: Settings) -> None:
    kit = Kit(settings.model_copy(update={"streams_per_owner": 1}))
    key = new_key(kit, owner="slots")
    with TestClient(create_app(kit), base_url=BASE_URL) as client:
        mcp = Mcp(client, key)
        namespace = Namespace("slots", "probe")
        working_head = kit.store.new_head(
            namespace, str(uuid.uuid4()), "c", make_status(TaskState.WORKING, time.time())
        )
        kit.store.create_head(working_head.with_holder(time.time()))
        assert kit.store.slots.take("slots", 0, "another call", int(time.time()) + 600)
        call = {"name": "pause", "arguments": {"task": working_head.task_id}}
        assert "streams" in mcp.refusal("tools/call", call, status=429)["message"]
        params = {"name": "pieces", "arguments": {}}
        meta = {"progressToken": 1}
        assert "streams" in mcp.refusal("tools/call", params, status=429, meta=meta)["message"]
        Rest(client, key, "/a2a/probe").call("POST", f"tasks/{working_head.task_id}:cancel")
        assert text_of(mcp.call("pause", {"task": working_head.task_id})) == "The task was canceled."


@pytest.mark.parametrize("meta", [None, {"progressToken": 1}])
def test_a_large_picture_is_an_image(client: TestClient, key: str, meta: Any) -> None:
    """An agent's file that is stored apart from its task. One that is no picture is a link."""
    call = {"name": "draw", "arguments": {"message": "hi"}}
    _, picture, document = Mcp(client, key).ask("tools/call", call, meta=meta)["content"]
    assert (picture["type"], picture["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(picture["data"]) == drawing(200_000)
    assert (document["type"], document["name"]) == ("resource_link", "again.pdf")


@pytest.mark.parametrize("meta", [None, {"progressToken": 1}])
def test_an_answer_has_pictures_up_to_its_limit(
    client: TestClient, key: str, meta: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes no difference whether its client asked for progress. What does not fit is not even read."""
    monkeypatch.setattr("a2a_lambda.files.links.FILES_IN_ANSWER_BYTES", 500_000)
    reads, read = [], Bucket.open

    def count(bucket: Bucket, *args: Any) -> Any:
        reads.append(args)
        return read(bucket, *args)

    monkeypatch.setattr(Bucket, "open", count)
    call = {"name": "gallery", "arguments": {"count": 5}}
    content = Mcp(client, key).ask("tools/call", call, meta=meta)["content"]
    assert [block["type"] for block in content] == ["image"] * 2 + ["resource_link"] * 3
    assert len(reads) == 3


def test_the_task_of_a_call_is_a_task_of_a2a(client: TestClient, key: str) -> None:
    mcp, rest = Mcp(client, key), Rest(client, key, "/a2a/probe")
    context = mcp.call("echo", {"message": "hi"})["_meta"][CONTEXT_KEY]
    [task] = rest.call("GET", f"tasks?contextId={context}&includeArtifacts=true")["tasks"]
    assert task["artifacts"][0]["parts"] == [{"text": "hi"}]


def test_the_door_needs_a_key(client: TestClient, key: str) -> None:
    mcp = Mcp(client, "a2a_" + "x" * 43)
    answer = mcp.post(mcp.body("tools/list"))
    error_of(answer, 401)
    assert "Bearer" in answer.headers["www-authenticate"]
    for method in ("GET", "DELETE"):
        assert client.request(method, "/mcp", headers={"X-API-Key": key}).status_code == 405
    assert Mcp(client, key, "/mcp/nobody").refusal("tools/list", status=404)


@pytest.mark.usefixtures("no_timed_calls")
@pytest.mark.parametrize("revision", SUPPORTED)
def test_a_call_costs_the_table_what_a_send_does(
    mcp: Mcp, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    post = JsonClient._post

    def post_counted(self: JsonClient, operation: str, body: bytes) -> Any:
        if b"#tools#" in body:  # turns of earlier tests may still be ending
            calls.append(operation)
        return post(self, operation, body)

    rest, tool = Rest(mcp.client, mcp.key, "/a2a/tools"), in_revision(mcp, revision)
    tool.call("talk", {"message": "hi"})  # from now on the key is known
    monkeypatch.setattr(JsonClient, "_post", post_counted)
    rest.send("talk", "hi")
    sent, calls = calls, []
    tool.call("talk", {"message": "hi"})
    assert calls == sent == ["PutItem"] * 3


def test_nothing_of_it_is_imported_before_the_first_call() -> None:
    code = (
        "import sys, a2a_lambda.http.app;"
        "print([name for name in sys.modules if '.mcp' in name or 'openapi' in name])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
