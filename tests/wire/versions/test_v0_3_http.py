"""HTTP+JSON of A2A 0.3: what its real clients send, whatever its text says."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.helpers.rest import Rest
from tests.helpers.rpc import intent

pytestmark = pytest.mark.slow


TEXTS = [
    {"content": [{"text": "hi"}]},
    {"parts": [{"text": "hi"}]},
    {"parts": [{"kind": "text", "text": "hi"}]},
]

HOOK = "https://example.com/hook"

BODIES = {
    "py": {
        "parent": "tasks/ID",
        "configId": "c",
        "config": {"name": "tasks/ID/pushNotificationConfigs/c", "pushNotificationConfig": {"url": HOOK}},
    },
    "tck": {"parent": "tasks/ID", "config_id": "c", "config": {"push_notification_config": {"url": HOOK}}},
    "js": {"name": "tasks/ID/pushNotificationConfigs/c", "pushNotificationConfig": {"id": "c", "url": HOOK}},
    "text": {"config": {"pushNotificationConfig": {"id": "c", "url": HOOK}}},
    "bare": {"id": "c", "url": HOOK},
}


@pytest.fixture
def rest(client: TestClient, key: str) -> Rest:
    return Rest(client, key, "/a2a/probe/v1", version="")


def said(skill: str = "echo", **fields: Any) -> Any:
    message = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hi"}], "metadata": intent(skill)}
    return {"message": message | fields}


@pytest.mark.parametrize("parts", TEXTS)
@pytest.mark.parametrize("spelled", ["messageId", "message_id"])
def test_a_send(rest: Rest, parts: Any, spelled: str) -> None:
    body = {"message": {spelled: "m", "role": "ROLE_USER", **parts}}
    task = rest.call("POST", "message:send", body)["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "hi"}]
    assert task["history"][0]["content"] == [{"text": "hi"}]


def test_files_and_data_have_wrappers(rest: Rest) -> None:
    content = [
        {"file": {"fileWithBytes": "eA==", "mimeType": "text/plain", "name": "n"}},
        {"file": {"file_with_uri": "https://example.com/f"}},
        {"data": {"data": {"a": 1}}},
    ]
    task = rest.call("POST", "message:send", said("look", content=content))["task"]
    [report] = [part["data"]["data"] for part in task["artifacts"][0]["parts"]]
    assert report["files"] == [["n", "text/plain", None, 1], [None, None, "https://example.com/f", 0]]
    assert [next(iter(part)) for part in task["history"][0]["content"]] == ["file", "file", "data"]


@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_a_stream_and_a_subscription(rest: Rest, verb: str) -> None:
    stream_events = rest.stream(body=said("everything"))
    assert next(iter(stream_events[0])) == "task"
    assert stream_events[-1]["statusUpdate"]["final"] is True
    task_id = stream_events[0]["task"]["id"]
    again = rest.stream(f"tasks/{task_id}:subscribe", verb=verb)
    assert again[0]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_canceled_is_spelled_with_two_ls(rest: Rest) -> None:
    task = rest.call("POST", "message:send", said("question"))["task"]
    canceled_task = rest.call("POST", f"tasks/{task['id']}:cancel", {"name": f"tasks/{task['id']}"})
    assert canceled_task["status"]["state"] == "TASK_STATE_CANCELLED"
    [task_in_list] = rest.call("GET", "tasks")
    assert task_in_list["status"]["state"] == "TASK_STATE_CANCELLED"


@pytest.mark.parametrize("client_of", BODIES)
def test_push_configs_in_every_form(rest: Rest, client_of: str) -> None:
    task_id = rest.call("POST", "message:send", said())["task"]["id"]
    path = f"tasks/{task_id}/pushNotificationConfigs"
    stored_config = rest.call("POST", path, json.loads(json.dumps(BODIES[client_of]).replace("ID", task_id)))
    assert stored_config["name"] == f"tasks/{task_id}/pushNotificationConfigs/c"
    assert stored_config["pushNotificationConfig"]["url"] == HOOK
    assert rest.call("GET", f"{path}/c") == stored_config
    assert rest.call("GET", path) == {"configs": [stored_config]}
    assert rest.call("DELETE", f"{path}/c") == {}
    assert rest.call("GET", path) == {"configs": []}


def test_errors(rest: Rest) -> None:
    missing = rest.ask("GET", "tasks/nothing")
    assert missing.status_code == 404
    assert missing.json()["code"] == -32001
    assert missing.json()["error"]["status"] == "NOT_FOUND"
    assert rest.ask("POST", "message:send", {"message": {}}).status_code == 400
    assert rest.ask("GET", "card").status_code == 400
    assert rest.ask("GET", "card").json()["error"]["message"]


@pytest.mark.parametrize("role", [[], {}, 1.5, True, "nobody"])
def test_a_role_of_any_kind(rest: Rest, role: Any) -> None:
    body = said()
    body["message"]["role"] = role
    assert rest.ask("POST", "message:send", body).status_code == 400


def test_a_config_id_that_is_too_long(rest: Rest) -> None:
    task_id = rest.call("POST", "message:send", said())["task"]["id"]
    body = {"configId": "x" * 2000, "config": {"pushNotificationConfig": {"url": HOOK}}}
    assert rest.ask("POST", f"tasks/{task_id}/pushNotificationConfigs", body).status_code == 400


def test_metadata_of_parts_is_kept(rest: Rest) -> None:
    parts = [{"text": "hi", "metadata": {"a": 9007199254740993}}]
    task = rest.call("POST", "message:send", said(content=parts))["task"]
    assert task["history"][0]["content"] == parts


def test_a_field_called_tenant_names_no_agent(rest: Rest) -> None:
    assert rest.call("POST", "message:send", {**said(), "tenant": "unknown"})["task"]
    assert rest.call("POST", "message:send?tenant=unknown", said())["task"]
    question = rest.call("POST", "message:send", {**said("question"), "tenant": 5})["task"]
    assert rest.call("POST", f"tasks/{question['id']}:cancel", {"tenant": 5})["id"] == question["id"]
