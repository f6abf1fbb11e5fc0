"""The ids on every log line of a request: who calls, which agent, which task, and in which version."""

from collections.abc import Mapping

import pytest
from starlette.testclient import TestClient

from a2a_lambda import telemetry
from a2a_lambda.kit import Kit
from tests.conftest import new_key
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc, message
from tests.http.mcp.client import Mcp

OWNER = "log-ids"


@pytest.fixture(autouse=True)
def invocation(no_invocation: None) -> None:
    """As on Lambda, where a process serves one invocation at a time."""
    telemetry.begin(request_id="r")


@pytest.fixture
def key(kit: Kit) -> str:
    """A key whose owner has a name that is known."""
    return new_key(kit, owner=OWNER)


def ids() -> Mapping[str, str | bool]:
    return dict(telemetry.ids())


def test_of_json_rpc(client: TestClient, key: str) -> None:
    task = Rpc(client, key, "/a2a/plain").send("hello")
    assert ids() == {
        "request_id": "r",
        "owner": OWNER,
        "agent": "plain",
        "version": "0.3",
        "task_id": task["id"],
        "context_id": task["contextId"],
    }


def test_of_http_json(client: TestClient, key: str) -> None:
    rest = Rest(client, key, "/a2a/plain")
    task = rest.call("POST", "message:send", {"message": message_1_0("hello")})["task"]
    assert (ids()["version"], ids()["task_id"]) == ("1.0", task["id"])
    telemetry.begin(request_id="r")
    rest.call("GET", f"tasks/{task['id']}")
    assert (ids()["agent"], ids()["owner"]) == ("plain", OWNER)


def test_of_mcp(client: TestClient, key: str) -> None:
    Mcp(client, key, "/mcp/assistant").call("ai-repeat", {"message": "hello"})
    assert (ids()["agent"], ids()["version"]) == ("assistant", "mcp-2026-07-28")


def test_of_a_caller_who_is_refused_later(client: TestClient, key: str) -> None:
    """The line of the refusal says whose request it was."""
    Rpc(client, key, "/a2a/nowhere").post(
        {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message()}}
    )
    assert ids() == {"request_id": "r", "owner": OWNER}
