"""A2A 0.2.5, 0.2.6 and 0.3.0 over JSON-RPC, which are one and the same on the wire.

Source: https://a2a-protocol.org/v0.3.0/specification, sections 6 and 7. Lenient on input as clients
need it: `kind` may be missing where the fields tell it, optional fields may be null, ids empty.
"""

from collections.abc import Mapping

from a2a_lambda.errors import (
    InvalidParams,
    MethodNotFound,
    ProtocolError,
    PushNotificationNotSupported,
)
from a2a_lambda.model import (
    RESTING,
    Artifact,
    Event,
    Json,
    Message,
    Operation,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskRequest,
    TaskState,
    TaskStatus,
)
from a2a_lambda.wire import fields
from a2a_lambda.wire.fields import Object

METHODS: Mapping[str, Operation] = {
    "message/send": "send",
    "message/stream": "stream",
    "tasks/get": "get",
    "tasks/cancel": "cancel",
    "tasks/resubscribe": "subscribe",
}

ROLES = {"user": Role.USER, "agent": Role.AGENT}

STATES = {
    TaskState.SUBMITTED: "submitted",
    TaskState.WORKING: "working",
    TaskState.COMPLETED: "completed",
    TaskState.FAILED: "failed",
    TaskState.CANCELED: "canceled",
    TaskState.INPUT_REQUIRED: "input-required",
    TaskState.REJECTED: "rejected",
    TaskState.AUTH_REQUIRED: "auth-required",
}

CONTENT = ("text", "raw", "url", "data")
"""Canonical fields that tell what a part is; an unknown field of such a name cannot be kept."""

WRAPPED = "data_part_compat"
"""Mark a2a-sdk puts on a data part that is not an object: here it must be one."""


def unsupported(method: str) -> ProtocolError:
    """Why a method is not among METHODS."""
    if method.startswith("tasks/pushNotificationConfig/"):
        return PushNotificationNotSupported("see capabilities.pushNotifications in the card")
    return MethodNotFound(f"{method[:100]!r}; there are {', '.join(METHODS)}")


def decode_send(params: Json) -> SendMessageRequest:
    source = fields.mapping(params, "params")
    message = decode_message(fields.mapping(source.get("message"), "params.message"), "params.message")
    options = fields.optional_mapping(source, "configuration", "params") or {}
    where = "params.configuration"
    if options.get("pushNotificationConfig") is not None:
        raise PushNotificationNotSupported(path=f"{where}.pushNotificationConfig")
    fields.flag(options, "blocking", where)
    fields.strings(options, "acceptedOutputModes", where)
    fields.optional_mapping(source, "metadata", "params")
    return SendMessageRequest(message=message, historyLength=fields.count(options, "historyLength", where))


def decode_task(params: Json) -> TaskRequest:
    source = fields.mapping(params, "params")
    fields.optional_mapping(source, "metadata", "params")
    return TaskRequest(
        id=fields.identifier(source, "id", "params"),
        historyLength=fields.count(source, "historyLength", "params"),
    )


def decode_message(source: Object, path: str) -> Message:
    if source.get("kind") not in (None, "message"):
        raise InvalidParams(f'{path}.kind must be "message"', path=f"{path}.kind")
    parts = fields.array(source, "parts", path)
    if not parts:
        raise InvalidParams(f"{path}.parts must not be empty", path=f"{path}.parts")
    known = Message(
        messageId=fields.identifier(source, "messageId", path),
        role=ROLES[fields.choice(source, "role", path, ROLES)],
        parts=[decode_part(part, f"{path}.parts[{index}]") for index, part in enumerate(parts)],
    )
    if (context_id := fields.optional_identifier(source, "contextId", path)) is not None:
        known["contextId"] = context_id
    if (task_id := fields.optional_identifier(source, "taskId", path)) is not None:
        known["taskId"] = task_id
    if (metadata := fields.optional_mapping(source, "metadata", path)) is not None:
        known["metadata"] = metadata
    if extensions := fields.strings(source, "extensions", path):
        known["extensions"] = extensions
    if references := fields.strings(source, "referenceTaskIds", path):
        known["referenceTaskIds"] = references
    rest = fields.without(source, (*Message.__annotations__, "kind"))
    known.update(rest)  # type: ignore[typeddict-item]  # fields nobody knows travel along
    return known


def decode_part(value: Json, path: str) -> Part:
    source = fields.mapping(value, path)
    kind = source.get("kind")
    if kind is None:
        kind = next((name for name in ("text", "file", "data") if name in source), None)
    rest = fields.without(source, ("kind", "metadata", *CONTENT))
    match kind:
        case "text":
            part = Part(text=fields.text(source, "text", path))
        case "file":
            rest.pop("file", None)
            part = _decode_file(fields.mapping(source.get("file"), f"{path}.file"), f"{path}.file")
        case "data":
            part = Part(data=fields.mapping(source.get("data"), f"{path}.data"))
        case _:
            raise InvalidParams(f"{path}.kind must be text, file or data", path=f"{path}.kind")
    if (metadata := fields.optional_mapping(source, "metadata", path)) is not None:
        if "data" in part and metadata.get(WRAPPED) is True and part["data"].keys() == {"value"}:
            part["data"] = part["data"]["value"]
            metadata = fields.without(metadata, (WRAPPED,))
        if metadata or WRAPPED not in source["metadata"]:
            part["metadata"] = metadata
    part.update(rest)  # type: ignore[typeddict-item]
    return part


def _decode_file(source: Object, path: str) -> Part:
    if (source.get("bytes") is None) == (source.get("uri") is None):
        raise InvalidParams(f"{path} must have either bytes or uri", path=path)
    if source.get("bytes") is not None:
        part = Part(raw=fields.encoded(source, "bytes", path))
    else:
        part = Part(url=fields.text(source, "uri", path))
    if source.get("name") is not None:
        part["filename"] = fields.text(source, "name", path)
    if source.get("mimeType") is not None:
        part["mediaType"] = fields.text(source, "mimeType", path)
    if rest := fields.without(source, ("bytes", "uri", "name", "mimeType")):
        part["file"] = rest  # type: ignore[typeddict-unknown-key]
    return part


def encode_part(part: Part) -> Object:
    rest = fields.without(dict(part), CONTENT)
    if "text" in part:
        return {"kind": "text", "text": part["text"], **rest}
    if "data" in part:
        data, metadata = part["data"], part.get("metadata", {})
        if not isinstance(data, dict):
            data, metadata = {"value": data}, {**metadata, WRAPPED: True}
            rest["metadata"] = metadata
        return {"kind": "data", "data": data, **rest}
    file = {"bytes": part["raw"]} if "raw" in part else {"uri": part["url"]}
    if "filename" in part:
        file["name"] = rest.pop("filename")
    if "mediaType" in part:
        file["mimeType"] = rest.pop("mediaType")
    return {"kind": "file", "file": {**file, **rest.pop("file", {})}, **rest}


def encode_message(message: Message) -> Object:
    roles = {role: name for name, role in ROLES.items()}
    return {
        "kind": "message",
        **message,
        "role": roles[message["role"]],
        "parts": [encode_part(part) for part in message["parts"]],
    }


def encode_artifact(artifact: Artifact) -> Object:
    return {**artifact, "parts": [encode_part(part) for part in artifact["parts"]]}


def encode_status(status: TaskStatus) -> Object:
    result: Object = {"state": STATES[status["state"]]}
    if "message" in status:
        result["message"] = encode_message(status["message"])
    return {**result, "timestamp": status["timestamp"]}


def encode_task(task: Task) -> Json:
    result: Object = {
        "kind": "task",
        "id": task["id"],
        "contextId": task["contextId"],
        "status": encode_status(task["status"]),
    }
    if "artifacts" in task:
        result["artifacts"] = [encode_artifact(artifact) for artifact in task["artifacts"]]
    if "history" in task:
        result["history"] = [encode_message(message) for message in task["history"]]
    if "metadata" in task:
        result["metadata"] = task["metadata"]
    return result


def encode_event(event: Event) -> list[Json]:
    if "task" in event:
        return [encode_task(event["task"])]
    if "message" in event:
        return [encode_message(event["message"])]
    if "statusUpdate" in event:
        update = event["statusUpdate"]
        status = encode_status(update["status"])
        final = update["status"]["state"] in RESTING
        return [{"kind": "status-update", **update, "status": status, "final": final}]
    chunk = event["artifactUpdate"]
    return [{"kind": "artifact-update", **chunk, "artifact": encode_artifact(chunk["artifact"])}]


def encode_error(error: ProtocolError) -> Json:
    result: Object = {"code": error.code, "message": str(error)}
    if error.path is not None:
        result["data"] = {"path": error.path}
    return result
