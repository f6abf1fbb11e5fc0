"""Every operation over both bindings, and what a client gets when one fails late."""

import itertools
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from a2a_lambda.access import rate_limit
from a2a_lambda.errors import KeysUnavailable, StoreError, UnsupportedOperation
from a2a_lambda.http import sse
from a2a_lambda.http.app import create_app
from a2a_lambda.http.request import accepted_types
from a2a_lambda.kit import Kit
from a2a_lambda.operations.messages import Messages
from a2a_lambda.settings import Settings
from tests.conftest import BASE_URL, new_key
from tests.helpers.clock import PATIENCE_SECONDS, until
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc, events, intent, message, request

HOOK = "https://93.184.215.14/hook"


def test_every_operation_over_json_rpc(rpc: Rpc) -> None:
    task = rpc.call("SendMessage", {"message": message_1_0()})["task"]
    assert rpc.call("GetTask", {"id": task["id"]}) == task
    assert "history" not in rpc.call("GetTask", {"id": task["id"], "historyLength": 0})
    assert [each["id"] for each in rpc.call("ListTasks", {})["tasks"]] == [task["id"]]
    metadata = intent("question")
    question = rpc.call("SendMessage", {"message": message_1_0(metadata=metadata)})["task"]
    config = {"taskId": question["id"], "id": "c", "url": HOOK}
    assert rpc.call("CreateTaskPushNotificationConfig", config)["url"] == HOOK
    params = {"taskId": question["id"], "id": "c"}
    assert rpc.call("GetTaskPushNotificationConfig", params)["url"] == HOOK
    configs = rpc.call("ListTaskPushNotificationConfigs", {"taskId": question["id"]})
    assert [each["id"] for each in configs["configs"]] == ["c"]
    rpc.call("DeleteTaskPushNotificationConfig", params)
    assert rpc.error("GetTaskPushNotificationConfig", params)["code"] == -32001
    assert rpc.call("CancelTask", {"id": question["id"]})["status"]["state"] == "TASK_STATE_CANCELED"
    stream = rpc.post(request("SubscribeToTask", {"id": question["id"]}))
    assert stream.json()["error"]["code"] == UnsupportedOperation.code
    assert rpc.error("GetExtendedAgentCard", {})["code"] == UnsupportedOperation.code
    assert rpc.error("SendMessages", {})["code"] == -32601


def test_no_cache_keeps_what_belongs_to_a_caller(rest: Rest) -> None:
    task = rest.send()
    for path in ("tasks", f"tasks/{task['id']}", "tasks/unknown"):
        assert rest.ask("GET", path).headers["cache-control"] == "no-store"
    answer = rest.ask("POST", "message:send", {"message": message_1_0(metadata=intent("echo"))})
    assert answer.headers["cache-control"] == "no-store"


def test_every_operation_over_http(rest: Rest) -> None:
    task = rest.send()
    assert rest.call("GET", f"tasks/{task['id']}") == task
    assert rest.call("GET", "tasks")["tasks"][0]["id"] == task["id"]
    question = rest.send("question")
    path = f"tasks/{question['id']}/pushNotificationConfigs"
    assert rest.call("POST", path, {"id": "c", "url": HOOK})["url"] == HOOK
    assert rest.call("GET", f"{path}/c")["url"] == HOOK
    assert [each["id"] for each in rest.call("GET", path)["configs"]] == ["c"]
    assert rest.call("DELETE", f"{path}/c") == {}
    canceled = rest.call("POST", f"tasks/{question['id']}:cancel")
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"


def test_a_task_is_read_in_the_version_it_was_made_over(rpc: Rpc) -> None:
    """tasks/get is a method of several versions."""
    first = rpc.send("hello")
    assert rpc.call("tasks/get", {"id": first["id"]})["kind"] == "task"
    old = rpc.call(
        "tasks/send",
        {"id": str(uuid.uuid4()), "message": {"role": "user", "parts": [{"type": "text", "text": "x"}]}},
    )
    assert "kind" not in rpc.call("tasks/get", {"id": old["id"]})
    [again, *_] = events(rpc.post(request("tasks/resubscribe", {"id": old["id"]})).text)
    assert "kind" not in again


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that appears when a waiting client is about to get its second keep-alive."""
    file, signs = tmp_path / "gate", itertools.count(1)

    def watch(name: str, sign: bytes | None) -> None:
        """Count the signs of life that a function of sse yields."""
        with_signs = getattr(sse, name)

        async def count_signs(*args: Any) -> AsyncIterator[Any]:
            async for item in with_signs(*args):
                if item == sign and next(signs) == 2:
                    file.touch()
                yield item

        monkeypatch.setattr(sse, name, count_signs)

    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.05)
    watch("with_spaces", b" ")
    watch("with_silences", None)
    # Without keep-alives, a test must fail and not hang.
    opening = threading.Timer(PATIENCE_SECONDS, file.touch)
    opening.start()
    yield file
    opening.cancel()


def test_a_send_that_takes_long_begins_with_spaces(gate: Path, rpc: Rpc) -> None:
    """No proxy ends the connection then. JSON may begin with spaces."""
    params = {"message": message_1_0(metadata=intent("gated", gate=str(gate)))}
    answer = rpc.post(request("SendMessage", params))
    assert answer.text.startswith("  ")
    assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_stream_that_is_silent_has_comments(gate: Path, rpc: Rpc) -> None:
    params = {"message": message_1_0(metadata=intent("gated", gate=str(gate)))}
    stream = rpc.post(request("SendStreamingMessage", params)).text
    assert sum(line.startswith(":") for line in stream.splitlines()) >= 2
    assert events(stream)[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UnsupportedOperation("not this one"), "not this one"),
        (StoreError("x"), "the task store did not answer"),
    ],
)
def test_a_send_that_fails_late_has_its_error_in_the_body(
    gate: Path, rpc: Rpc, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    """The status is 200 after the first space."""

    async def fail(*_: Any) -> Any:
        await until(gate.exists)
        raise error

    monkeypatch.setattr(Messages, "send", fail)
    answer = rpc.post(request("SendMessage", {"message": message_1_0()}))
    assert (answer.status_code, answer.text[:1]) == (200, " ")
    assert message in answer.json()["error"]["message"]


def test_a_fault_says_nothing_of_its_cause(
    rpc: Rpc, rest: Rest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> Any:
        raise RuntimeError("a secret")

    monkeypatch.setattr(Messages, "send", fail)
    answer = rpc.post(request("SendMessage", {"message": message_1_0()}))
    assert answer.json()["error"]["code"] == -32603
    assert "a secret" not in answer.text
    assert "a secret" in caplog.text
    monkeypatch.setattr("a2a_lambda.http.rest.handle", fail)
    fault = TestClient(rest.client.app, base_url=BASE_URL, raise_server_exceptions=False).get("/tasks")
    assert fault.status_code == 500
    assert "a secret" not in fault.text


def test_keys_that_cannot_be_read_open_no_door(settings: Settings) -> None:
    kit = Kit(settings)

    class Unread:
        def find_cached(self, secret: str) -> None:
            return None

        def knows(self, secret: str) -> bool:
            return False

        def find(self, secret: str) -> None:
            raise KeysUnavailable("Parameter Store does not answer")

    kit.keys = Unread()  # type: ignore[assignment]
    client = TestClient(create_app(kit), base_url=BASE_URL)
    answer = client.get("/tasks", headers={"X-API-Key": "a2a_x"})
    assert answer.status_code == 503
    assert "keys and tokens cannot be checked" in answer.json()["error"]["message"]


@pytest.mark.parametrize("secret", [None, "", "a2a_" + "x" * 43])
def test_a_request_without_a_key_that_works(client: TestClient, secret: str | None) -> None:
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    answer = client.get("/tasks", headers=headers)
    assert answer.status_code == 401
    assert ("send a key" in answer.text) == (not secret)


def test_a_key_for_other_agents_is_refused(kit: Kit, client: TestClient) -> None:
    key = new_key(kit, agents=("assistant",))
    assert client.get("/a2a/probe/tasks", headers={"X-API-Key": key}).status_code == 403
    assert client.get("/a2a/assistant/tasks", headers={"X-API-Key": key}).status_code == 200


def test_the_url_of_a_deployment_without_a_setting(settings: Settings) -> None:
    """The domain and the stage that API Gateway's event names."""
    app = create_app(Kit(settings.model_copy(update={"base_url": ""})))

    def url_of(event: Any) -> str:
        async def serve(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                scope["aws.event"] = event
            await app(scope, receive, send)

        card = TestClient(serve).get("/.well-known/agent-card.json").json()
        return str(card["url"])

    path = "/.well-known/agent-card.json"
    assert url_of({}) == "https://localhost/"
    stage_event = {"path": path, "requestContext": {"domainName": "x.example.com", "path": f"/prod{path}"}}
    assert url_of(stage_event) == "https://x.example.com/prod/"
    assert (
        url_of({"path": path, "requestContext": {"domainName": "x.example.com", "path": path}})
        == "https://x.example.com/"
    )


def test_a_wrong_verb_is_told_the_right_ones(rest: Rest) -> None:
    answer = rest.ask("PUT", "tasks")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert (answer.json()["error"]["code"], answer.json()["error"]["status"]) == (405, "UNIMPLEMENTED")
    assert "Allowed: GET" in answer.json()["error"]["message"]


def test_429_says_when(settings: Settings) -> None:
    kit = Kit(settings.model_copy(update={"requests_per_owner": 1}))
    key = new_key(kit)
    with TestClient(create_app(kit), base_url=BASE_URL) as client:
        body = request("tasks/get", {"id": "x"})
        answers = [client.post("/", json=body, headers={"X-API-Key": key}) for _ in range(60)]
    refusals = [answer for answer in answers if answer.status_code == 429]
    assert refusals, "60 requests are more than the limit"
    assert 1 <= int(refusals[0].headers["retry-after"]) <= rate_limit.WINDOW_SECONDS
    assert "at most 10 requests within 10 seconds" in refusals[0].json()["error"]["message"]


def test_agno_sends_json_rpc_to_paths_of_0_3(client: TestClient, key: str) -> None:
    def ask(operation: str, key: str) -> Any:
        body = request(f"message/{operation}", {"message": message("hi", metadata=intent("echo"))})
        return client.post(f"/a2a/probe/v1/message:{operation}", json=body, headers={"X-API-Key": key})

    answer = ask("send", key).json()
    assert answer["id"]
    assert answer["result"]["kind"] == "task"
    assert answer["result"]["history"][-1]["parts"] == [{"kind": "text", "text": "hi"}]
    first, *_, last = events(ask("stream", key).text)
    assert first["artifact"]["parts"] == [{"kind": "text", "text": "hi"}]
    assert (last["kind"], last["final"]) == ("status-update", True)
    assert ask("send", "wrong").status_code == 401


@pytest.mark.parametrize("path", ["/a2a/probe/message:send", "/a2a/probe/v1/message:send"])
def test_a_message_with_other_fields_is_no_envelope(client: TestClient, key: str, path: str) -> None:
    """Unknown fields are ignored."""
    fields = {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [{"text": "hi"}],
        "metadata": intent("echo"),
    }
    body = {"message": fields, "jsonrpc": "2.0", "params": {}}
    assert client.post(path, json=body, headers={"X-API-Key": key}).json()["task"]["id"]
    envelope = {"jsonrpc": "2.0", "params": {"message": fields}}
    answer = client.post("/a2a/probe/message:send", json=envelope, headers={"X-API-Key": key})
    assert answer.status_code == 400, "1.0's paths have no envelopes"


@pytest.mark.parametrize(
    ("lines", "types"),
    [
        ([], set()),
        ([""], set()),
        (["Text/Event-Stream"], {"text/event-stream"}),
        (["application/json;q=0.5, */*;q=0"], {"application/json"}),
        (["a/b; q=0.0", "c/d;charset=utf-8"], {"c/d"}),
        (["a/b;Q=0", "c/d;q=0;ext=1", "e/f;q=0.01"], {"e/f"}),
        (["text/html, application/*"], {"text/html", "application/*"}),
        (["application/x-text/event-stream"], {"application/x-text/event-stream"}),
    ],
)
def test_the_types_in_all_lines_of_accept(lines: list[str], types: set[str]) -> None:
    """Source: https://www.rfc-editor.org/rfc/rfc9110#section-12.5.1"""
    request = Request({"type": "http", "headers": [(b"accept", line.encode()) for line in lines]})
    assert accepted_types(request) == types
