"""A client written for Baidu Qianfan's AppBuilder, with the examples of its page (shared/seeds/003)."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.errors import Unavailable
from a2a_lambda.operations.messages import Messages
from a2a_lambda.tasks.message_call import MessageCall
from tests.conftest import BASE_URL
from tests.helpers.rpc import intent

pytestmark = pytest.mark.slow


WEATHER = {
    "id": "uuid",
    "jsonrpc": "2.0",
    "method": "message/stream",
    "params": {
        "message": {
            "kind": "message",
            "parts": [{"kind": "text", "text": "今天天气", "metadata": {}}],
            "role": "user",
        }
    },
}

PATHS = ["/a2a/probe", "/v2/probe", "/v2/a2a/probe"]
HEADERS = ["Authorization", "X-Appbuilder-Authorization"]


def call(client: TestClient, key: str, body: Any, path: str = "/v2/a2a/probe") -> Any:
    return client.post(path, json=body, headers={"Authorization": f"Bearer {key}"})


def said(skill: str, method: str = "message/stream", **metadata: Any) -> Any:
    params = {"message": {**WEATHER["params"]["message"], "metadata": {**intent(skill), **metadata}}}  # type: ignore[index]
    return {**WEATHER, "method": method, "params": params}


def events(answer: Any) -> list[Any]:
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    records = [json.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data:")]
    assert {event["id"] for event in records} == {"uuid"}
    return [event["result"] for event in records]


@pytest.mark.parametrize("header", HEADERS)
def test_the_card(client: TestClient, key: str, header: str) -> None:
    answer = client.get("/v2/a2a/probe/.well-known/agent.json", headers={header: f"Bearer {key}"})
    card = answer.json()
    assert card["protocolVersion"] == "0.2.6"
    assert card["url"] == f"{BASE_URL}/v2/a2a/probe"
    assert card["capabilities"] == {"streaming": True}
    [scheme] = card["securitySchemes"].values()
    assert scheme.items() >= {"type": "apiKey", "in": "header", "name": "Authorization"}.items()
    assert card["security"] == [{"apiKeyAuth": []}]
    required_fields = ("name", "description", "version", "provider", "skills", "defaultInputModes")
    assert all(card[name] for name in required_fields)
    assert "private" in answer.headers["cache-control"]


def test_errors_of_the_card_are_its_own(client: TestClient, key: str) -> None:
    unknown = client.get("/v2/a2a/nobody/.well-known/agent.json", headers={"Authorization": f"Bearer {key}"})
    assert unknown.status_code == 404
    assert unknown.json().keys() == {"code", "message", "request_id"}
    assert unknown.json()["code"] == "NotFoundResource"
    assert unknown.json()["message"] == "A2AServerNotPublishedYet"
    keyless = client.get("/v2/a2a/probe/.well-known/agent.json")
    assert keyless.status_code == 401
    assert keyless.json()["code"] == "Unauthorized"
    wrong = client.get("/v2/a2a/probe/.well-known/agent.json", headers={"Authorization": "Bearer x"})
    assert wrong.status_code == 401


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("path", PATHS)
def test_the_pages_own_request(client: TestClient, key: str, path: str, header: str) -> None:
    """It has no messageId."""
    answer = client.post(path, json=WEATHER, headers={header: f"Bearer {key}"})
    results = events(answer)
    assert results[0]["kind"] == "task"
    chunks = [event for event in results if event["kind"] == "artifact-update"]
    assert "".join(part["text"] for chunk in chunks for part in chunk["artifact"]["parts"]) == "今天天气"
    assert results[-1]["kind"] == "status-update"
    assert results[-1]["final"] is True
    assert results[-1]["status"]["state"] == "completed"


def test_the_metadata_of_a_stream(client: TestClient, key: str) -> None:
    results = events(call(client, key, said("step", end_user_id="user-0001")))
    plan, *answers = [event for event in results if event["kind"] == "artifact-update"]
    assert plan["artifact"]["name"] == "/thought/plan"
    assert plan["artifact"]["parts"] == [{"kind": "text", "text": "First this, then that."}]
    assert plan["metadata"]["role"] == "tool"
    assert plan["metadata"]["status"] == "running"
    for event in (plan, *answers):
        artifact_metadata = event["artifact"]["metadata"]
        assert artifact_metadata["type"] == "text"
        assert artifact_metadata["visible_scope"] == "all"
        assert artifact_metadata["event"].items() >= {"name": event["artifact"]["name"]}.items()
        assert artifact_metadata["metrics"].keys() == {"begin_time_stamp", "current_time_stamp"}
        event_metadata = event["metadata"]
        assert event_metadata["conversation_id"] == event["contextId"]
        assert event_metadata["end_user_id"] == "user-0001"
        assert event_metadata["message_id"] == event_metadata["trace_id"] == event["taskId"]
        assert event_metadata["user_id"]
    assert {event["metadata"]["role"] for event in answers} == {"assistant"}
    assert answers[-1]["lastChunk"] is True
    assert {event["metadata"]["is_completion"] for event in answers} == {False}
    assert {event["metadata"]["status"] for event in answers} == {"running"}
    assert results[-1]["metadata"].items() >= {"is_completion": True, "status": "done"}.items()
    assert answers[-1]["artifact"]["metadata"]["event"]["status"] == "done"


def test_a_stage_is_a_status_to_everybody_else(client: TestClient, key: str) -> None:
    answer = client.post("/a2a/probe", json=said("step") | {"id": "uuid"}, headers={"X-API-Key": key})
    assert json.loads(answer.text)["error"]["code"] == -32602  # a 0.3 message has its id
    body = said("step")
    body["params"]["message"]["messageId"] = "m"
    refusal = events(client.post("/a2a/probe", json=body, headers={"X-API-Key": key}))
    [step] = [event for event in refusal if event["kind"] == "status-update" and not event["final"]]
    assert step["status"]["message"]["parts"] == [{"kind": "text", "text": "First this, then that."}]
    assert "artifactId" not in json.dumps(refusal[0])


def test_files_as_they_are_sent_there(client: TestClient, key: str) -> None:
    """The type's key is `mime`, and the part may say it is text."""
    body = said("look", "message/send")
    body["params"]["message"]["parts"] = [
        {"kind": "text", "file": {"name": "a.png", "mime": "image/png", "bytes": "eA=="}},
        {"kind": "file", "file": {"uri": "https://example.com/b", "mime": "text/csv"}},
        {"kind": "data", "data": {"a": 1}},
    ]
    task = call(client, key, body).json()["result"]
    [look] = [part["data"] for part in task["artifacts"][0]["parts"]]
    assert look["files"] == [
        ["a.png", "image/png", None, 1],
        [None, "text/csv", "https://example.com/b", 0],
    ]
    assert task["artifacts"][0]["name"] == "/answer"
    assert task["artifacts"][0]["metadata"]["event"]["status"] == "done"
    file = call(client, key, said("everything", "message/send")).json()["result"]["artifacts"][0]["parts"][2]
    assert file["file"]["mime"] == file["file"]["mimeType"] == "text/plain"


@pytest.mark.parametrize("name", ["short", "x" * 65])
def test_end_user_ids_have_6_to_64_characters(client: TestClient, key: str, name: str) -> None:
    error = call(client, key, said("echo", "message/send", end_user_id=name)).json()["error"]
    assert error["code"] == -32602
    assert "end_user_id" in error["message"]


def test_a_conversation_continues(client: TestClient, key: str) -> None:
    question = call(client, key, said("question", "message/send")).json()["result"]
    assert question["status"]["state"] == "input-required"
    body = said("question", "message/send")
    body["params"]["message"] |= {"taskId": question["id"], "contextId": question["contextId"]}
    assert call(client, key, body).json()["result"]["status"]["state"] == "completed"


def test_the_same_words_of_two_users_are_two_conversations(client: TestClient, key: str) -> None:
    """Neither their messages nor their requests have an id of their own."""
    tasks = [call(client, key, said("echo", "message/send")).json()["result"] for _ in range(2)]
    assert tasks[0]["id"] != tasks[1]["id"]
    assert tasks[0]["contextId"] != tasks[1]["contextId"]


def test_the_same_words_again_are_another_message(client: TestClient, key: str) -> None:
    body = said("recall", "message/send")
    body["params"]["message"]["contextId"] = "conversation"
    tasks = [call(client, key, body).json()["result"] for _ in range(3)]
    assert len({task["id"] for task in tasks}) == 3
    recalls = [task["artifacts"][0]["parts"][0]["data"] for task in tasks]
    assert [recall["history"] for recall in recalls] == [0, 2, 4]


@pytest.mark.parametrize(
    ("ids", "identity", "is_same"),
    [
        ({}, "1", False),
        ({"contextId": "c"}, "1", True),
        ({"taskId": "t"}, "1", True),
        ({}, "3e1f7f52-4d5c-4a0b-9a1c-5b1f0f3c8e11", True),
    ],
)
def test_requests_without_ids_are_the_same_if_they_name_what_is_one_users(
    client: TestClient, key: str, monkeypatch: pytest.MonkeyPatch, ids: Any, *, identity: str, is_same: bool
) -> None:
    requests = []

    async def send(_: Any, call: MessageCall, __: Any) -> Any:
        requests.append(call.identity)
        raise Unavailable("not now")

    monkeypatch.setattr(Messages, "send", send)
    body = said("echo", "message/send") | {"id": identity}
    body["params"]["message"] |= ids
    for _ in range(2):
        call(client, key, body)
    assert (requests[0].key == requests[1].key) is is_same
    assert [request.has_own_id for request in requests] == [len(identity) > 1] * 2


def test_never_a_bare_message_and_errors_are_json_rpc(client: TestClient, key: str) -> None:
    assert call(client, key, said("words", "message/send")).json()["result"]["kind"] == "task"
    answer = client.post("/v2/a2a/probe", content=b"{", headers={"Authorization": f"Bearer {key}"})
    assert answer.json()["error"]["code"] == -32700
    assert answer.json()["jsonrpc"] == "2.0"


def test_other_versions_on_its_shared_path(client: TestClient, key: str) -> None:
    """Who shows a key as a bearer token on an agent's own path may speak 1.0 or 0.1 as well."""
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
    }
    assert "task" in call(client, key, body, "/a2a/probe").json()["result"]


def test_a_bearer_token_alone_is_no_sign_of_it(client: TestClient, key: str) -> None:
    """Every 0.3 client may show one, and our own cards offer it."""
    said_in_0_3 = said("words", "message/send")
    said_in_0_3["params"]["message"]["messageId"] = "m"
    answers = [
        client.post("/a2a/probe", json=said_in_0_3, headers=headers).json()["result"]
        for headers in ({"X-API-Key": key}, {"Authorization": f"Bearer {key}"})
    ]
    assert answers[0] == answers[1]
    assert answers[1]["kind"] == "message"


def test_tasks_of_qianfan_are_read_again_as_its_own(client: TestClient, key: str) -> None:
    task = call(client, key, said("echo", "message/send"), "/a2a/probe").json()["result"]
    assert task["artifacts"][0]["name"] == "/answer"
    body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": task["id"]}}
    assert call(client, key, body, "/a2a/probe").json()["result"] == task


@pytest.mark.parametrize(
    ("skill", "status"), [("boom", "error"), ("question", "interrupt"), ("echo", "done")]
)
def test_how_a_round_ends(client: TestClient, key: str, skill: str, status: str) -> None:
    last = events(call(client, key, said(skill)))[-1]
    assert last["final"] is True
    assert last["metadata"]["status"] == status
    assert last["metadata"]["is_completion"] is True
