"""What Baidu Qianfan's AppBuilder gets beside A2A 0.3: the kind of an artifact, and its step."""

from typing import Any

import pytest

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import (
    STAGE,
    Artifact,
    Event,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
    agent_message,
    make_status,
)
from a2a_lambda.protocol.requests import Recipient
from a2a_lambda.wire import qianfan

RECIPIENT = Recipient("owner")


def encode(event: Event) -> Any:
    [encoded] = qianfan.encode_event(event, RECIPIENT)
    return encoded


def chunk(*parts: Part, is_last: bool = False, **fields: Any) -> Any:
    artifact = Artifact(artifactId="a", parts=list(parts))
    artifact.update(fields)  # type: ignore[typeddict-item]
    update = TaskArtifactUpdateEvent(
        taskId="t", contextId="c", artifact=artifact, append=False, lastChunk=is_last
    )
    return encode(Event(artifactUpdate=update))


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ([Part(text="a")], "text"),
        ([Part(data={"a": 1})], "text"),
        ([Part(raw="AAAA", mediaType="image/png")], "image"),
        ([Part(url="https://example.com/a.png", mediaType="image/png")], "image"),
        ([Part(url="https://example.com/a")], "files"),
        ([Part(raw="AAAA", mediaType="image/png"), Part(raw="AAAA", mediaType="text/csv")], "files"),
        ([Part(text="see"), Part(raw="AAAA", mediaType="image/png")], "image"),
    ],
)
def test_an_artifact_has_a_kind(parts: list[Part], kind: str) -> None:
    assert chunk(*parts)["artifact"]["metadata"]["type"] == kind


def test_an_artifact_ends_with_its_last_chunk() -> None:
    for is_last, step in ((False, "running"), (True, "done")):
        metadata = chunk(Part(text="a"), is_last=is_last)["artifact"]["metadata"]
        assert (metadata["is_end"], metadata["is_event_done"]) == (is_last, is_last)
        assert metadata["event"]["status"] == step


def test_an_artifacts_own_metadata_stays() -> None:
    encoded = chunk(Part(text="a"), name="report", metadata={"type": "mine", "x": 1})
    assert encoded["artifact"]["name"] == encoded["artifact"]["metadata"]["event"]["name"] == "report"
    assert (encoded["artifact"]["metadata"]["type"], encoded["artifact"]["metadata"]["x"]) == ("mine", 1)


def test_a_file_has_its_type_under_both_names() -> None:
    [part] = chunk(Part(raw="AAAA", mediaType="text/csv", filename="a.csv"))["artifact"]["parts"]
    assert part["file"]["mime"] == part["file"]["mimeType"] == "text/csv"


def test_a_step_with_a_stage_is_an_artifact() -> None:
    message = agent_message("t", "c", [Part(text="planning")])
    message["metadata"] = {STAGE: "/thought/plan"}
    update = TaskStatusUpdateEvent(
        taskId="t", contextId="c", status=make_status(TaskState.WORKING, 0, message)
    )
    step = encode(Event(statusUpdate=update))
    assert (step["kind"], step["artifact"]["name"]) == ("artifact-update", "/thought/plan")
    assert (step["append"], step["lastChunk"]) == (True, False)
    working = make_status(TaskState.WORKING, 0, agent_message("t", "c", [Part(text="x")]))
    update = TaskStatusUpdateEvent(taskId="t", contextId="c", status=working)
    assert encode(Event(statusUpdate=update))["kind"] == "status-update"
    assert qianfan.encode_event(Event(statusUpdate=update, past=True), RECIPIENT) == []


@pytest.mark.parametrize(
    ("file", "media_type"),
    [
        ({"mime": "image/png"}, "image/png"),
        ({"mime": "image/png", "mimeType": "image/jpeg"}, "image/jpeg"),
        ({"mimeType": "image/jpeg"}, "image/jpeg"),
        ({}, None),
    ],
)
def test_a_file_has_its_type_in_either_field(file: dict[str, str], media_type: str | None) -> None:
    part = {"type": "file", "file": {"uri": "https://example.com/x", **file}}
    message = {"messageId": "m", "role": "user", "parts": [part]}
    [decoded] = qianfan.decode_send({"message": message})["message"]["parts"]
    assert decoded.get("mediaType") == media_type


@pytest.mark.parametrize("part", ["x", None, [], {"type": "file", "file": "x"}])
def test_a_part_of_another_shape_is_refused(part: Any) -> None:
    with pytest.raises(InvalidParams, match=r"params\.message\.parts\[0\]"):
        qianfan.decode_send({"message": {"messageId": "m", "role": "user", "parts": [part]}})


@pytest.mark.parametrize(
    ("params", "is_from_it"),
    [
        ({"message": {"messageId": ""}}, True),
        ({"message": {}}, True),
        ({"message": {"messageId": "m"}}, False),
        ({"message": {"messageId": "m", "metadata": {"end_user_id": "u"}}}, True),
        ({"message": {"messageId": "m", "metadata": {"file_ids": []}}}, True),
        ({"message": {"messageId": "m", "metadata": {"other": 1}}}, False),
        ({"message": {"messageId": "m", "metadata": []}}, False),
        ({"message": "hi"}, False),
        ({}, False),
        (None, False),
        ([], False),
    ],
)
def test_appbuilders_messages_are_known_by_their_ids(params: Any, is_from_it: bool) -> None:
    assert qianfan.is_from_appbuilder(params) is is_from_it


def test_what_has_no_form_in_the_dialect_is_left_out() -> None:
    message = agent_message("t", "c", [Part(text="a")])
    assert qianfan.encode_event(Event(message=message), RECIPIENT) == []
    asking = TaskStatusUpdateEvent(
        taskId="t", contextId="c", status=make_status(TaskState.INPUT_REQUIRED, 0, message)
    )
    assert qianfan.encode_event(Event(statusUpdate=asking, past=True), RECIPIENT) == []


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (TaskState.COMPLETED, "done"),
        (TaskState.INPUT_REQUIRED, "interrupt"),
        (TaskState.AUTH_REQUIRED, "interrupt"),
    ],
)
def test_a_question_or_a_final_message_is_an_artifact(state: TaskState, status: str) -> None:
    """The page's statuses have no message for it."""
    message = agent_message("t", "c", [Part(text="Which?")])
    message["metadata"] = {"choices": ["a"]}
    end = TaskStatusUpdateEvent(taskId="t", contextId="c", status=make_status(state, 0, message))
    artifact, closing = qianfan.encode_event(Event(statusUpdate=end), RECIPIENT)
    assert artifact["artifact"]["parts"] == [{"kind": "text", "text": "Which?"}]
    assert artifact["artifact"]["metadata"]["choices"] == ["a"]
    assert (artifact["metadata"]["status"], artifact["metadata"]["is_completion"]) == (status, True)
    assert "message" not in closing["status"]
    task = Task(id="t", contextId="c", status=end["status"])
    encoded: Any = qianfan.encode_task(task)
    assert encoded["artifacts"] == [artifact["artifact"]]
    assert "message" not in encoded["status"]
    assert task["status"] == end["status"], "not changed for others"


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.REJECTED])
def test_the_reason_of_a_failure_is_in_its_status(state: TaskState) -> None:
    message = agent_message("t", "c", [Part(text="No.")])
    end = TaskStatusUpdateEvent(taskId="t", contextId="c", status=make_status(state, 0, message))
    [closing] = qianfan.encode_event(Event(statusUpdate=end), RECIPIENT)
    assert closing["status"]["message"]["parts"] == [{"kind": "text", "text": "No."}]
    assert closing["metadata"]["status"] == "error"


def test_a_stream_that_comes_again_has_its_chunks() -> None:
    task = Task(id="t", contextId="c", status=make_status(TaskState.COMPLETED, 0))
    task["artifacts"] = [Artifact(artifactId="a", parts=[Part(text="said")])]
    question = agent_message("t", "c", [Part(text="Which?")])
    task["status"] = make_status(TaskState.INPUT_REQUIRED, 0, question)
    snapshot, artifact = qianfan.encode_event(Event(task=task), RECIPIENT)
    assert "artifacts" not in snapshot, "the question comes with the closing status"
    assert artifact["artifact"]["parts"] == [{"kind": "text", "text": "said"}]
    assert (artifact["append"], artifact["lastChunk"]) == (False, True)
    assert artifact["artifact"]["metadata"]["text"] == {}
    task["status"] = make_status(TaskState.WORKING, 0)
    [snapshot] = qianfan.encode_event(Event(task=task), RECIPIENT)
    assert snapshot["artifacts"]


def test_a_file_in_the_history_has_its_type_under_both_names() -> None:
    file = Part(raw="AAAA", mediaType="text/csv")
    task = Task(
        id="t", contextId="c", status=make_status(TaskState.FAILED, 0, agent_message("t", "c", [file]))
    )
    task["history"] = [agent_message("t", "c", [file])]
    encoded: Any = qianfan.encode_task(task)
    for message in (*encoded["history"], encoded["status"]["message"]):
        assert message["parts"][0]["file"]["mime"] == "text/csv"


def test_a_message_without_an_id_gets_one() -> None:
    parts = [{"type": "text", "text": "hi"}]
    ids = {
        qianfan.decode_send({"message": {"messageId": identity, "role": "user", "parts": parts}})["message"][
            "messageId"
        ]
        for identity in ("", None, "")
    }
    assert len(ids) == 3
    assert all(ids)


def with_user_id(length: int) -> Any:
    metadata = {"end_user_id": "u" * length}
    return {"message": {"role": "user", "parts": [{"type": "text", "text": "hi"}], "metadata": metadata}}


@pytest.mark.parametrize("length", [6, 64])
def test_a_users_id_is_kept(length: int) -> None:
    message = qianfan.decode_send(with_user_id(length))["message"]
    assert message["metadata"] == {"end_user_id": "u" * length}


@pytest.mark.parametrize("length", [5, 65])
def test_a_users_id_has_six_to_sixty_four_characters(length: int) -> None:
    with pytest.raises(InvalidParams, match="6 to 64 characters"):
        qianfan.decode_send(with_user_id(length))


@pytest.mark.parametrize("file_ids", ["f", [7], {}])
def test_ids_of_files_are_a_list_of_texts(file_ids: Any) -> None:
    params = with_user_id(6)
    params["message"]["metadata"]["file_ids"] = file_ids
    with pytest.raises(InvalidParams) as error:
        qianfan.decode_send(params)
    assert (error.value.path or "").startswith("params.message.metadata.file_ids")
