"""HTTP+JSON of A2A 0.3, whose messages have the names of its gRPC definition."""

import re

import pytest

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import (
    Artifact,
    Json,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
    agent_message,
    make_status,
)
from a2a_lambda.protocol.requests import Recipient, SendMessageResponse
from a2a_lambda.wire import agno, v0_3_http
from a2a_lambda.wire.shared import json_0x

HOOK = "https://example.com/hook"

SAID: Json = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hello"}]}


@pytest.mark.parametrize("name", ["message", "request"])
def test_a_message_has_either_name(name: str) -> None:
    assert v0_3_http.decode_send({name: SAID}) == {
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    }


def test_a_configuration_is_read_in_either_spelling() -> None:
    expected = {
        "acceptedOutputModes": ["text/plain"],
        "historyLength": 3,
        "returnImmediately": True,
        "taskPushNotificationConfig": {"url": HOOK},
    }
    camel: Json = {
        "acceptedOutputModes": ["text/plain"],
        "historyLength": 3,
        "blocking": False,
        "pushNotification": {"url": HOOK},
    }
    snake: Json = {
        "accepted_output_modes": ["text/plain"],
        "history_length": 3,
        "blocking": False,
        "push_notification": {"url": HOOK},
    }
    as_in_the_text: Json = {**camel, "pushNotificationConfig": camel["pushNotification"]}
    del as_in_the_text["pushNotification"]
    for configuration in (camel, snake, as_in_the_text):
        request = v0_3_http.decode_send(
            {"message": SAID, "configuration": configuration, "metadata": {"a": 1}}
        )
        assert request["configuration"] == expected
        assert request["metadata"] == {"a": 1}


def test_what_protojson_leaves_out_of_a_configuration_is_zero_or_false() -> None:
    """A history of 0 messages is therefore no wish, and a client that wants no wait sends no `blocking`."""
    for configuration in ({}, {"historyLength": 0}, {"blocking": False}):
        request = v0_3_http.decode_send({"message": SAID, "configuration": configuration})
        assert request["configuration"] == {"returnImmediately": True}
    blocking = v0_3_http.decode_send({"message": SAID, "configuration": {"blocking": True}})
    assert blocking["configuration"] == {"returnImmediately": False}


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"metadata": []}, "params.metadata"),
        ({"configuration": []}, "params.configuration"),
        ({"configuration": {"pushNotification": "x"}}, "params.configuration.pushNotification"),
        ({"configuration": {"historyLength": -1}}, "params.configuration.historyLength"),
        ({"configuration": {"blocking": "yes"}}, "params.configuration.blocking"),
    ],
)
def test_a_wrong_send_is_refused_by_its_field(params: Json, field: str) -> None:
    with pytest.raises(InvalidParams) as refusal:
        v0_3_http.decode_send({"message": SAID, **params})
    assert refusal.value.path == field


@pytest.mark.parametrize(
    "params",
    [
        {"taskId": "t", "id": "c", "url": HOOK},
        {"taskId": "t", "configId": "c", "config": {"pushNotificationConfig": {"url": HOOK}}},
        {
            "taskId": "t",
            "config": {"name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": {"url": HOOK}},
        },
        {"taskId": "t", "name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": {"url": HOOK}},
        {"taskId": "t", "parent": "tasks/t/pushNotificationConfigs", "id": "c", "url": HOOK},
    ],
)
def test_a_config_has_its_id_in_one_of_four_places(params: Json) -> None:
    assert v0_3_http.decode_config(params) == {"taskId": "t", "id": "c", "url": HOOK}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"parent": "tasks/other", "config": {}}, "params.parent"),
        ({"config": {"name": "tasks/other/pushNotificationConfigs/c"}}, "params.config.name"),
        ({"name": 7}, "params.name"),
        ({"configId": 7}, "params.configId"),
    ],
)
def test_a_config_is_not_of_two_tasks(fields: Json, path: str) -> None:
    with pytest.raises(InvalidParams) as refusal:
        v0_3_http.decode_config({"taskId": "t", **fields})
    assert refusal.value.path == path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "message.content must not be empty"),
        ([{}], "message.content[0] must have one of text, file, data"),
        (
            [{"text": "x", "file": {"fileWithBytes": "eA=="}}],
            "message.content[0] must have one of text, file",
        ),
        ([{"file": {"text": "x"}}], "message.content[0].file must have one of fileWithUri, fileWithBytes"),
        ([{"file": {"fileWithBytes": 5}}], "message.content[0].file.fileWithBytes must be a string"),
        ([{"file": {"fileWithBytes": "!"}}], "message.content[0].file.fileWithBytes must be base64"),
        ([{"file": {"fileWithUri": 5}}], "message.content[0].file.fileWithUri must be a string"),
        (
            [{"file": {"fileWithUri": HOOK, "mimeType": 5}}],
            "message.content[0].file.mimeType must be a string",
        ),
        ([{"file": {"fileWithUri": HOOK, "name": 5}}], "message.content[0].file.name must be a string"),
    ],
)
def test_a_wrong_part_is_named_as_its_client_wrote_it(content: Json, words: str) -> None:
    with pytest.raises(InvalidParams, match=re.escape(words)):
        v0_3_http.decode_message({**SAID, "content": content}, "message")


@pytest.mark.parametrize("name", ["", "tasks/t", "tasks/t/pushNotificationConfigs/"])
def test_a_name_without_an_id_names_no_config(name: str) -> None:
    params: Json = {"taskId": "t", "config": {"name": name, "pushNotificationConfig": {"url": HOOK}}}
    assert v0_3_http.decode_config(params) == {"taskId": "t", "url": HOOK}


@pytest.mark.parametrize("value", [[1, 2], "text", None, 7, {"value": 1}, {"a": 1}])
def test_data_of_any_kind_comes_out_as_it_went_in(value: Json) -> None:
    """Marked as over JSON-RPC if it is no object, so that [1] and {"value": [1]} differ."""
    encoded = v0_3_http.encode_part({"data": value})
    assert isinstance(encoded["data"]["data"], dict)
    assert (json_0x.WRAPPED in encoded.get("metadata", {})) is not isinstance(value, dict)
    assert v0_3_http.decode_part(encoded, "p") == {"data": value}
    if isinstance(value, dict) and value.keys() != {"data"}:  # as some clients send it
        assert v0_3_http.decode_part({"data": value}, "p") == {"data": value}


@pytest.mark.parametrize("state", ["TASK_STATE_CANCELLED", "TASK_STATE_CANCELED", "canceled"])
def test_a_list_is_filtered_by_any_spelling_of_a_state(state: str) -> None:
    assert v0_3_http.decode_list({"status": state})["status"] == TaskState.CANCELED
    for unknown in ("ended", "unknown"):
        with pytest.raises(InvalidParams):
            v0_3_http.decode_list({"status": unknown})


def test_a_config_has_no_field_that_its_clients_do_not_know() -> None:
    """They refuse the whole answer then."""
    authentication: Json = {"scheme": "Bearer", "credentials": "c", "note": 1}
    config: Json = {"taskId": "t", "id": "i", "url": HOOK, "authentication": authentication, "note": 1}
    answer: Json = v0_3_http.encode_config(config)
    assert answer["pushNotificationConfig"] == {
        "id": "i",
        "url": HOOK,
        "authentication": {"schemes": ["Bearer"], "credentials": "c"},
    }


def test_answers_are_messages_or_tasks() -> None:
    message = agent_message("t", "c", [Part(text="hi")])
    task = Task(id="t", contextId="c", status=make_status(TaskState.COMPLETED, 0, message))
    encoded = v0_3_http.encode_outcome(SendMessageResponse(task=task, message=message))
    assert encoded["message"]["content"] == [{"text": "hi"}]
    assert v0_3_http.encode_outcome(SendMessageResponse(task=task))["task"]["id"] == "t"


def test_a_status_may_have_no_time_and_no_message() -> None:
    bare: TaskStatus = {"state": TaskState.WORKING}
    assert v0_3_http.encode_status(bare) == {"state": "TASK_STATE_WORKING"}


@pytest.mark.parametrize(
    ("kind", "update"),
    [
        ("statusUpdate", {"status": {"state": TaskState.WORKING}}),
        (
            "artifactUpdate",
            {"artifact": {"artifactId": "a", "parts": [{"text": "hi"}]}, "append": False, "lastChunk": False},
        ),
    ],
)
def test_an_update_keeps_its_metadata(kind: str, update: Json) -> None:
    event: Json = {kind: {"taskId": "t", "contextId": "c", **update, "metadata": {"a": 1}}}
    [encoded] = v0_3_http.encode_event(event, Recipient())
    assert encoded[kind]["metadata"] == {"a": 1}


def test_a_message_in_a_task_has_the_tasks_context() -> None:
    message = {**SAID, "taskId": "t", "contextId": "made up"}
    assert "contextId" not in v0_3_http.decode_send({"message": message})["message"]
    assert v0_3_http.decode_send({"message": {**SAID, "contextId": "c"}})["message"]["contextId"] == "c"


@pytest.mark.parametrize("role", ["user", "ROLE_USER"])
def test_a_role_has_either_spelling(role: str) -> None:
    assert v0_3_http.decode_send({"message": {**SAID, "role": role}})["message"]["role"] == "ROLE_USER"


@pytest.mark.parametrize(
    "unset", [{"file": None}, {"data": None}, {"file": None, "data": None, "metadata": None}]
)
def test_a_null_of_a_part_is_unset(unset: Json) -> None:
    assert v0_3_http.decode_part({"text": "hi", **unset}, "part") == {"text": "hi"}


def test_tasks_are_listed_with_their_artifacts() -> None:
    assert v0_3_http.decode_list(None)["includeArtifacts"] is True
    assert v0_3_http.decode_list({"includeArtifacts": "false"})["includeArtifacts"] is False


def task_of_agent(state: TaskState, text: str) -> Task:
    """A task whose agent asked, was answered, and put out "so far"."""
    message = Message(messageId="u", role=Role.USER, parts=[Part(text="hi")])
    return Task(
        id="t",
        contextId="c",
        status=make_status(state, 0, agent_message("t", "c", [Part(text=text)]) if text else None),
        history=[message, agent_message("t", "c", [Part(text="Which?")]), message],
        artifacts=[Artifact(artifactId="a", parts=[Part(text="so far")])],
    )


@pytest.mark.parametrize(
    ("text", "shown"), [("", ["so far"]), ("It is closed.", ["so far", "It is closed."])]
)
def test_agno_reads_an_answer_from_the_history(text: str, shown: list[str]) -> None:
    """It shows every message of the agent as the answer."""
    task = task_of_agent(TaskState.FAILED, text)
    answer: Json = agno.WIRE.results["send"].encode(SendMessageResponse(task=task))
    assert (answer["id"], answer["status"]["state"]) == ("t", "failed")
    assert [message["role"] for message in answer["history"]] == ["user", "user", "agent"]
    assert [part["text"] for part in answer["history"][-1]["parts"]] == shown


def test_agno_reads_the_texts_of_an_end_as_messages() -> None:
    """It ends a stream at the first task, shows no message of a status, and the first text of a message."""

    def events(state: TaskState, *texts: str) -> list[Json]:
        task = task_of_agent(state, "")
        parts = [Part(data={}), *(Part(text=text) for text in texts)]
        if texts:
            task["status"]["message"] = agent_message("t", "c", parts)
        update: Json = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": task["status"]}}
        return agno.WIRE.encode_event(update, Recipient())

    assert [event["kind"] for event in events(TaskState.WORKING, "Thinking")] == ["status-update"]
    assert [event["kind"] for event in events(TaskState.COMPLETED)] == ["status-update"]
    *messages, end = events(TaskState.INPUT_REQUIRED, "Hello.", "Which?")
    assert [message["parts"] for message in messages] == [
        [{"kind": "text", "text": "Hello."}],
        [{"kind": "text", "text": "Which?"}],
    ]
    assert (end["kind"], end["final"]) == ("status-update", True)


def test_agno_reads_a_task_that_has_stopped_as_its_artifacts() -> None:
    assert agno.WIRE.encode_event({"task": task_of_agent(TaskState.WORKING, "")}, Recipient()) == []
    [chunk] = agno.WIRE.encode_event({"task": task_of_agent(TaskState.COMPLETED, "")}, Recipient())
    assert (chunk["kind"], chunk["artifact"]["parts"]) == (
        "artifact-update",
        [{"kind": "text", "text": "so far"}],
    )


def test_agno_gets_tasks_whole_chunks_and_errors_with_their_status() -> None:
    wire = agno.WIRE
    assert (wire.answers_with_messages, wire.replaces_artifacts, wire.stream_errors_as_events) == (False,) * 3
    assert wire.blocking_by_default, "its clients do not ask again"
