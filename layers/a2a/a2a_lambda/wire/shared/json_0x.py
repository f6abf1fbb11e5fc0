"""Objects of A2A 0.1 to 0.3 over JSON-RPC. Parts and events have a field with their kind.

Clients are not strict, so input may lack a `kind` that the other fields show, optional fields may be null,
and ids may be empty.
Source: https://a2a-protocol.org/v0.3.0/specification, section 6
"""

import uuid
from typing import cast

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import (
    OPERATION,
    PART_CONTENT,
    Artifact,
    AuthenticationInfo,
    Event,
    Json,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    is_final,
)
from a2a_lambda.wire.shared import fields
from a2a_lambda.wire.shared.fields import Object

ROLES_BY_NAME = {"user": Role.USER, "agent": Role.AGENT}

STATES_BY_NAME = {
    "submitted": TaskState.SUBMITTED,
    "working": TaskState.WORKING,
    "completed": TaskState.COMPLETED,
    "failed": TaskState.FAILED,
    "canceled": TaskState.CANCELED,
    "input-required": TaskState.INPUT_REQUIRED,
    "rejected": TaskState.REJECTED,
    "auth-required": TaskState.AUTH_REQUIRED,
    "unknown": TaskState.UNSPECIFIED,
}

ROLE_NAMES = {role: name for name, role in ROLES_BY_NAME.items()}
STATE_NAMES = {state: name for name, state in STATES_BY_NAME.items()}

KINDS_BY_FIELD = {
    "messageId": "message",
    "artifact": "artifact-update",
    "id": "task",
    "status": "status-update",
}
"""Kinds of an event, by a field that those after it do not have."""

WRAPPED = "data_part_compat"
"""Mark of a2a-sdk on a data part that is not an object. In 0.x it must be one."""


def decode_message(
    source: Object, path: str, *, kind_field: str = "kind", is_answer: bool = False
) -> Message:
    if source.get("kind") not in (None, "message"):
        raise InvalidParams(f'{path}.kind must be "message"', path=f"{path}.kind")
    parts = fields.parts(source, path, is_answer=is_answer)
    result = fields.optional(
        fields.without(source, ("kind",)),
        path,
        ids=("contextId", "taskId"),
        objects=("metadata",),
        lists=("extensions", "referenceTaskIds"),
    )
    result["messageId"] = fields.identifier(source, "messageId", path)
    result["role"] = ROLES_BY_NAME[fields.choice(source, "role", path, ROLES_BY_NAME)]
    result["parts"] = decode_parts(parts, path, kind_field)
    return cast(Message, result)


def decode_parts(parts: list[Json], path: str, kind_field: str = "kind") -> list[Part]:
    return [decode_part(part, f"{path}.parts[{index}]", kind_field) for index, part in enumerate(parts)]


def decode_part(value: Json, path: str, kind_field: str = "kind") -> Part:
    source = fields.mapping(value, path)
    kind = source.get(kind_field, source.get("type" if kind_field == "kind" else "kind"))
    if kind is None:
        kind = next((name for name in ("text", "file", "data") if name in source), None)
    rest = fields.optional(
        fields.without(source, (kind_field, "metadata", *PART_CONTENT)), path, texts=("filename", "mediaType")
    )
    match kind:
        case "text":
            part = Part(text=fields.text(source, "text", path))
        case "file":
            rest.pop("file", None)
            part = _decode_file(fields.mapping(source.get("file"), f"{path}.file"), f"{path}.file")
        case "data":
            part = Part(data=fields.mapping(source.get("data"), f"{path}.data"))
        case _:
            raise InvalidParams(
                f"{path}.{kind_field} must be text, file or data", path=f"{path}.{kind_field}"
            )
    if (metadata := fields.optional_mapping(source, "metadata", path)) is not None:
        part["metadata"] = metadata
    part.update(rest)  # type: ignore[typeddict-item]  # unknown fields are kept
    return unwrap(part)


def unwrap(part: Part) -> Part:
    """The part with the data that `wrap` has made an object."""
    metadata, data = part.get("metadata", {}), part.get("data")
    if metadata.get(WRAPPED) is not True or not isinstance(data, dict) or data.keys() != {"value"}:
        return part
    result: Object = {**part, "data": data["value"], "metadata": fields.without(metadata, (WRAPPED,))}
    return cast(Part, result if result["metadata"] else fields.without(result, ("metadata",)))


def wrap(part: Part) -> Part:
    """The part with data that is an object, as 0.x needs it."""
    if "data" not in part or isinstance(part["data"], dict):
        return part
    metadata = {**part.get("metadata", {}), WRAPPED: True}
    return cast(Part, {**part, "data": {"value": part["data"]}, "metadata": metadata})


def _decode_file(source: Object, path: str) -> Part:
    names = [name for name in ("bytes", "uri") if source.get(name) is not None]
    if len(names) > 1:  # a client with typed fields may send the one that it does not use as ""
        names = [name for name in names if source[name] != ""]
    if len(names) != 1:
        raise InvalidParams(f"{path} must have either bytes or uri", path=path)
    if names == ["bytes"]:
        part = Part(raw=fields.base64_text(source, "bytes", path))
    else:
        part = Part(url=fields.text(source, "uri", path))
    if source.get("name") is not None:
        part["filename"] = fields.text(source, "name", path)
    if source.get("mimeType") is not None:
        part["mediaType"] = fields.text(source, "mimeType", path)
    if rest := fields.without(source, ("bytes", "uri", "name", "mimeType")):
        part["file"] = rest  # type: ignore[typeddict-unknown-key]
    return part


def decode_artifact(source: Object, path: str, *, kind_field: str = "kind") -> Artifact:
    result = fields.optional(
        source, path, texts=("name", "description"), objects=("metadata",), lists=("extensions",)
    )
    result["artifactId"] = fields.identifier(source, "artifactId", path)
    result["parts"] = decode_parts(fields.parts(source, path, is_answer=True), path, kind_field)
    return cast(Artifact, result)


def decode_status(value: Json, path: str) -> TaskStatus:
    source = fields.mapping(value, path)
    result = TaskStatus(state=STATES_BY_NAME[fields.choice(source, "state", path, STATES_BY_NAME)])
    if (message := fields.optional_mapping(source, "message", path)) is not None:
        result["message"] = decode_message(message, f"{path}.message", is_answer=True)
    if (time := fields.instant_of_answer(source, "timestamp", path)) is not None:
        result["timestamp"] = time
    rest = fields.without(source, tuple(TaskStatus.__annotations__))
    return cast(TaskStatus, {**result, **rest})


def decode_task(source: Object, path: str) -> Task:
    result = fields.optional(
        fields.without(source, ("kind", "artifacts", "history")), path, objects=("metadata",)
    )
    result["id"] = fields.identifier(source, "id", path)
    result["contextId"] = fields.identifier(source, "contextId", path)
    result["status"] = decode_status(source.get("status"), f"{path}.status")
    if artifacts := fields.mappings(source, "artifacts", path):
        result["artifacts"] = [decode_artifact(item, item_path) for item, item_path in artifacts]
    if history := fields.mappings(source, "history", path):
        result["history"] = [decode_message(item, item_path, is_answer=True) for item, item_path in history]
    return cast(Task, result)


def decode_event(value: Json) -> Event:
    """An answer, or an event of a stream. Without a kind, its fields show what it is."""
    source = fields.mapping(value, "result")
    shown_kind = next((kind for field, kind in KINDS_BY_FIELD.items() if field in source), None)
    match source.get("kind") or shown_kind:
        case "task":
            return Event(task=decode_task(source, "result"))
        case "message":
            return Event(message=decode_message(source, "result", is_answer=True))
        case "status-update":
            update = _decode_update(fields.without(source, ("kind", "final")))
            update["status"] = decode_status(source.get("status"), "result.status")
            return cast(Event, {"statusUpdate": update})
        case "artifact-update":
            update = _decode_update(fields.without(source, ("kind",)))
            artifact = fields.mapping(source.get("artifact"), "result.artifact")
            update["artifact"] = decode_artifact(artifact, "result.artifact")
            for flag in ("append", "lastChunk"):
                update[flag] = bool(fields.flag(source, flag, "result"))
            return cast(Event, {"artifactUpdate": update})
    raise InvalidParams(
        "result.kind must be task, message, status-update or artifact-update", path="result.kind"
    )


def _decode_update(source: Object) -> Object:
    ids = ("taskId", "contextId")
    update = fields.optional(source, "result", ids=ids, objects=("metadata",))
    return {**dict.fromkeys(ids, ""), **update}


def decode_config(source: Object, path: str) -> TaskPushNotificationConfig:
    result = fields.optional(source, path, texts=("token",), ids=("id",))
    result["url"] = fields.text(source, "url", path)
    if (authentication := fields.optional_mapping(source, "authentication", path)) is not None:
        auth_path = f"{path}.authentication"
        schemes = fields.strings(authentication, "schemes", auth_path)
        info = fields.optional(
            fields.without(authentication, ("schemes",)), auth_path, texts=("scheme", "credentials")
        )
        if schemes:
            info["scheme"] = schemes[0]
        if len(schemes) != 1:
            info["schemes"] = schemes
        result["authentication"] = info
    elif "authentication" in result:
        del result["authentication"]
    return cast(TaskPushNotificationConfig, result)


def is_current_status(event: Event) -> bool:
    """Whether an event is a status as it is now: no question that was answered since, and no notice of what a
    durable turn does. The dialects have neither."""
    is_status = "statusUpdate" in event and "past" not in event
    return is_status and OPERATION not in event["statusUpdate"].get("metadata", {})


def encode_part(part: Part, kind_field: str = "kind") -> Object:
    part = wrap(part)
    rest = fields.without(dict(part), (*PART_CONTENT, kind_field))
    if "text" in part:
        return {kind_field: "text", "text": part["text"], **rest}
    if "data" in part:
        return {kind_field: "data", "data": part["data"], **rest}
    file = {"bytes": part["raw"]} if "raw" in part else {"uri": part["url"]}
    if "filename" in part:
        file["name"] = rest.pop("filename")
    if "mediaType" in part:
        file["mimeType"] = rest.pop("mediaType")
    others = rest.pop("file", None)  # what a client of 1.0 writes there may be anything
    return {kind_field: "file", "file": {**(others if isinstance(others, dict) else {}), **file}, **rest}


def encode_message(message: Message) -> Object:
    parts = [encode_part(part) for part in message["parts"]]
    rest = fields.without(dict(message), ("kind",))
    return {"kind": "message", **rest, "role": ROLE_NAMES[message["role"]], "parts": parts}


def encode_artifact(artifact: Artifact) -> Object:
    return {**artifact, "parts": [encode_part(part) for part in artifact["parts"]]}


def artifact_of(message: Message) -> Artifact:
    """A status message as an artifact, for clients that read none. Its id is the same each time."""
    artifact_id = str(uuid.uuid5(uuid.NAMESPACE_URL, message["messageId"]))
    result = Artifact(artifactId=artifact_id, parts=message["parts"])
    if "metadata" in message:
        result["metadata"] = message["metadata"]
    return result


def bare_status(status: TaskStatus) -> TaskStatus:
    """A status without its message."""
    return TaskStatus(state=status["state"], timestamp=status["timestamp"])


def encode_status(status: TaskStatus) -> Object:
    result: Object = {**status, "state": STATE_NAMES[status["state"]]}
    if "message" in status:
        result["message"] = encode_message(status["message"])
    return result


def encode_task(task: Task) -> Object:
    result: Object = {"kind": "task", **fields.without(dict(task), ("kind",))}
    result["status"] = encode_status(task["status"])
    if "artifacts" in task:
        result["artifacts"] = [encode_artifact(artifact) for artifact in task["artifacts"]]
    if "history" in task:
        result["history"] = [encode_message(message) for message in task["history"]]
    return result


def encode_event(event: Event) -> Object:
    if "task" in event:
        return encode_task(event["task"])
    if "message" in event:
        return encode_message(event["message"])
    if "statusUpdate" in event:
        update = event["statusUpdate"]
        final = is_final(event)
        return {"kind": "status-update", **update, "status": encode_status(update["status"]), "final": final}
    chunk = event["artifactUpdate"]
    return {"kind": "artifact-update", **chunk, "artifact": encode_artifact(chunk["artifact"])}


def encode_whole_artifact(task_id: str, context_id: str, artifact: Artifact, *, append: bool) -> Object:
    return encode_event(Event(artifactUpdate=whole_chunk(task_id, context_id, artifact, append=append)))


def whole_chunk(
    task_id: str, context_id: str, artifact: Artifact, *, append: bool = False
) -> TaskArtifactUpdateEvent:
    """An artifact as one chunk of a stream, after which there is no other."""
    return TaskArtifactUpdateEvent(
        taskId=task_id, contextId=context_id, artifact=artifact, append=append, lastChunk=True
    )


def encode_config(config: TaskPushNotificationConfig) -> Object:
    result = fields.without(dict(config), ("taskId",))
    if "authentication" in config:
        result["authentication"] = encode_authentication(config["authentication"])
    return result


def encode_authentication(info: AuthenticationInfo) -> Object:
    schemes = info.get("schemes", [info["scheme"]] if "scheme" in info else [])
    return {"schemes": schemes, **fields.without(dict(info), ("scheme", "schemes"))}
