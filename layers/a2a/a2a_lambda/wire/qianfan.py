"""Baidu Qianfan AppBuilder: A2A 0.2.6 as its page documents it, with its own metadata.

A result is never a Message. The name of an artifact is a stage of the answer, and so is a step of a running
turn. The metadata comes in addition to A2A 0.2.6, so a client that does not know it reads the same task.
Source: https://cloud.baidu.com/doc/qianfan/s/A2A
"""

import uuid
from dataclasses import replace
from typing import Any

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import (
    OPERATION,
    STAGE,
    STOPPED,
    Event,
    Json,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
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

END_USER_ID = range(6, 65)
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
    if message.get("messageId") in (None, ""):
        message["messageId"] = str(uuid.uuid4())
    if isinstance(message.get("parts"), list):
        message["parts"] = [_decode_part(part) for part in message["parts"]]
    metadata = fields.optional_mapping(message, "metadata", "params.message") or {}
    base = "params.message.metadata"
    if metadata.get("end_user_id") not in (None, ""):
        name = fields.text(metadata, "end_user_id", base)
        if len(name) not in END_USER_ID:
            path = f"{base}.end_user_id"
            raise InvalidParams(f"{path} must have 6 to 64 characters", path=path)
    fields.strings(metadata, "file_ids", base)
    return v0_3.decode_send({**source, "message": message})


def _decode_part(part: Json) -> Json:
    if not isinstance(part, dict) or not isinstance(part.get("file"), dict):
        return part
    file = dict(part["file"])
    if "mime" in file and "mimeType" not in file:
        file["mimeType"] = file.pop("mime")
    return {**part, "kind": "file", "file": file}


def encode_task(task: Task) -> Object:
    result = json_0x.encode_task(task)
    for artifact, source in zip(result.get("artifacts", []), task.get("artifacts", []), strict=True):
        artifact["name"] = source.get("name", ANSWER_STAGE)
        artifact["parts"] = _encode_parts(artifact["parts"])
        description = _describe(artifact["artifactId"], artifact["name"], source["parts"], "done")
        artifact["metadata"] = {**description, **source.get("metadata", {})}
    return result


def encode_outcome(outcome: SendMessageResponse) -> Json:
    return encode_task(outcome["task"])


def encode_event(event: Event, recipient: Recipient) -> list[Json]:
    if "task" in event:
        return [encode_task(event["task"])]
    if "statusUpdate" in event:
        if "past" in event or OPERATION in event["statusUpdate"].get("metadata", {}):
            return []
        return [_encode_status_update(event["statusUpdate"], recipient)]
    if "artifactUpdate" not in event:
        return []
    update = event["artifactUpdate"]
    result = json_0x.encode_event(Event(artifactUpdate=update))
    artifact, parts = result["artifact"], update["artifact"]["parts"]
    artifact["parts"] = _encode_parts(artifact["parts"]) or [json_0x.encode_part(Part(text=""))]
    artifact["name"] = artifact.get("name", ANSWER_STAGE)
    step = "done" if update["lastChunk"] else "running"
    description = _describe(artifact["artifactId"], artifact["name"], parts, step)
    artifact["metadata"] = {**description, **artifact.get("metadata", {})}
    result["metadata"] = {
        **_round(update, recipient, role="assistant", status="running"),
        **update.get("metadata", {}),
    }
    return [result]


def _encode_status_update(update: TaskStatusUpdateEvent, recipient: Recipient) -> Json:
    """A status. A step that has a stage becomes an artifact."""
    message, state = update["status"].get("message"), update["status"]["state"]
    if state in STOPPED:
        result = json_0x.encode_event(Event(statusUpdate=update))
        result["metadata"] = {
            **_round(update, recipient, role="assistant", status=ENDS.get(state, "done")),
            **update.get("metadata", {}),
        }
        return result
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
        if "mimeType" in part.get("file", {})
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
