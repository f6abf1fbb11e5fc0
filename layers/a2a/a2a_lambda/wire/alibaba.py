"""Alibaba Model Studio's multimodal suite: A2A 0.2.5 as its console documents it.

What differs from A2A 0.2.5:

- It has no status messages. A question, or a final message, is sent as an artifact before the status. The
  reason of a rejection is not sent, because the suite then answers the user itself.
- A result is never a Message.
- A state that it does not know is sent as the nearest one that it knows.
- It takes text only. Structured values are sent as JSON text, and files as their URLs. The bytes of a file
  are left out.

Source: https://help.aliyun.com/en/model-studio/multimodal-integration-a2a-agent and its extensions
"""

from dataclasses import replace

from a2a_lambda import strictjson
from a2a_lambda.protocol.model import (
    STOPPED,
    Artifact,
    Event,
    Json,
    Part,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a_lambda.protocol.requests import Recipient, SendMessageResponse
from a2a_lambda.wire import v0_3
from a2a_lambda.wire.interface import Codec
from a2a_lambda.wire.shared import card_json, json_0x

ALIBABA_STATES = {
    TaskState.CANCELED: TaskState.FAILED,
    TaskState.UNSPECIFIED: TaskState.FAILED,
    TaskState.AUTH_REQUIRED: TaskState.INPUT_REQUIRED,
}


def encode_outcome(outcome: SendMessageResponse) -> Json:
    return encode_task(outcome["task"])


def encode_task(task: Task) -> Json:
    result = Task(id=task["id"], contextId=task["contextId"], status=_status(task["status"]))
    artifacts = [_plain(artifact) for artifact in task.get("artifacts", [])]
    if (answer := _answer_of(task["status"])) is not None:
        artifacts.append(answer)
    if artifacts:
        result["artifacts"] = artifacts
    return json_0x.encode_task(result)


def encode_snapshot(task: Task) -> list[Json]:
    """The task at the beginning of a stream. One that comes after its turn has the reply in chunks, as the
    others have; the status's message comes with the closing event."""
    if task["status"]["state"] not in STOPPED:
        return [encode_task(task)]
    snapshot = Task(id=task["id"], contextId=task["contextId"], status=_status(task["status"]))
    return [
        encode_task(snapshot),
        *(encode_artifact(task["id"], task["contextId"], item) for item in task.get("artifacts", [])),
    ]


def encode_artifact(task_id: str, context_id: str, artifact: Artifact) -> Json:
    """A whole artifact as a chunk of a stream."""
    return json_0x.encode_whole_artifact(task_id, context_id, _plain(artifact), append=True)


def encode_event(event: Event, recipient: Recipient) -> list[Json]:
    if "task" in event:
        return encode_snapshot(event["task"])
    if "artifactUpdate" in event:
        update = event["artifactUpdate"].copy()
        update["append"] = True  # in the suite's own streams, the first chunk has it, too
        update["artifact"] = _plain(update["artifact"])
        return [json_0x.encode_event(Event(artifactUpdate=update))]
    if not json_0x.is_current_status(event):
        return []
    change = event["statusUpdate"]
    status_update = TaskStatusUpdateEvent(
        taskId=change["taskId"], contextId=change["contextId"], status=_status(change["status"])
    )
    events = [json_0x.encode_event(Event(statusUpdate=status_update))]
    if "message" in change["status"] and change["status"]["state"] not in STOPPED:
        return []  # progress: the suite would take it as part of the answer
    if (answer := _answer_of(change["status"])) is None:
        return events
    return [encode_artifact(change["taskId"], change["contextId"], answer), *events]


def _answer_of(status: TaskStatus) -> Artifact | None:
    """The closing message of a turn as an artifact; of a rejection, the commands alone."""
    if "message" not in status or status["state"] not in STOPPED:
        return None
    answer = json_0x.artifact_of(status["message"])
    if status["state"] != TaskState.REJECTED:
        return _plain(answer)
    answer["parts"] = []
    return _plain(answer) if "commands" in answer.get("metadata", {}) else None


def _status(status: TaskStatus) -> TaskStatus:
    return TaskStatus(
        state=ALIBABA_STATES.get(status["state"], status["state"]), timestamp=status["timestamp"]
    )


def _plain(artifact: Artifact) -> Artifact:
    """The artifact as text only; as an empty text if it has none. Its metadata has only commands, because the
    suite's types allow nothing else."""
    result = artifact.copy()
    metadata = result.pop("metadata", {})
    if "commands" in metadata:
        result["metadata"] = {"commands": metadata["commands"]}
    texts = [
        strictjson.dumps(part["data"]).decode() if "data" in part else part.get("text", part.get("url"))
        for part in artifact["parts"]
    ]
    result["parts"] = [Part(text=text) for text in texts if text is not None] or [Part(text="")]
    return result


WIRE = replace(
    v0_3.WIRE,
    name="alibaba",
    blocking_by_default=True,
    names_tasks=False,
    answers_with_messages=False,
    replaces_artifacts=False,
    results={
        **v0_3.WIRE.results,
        "send": Codec(v0_3.decode_outcome, encode_outcome),
        "get": Codec(v0_3.decode_task, encode_task),
        "cancel": Codec(v0_3.decode_task, encode_task),
    },
    encode_card=card_json.alibaba,
    encode_event=encode_event,
    encode_notification=encode_task,
)
