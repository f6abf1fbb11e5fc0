"""What is particular about A2A 0.1: indexes, sessions, one config a task, and events without a task."""

import uuid
from typing import Any

import pytest

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import TaskState
from a2a_lambda.protocol.requests import Recipient
from a2a_lambda.wire import v0_1

RECIPIENT = Recipient("owner")

IDS = {"id": "t", "sessionId": "c"}


def task_with(state: TaskState, **fields: Any) -> Any:
    return {
        "id": "t",
        "contextId": "c",
        "status": {"state": state, "timestamp": "2026-01-01T00:00:00Z"},
        **fields,
    }


ARTIFACTS = [{"artifactId": f"artifact-{number}", "parts": [{"text": f"{number}"}]} for number in (1, 2)]


def test_a_task_in_a_stream_becomes_its_artifacts_and_its_status() -> None:
    working = task_with(TaskState.WORKING, artifacts=ARTIFACTS)
    *chunks, status = v0_1.encode_event({"task": working}, RECIPIENT)
    assert [chunk["artifact"]["index"] for chunk in chunks] == [0, 1]
    assert not any(chunk["artifact"]["lastChunk"] for chunk in chunks), "more of each may come"
    assert all(IDS.items() <= event.items() for event in [*chunks, status])
    assert (status["status"]["state"], status["final"]) == ("working", False)
    assert v0_1.encode_event({"task": task_with(TaskState.WORKING)}, RECIPIENT) == [status]


def test_the_artifacts_of_earlier_turns_are_whole() -> None:
    task = task_with(TaskState.SUBMITTED, artifacts=ARTIFACTS)
    *chunks, _ = v0_1.encode_event({"task": task}, RECIPIENT)
    assert all(chunk["artifact"]["lastChunk"] for chunk in chunks)


def test_the_status_of_a_task_that_has_stopped_is_the_last_event_alone() -> None:
    for state in (TaskState.COMPLETED, TaskState.INPUT_REQUIRED):
        events = v0_1.encode_event({"task": task_with(state, artifacts=ARTIFACTS)}, RECIPIENT)
        assert len(events) == 2
        assert not any("status" in event for event in events)


@pytest.mark.parametrize(
    ("state", "name", "is_final"),
    [
        (TaskState.WORKING, "working", False),
        (TaskState.COMPLETED, "completed", True),
        (TaskState.REJECTED, "failed", True),
        (TaskState.AUTH_REQUIRED, "input-required", True),
    ],
)
def test_a_status_update_says_whether_it_is_the_last(state: TaskState, name: str, is_final: bool) -> None:
    update: Any = {
        "taskId": "t",
        "contextId": "c",
        "status": task_with(state)["status"],
        "metadata": {"a": 1},
    }
    [event] = v0_1.encode_event({"statusUpdate": update}, RECIPIENT)
    assert (event["status"]["state"], event["final"], event["metadata"]) == (name, is_final, {"a": 1})
    assert IDS.items() <= event.items()
    assert "taskId" not in event
    decoded = v0_1.decode_event(event)["statusUpdate"]
    assert (decoded["taskId"], decoded["contextId"]) == ("t", "c")


@pytest.mark.parametrize(("append", "last"), [(True, False), (False, True)])
def test_a_chunk_has_an_index_and_its_flags(append: bool, last: bool) -> None:
    update: Any = {
        "taskId": "t",
        "contextId": "c",
        "artifact": ARTIFACTS[1],
        "append": append,
        "lastChunk": last,
    }
    [event] = v0_1.encode_event({"artifactUpdate": update}, RECIPIENT)
    assert event == {
        **IDS,
        "artifact": {
            "artifactId": "artifact-2",
            "parts": [{"type": "text", "text": "2"}],
            "index": 1,
            "append": append,
            "lastChunk": last,
        },
    }
    assert v0_1.decode_event(event) == {"artifactUpdate": update}


def test_an_end_without_content_is_no_event() -> None:
    artifact: Any = {"artifactId": "artifact-1", "parts": []}
    update: Any = {"taskId": "t", "contextId": "c", "artifact": artifact, "append": True, "lastChunk": True}
    assert v0_1.encode_event({"artifactUpdate": update}, RECIPIENT) == []


def test_a_task_of_another_server_may_lack_what_the_kit_needs() -> None:
    """A session, ids of messages and artifacts, and parts, which some call `data`."""
    status = {"state": "completed", "message": {"role": "agent", "data": [{"type": "text", "text": "Hi"}]}}
    source = {
        "id": "t",
        "status": status,
        "artifacts": [{"parts": [{"type": "text", "text": "A"}], "index": 3}, {"parts": []}],
        "history": [{"role": "user", "parts": None}],
    }
    task = v0_1.decode_task(source)
    assert (task["id"], task["contextId"]) == ("t", "t")
    assert [artifact["artifactId"] for artifact in task["artifacts"]] == ["artifact-4", "artifact-1"]
    assert task["status"]["message"]["parts"] == [{"text": "Hi"}]
    assert task["history"][0]["parts"] == []
    assert uuid.UUID(task["history"][0]["messageId"])
    assert (
        not {"artifacts", "history"} & v0_1.decode_task({**source, "artifacts": [], "history": None}).keys()
    )


def test_a_task_is_encoded_with_its_history_and_indexes() -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    encoded = v0_1.encode_task(task_with(TaskState.COMPLETED, artifacts=ARTIFACTS, history=[message]))
    assert [artifact["index"] for artifact in encoded["artifacts"]] == [0, 1]
    assert encoded["history"] == [
        {"messageId": "m", "role": "user", "parts": [{"type": "text", "text": "x"}]}
    ]
    assert "contextId" not in encoded
    plain = v0_1.encode_task(task_with(TaskState.COMPLETED))
    assert not {"artifacts", "history"} & plain.keys()


def test_a_config_is_that_of_its_task() -> None:
    hook = {"url": "https://x", "id": "ignored"}
    config = v0_1.decode_config({"id": "t", "pushNotificationConfig": hook})
    assert config == {"taskId": "t", "url": "https://x"}
    assert v0_1.encode_config({**config, "id": "default"}) == {
        "id": "t",
        "pushNotificationConfig": {"url": "https://x"},
    }
    assert v0_1.decode_push({"id": "t"}) == {"taskId": "t"}


def test_a_send_names_its_task_and_its_session() -> None:
    message = {"role": "user", "parts": [{"type": "text", "text": "x"}]}
    request = v0_1.decode_send(
        {"id": "t", "sessionId": "c", "message": message, "acceptedOutputModes": ["text"]}
    )
    assert (request["message"]["taskId"], request["message"]["contextId"]) == ("t", "c")
    assert request["creates_task"]
    assert request["configuration"] == {"historyLength": 0, "acceptedOutputModes": ["text"]}
    plain = v0_1.decode_send({"id": "t", "message": message})
    assert "contextId" not in plain["message"]
    assert plain["configuration"] == {"historyLength": 0}
    again = v0_1.encode_send({"message": {**plain["message"], "contextId": "c"}})
    assert (again["id"], again["sessionId"]) == ("t", "c")
    assert not {"historyLength", "pushNotification", "metadata"} & again.keys()
    configuration: Any = {"historyLength": 3, "acceptedOutputModes": ["text"]}
    send_params = v0_1.encode_send({"message": plain["message"], "configuration": configuration})
    assert send_params.items() >= configuration.items()


@pytest.mark.parametrize(("length", "read"), [({}, 0), ({"historyLength": 2}, 2)])
def test_a_task_is_answered_without_its_history_unless_it_is_asked_for(length: Any, read: int) -> None:
    assert v0_1.decode_task_request({"id": "t", **length})["historyLength"] == read


@pytest.mark.parametrize("name", ["parts", "data"])
def test_parts_count_before_the_content_of_python_a2a(name: str) -> None:
    message = {
        "role": "user",
        name: [{"type": "text", "text": "a"}],
        "content": {"type": "text", "text": "b"},
    }
    assert v0_1.decode_send({"id": "task", "message": message})["message"]["parts"] == [{"text": "a"}]


@pytest.mark.parametrize("parts", [{}, {"parts": []}, {"data": []}])
def test_a_message_has_parts(parts: Any) -> None:
    with pytest.raises(InvalidParams) as refusal:
        v0_1.decode_send({"id": "task", "message": {"role": "user", **parts}})
    assert refusal.value.path == "params.message.parts"


def test_a_stream_may_have_a_whole_task() -> None:
    """0.1 has updates alone, and some servers send a task."""
    artifact = {"index": 0, "parts": [{"type": "text", "text": "Hi"}]}
    value = {"id": "t", "sessionId": "s", "status": {"state": "completed"}, "artifacts": [artifact]}
    event = v0_1.decode_event(value)
    assert event == {"task": v0_1.decode_task(value)}
    assert event["task"]["artifacts"][0]["parts"] == [{"text": "Hi"}]
    assert v0_1.decode_event({**value, "final": True}) == event
    update = v0_1.decode_event({"id": "t", "artifact": artifact, "artifacts": None})
    assert update["artifactUpdate"]["artifact"]["parts"] == [{"text": "Hi"}]
