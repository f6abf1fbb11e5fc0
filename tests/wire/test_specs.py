"""What leaves the server, against the specifications' own JSON schemas (tests/specs/, from
https://github.com/a2aproject/A2A, Apache-2.0)."""

import json
from typing import Any

import pytest
from jsonschema import Draft7Validator
from starlette.testclient import TestClient

from tests.conftest import ROOT
from tests.rpc import Rpc, intent, message, request

Json = Any

VERSIONS = ("0.2.5", "0.3.0")


def validate(version: str, definition: str, value: Json) -> None:
    schema = json.loads((ROOT / "tests" / "specs" / f"a2a-v{version}.json").read_text())
    Draft7Validator({**schema, "$ref": f"#/definitions/{definition}"}).validate(value)


@pytest.mark.parametrize(
    ("version", "path"),
    [
        ("0.2.5", "/.well-known/agent.json"),
        ("0.3.0", "/.well-known/agent-card.json"),
        ("0.3.0", "/a2a/probe/.well-known/agent-card.json"),
    ],
)
def test_cards(client: TestClient, version: str, path: str) -> None:
    validate(version, "AgentCard", client.get(path).json())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("skill", ["echo", "everything", "add", "boom", "refuse", "question"])
def test_answers(client: TestClient, key: str, version: str, skill: str) -> None:
    rpc = Rpc(client, key, "/a2a/probe")
    sent = {"message": message(metadata=intent(skill))}
    answer = rpc.post(request("message/send", sent)).json()
    validate(version, "SendMessageSuccessResponse", answer)
    stream = rpc.post(request("message/stream", sent)).text
    for line in stream.splitlines():
        if line.startswith("data:"):
            validate(version, "SendStreamingMessageSuccessResponse", json.loads(line[5:]))
    found = rpc.post(request("tasks/get", {"id": answer["result"]["id"]})).json()
    validate(version, "GetTaskSuccessResponse", found)


@pytest.mark.parametrize("version", VERSIONS)
def test_errors(client: TestClient, key: str, version: str) -> None:
    rpc = Rpc(client, key)
    for body in ({}, request("tasks/get", {}), request("tasks/get", {"id": "x"}), request("nothing", {})):
        validate(version, "JSONRPCErrorResponse", rpc.post(body).json())
