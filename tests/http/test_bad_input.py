"""A client's mistake gets a JSON-RPC error that says what and where, and changes nothing."""

import asyncio
import gzip
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.settings import Settings
from tests.helpers.rest import Rest
from tests.helpers.rpc import Rpc, message, request

pytestmark = pytest.mark.slow


def text(value: Any) -> bytes:
    return json.dumps(value).encode()


def raw(fragment: str) -> bytes:
    """A send whose metadata is a piece of JSON text."""
    body = text(request("message/send", {"message": message(metadata={"x": "HERE"})}, "1")).decode()
    return body.replace('"HERE"', fragment).encode()


SEND = request("message/send", {"message": message()}, "1")

UNREADABLE: dict[str, bytes] = {
    "nothing": b"",
    "not JSON": b"{",
    "not UTF-8": b'{"a":"\xff"}',
    "trailing text": text(SEND) + b"}",
    "NaN": raw("NaN"),
    "infinity": raw("-Infinity"),
    "number out of range": raw("1e999"),
    "integer too long": raw("1" * 5000),
    "duplicate key": raw('{"a":1,"a":2}'),
    "lone surrogate": raw(r'"\ud800"'),
    "lone surrogate in a key": raw(r'{"\udfff":1}'),
    "nested too deep": raw("[" * 100 + "]" * 100),
    "nested absurdly deep": raw("[" * 100_000 + "]" * 100_000),
}

NO_REQUEST: dict[str, tuple[Any, Any]] = {
    "a batch": ([SEND], None),
    "an empty batch": ([], None),
    "a string": ("hello", None),
    "a number": (1, None),
    "null": (None, None),
    "no jsonrpc": ({"id": 1, "method": "tasks/get"}, 1),
    "another jsonrpc": (SEND | {"jsonrpc": "1.0"}, "1"),
    "no method": ({"jsonrpc": "2.0", "id": 1}, 1),
    "a method that is no string": (SEND | {"method": 5}, "1"),
    "a fractional id": (SEND | {"id": 1.5}, None),
    "a boolean id": (SEND | {"id": True}, None),
    "an object as id": (SEND | {"id": {}}, None),
    "an id of 513 bytes, which every event would repeat": (SEND | {"id": "x" * 513}, None),
}

M = "params.message"

PARAMS: dict[str, tuple[str, Any, str]] = {
    "no params": ("message/send", None, "params"),
    "params in a list": ("message/send", [], "params"),
    "no message": ("message/send", {}, M),
    "message no object": ("message/send", {"message": "hi"}, M),
    "wrong kind": ("message/send", {"message": message(kind="task")}, f"{M}.kind"),
    "a part's filename is a number": (
        "message/send",
        {"message": message(parts=[{"kind": "text", "text": "hi", "filename": 5}])},
        f"{M}.parts[0].filename",
    ),
    "a part's mediaType is a list": (
        "message/send",
        {"message": message(parts=[{"kind": "text", "text": "hi", "mediaType": []}])},
        f"{M}.parts[0].mediaType",
    ),
    "no messageId": ("message/send", {"message": message(messageId=None)}, f"{M}.messageId"),
    "empty messageId": ("message/send", {"message": message(messageId="")}, f"{M}.messageId"),
    "messageId too long": ("message/send", {"message": message(messageId="x" * 513)}, f"{M}.messageId"),
    "unknown role": ("message/send", {"message": message(role="system")}, f"{M}.role"),
    "no parts": ("message/send", {"message": message(parts=None)}, f"{M}.parts"),
    "empty parts": ("message/send", {"message": message(parts=[])}, f"{M}.parts"),
    "a data URL with a whole file": (
        "message/send",
        {"message": message(parts=[{"kind": "file", "file": {"uri": f"data:text/plain,{'x' * 8_192}"}}])},
        f"{M}.parts[0]",
    ),
    "part no object": ("message/send", {"message": message(parts=["hi"])}, f"{M}.parts[0]"),
    "unknown part kind": (
        "message/send",
        {"message": message(parts=[{"kind": "text", "text": "a"}, {"kind": "video"}])},
        f"{M}.parts[1].kind",
    ),
    "text no string": (
        "message/send",
        {"message": message(parts=[{"kind": "text", "text": 1}])},
        f"{M}.parts[0].text",
    ),
    "data no object": (
        "message/send",
        {"message": message(parts=[{"kind": "data", "data": 1}])},
        f"{M}.parts[0].data",
    ),
    "file empty": (
        "message/send",
        {"message": message(parts=[{"kind": "file", "file": {}}])},
        f"{M}.parts[0].file",
    ),
    "file twice": (
        "message/send",
        {"message": message(parts=[{"kind": "file", "file": {"bytes": "aaaa", "uri": "http://x"}}])},
        f"{M}.parts[0].file",
    ),
    "file not base64": (
        "message/send",
        {"message": message(parts=[{"kind": "file", "file": {"bytes": "%%%"}}])},
        f"{M}.parts[0].file.bytes",
    ),
    "metadata no object": ("message/send", {"message": message(metadata=[])}, f"{M}.metadata"),
    "contextId no string": ("message/send", {"message": message(contextId=5)}, f"{M}.contextId"),
    "taskId no string": ("message/stream", {"message": message(taskId={})}, f"{M}.taskId"),
    "extension no string": ("message/send", {"message": message(extensions=[1])}, f"{M}.extensions[0]"),
    "negative historyLength": (
        "message/send",
        {"message": message(), "configuration": {"historyLength": -1}},
        "params.configuration.historyLength",
    ),
    "blocking no boolean": (
        "message/send",
        {"message": message(), "configuration": {"blocking": "yes"}},
        "params.configuration.blocking",
    ),
    "get without id": ("tasks/get", {}, "params.id"),
    "get with an id that is no string": ("tasks/get", {"id": 7}, "params.id"),
    "get with a negative historyLength": (
        "tasks/get",
        {"id": "x", "historyLength": -1},
        "params.historyLength",
    ),
    "get with a fractional historyLength": (
        "tasks/get",
        {"id": "x", "historyLength": 1.5},
        "params.historyLength",
    ),
    "cancel without params": ("tasks/cancel", None, "params"),
    "resubscribe without id": ("tasks/resubscribe", {}, "params.id"),
}


def refused(response: Any, code: int, identity: Any) -> Any:
    body = response.json()
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert body["jsonrpc"] == "2.0"
    assert body["id"] == identity
    assert type(body["id"]) is type(identity)
    assert body["error"]["code"] == code, body
    assert "Traceback" not in response.text
    return body["error"]


@pytest.mark.parametrize("case", UNREADABLE)
def test_unreadable(client: TestClient, key: str, case: str) -> None:
    refused(Rpc(client, key).post(UNREADABLE[case]), -32700, None)


@pytest.mark.parametrize("case", NO_REQUEST)
def test_no_request(client: TestClient, key: str, case: str) -> None:
    body, identity = NO_REQUEST[case]
    refused(Rpc(client, key).post(body), -32600, identity)


@pytest.mark.parametrize("case", PARAMS)
def test_params(client: TestClient, key: str, case: str) -> None:
    method, params, path = PARAMS[case]
    error = refused(Rpc(client, key).post(request(method, params, "1")), -32602, "1")
    assert error["data"] == {"path": path}
    assert path in error["message"]


@pytest.mark.parametrize("method", ["message/sent", "", "tasks/list", "rpc.discover"])
def test_unknown_method(client: TestClient, key: str, method: str) -> None:
    refused(Rpc(client, key).post(request(method, {}, "1")), -32601, "1")


@pytest.mark.parametrize("method", ["set", "get", "list", "delete"])
def test_push_is_not_supported(client: TestClient, key: str, method: str) -> None:
    rpc = Rpc(client, key, "/a2a/plain")
    refused(rpc.post(request(f"tasks/pushNotificationConfig/{method}", {}, "1")), -32003, "1")


def test_push_with_a_message_is_not_supported(client: TestClient, key: str) -> None:
    params = {"message": message(), "configuration": {"pushNotificationConfig": {"url": "https://x"}}}
    rpc = Rpc(client, key, "/a2a/plain")
    refused(rpc.post(request("message/send", params, "1")), -32003, "1")


@pytest.mark.parametrize("identity", ["a", "", 0, -7, 2**70, None])
def test_every_legal_id_is_echoed(client: TestClient, key: str, identity: Any) -> None:
    body = SEND | {"id": identity, "method": "tasks/get", "params": {"id": "nothing"}}
    refused(Rpc(client, key).post(body), -32001, identity)


def test_a_missing_id_is_answered_with_null(client: TestClient, key: str) -> None:
    body = {"jsonrpc": "2.0", "method": "message/send", "params": {"message": message("hi")}}
    answer = Rpc(client, key).post(body).json()
    assert answer["id"] is None
    assert answer["result"]["status"]["state"] == "completed"


@pytest.mark.parametrize("media_type", ["text/plain", "application/xml", "application/x-www-form-urlencoded"])
def test_wrong_content_type(client: TestClient, key: str, media_type: str) -> None:
    response = Rpc(client, key).post(SEND, **{"Content-Type": media_type})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32005
    answer = Rpc(client, key).post(SEND, **{"Content-Type": media_type, "A2A-Version": "1.0"})
    assert answer.json()["error"]["data"][0]["reason"] == "CONTENT_TYPE_NOT_SUPPORTED"


@pytest.mark.parametrize("coding", ["gzip", "br, gzip", "GZIP"])
def test_an_error_names_the_coding_of_a_compressed_body(client: TestClient, key: str, coding: str) -> None:
    rpc = Rpc(client, key)
    answer = rpc.post(gzip.compress(json.dumps(SEND).encode()), **{"Content-Encoding": coding})
    assert answer.status_code == 400
    words = f"Content-Encoding is {coding.lower()}: send the body uncompressed"
    assert words in answer.json()["error"]["message"] + str(answer.json()["error"].get("data"))
    assert "error" not in rpc.post(json.dumps(SEND).encode(), **{"Content-Encoding": "identity"}).json()


@pytest.mark.parametrize(
    "path",
    [
        "/a2a/probe",
        "/alibaba/probe",
        "/a2a/probe/message:send",
        "/a2a/probe/v1/message:send",
        "/mcp",
        "/uploads",
    ],
)
def test_every_endpoint_names_the_coding_of_a_compressed_body(
    client: TestClient, key: str, path: str
) -> None:
    headers = {"X-API-Key": key, "Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = client.post(path, content=gzip.compress(b"{}"), headers=headers)
    assert answer.status_code == 400
    assert "Content-Encoding is gzip" in answer.text


def test_every_line_of_content_encoding_counts(client: TestClient, key: str) -> None:
    def post(*codings: str) -> Any:
        headers = [("X-API-Key", key), ("Content-Type", "application/json")]
        lines = [("Content-Encoding", coding) for coding in codings]
        return client.post("/a2a/probe", content=json.dumps(SEND).encode(), headers=[*headers, *lines])

    assert "Content-Encoding is gzip" in post("identity", "gzip").text
    assert "error" not in post("identity", "Identity").json()


def test_errors_of_a_stream_reach_a_reader_of_streams(client: TestClient, key: str) -> None:
    """The SDKs read a stream or fail on its content type; a plain client gets plain JSON."""
    rpc, body = Rpc(client, key, "/stream"), request("tasks/resubscribe", {"id": "nothing"}, "1")
    assert rpc.post(body).json()["error"]["code"] == -32001
    answer = rpc.post(body, Accept="text/event-stream")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert json.loads(answer.text.removeprefix("data: "))["error"]["code"] == -32001
    refused(rpc.post(b"{", Accept="text/event-stream"), -32700, None)  # it asks for no stream


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        ("/", {"Content-Type": "text/plain"}, -32005),
        ("/v1/message:send", {"A2A-Version": "1.0"}, 400),
        ("/message:send", {"A2A-Version": "7.0"}, 400),
    ],
)
def test_the_headers_are_checked_before_the_body(
    client: TestClient, key: str, path: str, headers: dict[str, str], code: int
) -> None:
    response = Rpc(client, key, path).post(b" " * (6 * 1024 * 1024 + 1), **headers)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == code


def test_a_url_may_have_8192_characters(rest: Rest) -> None:
    url = f"https://example.com/{'x' * (8_192 - len('https://example.com/'))}"
    assert rest.send("echo", parts=[{"url": url}])["status"]["state"] == "TASK_STATE_COMPLETED"
    with pytest.raises(AssertionError, match="more than 8,192 characters"):
        rest.send("echo", parts=[{"url": f"{url}x"}])


def test_a_request_over_the_limit(client: TestClient, key: str, settings: Settings) -> None:
    rpc, limit = Rpc(client, key), settings.max_body_bytes
    response = rpc.post(b" " * (limit + 1))
    assert response.status_code == 413
    assert response.json()["error"]["code"] == -32600
    assert "4,500,000 bytes: upload a large file first" in response.text
    assert rpc.post(b" " * limit).json()["error"]["code"] == -32700, "it was read, and is no JSON"


@pytest.mark.parametrize(
    "path", ["/nothing", "/a2a", "/a2a/nobody/stream", "/alibaba/nobody", "/.well-known/x"]
)
def test_unknown_path(client: TestClient, key: str, path: str) -> None:
    response = Rpc(client, key, path).post(SEND)
    assert response.status_code in (404, 405)
    assert response.json()["error"]["code"] in (-32600, response.status_code)


def test_a_line_break_in_a_path_is_part_of_a_name(client: TestClient, key: str) -> None:
    for path in ("/a2a/probe%0A", "/a2a/pr%0Aobe"):
        response = Rpc(client, key, path).post(SEND)
        assert response.status_code == 404
        assert "there is no agent" in response.json()["error"]["message"]


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PUT", "DELETE"])
def test_json_rpc_is_posted(client: TestClient, method: str) -> None:
    response = client.request(method, "/a2a/probe")
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")


def test_get_is_no_request(client: TestClient) -> None:
    response = client.get("/stream")
    assert response.status_code == 405
    assert response.json()["error"]["code"] == -32600


def test_refused_requests_change_nothing(client: TestClient, key: str) -> None:
    """The context of a refused message is as new."""
    rpc = Rpc(client, key, "/a2a/probe")
    context = {"contextId": "the-same"}
    rpc.error("message/send", {"message": message(parts=[], **context)})
    rpc.error("message/send", {"message": message(taskId="nothing", **context)})
    task = rpc.send("look", metadata={"intentInfos": [{"intent": "look"}]}, **context)
    assert task["artifacts"][0]["parts"][0]["data"]["turns"] == 1
    assert task["artifacts"][0]["parts"][0]["data"]["said"] == []


def test_a_client_that_leaves_in_its_request_is_no_fault(client: TestClient, key: str) -> None:
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json", "host": "x"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/a2a/probe",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
    sent_messages: list[Any] = []

    async def receive() -> Any:
        return next(messages)

    async def send(said: Any) -> None:
        sent_messages.append(said)

    async def call() -> None:
        await client.app(scope, receive, send)

    asyncio.run(call())
    assert sent_messages[0]["status"] == 200
    assert json.loads(sent_messages[1]["body"])["error"]["code"] == -32600
