"""Which version a request speaks, and one task through all of them."""

import uuid
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc, intent, message, request

pytestmark = pytest.mark.slow


SENDS: dict[str, tuple[str, Any]] = {
    "0.1": ("tasks/send", {"role": "user", "parts": [{"type": "text", "text": "hi"}]}),
    "0.3": ("message/send", message("hi")),
    "1.0": ("SendMessage", message_1_0("hi")),
}


def send(rpc: Rpc, version: str, skill: str = "everything") -> Any:
    method, send_params = SENDS[version]
    params: dict[str, Any] = {"message": {**send_params, "metadata": intent(skill)}}
    if version == "0.1":
        params["id"] = str(uuid.uuid4())
    result = rpc.call(method, params)
    return result.get("task", result)


@pytest.mark.parametrize("version", SENDS)
def test_ambiguous_methods_answer_in_the_dialect_of_the_task(rpc: Rpc, version: str) -> None:
    task = send(rpc, version, "question")
    task_read = rpc.call("tasks/get", {"id": task["id"]})
    assert ("kind" in task_read) == (version != "0.1")
    assert ("sessionId" in task_read) == (version == "0.1")
    canceled_task = rpc.call("tasks/cancel", {"id": task["id"]})
    assert ("kind" in canceled_task) == (version != "0.1")
    stream = rpc.post(request("tasks/resubscribe", {"id": task["id"]})).text
    assert ('"kind"' in stream) == (version != "0.1")


def test_the_header_has_the_last_word(client: TestClient, key: str, rpc: Rpc) -> None:
    task = send(rpc, "0.1")
    for version, kind in (("0.3", True), ("0.2.6", True), ("0.1", False)):
        answer = rpc.post(request("tasks/get", {"id": task["id"]}), **{"A2A-Version": version}).json()
        assert ("kind" in answer["result"]) is kind
    by_query = client.post(
        "/a2a/probe?A2A-Version=0.3",
        json=request("tasks/get", {"id": task["id"]}),
        headers={"X-API-Key": key},
    )
    assert "kind" in by_query.json()["result"]


@pytest.mark.parametrize("version", ["2.0", "junk", "99.0", "1.1", "0.9"])
def test_a_version_no_one_speaks(client: TestClient, rpc: Rpc, key: str, version: str) -> None:
    for method in ("SendMessage", "message/send", "tasks/send"):
        refusal = rpc.post(request(method, {}), **{"A2A-Version": version}).json()["error"]
        assert refusal["code"] == -32009
        assert "0.1, 0.2, 0.3, 1.0" in refusal["message"]
        assert refusal["data"][0]["reason"] == "VERSION_NOT_SUPPORTED"
    answer = Rest(client, key, version=version).ask("GET", "tasks")
    assert answer.status_code == 400
    assert answer.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


def test_a_method_of_another_version(rpc: Rpc) -> None:
    refusal = rpc.post(request("message/send", {}), **{"A2A-Version": "1.0"}).json()["error"]
    assert refusal["code"] == -32601
    assert "message/send is a method of A2A 0.3" in refusal["message"]
    assert rpc.error("nothing/known", {})["code"] == -32601


@pytest.mark.parametrize("version", ["", "1.0", "1.0.1"])
def test_patches_and_silence_are_1_0_to_its_methods(rpc: Rpc, version: str) -> None:
    body = request("SendMessage", {"message": message_1_0("hi")})
    assert "task" in rpc.post(body, **{"A2A-Version": version}).json()["result"]


def test_rest_paths_say_their_version(client: TestClient, key: str) -> None:
    old = Rest(client, key, "/a2a/probe/v1", version="")
    new = Rest(client, key, version="")
    assert "content" in str(old.call("POST", "message:send", {"message": {**message_1_0("hi")}}))
    assert "task" in new.call("POST", "message:send", {"message": message_1_0("hi")})
    wrong = Rest(client, key, "/a2a/probe", version="0.3").ask("GET", "tasks")
    assert wrong.status_code == 400
    assert "/v1" in wrong.json()["error"]["message"]


@pytest.mark.parametrize("version", SENDS)
def test_an_object_made_through_one_version_reads_through_every_other(
    client: TestClient, key: str, rpc: Rpc, version: str
) -> None:
    task = send(rpc, version)
    in_1_0 = rpc.call("GetTask", {"id": task["id"]})
    in_rest = Rest(client, key).call("GET", f"tasks/{task['id']}")
    in_0_3 = rpc.post(request("tasks/get", {"id": task["id"]}), **{"A2A-Version": "0.3"}).json()["result"]
    in_0_3_rest = Rest(client, key, "/a2a/probe/v1", version="").call("GET", f"tasks/{task['id']}")
    in_0_1 = rpc.post(
        request("tasks/get", {"id": task["id"], "historyLength": 9}), **{"A2A-Version": "0.1"}
    ).json()["result"]
    assert in_1_0 == in_rest
    states = {in_0_3["status"]["state"], in_0_1["status"]["state"]}
    assert (in_1_0["status"]["state"], in_0_3_rest["status"]["state"], states) == (
        "TASK_STATE_COMPLETED",
        "TASK_STATE_COMPLETED",
        {"completed"},
    )
    times = {view["status"]["timestamp"] for view in (in_1_0, in_0_3, in_0_3_rest, in_0_1)}
    assert len(times) == 1
    for view in (in_1_0, in_0_3, in_0_3_rest, in_0_1):
        reply, report = view["artifacts"]
        text, data, file = reply["parts"]
        assert text["text"] == "text"
        value = data["data"].get("data", data["data"])
        assert value == {"number": 9007199254740993}
        file_value = file.get("file", file)
        assert "Ynl0ZXM=" in file_value.values()
        assert report["parts"][0]["text"] == "first second"
        assert len(view["history"]) == 1


def test_a_card_of_a_version_no_one_speaks(client: TestClient) -> None:
    answer = client.get("/.well-known/agent-card.json", headers={"A2A-Version": "7.0"})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32009
    assert answer.headers["vary"] == "A2A-Version"


def test_a_tenant_is_1_0s(rpc: Rpc) -> None:
    params = {"message": message("hi"), "tenant": "nobody"}
    assert rpc.call("message/send", params)["kind"] == "task"
