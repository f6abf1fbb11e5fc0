"""Requests that no client should send: each is refused with its reason, and changes nothing."""

import base64
import json
import os
import random
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.http import sse
from a2a_lambda.http.mcp.endpoint import REFUSED_BODY_BYTES
from a2a_lambda.kit import Kit
from a2a_lambda.wire.mcp.revisions import CAPABILITIES_KEY, CONTEXT_KEY, STATELESS, SUPPORTED, VERSION_KEY
from tests.conftest import BASE_URL, new_key
from tests.helpers.rest import Rest
from tests.http.mcp.client import ELICITS, WITH_TASKS, Mcp, error_of, messages_of, text_of, validate

ROUNDS = int(os.environ.get("ROUNDS", "300"))
"""Requests of the fuzz run, for each revision."""


@pytest.fixture
def mcp(client: TestClient, kit: Kit) -> Mcp:
    return Mcp(client, new_key(kit))


BODIES: dict[str, tuple[Any, int]] = {
    "no JSON": (b"{", -32700),
    "empty": (b"", -32700),
    "a batch": ([{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}], -32600),
    "an empty batch": ([], -32600),
    "id null": ({"jsonrpc": "2.0", "id": None, "method": "tools/list"}, -32600),
    "a fraction as id": ({"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}, -32600),
    "an object as id": ({"jsonrpc": "2.0", "id": {}, "method": "tools/list"}, -32600),
    "true as id": ({"jsonrpc": "2.0", "id": True, "method": "tools/list"}, -32600),
    "an id of 513 bytes": ({"jsonrpc": "2.0", "id": "x" * 513, "method": "tools/list"}, -32600),
    "no method": ({"jsonrpc": "2.0", "id": 1}, -32600),
    "jsonrpc 1.0": ({"jsonrpc": "1.0", "id": 1, "method": "tools/list"}, -32600),
    "params as a list": ({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": []}, -32602),
    "_meta as a text": (
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": "x"}},
        -32602,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_what_is_no_request(mcp: Mcp, name: str) -> None:
    body, code = BODIES[name]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = mcp.post(content, **{"MCP-Protocol-Version": STATELESS})
    assert error_of(answer, 400)["code"] == code


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"MCP-Protocol-Version": None}, -32020),
        ({"MCP-Protocol-Version": "2025-06-18"}, -32020),
        ({"Mcp-Method": None}, -32020),
        ({"Mcp-Method": "tools/list"}, -32020),
        ({"Mcp-Name": None}, -32020),
        ({"Mcp-Name": "refuse"}, -32020),
        ({"Mcp-Name": "=?base64?%%%?="}, -32020),
        ({"Mcp-Name": b"=?base64?\xe9?="}, -32020),
        ({"Mcp-Name": f"=?base64?{base64.b64encode(b'echo').decode()}?="}, 0),
        ({"Mcp-Name": " echo "}, 0),
    ],
)
def test_headers_say_what_the_body_says(mcp: Mcp, headers: dict[str, str | bytes | None], code: int) -> None:
    body = mcp.body("tools/call", {"name": "echo", "arguments": {"message": "hi"}})
    answer = mcp.post(body, **headers)
    if code:
        assert error_of(answer, 400)["code"] == code
    else:
        assert "result" in answer.json()


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_a_header_may_name_the_task(client: TestClient, key: str, method: str) -> None:
    mcp = Mcp(client, key, **WITH_TASKS)
    body = mcp.body(method, {"taskId": "a", "inputResponses": {}})
    assert error_of(mcp.post(body, **{"Mcp-Name": "b"}), 400)["code"] == -32020
    for headers in ({}, {"Mcp-Name": "a"}):
        assert "no such task" in error_of(mcp.post(body, **headers), 400)["message"]


def test_a_revision_that_nobody_knows(mcp: Mcp) -> None:
    body = mcp.body("tools/list", meta={VERSION_KEY: "2030-01-01"})
    error = error_of(mcp.post(body, **{"MCP-Protocol-Version": "2030-01-01"}), 400)
    assert (error["code"], error["data"]) == (-32022, {"supported": [*SUPPORTED], "requested": "2030-01-01"})
    plain = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert error_of(mcp.post(plain, **{"MCP-Protocol-Version": "1999"}), 400)["code"] == -32022


@pytest.mark.parametrize(
    "meta", [{CAPABILITIES_KEY: None}, {CAPABILITIES_KEY: []}, {VERSION_KEY: 7}, {VERSION_KEY: None}]
)
def test_each_request_says_what_its_client_can_do(mcp: Mcp, meta: Any) -> None:
    assert mcp.refusal("tools/list", meta=meta)["code"] == -32602


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": 7},
        {"name": "nope"},
        {"name": "echo", "arguments": []},
    ],
)
def test_a_call_that_is_malformed(mcp: Mcp, params: Any) -> None:
    body = mcp.body("tools/call", params)
    answer = mcp.post(body, **{"Mcp-Name": str(params.get("name", ""))})
    assert error_of(answer, 400)["code"] == -32602


@pytest.mark.parametrize("revision", SUPPORTED)
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"message": 7}, "params.arguments.message"),
        ({"unknown": 1}, "echo has no argument 'unknown'. Its arguments are message, task"),
        ({"message": "x", "task": "nothing"}, "Task not found"),
        ({"task": "nothing"}, "Task not found"),
        ({"task": {}}, "params.arguments.task"),
    ],
)
def test_a_model_can_correct_its_arguments(
    client: TestClient, mcp: Mcp, revision: str, arguments: Any, text: str
) -> None:
    """SEP-1303: it reads results, while a protocol error ends at its client."""
    result = Mcp(client, mcp.key, revision=revision).call("echo", arguments)
    assert result["isError"]
    assert text in text_of(result)
    assert Rest(client, mcp.key, "/a2a/probe").call("GET", "tasks")["tasks"] == []


def test_a_model_learns_how_to_begin_a_task(mcp: Mcp) -> None:
    """One that must fill every argument makes a task up."""
    refusal = mcp.call("echo", {"message": "hi", "task": "none"})
    assert text_of(refusal).endswith("To begin a new task, leave task empty")
    assert text_of(mcp.call("echo", {"message": "hi", "task": ""})) == "hi"


@pytest.mark.parametrize("headers", [{"Authorization": None}, {"Authorization": "Bearer wrong"}])
def test_a_caller_who_is_refused_gets_the_id_back(mcp: Mcp, headers: dict[str, str | bytes | None]) -> None:
    """A Python client shows the error only then."""
    body = mcp.body("tools/list")
    answer = mcp.post(body, **headers)
    assert (answer.status_code, answer.json()["id"]) == (401, body["id"])
    large = mcp.post({**body, "params": {"pad": "x" * REFUSED_BODY_BYTES}}, **headers)
    assert (large.status_code, "id" in large.json()) == (401, False)
    assert mcp.post(b"{", **headers).status_code == 401


def test_a_get_is_refused_as_a_post_is(mcp: Mcp) -> None:
    """A client whose key was refused tries it, and shows the user its answer."""
    assert mcp.client.get(mcp.path, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert mcp.client.get(mcp.path, headers={"Authorization": f"Bearer {mcp.key}"}).status_code == 405


def test_a_client_that_would_register_learns_what_is_wrong(mcp: Mcp) -> None:
    """It does so after a 401."""
    answer = mcp.client.post("/register", json={"redirect_uris": []})
    assert answer.status_code == 404
    assert "check the key" in answer.text


def test_a_model_learns_that_a_task_has_ended(client: TestClient, mcp: Mcp) -> None:
    mcp.call("echo", {"message": "hi"})
    [task] = Rest(client, mcp.key, "/a2a/probe").call("GET", "tasks")["tasks"]
    for meta in ({}, {"progressToken": 1}):
        result = mcp.call("echo", {"message": "again", "task": task["id"]}, meta=meta)
        assert (result["isError"], "has ended" in text_of(result)) == (True, True)


def test_a_mistake_that_is_found_late_is_a_result_too(
    client: TestClient, mcp: Mcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is slow, so the answer has begun."""
    mcp.call("echo", {"message": "hi"})
    [task] = Rest(client, mcp.key, "/a2a/probe").call("GET", "tasks")["tasks"]
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.0)
    result = mcp.call("echo", {"message": "again", "task": task["id"]})
    assert (result["isError"], "has ended" in text_of(result)) == (True, True)


def test_what_is_refused_changes_nothing(client: TestClient, kit: Kit, mcp: Mcp) -> None:
    mcp.refusal("tools/call", {"name": "echo", "arguments": []})
    assert Rest(client, mcp.key, "/a2a/probe").call("GET", "tasks")["tasks"] == []


def test_a_page_of_another_site_is_refused(mcp: Mcp) -> None:
    body = mcp.body("tools/list")
    for origin in ("https://evil.example.com", "null", "http://localhost.evil.example.com", "http://["):
        assert "Origin" in error_of(mcp.post(body, Origin=origin), 403)["message"]
    assert mcp.post(body, Origin=BASE_URL).status_code == 200


@pytest.mark.parametrize("origin", ["http://localhost:5173", "http://127.0.0.1:5173", "http://[::1]:5173"])
@pytest.mark.parametrize("local", [False, True])
def test_a_page_of_this_machine_may_call_only_a_development_server(
    kit: Kit, mcp: Mcp, monkeypatch: pytest.MonkeyPatch, origin: str, local: bool
) -> None:
    monkeypatch.setattr(kit, "settings", kit.settings.model_copy(update={"local": local}))
    answer = mcp.post(mcp.body("tools/list"), Origin=origin)
    assert (answer.status_code != 403) is local


@pytest.mark.parametrize("origins", [("*",), ("https://page.example.com",)])
def test_a_page_that_the_operator_allows_is_not_refused(
    kit: Kit, mcp: Mcp, monkeypatch: pytest.MonkeyPatch, origins: tuple[str, ...]
) -> None:
    monkeypatch.setattr(kit, "settings", kit.settings.model_copy(update={"cors_origins": origins}))
    assert mcp.post(mcp.body("tools/list"), Origin="https://page.example.com").status_code == 200


@pytest.mark.parametrize("revision", SUPPORTED)
def test_answers_of_a_fuzz_run_fit_the_schema(client: TestClient, kit: Kit, revision: str) -> None:
    chance = random.Random(revision)
    mcp = Mcp(client, new_key(kit), "/mcp/probe", revision, **ELICITS, **WITH_TASKS)
    names = ("echo", "everything", "question", "refuse", "look", "order", "pieces", "nope", 7, None)
    methods = (
        *("tools/list", "tools/call", "tools/call", "tools/call", "initialize", "server/discover", "ping"),
        *("tasks/get", "tasks/update", "tasks/cancel", "nothing", ""),
    )
    values: list[Any] = [
        None,
        True,
        0,
        -1,
        1.5,
        "",
        "x",
        "ü" * 300,
        [],
        {},
        [1],
        {"a": {"b": [None]}},
        10**30,
    ]
    for _ in range(ROUNDS):
        method = chance.choice(methods)
        arguments = {
            chance.choice(("message", "task", "count", "x")): chance.choice(values) for _ in range(2)
        }
        params: Any = {
            "name": chance.choice(names),
            "arguments": chance.choice([arguments, {"message": "hi"}, chance.choice(values)]),
            "taskId": chance.choice(values),
            "cursor": chance.choice([None, None, "0", "x", 7]),
        }
        for name in chance.sample(list(params), chance.randint(0, 2)):
            del params[name]
        if chance.random() < 0.2:
            params |= {"requestState": chance.choice(values), "inputResponses": chance.choice(values)}
        meta = chance.choice(
            [{}, *({name: chance.choice(values)} for name in ("progressToken", CONTEXT_KEY))]
        )
        body = mcp.body(method, params, meta=meta)
        answer = mcp.post(
            body, **({"Mcp-Name": str(params.get("name", ""))} if method == "tools/call" else {})
        )
        assert answer.status_code in (200, 400, 404), answer.text
        *_, last = messages_of(answer)
        if "error" in last:
            validate(STATELESS, "JSONRPCErrorResponse", last)
            assert last["error"]["code"] != -32603, last
        else:
            mcp.check(method, last["result"])
