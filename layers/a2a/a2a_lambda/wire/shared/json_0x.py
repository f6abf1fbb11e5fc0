"""Objects of A2A 0.1 to 0.3 over JSON-RPC. Parts and events have a field with their kind.

Clients are not strict, so input may lack a `kind` that the other fields show, optional fields may be null,
and ids may be empty.
Source: https://a2a-protocol.org/v0.3.0/specification, section 6
"""

from typing import cast

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import (
    Artifact,
    AuthenticationInfo,
    Event,
    Json,
    Message,
    Part,
    Role,
    Task,
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

CONTENT = ("text", "raw", "url", "data")
"""Fields of A2A 1.0 that show what a part is. An unknown field of such a name cannot be kept."""

WRAPPED = "data_part_compat"
"""Mark of a2a-sdk on a data part that is not an object. In 0.x it must be one."""


def decode_message(source: Object, path: str, *, mark: str = "kind") -> Message:
    if source.get("kind") not in (None, "message"):
        raise InvalidParams(f'{path}.kind must be "message"', path=f"{path}.kind")
    parts = fields.array(source, "parts", path)
    if not parts:
        raise InvalidParams(f"{path}.parts must not be empty", path=f"{path}.parts")
    result = fields.optional(
        fields.without(source, ("kind",)),
        path,
        ids=("contextId", "taskId"),
        objects=("metadata",),
        lists=("extensions", "referenceTaskIds"),
    )
    result["messageId"] = fields.identifier(source, "messageId", path)
    result["role"] = ROLES_BY_NAME[fields.choice(source, "role", path, ROLES_BY_NAME)]
    result["parts"] = decode_parts(parts, path, mark)
    return cast(Message, result)


def decode_parts(parts: list[Json], path: str, mark: str = "kind") -> list[Part]:
    return [decode_part(part, f"{path}.parts[{index}]", mark) for index, part in enumerate(parts)]


def decode_part(value: Json, path: str, mark: str = "kind") -> Part:
    source = fields.mapping(value, path)
    kind = source.get(mark, source.get("type" if mark == "kind" else "kind"))
    if kind is None:
        kind = next((name for name in ("text", "file", "data") if name in source), None)
    rest = fields.optional(
        fields.without(source, (mark, "metadata", *CONTENT)), path, texts=("filename", "mediaType")
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
            raise InvalidParams(f"{path}.{mark} must be text, file or data", path=f"{path}.{mark}")
    if (metadata := fields.optional_mapping(source, "metadata", path)) is not None:
        if "data" in part and metadata.get(WRAPPED) is True and part["data"].keys() == {"value"}:
            part["data"] = part["data"]["value"]
            metadata = fields.without(metadata, (WRAPPED,))
        if metadata or WRAPPED not in source["metadata"]:
            part["metadata"] = metadata
    part.update(rest)  # type: ignore[typeddict-item]  # unknown fields are kept
    return part


def _decode_file(source: Object, path: str) -> Part:
    if (source.get("bytes") is None) == (source.get("uri") is None):
        raise InvalidParams(f"{path} must have either bytes or uri", path=path)
    if source.get("bytes") is not None:
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


def decode_artifact(source: Object, path: str, *, mark: str = "kind") -> Artifact:
    result = fields.optional(
        source, path, texts=("name", "description"), objects=("metadata",), lists=("extensions",)
    )
    result["artifactId"] = fields.identifier(source, "artifactId", path)
    result["parts"] = decode_parts(fields.array(source, "parts", path), path, mark)
    return cast(Artifact, result)


def decode_status(value: Json, path: str) -> TaskStatus:
    source = fields.mapping(value, path)
    result = TaskStatus(state=STATES_BY_NAME[fields.choice(source, "state", path, STATES_BY_NAME)])
    if (message := fields.optional_mapping(source, "message", path)) is not None:
        result["message"] = decode_message(message, f"{path}.message")
    if (time := fields.instant(source, "timestamp", path)) is not None:
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
    for name, decode in (("artifacts", decode_artifact), ("history", decode_message)):
        if source.get(name):
            items = fields.array(source, name, path)
            paths = [f"{path}.{name}[{index}]" for index in range(len(items))]
            result[name] = [
                decode(fields.mapping(item, at), at) for item, at in zip(items, paths, strict=True)
            ]
    return cast(Task, result)


def decode_event(value: Json) -> Event:
    source = fields.mapping(value, "result")
    match source.get("kind"):
        case "task":
            return Event(task=decode_task(source, "result"))
        case "message":
            return Event(message=decode_message(source, "result"))
        case "status-update":
            update = fields.optional(
                fields.without(source, ("kind", "final")), "result", objects=("metadata",)
            )
            update["status"] = decode_status(source.get("status"), "result.status")
            return cast(Event, {"statusUpdate": update})
        case "artifact-update":
            update = fields.optional(fields.without(source, ("kind",)), "result", objects=("metadata",))
            artifact = fields.mapping(source.get("artifact"), "result.artifact")
            update["artifact"] = decode_artifact(artifact, "result.artifact")
            for flag in ("append", "lastChunk"):
                update[flag] = bool(fields.flag(source, flag, "result"))
            return cast(Event, {"artifactUpdate": update})
    raise InvalidParams(
        "result.kind must be task, message, status-update or artifact-update", path="result.kind"
    )


def decode_config(source: Object, path: str) -> TaskPushNotificationConfig:
    result = fields.optional(source, path, texts=("token",), ids=("id",))
    result["url"] = fields.text(source, "url", path)
    if (authentication := fields.optional_mapping(source, "authentication", path)) is not None:
        place = f"{path}.authentication"
        schemes = fields.strings(authentication, "schemes", place)
        info = fields.optional(
            fields.without(authentication, ("schemes",)), place, texts=("scheme", "credentials")
        )
        if schemes:
            info["scheme"] = schemes[0]
        if len(schemes) != 1:
            info["schemes"] = schemes
        result["authentication"] = info
    elif "authentication" in result:
        del result["authentication"]
    return cast(TaskPushNotificationConfig, result)


def encode_part(part: Part, mark: str = "kind") -> Object:
    rest = fields.without(dict(part), (*CONTENT, mark))
    if "text" in part:
        return {mark: "text", "text": part["text"], **rest}
    if "data" in part:
        data, metadata = part["data"], part.get("metadata", {})
        if not isinstance(data, dict):
            data, metadata = {"value": data}, {**metadata, WRAPPED: True}
            rest["metadata"] = metadata
        return {mark: "data", "data": data, **rest}
    file = {"bytes": part["raw"]} if "raw" in part else {"uri": part["url"]}
    if "filename" in part:
        file["name"] = rest.pop("filename")
    if "mediaType" in part:
        file["mimeType"] = rest.pop("mediaType")
    others = rest.pop("file", None)  # what a client of 1.0 writes there may be anything
    return {mark: "file", "file": {**(others if isinstance(others, dict) else {}), **file}, **rest}


def encode_message(message: Message) -> Object:
    parts = [encode_part(part) for part in message["parts"]]
    rest = fields.without(dict(message), ("kind",))
    return {"kind": "message", **rest, "role": ROLE_NAMES[message["role"]], "parts": parts}


def encode_artifact(artifact: Artifact) -> Object:
    return {**artifact, "parts": [encode_part(part) for part in artifact["parts"]]}


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


def encode_config(config: TaskPushNotificationConfig) -> Object:
    result = fields.without(dict(config), ("taskId",))
    if "authentication" in config:
        result["authentication"] = encode_authentication(config["authentication"])
    return result


def encode_authentication(info: AuthenticationInfo) -> Object:
    schemes = info.get("schemes", [info["scheme"]] if "scheme" in info else [])
    return {"schemes": schemes, **fields.without(dict(info), ("scheme", "schemes"))}
