"""What leaves the server, against the specifications' own JSON schemas (tests/specs/, from
https://github.com/a2aproject/A2A, Apache-2.0)."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.helpers.rpc import Rpc, intent, message, request
from tests.wire.versions.specs import validate

VERSIONS = ("0.2.5", "0.2.6", "0.3.0")
SKILLS = ["echo", "everything", "add", "boom", "refuse", "question", "words", "sign-in"]

STRICT = {"A2A-Version": "1.0"}


@pytest.mark.parametrize(
    ("version", "path"),
    [
        ("0.1.0", "/.well-known/agent.json"),
        ("0.2.5", "/.well-known/agent.json"),
        ("0.2.6", "/.well-known/agent.json"),
        ("0.2.6", "/alibaba/.well-known/agent.json"),
        ("0.3.0", "/.well-known/agent-card.json"),
        ("0.3.0", "/a2a/probe/.well-known/agent-card.json"),
    ],
)
def test_cards(client: TestClient, version: str, path: str) -> None:
    validate(version, "AgentCard", client.get(path).json())


@pytest.mark.parametrize("path", ["/a2a/v1", "/a2a/v1/probe"])
def test_the_strict_card(client: TestClient, path: str) -> None:
    validate("1.0.1", "Agent Card", client.get(f"{path}/.well-known/agent-card.json").json())
    public_card = client.get("/.well-known/agent-card.json", headers=STRICT).json()
    validate("1.0.1", "Agent Card", public_card)


def events_of(stream: str) -> list[Any]:
    """The events of a stream, which has some."""
    events = [json.loads(line[5:]) for line in stream.splitlines() if line.startswith("data:")]
    assert events, stream
    return events


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("skill", SKILLS)
def test_answers(client: TestClient, key: str, version: str, skill: str) -> None:
    rpc = Rpc(client, key, "/a2a/probe")
    params = {"message": message(metadata=intent(skill))}
    answer = rpc.post(request("message/send", params)).json()
    validate(version, "SendMessageSuccessResponse", answer)
    for event in events_of(rpc.post(request("message/stream", params)).text):
        validate(version, "SendStreamingMessageSuccessResponse", event)
    if answer["result"]["kind"] == "task":
        body = rpc.post(request("tasks/get", {"id": answer["result"]["id"]})).json()
        validate(version, "GetTaskSuccessResponse", body)


@pytest.mark.parametrize("skill", SKILLS)
def test_answers_of_0_1(client: TestClient, key: str, skill: str) -> None:
    rpc = Rpc(client, key, "/a2a/probe")
    message = {"role": "user", "parts": [{"type": "text", "text": "hi"}], "metadata": intent(skill)}
    for method in ("tasks/send", "tasks/sendSubscribe"):
        params = {"id": f"{method}-{skill}", "sessionId": "s", "message": message, "historyLength": 5}
        answer = rpc.post(request(method, params))
        if method == "tasks/send":
            validate("0.1.0", "SendTaskResponse", answer.json())
            validate("0.1.0", "Task", answer.json()["result"])
            continue
        for event in events_of(answer.text):
            kind = "TaskStatusUpdateEvent" if "status" in event["result"] else "TaskArtifactUpdateEvent"
            validate("0.1.0", kind, event["result"])


@pytest.mark.parametrize("skill", SKILLS)
def test_answers_of_1_0(client: TestClient, key: str, skill: str) -> None:
    headers = {"X-API-Key": key, **STRICT}
    message = {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [{"text": "hi"}],
        "metadata": intent(skill),
    }
    answer = client.post("/a2a/probe/message:send", json={"message": message}, headers=headers)
    validate("1.0.1", "Send Message Response", answer.json())
    stream = client.post("/a2a/probe/message:stream", json={"message": message}, headers=headers)
    for event in events_of(stream.text):
        validate("1.0.1", "Stream Response", event)
    page = client.get("/a2a/probe/tasks?includeArtifacts=true", headers=headers).json()
    validate("1.0.1", "List Tasks Response", page)


@pytest.mark.parametrize("version", VERSIONS)
def test_errors(client: TestClient, key: str, version: str) -> None:
    rpc = Rpc(client, key)
    for body in ({}, request("tasks/get", {}), request("tasks/get", {"id": "x"}), request("nothing", {})):
        validate(version, "JSONRPCErrorResponse", rpc.post(body).json())
