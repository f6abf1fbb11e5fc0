"""A client of MCP over HTTP that validates every answer against its revision's schema."""

import json
import uuid
from functools import cache
from typing import Any

from jsonschema import Draft7Validator, Draft202012Validator
from starlette.testclient import TestClient

from a2a_lambda.wire.mcp.revisions import CAPABILITIES_KEY, STATELESS, TASKS, VERSION_KEY
from tests.conftest import ROOT
from tests.helpers.rpc import bare_events

RESULTS = {
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "ping": "EmptyResult",
}

TASK_RESULTS = {
    "tasks/get": "GetTaskResult",
    "tasks/update": "UpdateTaskResult",
    "tasks/cancel": "CancelTaskResult",
}


SCHEMAS = {"2025-03-26": "2025-06-18"}
"""The next revision that has a schema, for one that has none here."""


@cache
def schema_of(name: str) -> Any:
    return json.loads((ROOT / "tests" / "specs" / f"mcp-{name}.json").read_text())


def validate(name: str, definition: str, value: Any) -> None:
    schema = schema_of(SCHEMAS.get(name, name))
    root = "$defs" if "$defs" in schema else "definitions"
    kind = Draft202012Validator if root == "$defs" else Draft7Validator
    kind({**schema, "$ref": f"#/{root}/{definition}"}).validate(value)


class Mcp:
    """capabilities: what the client declares. path: /mcp, or that of an agent."""

    def __init__(
        self,
        client: TestClient,
        key: str,
        path: str = "/mcp/probe",
        revision: str = STATELESS,
        **capabilities: Any,
    ) -> None:
        self.client = client
        self.key = key
        self.path = path
        self.revision = revision
        self.capabilities = capabilities

    def body(self, method: str, params: Any = None, *, meta: Any = None, id: Any = "") -> Any:
        params = dict(params or {})
        meta = dict(meta or {})
        if self.revision == STATELESS:
            meta = {VERSION_KEY: STATELESS, CAPABILITIES_KEY: self.capabilities, **meta}
        if meta:
            params["_meta"] = meta
        return {"jsonrpc": "2.0", "id": id or str(uuid.uuid4()), "method": method, "params": params}

    def headers(self, body: Any) -> dict[str, str]:
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": self.revision,
        }
        if self.revision == STATELESS:
            headers["Mcp-Method"] = body["method"]
            if body["method"] == "tools/call":
                headers["Mcp-Name"] = str(body["params"].get("name"))
        return headers

    def post(self, body: Any, **headers: str | bytes | None) -> Any:
        """The answer of HTTP. A header that is None is not sent."""
        all_headers: Any = {**(self.headers(body) if isinstance(body, dict) else {}), **headers}
        all_headers.setdefault("Authorization", f"Bearer {self.key}")
        all_headers = {name: value for name, value in all_headers.items() if value is not None}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.post(self.path, content=content, headers=all_headers)

    def ask(self, method: str, params: Any = None, **options: Any) -> Any:
        """The result of a call; fails on an error."""
        body = self.body(method, params, **options)
        answer = self.post(body)
        assert answer.status_code == 200, answer.text
        *notifications, last = messages_of(answer)
        for notification in notifications:
            validate(self.revision, "ProgressNotification", notification)
        assert last["id"] == body["id"], last
        assert "error" not in last, last
        self.check(method, last["result"])
        return last["result"]

    def check(self, method: str, result: Any) -> None:
        """The result fits the schema."""
        if method in TASK_RESULTS:
            validate("tasks", TASK_RESULTS[method], result)
        elif result.get("resultType") == "task":
            validate("tasks", "CreateTaskResult", result)
        elif result.get("resultType") == "input_required":
            validate(self.revision, "InputRequiredResult", result)
        else:
            validate(self.revision, RESULTS[method], result)

    def call(self, tool: str, arguments: Any = None, **params: Any) -> Any:
        options = {name: params.pop(name) for name in ("meta", "id") if name in params}
        return self.ask("tools/call", {"name": tool, "arguments": arguments or {}, **params}, **options)

    def refusal(self, method: str, params: Any = None, *, status: int = 400, **options: Any) -> Any:
        """The error of a call."""
        answer = self.post(self.body(method, params, **options))
        return error_of(answer, status)


def error_of(answer: Any, status: int) -> Any:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert "Traceback" not in answer.text
    validate(STATELESS, "JSONRPCErrorResponse", body)
    assert not -32019 <= body["error"]["code"] <= -32000, "MCP has set these aside"
    return body["error"]


def messages_of(answer: Any) -> list[Any]:
    """Messages of an answer, which may be a stream."""
    if "text/event-stream" not in answer.headers["content-type"]:
        return [answer.json()]
    return bare_events(answer.text)


def text_of(result: Any) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


ELICITS: dict[str, Any] = {"elicitation": {}}

WITH_TASKS: dict[str, Any] = {"extensions": {TASKS: {}}}
