"""What Alibaba's multimodal suite gets: artifacts of text, and states that it knows."""

from typing import Any

import pytest

from a2a_lambda.protocol.model import (
    OPERATION,
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
from a2a_lambda.wire import alibaba

RECIPIENT = Recipient("owner")


def chunk(*parts: Part) -> Event:
    artifact = Artifact(artifactId="a", parts=list(parts))
    return Event(
        artifactUpdate=TaskArtifactUpdateEvent(
            taskId="t", contextId="c", artifact=artifact, append=False, lastChunk=True
        )
    )


def change(state: TaskState, *parts: Part, **fields: Any) -> Event:
    message = agent_message("t", "c", list(parts)) if parts else None
    update = TaskStatusUpdateEvent(taskId="t", contextId="c", status=make_status(state, 0, message))
    update.update(fields)  # type: ignore[typeddict-item]
    return Event(statusUpdate=update)


def texts(encoded: Any) -> list[str]:
    return [part["text"] for part in encoded["artifact"]["parts"]]


def test_a_chunk_is_text() -> None:
    [encoded] = alibaba.encode_event(
        chunk(Part(text="a"), Part(data={"b": 1}), Part(url="https://example.com/c"), Part(raw="AAAA")),
        RECIPIENT,
    )
    assert texts(encoded) == ["a", '{"b":1}', "https://example.com/c"]
    assert (encoded["append"], encoded["lastChunk"]) == (True, True)


def test_a_chunk_without_text_is_an_empty_one() -> None:
    [encoded] = alibaba.encode_event(chunk(Part(raw="AAAA")), RECIPIENT)
    assert texts(encoded) == [""]


def test_a_chunk_is_not_changed_for_others() -> None:
    event = chunk(Part(text="a"))
    alibaba.encode_event(event, RECIPIENT)
    assert event == chunk(Part(text="a"))


def test_the_message_of_a_state_is_an_artifact_before_it() -> None:
    artifact, state = alibaba.encode_event(change(TaskState.INPUT_REQUIRED, Part(text="Which?")), RECIPIENT)
    assert texts(artifact) == ["Which?"]
    assert (artifact["append"], artifact["lastChunk"]) == (True, True)
    assert state["status"]["state"] == "input-required"
    again, _ = alibaba.encode_event(change(TaskState.INPUT_REQUIRED, Part(text="Which?")), RECIPIENT)
    assert again["artifact"]["artifactId"] != artifact["artifact"]["artifactId"], (
        "another message, another id"
    )


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (TaskState.WORKING, "working"),
        (TaskState.COMPLETED, "completed"),
        (TaskState.CANCELED, "failed"),
        (TaskState.REJECTED, "rejected"),
        (TaskState.AUTH_REQUIRED, "input-required"),
    ],
)
def test_a_state_is_one_that_the_suite_knows(state: TaskState, shown: str) -> None:
    [encoded] = alibaba.encode_event(change(state), RECIPIENT)
    assert encoded["status"]["state"] == shown
    assert "message" not in encoded["status"]
    task = Task(id="t", contextId="c", status=make_status(state, 0))
    assert alibaba.encode_task(task)["status"]["state"] == shown
    assert "artifacts" not in alibaba.encode_task(task)


def test_the_user_does_not_hear_why_a_task_was_rejected() -> None:
    """The suite answers in the agent's place."""
    reason = change(TaskState.REJECTED, Part(text="Not mine."))
    [closing] = alibaba.encode_event(reason, RECIPIENT)
    assert closing["status"]["state"] == "rejected"
    task = Task(id="t", contextId="c", status=reason["statusUpdate"]["status"])
    assert "artifacts" not in alibaba.encode_task(task)
    reason["statusUpdate"]["status"]["message"]["metadata"] = {"commands": [{"name": "beep"}]}
    artifact, _ = alibaba.encode_event(reason, RECIPIENT)
    assert artifact["artifact"]["metadata"] == {"commands": [{"name": "beep"}]}
    assert texts(artifact) == [""]


def test_the_metadata_of_a_message_is_left_out_except_for_commands() -> None:
    """The suite's extension types it as lists of commands."""
    commands = [{"name": "flash"}]
    asking = change(TaskState.INPUT_REQUIRED, Part(text="Which?"))
    asking["statusUpdate"]["status"]["message"]["metadata"] = {"choices": ["a"], "commands": commands}
    question, _ = alibaba.encode_event(asking, RECIPIENT)
    assert question["artifact"]["metadata"] == {"commands": commands}
    asking["statusUpdate"]["status"]["message"]["metadata"] = {"fills": "city"}
    question, _ = alibaba.encode_event(asking, RECIPIENT)
    assert "metadata" not in question["artifact"]


def test_an_artifacts_own_metadata_is_left_out() -> None:
    event = chunk(Part(text="a"))
    event["artifactUpdate"]["artifact"]["metadata"] = {"author": "me", "commands": [{"name": "flash"}]}
    [encoded] = alibaba.encode_event(event, RECIPIENT)
    assert encoded["artifact"]["metadata"] == {"commands": [{"name": "flash"}]}


def test_progress_is_not_part_of_the_answer() -> None:
    assert alibaba.encode_event(change(TaskState.WORKING, Part(text="thinking")), RECIPIENT) == []
    assert alibaba.encode_event(change(TaskState.WORKING, metadata={OPERATION: {}}), RECIPIENT) == []
    past = Event(statusUpdate=change(TaskState.INPUT_REQUIRED)["statusUpdate"], past=True)
    assert alibaba.encode_event(past, RECIPIENT) == []


def test_a_task_ends_with_its_message() -> None:
    task = Task(
        id="t",
        contextId="c",
        status=make_status(TaskState.FAILED, 0, agent_message("t", "c", [Part(text="why")])),
    )
    task["artifacts"] = [Artifact(artifactId="a", parts=[Part(text="said")])]
    encoded: Any = alibaba.encode_task(task)
    assert [part["text"] for artifact in encoded["artifacts"] for part in artifact["parts"]] == [
        "said",
        "why",
    ]
    working = Task(
        id="t",
        contextId="c",
        status=make_status(TaskState.WORKING, 0, agent_message("t", "c", [Part(text="x")])),
    )
    assert "artifacts" not in alibaba.encode_task(working)


def test_a_stream_begins_with_the_task_as_it_is() -> None:
    task = Task(id="t", contextId="c", status=make_status(TaskState.WORKING, 0), artifacts=[])
    [snapshot] = alibaba.encode_event(Event(task=task), RECIPIENT)
    assert (snapshot["id"], snapshot["status"]["state"]) == ("t", "working")


def test_a_stream_that_comes_after_its_turn_has_each_text_once() -> None:
    """A repeated request, or a client that comes back: the closing event has the question."""
    question = agent_message("t", "c", [Part(text="Which?")])
    artifact = Artifact(artifactId="a", parts=[Part(text="Hello.")])
    task = Task(
        id="t", contextId="c", status=make_status(TaskState.INPUT_REQUIRED, 0, question), artifacts=[artifact]
    )
    snapshot, reply = alibaba.encode_event(Event(task=task), RECIPIENT)
    assert "artifacts" not in snapshot
    assert (texts(reply), reply["append"], reply["lastChunk"]) == (["Hello."], True, True)
    closing = TaskStatusUpdateEvent(taskId="t", contextId="c", status=task["status"])
    first_event, _ = alibaba.encode_event(Event(statusUpdate=closing), RECIPIENT)
    assert texts(first_event) == ["Which?"]
