"""A2A 0.1 as its clients see it, with the examples of the overview article (shared/seeds/004)."""

import uuid
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.helpers.rpc import Rpc, events, intent, request

pytestmark = pytest.mark.slow


def said(text: str = "hi", skill: str = "echo", **slots: str) -> Any:
    parts = [{"type": "text", "text": text}]
    return {"role": "user", "parts": parts, "metadata": intent(skill, **slots)}


def new_id() -> str:
    return str(uuid.uuid4())


def test_the_articles_example(client: TestClient, key: str) -> None:
    """Its parts stand under `data`."""
    rpc = Rpc(client, key)
    task_id = "de38c76d-d54c-436c-8b9f-4c2703648d64"
    task = rpc.call(
        "tasks/send",
        {
            "id": task_id,
            "message": {"role": "user", "data": [{"type": "text", "text": "tell me a joke"}]},
            "metadata": {},
        },
    )
    assert task["id"] == task_id
    assert task["sessionId"]
    assert task["status"]["state"] == "completed"
    assert task["artifacts"][0]["parts"][0]["type"] == "text"
    assert task["artifacts"][0]["index"] == 0
    assert "history" not in task
    task_read = rpc.call("tasks/get", {"id": task_id, "historyLength": 10, "metadata": {}})
    assert task_read["history"][0]["role"] == "user"
    assert task_read["history"][0]["parts"] == [{"type": "text", "text": "tell me a joke"}]


def test_python_a2a_posts_a_message_to_a_path_of_its_own(client: TestClient, key: str) -> None:
    """Its message has one content instead of parts."""
    message = {"role": "user", "content": {"type": "text", "text": "hi"}, "metadata": intent("echo")}
    body = request("tasks/send", {"id": new_id(), "message": message})
    for path in ("/a2a/probe/tasks/send", "/a2a/probe"):
        task = client.post(path, json=body, headers={"X-API-Key": key}).json()["result"]
        assert task["artifacts"][0]["parts"][0]["text"] == "hi"


def test_the_client_names_the_task_and_its_session(rpc: Rpc) -> None:
    task_id = new_id()
    task = rpc.call("tasks/send", {"id": task_id, "sessionId": "session", "message": said()})
    assert (task["id"], task["sessionId"]) == (task_id, "session")
    other = rpc.call("tasks/send", {"id": new_id(), "sessionId": "session", "message": said(skill="look")})
    assert other["artifacts"][0]["parts"][0]["data"]["said"] == ["hi", "hi"]


def test_explicit_nulls_are_nothing(rpc: Rpc) -> None:
    task = rpc.call(
        "tasks/send",
        {
            "id": new_id(),
            "sessionId": None,
            "message": {**said(), "parts": [{"type": "text", "text": "hi", "metadata": None}]},
            "acceptedOutputModes": None,
            "pushNotification": None,
            "historyLength": None,
            "metadata": None,
        },
    )
    assert task["status"]["state"] == "completed"


def test_a_completed_task_is_opened_again(rpc: Rpc) -> None:
    task_id = new_id()
    rpc.call("tasks/send", {"id": task_id, "message": said("one")})
    task = rpc.call("tasks/send", {"id": task_id, "message": said("two"), "historyLength": 9})
    assert [part["text"] for item in task["artifacts"] for part in item["parts"]] == ["one", "two"]
    assert [item["index"] for item in task["artifacts"]] == [0, 1]
    assert [item["parts"][0]["text"] for item in task["history"]] == ["one", "two"]
    assert rpc.call("tasks/get", {"id": task_id})["status"]["state"] == "completed"


def test_other_ends_stay_ends(rpc: Rpc) -> None:
    task_id = new_id()
    failed_task = rpc.call("tasks/send", {"id": task_id, "message": said(skill="boom")})
    assert failed_task["status"]["state"] == "failed"
    assert rpc.error("tasks/send", {"id": task_id, "message": said()})["code"] == -32004


def test_states_it_does_not_know(rpc: Rpc) -> None:
    refusal = rpc.call("tasks/send", {"id": new_id(), "message": said(skill="refuse")})
    assert refusal["status"]["state"] == "failed"
    question = rpc.call("tasks/send", {"id": new_id(), "message": said(skill="sign-in")})
    assert question["status"]["state"] == "input-required"


def test_a_question_and_its_answer(rpc: Rpc) -> None:
    task_id = new_id()
    question = rpc.call("tasks/send", {"id": task_id, "message": said(skill="question", length="5")})
    assert question["status"]["state"] == "input-required"
    assert question["status"]["message"]["parts"][0]["text"] == "?????"
    task = rpc.call("tasks/send", {"id": task_id, "message": said("yes", "question")})
    assert task["status"]["state"] == "completed"


def test_a_stream(rpc: Rpc) -> None:
    task_id = new_id()
    params = {"id": task_id, "message": said(skill="everything")}
    stream_events = events(rpc.post(request("tasks/sendSubscribe", params)).text)
    assert {event["id"] for event in stream_events} == {task_id}
    assert all(("status" in event) != ("artifact" in event) for event in stream_events)
    assert stream_events[0]["status"]["state"] == "submitted"
    assert [event["final"] for event in stream_events if "status" in event] == [False, False, True]
    chunks = [event["artifact"] for event in stream_events if "artifact" in event]
    assert {chunk["index"] for chunk in chunks} == {0, 1}
    assert [chunk["append"] for chunk in chunks if chunk["index"] == 1][:2] == [False, True]
    again = events(rpc.post(request("tasks/resubscribe", {"id": task_id})).text)
    assert [event["artifact"]["index"] for event in again if "artifact" in event] == [0, 1]
    assert again[-1]["final"] is True


def test_indexes_continue_over_turns(rpc: Rpc) -> None:
    task_id = new_id()
    rpc.call("tasks/send", {"id": task_id, "message": said("one")})
    stream_events = events(
        rpc.post(request("tasks/sendSubscribe", {"id": task_id, "message": said("two")})).text
    )
    indexes = [event["artifact"]["index"] for event in stream_events if "artifact" in event]
    assert indexes == [0, 1]  # what is there already, and what is new


def test_a_retry_is_answered_from_its_task(rpc: Rpc) -> None:
    body = request("tasks/send", {"id": new_id(), "message": said(skill="look")})
    first, second = rpc.post(body).json(), rpc.post(body).json()
    assert first == second


def test_the_same_words_again_are_another_message(rpc: Rpc) -> None:
    """Messages of 0.1 have no ids, and the article's requests all have the id 1."""
    body = request("tasks/send", {"id": new_id(), "message": said("yes"), "historyLength": 9}, 1)
    histories = [rpc.post(body).json()["result"]["history"] for _ in range(3)]
    assert [len(history) for history in histories] == [1, 2, 3]


def test_a_task_of_0_1_has_one_push_config(rpc: Rpc) -> None:
    task_id = new_id()
    config = {"url": "https://example.com/callback", "token": "t", "authentication": {"schemes": ["bearer"]}}
    rpc.call("tasks/send", {"id": task_id, "message": said()})
    params = {"id": task_id, "pushNotificationConfig": config}
    assert rpc.call("tasks/pushNotification/set", params) == params
    assert rpc.call("tasks/pushNotification/get", {"id": task_id}) == params
    newer = {"id": task_id, "pushNotificationConfig": {"url": "https://example.com/other"}}
    rpc.call("tasks/pushNotification/set", newer)
    assert rpc.call("tasks/pushNotification/get", {"id": task_id}) == newer
    assert len(rpc.call("tasks/pushNotificationConfig/list", {"id": task_id})) == 1


def test_the_card_of_0_1_says_how_to_show_a_key(client: TestClient) -> None:
    card = client.get("/.well-known/agent.json").json()
    assert card["authentication"] == {"schemes": ["ApiKey", "Bearer"]}
    assert card["capabilities"]["stateTransitionHistory"] is False
