"""Alibaba Model Studio's multimodal suite: A2A 0.2.5 as its console documents it.

Source: https://help.aliyun.com/en/model-studio/multimodal-integration-a2a-agent and its extensions.
It knows no status message, so a question or a last word comes as an artifact before the status; a
result is never a bare Message; states it does not know are told as the nearest it does.
"""

import uuid

from a2a_lambda.errors import ProtocolError
from a2a_lambda.model import (
    RESTING,
    Artifact,
    Event,
    Json,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a_lambda.wire import v0_3

METHODS = v0_3.METHODS
decode_send = v0_3.decode_send
decode_task = v0_3.decode_task
unsupported = v0_3.unsupported

NEAREST = {TaskState.CANCELED: TaskState.FAILED, TaskState.AUTH_REQUIRED: TaskState.INPUT_REQUIRED}


def encode_error(error: ProtocolError) -> Json:
    return v0_3.encode_error(error)


def encode_task(task: Task) -> Json:
    told = Task(id=task["id"], contextId=task["contextId"], status=_status(task["status"]))
    artifacts = list(task.get("artifacts", []))
    if "message" in task["status"] and task["status"]["state"] in RESTING:
        artifacts.append(_artifact(task["status"]["message"]))
    if artifacts:
        told["artifacts"] = artifacts
    return v0_3.encode_task(told)


def encode_event(event: Event) -> list[Json]:
    if "task" in event:
        return [encode_task(event["task"])]
    if "artifactUpdate" in event:
        return v0_3.encode_event(Event(artifactUpdate=_chunk(event["artifactUpdate"])))
    if "statusUpdate" not in event:
        return []
    update = event["statusUpdate"]
    told = TaskStatusUpdateEvent(
        taskId=update["taskId"], contextId=update["contextId"], status=_status(update["status"])
    )
    events = v0_3.encode_event(Event(statusUpdate=told))
    if "message" not in update["status"]:
        return events
    if update["status"]["state"] not in RESTING:
        return []  # progress: to the suite it would be part of the answer
    chunk = TaskArtifactUpdateEvent(
        taskId=update["taskId"],
        contextId=update["contextId"],
        artifact=_artifact(update["status"]["message"]),
        append=True,
        lastChunk=True,
    )
    return v0_3.encode_event(Event(artifactUpdate=chunk)) + events


def _status(status: TaskStatus) -> TaskStatus:
    return TaskStatus(state=NEAREST.get(status["state"], status["state"]), timestamp=status["timestamp"])


def _chunk(update: TaskArtifactUpdateEvent) -> TaskArtifactUpdateEvent:
    """The suite's own streams say `append` on the first chunk too."""
    told = update.copy()
    told["append"] = True
    return told


def _artifact(message: Message) -> Artifact:
    """A status message as an artifact, the same one however often it is told."""
    identity = str(uuid.uuid5(uuid.NAMESPACE_URL, message["messageId"]))
    artifact = Artifact(artifactId=identity, parts=message["parts"])
    if "metadata" in message:
        artifact["metadata"] = message["metadata"]
    return artifact
