"""Objects of A2A 1.0 as ProtoJSON. They are nearly those of `model`.

A known field may be in snake_case, null means unset, the value of an enum may be its number, and an
unknown field is not an error.
Source: https://a2a-protocol.org/v1.0.0/specification, section 5.5, and
https://protobuf.dev/programming-guides/json
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import (
    DEFAULT_SCHEME,
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
    TaskStatusUpdateEvent,
)
from a2a_lambda.wire.shared import fields
from a2a_lambda.wire.shared.fields import Object

EnumName = TypeVar("EnumName", bound=str)


ROLES_IN_ORDER = (Role.USER, Role.AGENT)

STATES_IN_ORDER = (
    TaskState.SUBMITTED,
    TaskState.WORKING,
    TaskState.COMPLETED,
    TaskState.FAILED,
    TaskState.CANCELED,
    TaskState.INPUT_REQUIRED,
    TaskState.REJECTED,
    TaskState.AUTH_REQUIRED,
)
"""In the order of their numbers, from 1."""


def spellings(names: Iterable[str]) -> Mapping[str, str]:
    """The camelCase name by either spelling of a field."""
    camel_names = {name: name for name in names}
    return camel_names | {
        re.sub("[A-Z]", lambda big: "_" + big[0].lower(), name): name for name in camel_names
    }


def canonical_fields(value: Json, path: str, names: Mapping[str, str]) -> Object:
    """The fields of an object in their order. Those in `names` get their camelCase name, and are left out if
    they are null. path: names the object in the error. Raises InvalidParams if it is not an object."""
    source = fields.mapping(value, path)
    return {names.get(key, key): item for key, item in source.items() if item is not None or key not in names}


MESSAGE_FIELDS = frozenset(Message.__annotations__)
PART_FIELDS = frozenset(Part.__annotations__)
CONFIG_FIELDS = frozenset(TaskPushNotificationConfig.__annotations__)
AUTHENTICATION_FIELDS = frozenset({"scheme", "credentials"})

PART_SPELLINGS = spellings(Part.__annotations__)
MESSAGE_SPELLINGS = spellings(Message.__annotations__)
ARTIFACT_SPELLINGS = spellings(Artifact.__annotations__)
STATUS_SPELLINGS = spellings(TaskStatus.__annotations__)
TASK_SPELLINGS = spellings(Task.__annotations__)
EVENT_SPELLINGS = spellings(Event.__annotations__)
STATUS_UPDATE_SPELLINGS = spellings(TaskStatusUpdateEvent.__annotations__)
ARTIFACT_UPDATE_SPELLINGS = spellings(TaskArtifactUpdateEvent.__annotations__)
CONFIG_SPELLINGS = spellings([*TaskPushNotificationConfig.__annotations__, "tenant"])
AUTHENTICATION_SPELLINGS = spellings(AuthenticationInfo.__annotations__)


def enum_value(source: Object, key: str, path: str, values: tuple[EnumName, ...]) -> EnumName:
    """Value of an enum, by its name or its number."""
    value: Any = source.get(key)
    # ProtoJSON readers accept an enum's number, too. A boolean is an int in Python.
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= len(values):
        return values[value - 1]
    choice = fields.choice(source, key, path, dict.fromkeys(values))
    return next(item for item in values if item == choice)


def decode_message(value: Json, path: str, *, is_answer: bool = False) -> Message:
    source = canonical_fields(value, path, MESSAGE_SPELLINGS)
    parts = fields.parts(source, path, is_answer=is_answer)
    result = fields.optional(
        source,
        path,
        ids=("contextId", "taskId"),
        objects=("metadata",),
        lists=("extensions", "referenceTaskIds"),
    )
    result["messageId"] = fields.identifier(source, "messageId", path)
    result["role"] = enum_value(source, "role", path, ROLES_IN_ORDER)
    result["parts"] = decode_parts(parts, path)
    return cast(Message, result)


def decode_parts(parts: list[Json], path: str) -> list[Part]:
    return [decode_part(part, f"{path}.parts[{index}]") for index, part in enumerate(parts)]


def decode_part(value: Json, path: str) -> Part:
    source = canonical_fields(value, path, PART_SPELLINGS)
    # Alone, null is a value. Beside another content, a generated client writes it for a field that it leaves
    # out.
    if "data" in value and not source.keys() & set(PART_CONTENT):
        source["data"] = value["data"]
    if len([name for name in PART_CONTENT if name in source]) != 1:
        raise InvalidParams(f"{path} must have one of {', '.join(PART_CONTENT)}", path=path)
    result = fields.optional(
        source, path, texts=("text", "url", "filename", "mediaType"), objects=("metadata",)
    )
    if "raw" in source:
        result["raw"] = fields.base64_text(source, "raw", path)
    return cast(Part, result)


def decode_artifact(value: Json, path: str) -> Artifact:
    source = canonical_fields(value, path, ARTIFACT_SPELLINGS)
    result = fields.optional(
        source, path, texts=("name", "description"), objects=("metadata",), lists=("extensions",)
    )
    result["artifactId"] = fields.identifier(source, "artifactId", path)
    result["parts"] = decode_parts(fields.parts(source, path, is_answer=True), path)
    return cast(Artifact, result)


def decode_status(value: Json, path: str) -> TaskStatus:
    result = canonical_fields(value, path, STATUS_SPELLINGS)
    result["state"] = enum_value(result, "state", path, (*STATES_IN_ORDER, TaskState.UNSPECIFIED))
    if "message" in result:
        result["message"] = decode_message(result["message"], f"{path}.message", is_answer=True)
    time = fields.instant_of_answer(result, "timestamp", path)
    result = fields.without(result, ("timestamp",))
    return cast(TaskStatus, result if time is None else {**result, "timestamp": time})


def decode_task(value: Json, path: str = "result") -> Task:
    source = canonical_fields(value, path, TASK_SPELLINGS)
    result = fields.optional(
        fields.without(source, ("artifacts", "history")), path, ids=("contextId",), objects=("metadata",)
    )
    result["id"] = fields.identifier(source, "id", path)
    result.setdefault("contextId", "")
    result["status"] = decode_status(source.get("status"), f"{path}.status")
    if artifacts := fields.mappings(source, "artifacts", path):
        result["artifacts"] = [decode_artifact(item, item_path) for item, item_path in artifacts]
    if history := fields.mappings(source, "history", path):
        result["history"] = [decode_message(item, item_path, is_answer=True) for item, item_path in history]
    return cast(Task, result)


def decode_event(value: Json) -> Event:
    source = canonical_fields(value, "result", EVENT_SPELLINGS)
    if "task" in source:
        return Event(task=decode_task(source["task"], "result.task"))
    if "message" in source:
        return Event(message=decode_message(source["message"], "result.message", is_answer=True))
    if "statusUpdate" in source:
        path = "result.statusUpdate"
        update = _decode_update(source["statusUpdate"], STATUS_UPDATE_SPELLINGS, path)
        update["status"] = decode_status(update.get("status"), f"{path}.status")
        return cast(Event, {"statusUpdate": update})
    path = "result.artifactUpdate"
    update = _decode_update(source.get("artifactUpdate"), ARTIFACT_UPDATE_SPELLINGS, path)
    update["artifact"] = decode_artifact(update.get("artifact"), f"{path}.artifact")
    for flag in ("append", "lastChunk"):
        update[flag] = bool(fields.flag(update, flag, path))
    return cast(Event, {"artifactUpdate": update})


def _decode_update(value: Json, names: Mapping[str, str], path: str) -> Object:
    ids = ("taskId", "contextId")
    update = fields.optional(canonical_fields(value, path, names), path, ids=ids, objects=("metadata",))
    return {**dict.fromkeys(ids, ""), **update}


def decode_config(value: Json, path: str) -> TaskPushNotificationConfig:
    source = canonical_fields(value, path, CONFIG_SPELLINGS)
    result = fields.optional(
        fields.without(source, ("tenant",)), path, texts=("token",), ids=("id", "taskId")
    )
    result["url"] = fields.text(source, "url", path)
    if "authentication" in source:
        auth_path = f"{path}.authentication"
        info = canonical_fields(source["authentication"], auth_path, AUTHENTICATION_SPELLINGS)
        fields.identifier(info, "scheme", auth_path)
        # `schemes` is of earlier versions, whose configs have it in the table.
        result["authentication"] = fields.optional(
            fields.without(info, ("schemes",)), auth_path, texts=("scheme", "credentials")
        )
    return cast(TaskPushNotificationConfig, result)


def encode_message(message: Message) -> Message:
    """The message with the fields of 1.0 alone, because its schema is closed. What a client sent beside them
    stays in the log."""
    if message.keys() <= MESSAGE_FIELDS and all(part.keys() <= PART_FIELDS for part in message["parts"]):
        return message
    result = {name: value for name, value in message.items() if name in MESSAGE_FIELDS}
    result["parts"] = [
        {name: value for name, value in part.items() if name in PART_FIELDS} for part in message["parts"]
    ]
    return cast(Message, result)


def encode_task(task: Task) -> Task:
    """The task, with the messages of its history as `encode_message` returns them."""
    if not task.get("history"):
        return task
    return Task({**task, "history": [encode_message(message) for message in task["history"]]})


def encode_config(config: TaskPushNotificationConfig) -> Object:
    """The config with the fields of 1.0 alone, as a message."""
    result: Object = {name: value for name, value in config.items() if name in CONFIG_FIELDS}
    if "authentication" in config:
        authentication = config["authentication"].items()
        known_fields = {name: value for name, value in authentication if name in AUTHENTICATION_FIELDS}
        # 1.0 requires the scheme. A client of 0.3 may have named none.
        result["authentication"] = {**known_fields, "scheme": known_fields.get("scheme") or DEFAULT_SCHEME}
    return result
