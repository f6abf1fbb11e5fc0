"""Push notification configs: set, read and deleted, in every version, by their owner alone."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.kit import Kit
from tests.conftest import new_key
from tests.rest import Rest
from tests.rest import message as message_1_0
from tests.rpc import Rpc, message

Json = Any

HOOK = "https://example.com/hook"


@pytest.fixture
def rest(client: TestClient, key: str) -> Rest:
    return Rest(client, key)


@pytest.fixture
def rpc(client: TestClient, key: str) -> Rpc:
    return Rpc(client, key, "/a2a/probe")


def configs(rest: Rest, task_id: str, query: str = "") -> Json:
    return rest.call("GET", f"tasks/{task_id}/pushNotificationConfigs{query}")


def test_1_0(rest: Rest, rpc: Rpc) -> None:
    task_id = rest.send()["id"]
    config = {
        "id": "a",
        "url": HOOK,
        "token": "t",
        "authentication": {"scheme": "Bearer", "credentials": "c"},
    }
    made = rest.call("POST", f"tasks/{task_id}/pushNotificationConfigs", config)
    assert made == {**config, "taskId": task_id}
    other = rpc.call("CreateTaskPushNotificationConfig", {"taskId": task_id, "id": "b", "url": HOOK})
    assert rpc.call("GetTaskPushNotificationConfig", {"task_id": task_id, "id": "b"}) == other
    assert configs(rest, task_id) == {"configs": [made, other], "nextPageToken": ""}
    first = configs(rest, task_id, "?pageSize=1")
    assert first == {"configs": [made], "nextPageToken": "a"}
    assert configs(rest, task_id, "?pageSize=1&pageToken=a") == {"configs": [other], "nextPageToken": ""}
    for _ in range(2):  # deleting is idempotent
        answer = rest.ask("DELETE", f"tasks/{task_id}/pushNotificationConfigs/a")
        assert (answer.status_code, answer.json()) == (200, {})
    assert rest.ask("GET", f"tasks/{task_id}/pushNotificationConfigs/a").status_code == 404
    assert rpc.call("DeleteTaskPushNotificationConfig", {"taskId": task_id, "id": "b"}) is None
    assert configs(rest, task_id)["configs"] == []


def test_0_3(rpc: Rpc) -> None:
    task_id = rpc.send()["id"]
    config = {"url": HOOK, "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "c"}}
    made = rpc.call("tasks/pushNotificationConfig/set", {"taskId": task_id, "pushNotificationConfig": config})
    assert made["pushNotificationConfig"].items() >= config.items()
    assert made["pushNotificationConfig"]["id"]
    assert rpc.call("tasks/pushNotificationConfig/get", {"id": task_id}) == made
    named = {"id": task_id, "pushNotificationConfigId": made["pushNotificationConfig"]["id"]}
    assert rpc.call("tasks/pushNotificationConfig/get", named) == made
    assert rpc.call("tasks/pushNotificationConfig/list", {"id": task_id}) == [made]
    assert rpc.error("tasks/pushNotificationConfig/delete", {"id": task_id})["code"] == -32602
    assert rpc.call("tasks/pushNotificationConfig/delete", named) is None
    assert rpc.call("tasks/pushNotificationConfig/list", {"id": task_id}) == []


def test_it_comes_with_a_message(rest: Rest, rpc: Rpc) -> None:
    config = {"url": HOOK, "id": "mine"}
    task = rest.send(configuration={"taskPushNotificationConfig": config})
    assert configs(rest, task["id"])["configs"] == [{**config, "taskId": task["id"]}]
    sent = {"message": message(), "configuration": {"pushNotificationConfig": config}}
    old = rpc.call("message/send", sent)
    assert configs(rest, old["id"])["configs"] == [{**config, "taskId": old["id"]}]
    asked = rest.send("question")
    rest.send("question", taskId=asked["id"], configuration={"taskPushNotificationConfig": config})
    assert len(configs(rest, asked["id"])["configs"]) == 1


def test_it_comes_with_a_task_of_0_1(rpc: Rpc) -> None:
    said = {"role": "user", "parts": [{"type": "text", "text": "hi"}]}
    rpc.call("tasks/send", {"id": "with-config", "message": said, "pushNotification": {"url": HOOK}})
    found = rpc.call("tasks/pushNotification/get", {"id": "with-config"})
    assert found == {"id": "with-config", "pushNotificationConfig": {"url": HOOK}}


def test_a_task_has_at_most_ten(rest: Rest) -> None:
    path = f"tasks/{rest.send()['id']}/pushNotificationConfigs"
    for number in range(10):
        rest.call("POST", path, {"id": str(number), "url": HOOK})
    assert rest.ask("POST", path, {"id": "10", "url": HOOK}).status_code == 400
    rest.call("POST", path, {"id": "9", "url": HOOK + "/newer"})
    assert len(rest.call("GET", path)["configs"]) == 10


def test_they_do_not_exist_for_others(client: TestClient, kit: Kit, rest: Rest) -> None:
    path = f"tasks/{rest.send()['id']}/pushNotificationConfigs"
    rest.call("POST", path, {"id": "a", "url": HOOK})
    other = Rest(client, new_key(kit.keys))
    elsewhere = Rest(client, "", "/a2a/assistant")
    elsewhere.headers = rest.headers
    assert other.ask("GET", path).status_code == 404
    assert other.ask("GET", f"{path}/a").status_code == 404
    assert other.ask("DELETE", f"{path}/a").status_code == 404
    assert other.ask("POST", path, {"url": HOOK}).status_code == 404
    assert len(rest.call("GET", path)["configs"]) == 1


def test_an_agent_that_does_not_notify(client: TestClient, key: str, plain: str) -> None:
    rpc, rest = Rpc(client, key, f"/a2a/{plain}"), Rest(client, key, f"/a2a/{plain}")
    for method in ("set", "get", "list", "delete"):
        assert rpc.error(f"tasks/pushNotificationConfig/{method}", {"id": "x"})["code"] == -32003
    assert rpc.error("tasks/pushNotification/set", {"id": "x"})["code"] == -32003
    assert rpc.error("CreateTaskPushNotificationConfig", {"taskId": "x"})["code"] == -32003
    inline = {"message": message(), "configuration": {"pushNotificationConfig": {"url": HOOK}}}
    assert rpc.error("message/send", inline)["code"] == -32003
    body = {
        "message": message_1_0(),
        "configuration": {"taskPushNotificationConfig": {"url": HOOK}},
    }
    assert rest.ask("POST", "message:send", body).json()["error"]["details"][0]["reason"] == (
        "PUSH_NOTIFICATION_NOT_SUPPORTED"
    )
