"""Baidu Qianfan AppBuilder: A2A 0.2.6 as its page documents it, with its own metadata.

A result is never a Message. The name of an artifact is a stage of the answer, and so is a step of a running
turn. A question, or a final message, is sent as an artifact, because the page's statuses have a message only
to explain a failure. The metadata comes in addition to A2A 0.2.6, so a client that does not know it reads the
same task.
Source: https://cloud.baidu.com/doc/qianfan/s/A2A
"""

import uuid
from dataclasses import replace
from typing import Any

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import (
    STAGE,
    STOPPED,
    Artifact,
    Event,
    Json,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a_lambda.protocol.requests import Recipient, SendMessageRequest, SendMessageResponse
from a2a_lambda.wire import v0_3
from a2a_lambda.wire.interface import Codec
from a2a_lambda.wire.shared import card_json, fields, json_0x
from a2a_lambda.wire.shared.fields import Object

ANSWER_STAGE = "/answer"
"""Stage of an answer without a name."""

ENDS = {
    TaskState.FAILED: "error",
    TaskState.REJECTED: "error",
    TaskState.CANCELED: "error",
    TaskState.INPUT_REQUIRED: "interrupt",
    TaskState.AUTH_REQUIRED: "interrupt",
}
"""Status of a conversation at the end of a round. For every other state it is "done"."""

SPOKEN_STATES = {TaskState.COMPLETED, TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED}
"""States whose message is sent as an artifact."""

END_USER_ID_LENGTHS = range(6, 65)
"""Lengths that metadata.end_user_id may have, in characters."""


def is_from_appbuilder(params: Json) -> bool:
    """Whether a message is from AppBuilder, and not from another client: it has no messageId, or it has
    AppBuilder's metadata."""
    message = params.get("message") if isinstance(params, dict) else None
    if not isinstance(message, dict):
        return False
    metadata = message.get("metadata")
    has_ids = isinstance(metadata, dict) and bool(metadata.keys() & {"end_user_id", "file_ids"})
    return has_ids or message.get("messageId") in (None, "")


def decode_send(params: Json) -> SendMessageRequest:
    """A message whose id and kinds may be missing or wrong. A part with a file is a file, whatever its
    kind. It has its media type in `mime`."""
    source = fields.mapping(params, "params")
    message = dict(fields.mapping(source.get("message"), "params.message"))
    if lacks_id := message.get("messageId") in (None, ""):
        message["messageId"] = str(uuid.uuid4())
    if isinstance(message.get("parts"), list):
        message["parts"] = [_decode_part(part) for part in message["parts"]]
    metadata = fields.optional_mapping(message, "metadata", "params.message") or {}
    base = "params.message.metadata"
    if metadata.get("end_user_id") not in (None, ""):
        name = fields.text(metadata, "end_user_id", base)
        if len(name) not in END_USER_ID_LENGTHS:
            path, shortest, longest = f"{base}.end_user_id", END_USER_ID_LENGTHS[0], END_USER_ID_LENGTHS[-1]
            raise InvalidParams(f"{path} must have {shortest} to {longest} characters", path=path)
    fields.strings(metadata, "file_ids", base)
    request = v0_3.decode_send({**source, "message": message})
    request["lacks_id"] = lacks_id
    return request


def _decode_part(part: Json) -> Json:
    if not isinstance(part, dict) or not isinstance(part.get("file"), dict):
        return part
    file = dict(part["file"])
    if "mime" in file and "mimeType" not in file:
        file["mimeType"] = file.pop("mime")
    return {**part, "kind": "file", "file": file}


def encode_task(task: Task) -> Object:
    artifacts, status = task.get("artifacts", []), task["status"]
    if (answer := _answer_of(status)) is not None:
        artifacts, status = [*artifacts, answer], json_0x.bare_status(status)
    result = json_0x.encode_task({**task, "status": status})
    messages = result.get("history", [])
    if "message" in status:
        messages = [*messages, result["status"]["message"]]
    for message in messages:
        message["parts"] = _encode_parts(message["parts"])
    if artifacts:
        result["artifacts"] = [encode_artifact(artifact, "done") for artifact in artifacts]
    return result


def encode_outcome(outcome: SendMessageResponse) -> Json:
    return encode_task(outcome["task"])


def encode_event(event: Event, recipient: Recipient) -> list[Json]:
    if "task" in event:
        return encode_snapshot(event["task"], recipient)
    if "artifactUpdate" in event:
        return [encode_chunk(event["artifactUpdate"], recipient)]
    if not json_0x.is_current_status(event):
        return []
    update = event["statusUpdate"]
    if update["status"]["state"] in STOPPED:
        return encode_end(update, recipient)
    return [encode_progress(update, recipient)]


def encode_snapshot(task: Task, recipient: Recipient) -> list[Json]:
    """The task at the beginning of a stream. After its turn it has the reply in chunks, as the other streams
    have; the status's message comes with the closing event."""
    if task["status"]["state"] not in STOPPED:
        return [encode_task(task)]
    snapshot = task.copy()
    snapshot["status"] = json_0x.bare_status(task["status"])
    artifacts = snapshot.pop("artifacts", [])
    chunks = [json_0x.whole_chunk(task["id"], task["contextId"], artifact) for artifact in artifacts]
    return [encode_task(snapshot), *(encode_chunk(chunk, recipient) for chunk in chunks)]


def encode_chunk(update: TaskArtifactUpdateEvent, recipient: Recipient, *, status: str = "running") -> Json:
    """A chunk of an artifact. status: status of the round."""
    result = json_0x.encode_event(Event(artifactUpdate=update))
    result["artifact"] = encode_artifact(update["artifact"], "done" if update["lastChunk"] else "running")
    result["artifact"]["parts"] = result["artifact"]["parts"] or [json_0x.encode_part(Part(text=""))]
    result["metadata"] = {
        **_round(update, recipient, role="assistant", status=status),
        **update.get("metadata", {}),
    }
    return result


def encode_end(update: TaskStatusUpdateEvent, recipient: Recipient) -> list[Json]:
    """The closing status, after its message as an artifact."""
    status = ENDS.get(update["status"]["state"], "done")
    events: list[Json] = []
    if (answer := _answer_of(update["status"])) is not None:
        chunk = json_0x.whole_chunk(update["taskId"], update["contextId"], answer)
        events.append(encode_chunk(chunk, recipient, status=status))
        update = update.copy()
        update["status"] = json_0x.bare_status(update["status"])
    end = json_0x.encode_event(Event(statusUpdate=update))
    end["metadata"] = {
        **_round(update, recipient, role="assistant", status=status),
        **update.get("metadata", {}),
    }
    return [*events, end]


def _answer_of(status: TaskStatus) -> Artifact | None:
    """The message of a status that is part of the answer, as an artifact."""
    if "message" not in status or status["state"] not in SPOKEN_STATES:
        return None
    return json_0x.artifact_of(status["message"])


def encode_artifact(artifact: Artifact, step: str) -> Object:
    result = json_0x.encode_artifact(artifact)
    result["name"] = artifact.get("name", ANSWER_STAGE)
    result["parts"] = _encode_parts(result["parts"])
    description = _describe(artifact["artifactId"], result["name"], artifact["parts"], step)
    result["metadata"] = {**description, **artifact.get("metadata", {})}
    return result


def encode_progress(update: TaskStatusUpdateEvent, recipient: Recipient) -> Json:
    """The status of a running turn. A step that has a stage becomes an artifact."""
    message = update["status"].get("message")
    if message is None or STAGE not in message.get("metadata", {}):
        return json_0x.encode_event(Event(statusUpdate=update))
    stage = message["metadata"][STAGE]
    artifact_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{update['taskId']}{stage}"))
    return {
        "kind": "artifact-update",
        "taskId": update["taskId"],
        "contextId": update["contextId"],
        "artifact": {
            "artifactId": artifact_id,
            "name": stage,
            "parts": _encode_parts([json_0x.encode_part(part) for part in message["parts"]]),
            "metadata": _describe(artifact_id, stage, message["parts"], "running"),
        },
        "append": True,
        "lastChunk": False,
        "metadata": _round(update, recipient, role="tool", status="running"),
    }


def _encode_parts(parts: list[Json]) -> list[Json]:
    """Parts, with the media type of files under AppBuilder's name, too."""
    return [
        {**part, "file": {**part["file"], "mime": part["file"]["mimeType"]}}
        if part["kind"] == "file" and "mimeType" in part["file"]
        else part
        for part in parts
    ]


def _describe(artifact_id: str, stage: str, parts: list[Part], step: str) -> Object:
    """Metadata of an artifact."""
    media_types = [part.get("mediaType", "") for part in parts if "raw" in part or "url" in part]
    kind = "image" if all(name.startswith("image/") for name in media_types) else "files"
    is_done = step == "done"
    return {
        "type": kind if media_types else "text",
        "text": {},  # required by the page's table, and absent in its example: the parts have the content
        "name": "",
        "visible_scope": "all",
        "event": {"create": "", "id": artifact_id, "name": stage, "status": step},
        "is_end": is_done,
        "is_event_done": is_done,
        "metrics": {"begin_time_stamp": None, "current_time_stamp": None},
    }


def _round(
    update: TaskStatusUpdateEvent | TaskArtifactUpdateEvent, recipient: Recipient, *, role: str, status: str
) -> Object:
    """Metadata of an event. A task is one round of its conversation."""
    user: Any = recipient.metadata.get("end_user_id")
    return {
        "conversation_id": update["contextId"],
        "end_user_id": user if isinstance(user, str) else "",
        "is_completion": status != "running",
        "message_id": update["taskId"],
        "role": role,
        "status": status,
        "trace_id": update["taskId"],
        "user_id": recipient.owner,
    }


SEND = Codec(decode_send, v0_3.encode_send)
RESULT_TASK = Codec(v0_3.decode_task, encode_task)

WIRE = replace(
    v0_3.WIRE,
    name="qianfan",
    answers_with_messages=False,
    replaces_artifacts=False,
    requests={**v0_3.WIRE.requests, "send": SEND, "stream": SEND},
    results={
        **v0_3.WIRE.results,
        "send": Codec(v0_3.decode_outcome, encode_outcome),
        "get": RESULT_TASK,
        "cancel": RESULT_TASK,
    },
    encode_card=card_json.qianfan,
    encode_event=encode_event,
    encode_notification=encode_task,
)
