"""A2A 0.2.5 to 0.3.0 over HTTP+JSON, as real clients speak it: ProtoJSON of 0.3's a2a.proto.

The clients accept no unknown field, so data that a2a.proto has no field for is left out.
Source: https://github.com/a2aproject/A2A, tag v0.3.0, specification/grpc/a2a.proto
"""

from dataclasses import replace
from typing import cast

from a2a_lambda.errors import InvalidParams, ProtocolError
from a2a_lambda.protocol.model import (
    PART_CONTENT,
    Artifact,
    Event,
    Json,
    Message,
    Part,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    is_empty_end,
    is_final,
)
from a2a_lambda.protocol.requests import (
    ListPushConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Recipient,
    SendMessageConfiguration,
    SendMessageRequest,
    SendMessageResponse,
)
from a2a_lambda.wire import v0_3, v1_0
from a2a_lambda.wire.interface import Codec, Route, unsupported_codec
from a2a_lambda.wire.shared import error_json, fields, json_0x, protojson
from a2a_lambda.wire.shared.fields import Object

PROTO_STATE_NAMES = {TaskState.CANCELED: "TASK_STATE_CANCELLED"}
"""Names of states in the a2a.proto of 0.3 that differ from those of 1.0."""

LISTED_STATES = {
    **{name: state for name, state in json_0x.STATES_BY_NAME.items() if state != TaskState.UNSPECIFIED},
    **{name: state for state, name in PROTO_STATE_NAMES.items()},
}
"""States by the names that a list may be filtered by, besides those of 1.0."""


def encode_http_error(error: ProtocolError) -> tuple[int, Json]:
    """Code and message are outside the status, too: clients of 0.3 look for them there."""
    http, body = error_json.encode_http_error(error)
    return http, {**body, "code": error.code, "message": body["error"]["message"]}


SEND_SPELLINGS_0_3 = protojson.spellings(["message", "request", "configuration", "metadata"])
CONFIGURATION_SPELLINGS_0_3 = protojson.spellings(
    ["acceptedOutputModes", "pushNotification", "pushNotificationConfig", "historyLength", "blocking"]
)
MESSAGE_SPELLINGS_0_3 = protojson.spellings([*Message.__annotations__, "content"])
FILE_TEXTS = {"mimeType": "mediaType", "name": "filename"}
"""Fields of a file, and their names in a part of 1.0."""

FILE_SPELLINGS_0_3 = protojson.spellings(["fileWithUri", "fileWithBytes", *FILE_TEXTS])
CONFIG_SPELLINGS_0_3 = protojson.spellings(["configId", "config", "parent", "name", "pushNotificationConfig"])


def decode_part(value: Json, path: str) -> Part:
    """A part. It may have a kind, as in the text of the specification."""
    source = {name: member for name, member in fields.mapping(value, path).items() if member is not None}
    if "kind" in source:
        return json_0x.decode_part(source, path)
    if len(source.keys() & {"file", *PART_CONTENT}) != 1:
        raise InvalidParams(f"{path} must have one of text, file, data", path=path)
    if "file" in source:
        # Not by `protojson.decode_part`, which would read the base64 text of the file once more.
        rest = protojson.canonical_fields(fields.without(source, ("file",)), path, protojson.PART_SPELLINGS)
        rest = fields.optional(rest, path, texts=("filename", "mediaType"), objects=("metadata",))
        return cast(Part, {**decode_file(source["file"], f"{path}.file"), **rest})
    if "data" in source and isinstance(source["data"], dict) and source["data"].keys() == {"data"}:
        source = {**source, "data": source["data"]["data"]}
    return json_0x.unwrap(protojson.decode_part(source, path))


def decode_file(value: Json, path: str) -> Object:
    """The fields that a part of 1.0 has for a file. They are checked here, under the names that the client
    knows."""
    source = fields.optional(
        protojson.canonical_fields(value, path, FILE_SPELLINGS_0_3), path, texts=("fileWithUri", *FILE_TEXTS)
    )
    if len(source.keys() & {"fileWithUri", "fileWithBytes"}) != 1:
        raise InvalidParams(f"{path} must have one of fileWithUri, fileWithBytes", path=path)
    if "fileWithBytes" in source:
        content: Object = {"raw": fields.base64_text(source, "fileWithBytes", path)}
    else:
        content = {"url": source["fileWithUri"]}
    return {**content, **{FILE_TEXTS[name]: source[name] for name in FILE_TEXTS if name in source}}


def decode_message(value: Json, path: str) -> Message:
    source = protojson.canonical_fields(value, path, MESSAGE_SPELLINGS_0_3)
    if isinstance(source.get("role"), str) and source["role"] in json_0x.ROLES_BY_NAME:
        source["role"] = json_0x.ROLES_BY_NAME[source["role"]]
    name = "parts" if "parts" in source else "content"
    parts = fields.array(source, name, path)
    if not parts:
        raise InvalidParams(f"{path}.{name} must not be empty", path=f"{path}.{name}")
    source["parts"] = [decode_part(part, f"{path}.{name}[{index}]") for index, part in enumerate(parts)]
    if source.get("taskId"):
        # The task decides the context. Clients that look for `context_id` do not find it, and make one up.
        source.pop("contextId", None)
    return protojson.decode_message(fields.without(source, ("content", "kind")), path)


def encode_part(part: Part) -> Object:
    part = json_0x.wrap(part)
    metadata_field = {"metadata": part["metadata"]} if "metadata" in part else {}
    if "text" in part:
        return {"text": part["text"], **metadata_field}
    if "data" in part:
        return {"data": {"data": part["data"]}, **metadata_field}
    file: Object = {"fileWithBytes": part["raw"]} if "raw" in part else {"fileWithUri": part["url"]}
    for name, spelling in (("mediaType", "mimeType"), ("filename", "name")):
        if name in part:
            file[spelling] = part[name]  # type: ignore[literal-required]
    return {"file": file, **metadata_field}


def encode_message(message: Message) -> Object:
    names = ("messageId", "contextId", "taskId", "role", "metadata", "extensions")
    base: Object = {name: value for name, value in message.items() if name in names}
    return {**base, "content": [encode_part(part) for part in message["parts"]]}


def encode_artifact(artifact: Artifact) -> Object:
    base: Object = {name: value for name, value in artifact.items() if name in Artifact.__annotations__}
    return {**base, "parts": [encode_part(part) for part in artifact["parts"]]}


def encode_status(value: TaskStatus) -> Object:
    result: Object = {"state": PROTO_STATE_NAMES.get(value["state"], value["state"])}
    if "message" in value:
        result["message"] = encode_message(value["message"])
    if "timestamp" in value:
        result["timestamp"] = value["timestamp"]
    return result


def encode_task(task: Task) -> Object:
    result: Object = {"id": task["id"], "contextId": task["contextId"]}
    result["status"] = encode_status(task["status"])
    if "artifacts" in task:
        result["artifacts"] = [encode_artifact(artifact) for artifact in task["artifacts"]]
    if "history" in task:
        result["history"] = [encode_message(message) for message in task["history"]]
    if "metadata" in task:
        result["metadata"] = task["metadata"]
    return result


def encode_event(event: Event, recipient: Recipient) -> list[Json]:
    if "task" in event:
        return [{"task": encode_task(event["task"])}]
    if "message" in event:
        return [{"message": encode_message(event["message"])}]
    if "statusUpdate" in event:
        update = event["statusUpdate"]
        result: Object = {
            "taskId": update["taskId"],
            "contextId": update["contextId"],
            "status": encode_status(update["status"]),
            "final": is_final(event),
        }
        return [{"statusUpdate": _with_metadata(result, dict(update))}]
    if is_empty_end(event):
        return []
    chunk = event["artifactUpdate"]
    result = {
        "taskId": chunk["taskId"],
        "contextId": chunk["contextId"],
        "artifact": encode_artifact(chunk["artifact"]),
        "append": chunk["append"],
        "lastChunk": chunk["lastChunk"],
    }
    return [{"artifactUpdate": _with_metadata(result, dict(chunk))}]


def _with_metadata(result: Object, source: Object) -> Object:
    return {**result, "metadata": source["metadata"]} if "metadata" in source else result


def decode_send(params: Json) -> SendMessageRequest:
    source = protojson.canonical_fields(params, "params", SEND_SPELLINGS_0_3)
    message = source.get("message", source.get("request"))
    request = SendMessageRequest(message=decode_message(message, "params.message"))
    if "configuration" in source:
        path = "params.configuration"
        options = protojson.canonical_fields(source["configuration"], path, CONFIGURATION_SPELLINGS_0_3)
        configuration = SendMessageConfiguration()
        if modes := fields.strings(options, "acceptedOutputModes", path):
            configuration["acceptedOutputModes"] = modes
        if length := fields.count(options, "historyLength", path):
            configuration["historyLength"] = length
        # A client that wants no wait leaves `blocking` out, because ProtoJSON omits what is false.
        configuration["returnImmediately"] = not fields.flag(options, "blocking", path)
        for name in ("pushNotificationConfig", "pushNotification"):  # as in the text, and in a2a.proto
            if name in options:
                config = fields.mapping(options[name], f"{path}.{name}")
                configuration["taskPushNotificationConfig"] = json_0x.decode_config(config, f"{path}.{name}")
        request["configuration"] = configuration
    if (metadata := fields.optional_mapping(source, "metadata", "params")) is not None:
        request["metadata"] = metadata
    return request


def decode_config(params: Json) -> TaskPushNotificationConfig:
    """A config. Clients write it in four ways: by itself, or in one or two wrappers, with its id in the
    name, in `configId`, or in the config."""
    layer = protojson.canonical_fields(params, "params", CONFIG_SPELLINGS_0_3)
    task_id = fields.identifier(layer, "taskId", "params")
    path, layers = "params", {"params": layer}
    for name in ("config", "pushNotificationConfig"):
        if name in layer:
            path = f"{path}.{name}"
            layers[path] = layer = protojson.canonical_fields(layer[name], path, CONFIG_SPELLINGS_0_3)
    ids = [fields.optional_identifier(layers["params"], "configId", "params")]
    for place, source in layers.items():
        for field in ("parent", "name"):
            resource = fields.text(source, field, place) if source.get(field) is not None else ""
            task, _, name_id = resource.removeprefix("tasks/").partition("/pushNotificationConfigs/")
            if resource.startswith("tasks/") and task.partition("/")[0] != task_id:
                mistake = f"{place}.{field} and the path name different tasks"
                raise InvalidParams(mistake, path=f"{place}.{field}")
            ids.append(name_id)
    config_fields: Object = {
        name: layer[name] for name in ("id", "url", "token", "authentication") if name in layer
    }
    config = json_0x.decode_config(config_fields, path)
    if config_id := next(filter(None, ids), ""):
        config["id"] = config_id
    config["taskId"] = task_id
    return config


def encode_config(config: TaskPushNotificationConfig) -> Json:
    name = f"tasks/{config['taskId']}/pushNotificationConfigs/{config['id']}"
    keys = ("id", "url", "token", "authentication")
    config_fields = {key: value for key, value in json_0x.encode_config(config).items() if key in keys}
    if "authentication" in config_fields:
        info = config_fields["authentication"]
        config_fields["authentication"] = {
            key: info[key] for key in ("schemes", "credentials") if key in info
        }
    return {"name": name, "pushNotificationConfig": config_fields}


def decode_list(params: Json) -> ListTasksRequest:
    """A request of 1.0, whose state may be in the spelling of 0.3's a2a.proto or of its text. It lists tasks
    with their artifacts, which 0.3 cannot ask for."""
    source = {"includeArtifacts": True, **({} if params is None else fields.mapping(params, "params"))}
    status = source.get("status")
    if isinstance(status, str):
        source = {**source, "status": LISTED_STATES.get(status, status)}
    return v1_0.decode_list(source)


def encode_outcome(outcome: SendMessageResponse) -> Json:
    if "message" in outcome:
        return {"message": encode_message(outcome["message"])}
    return {"task": encode_task(outcome["task"])}


def encode_tasks(response: ListTasksResponse) -> Json:
    return [encode_task(task) for task in response["tasks"]]


def encode_configs(response: ListPushConfigsResponse) -> Json:
    configs = [encode_config(config) for config in response["configs"]]
    token = response["nextPageToken"]
    return {"configs": configs, **({"nextPageToken": token} if token else {})}


SEND = Codec(decode_send)
RESULT_TASK = Codec(encode=encode_task)
CONFIG = Codec(encode=encode_config)

WIRE = replace(
    v0_3.WIRE,
    methods={},
    routes=(*(route for route in v1_0.ROUTES if route.operation != "card"), Route("GET", "card", "card")),
    path_prefix="v1",
    requests={
        "send": SEND,
        "stream": SEND,
        "get": Codec(v1_0.decode_get),
        "list": Codec(decode_list),
        "cancel": Codec(v1_0.decode_cancel),
        "subscribe": Codec(v1_0.decode_task_reference),
        "set_push": Codec(decode_config),
        "get_push": Codec(v1_0.decode_push),
        "list_push": Codec(v1_0.decode_pushes),
        "delete_push": Codec(v1_0.decode_push),
        "card": Codec(lambda _: {}),
    },
    results={
        "send": Codec(encode=encode_outcome),
        "get": RESULT_TASK,
        "list": Codec(encode=encode_tasks),
        "cancel": RESULT_TASK,
        "set_push": CONFIG,
        "get_push": CONFIG,
        "list_push": Codec(encode=encode_configs),
        "delete_push": Codec(encode=lambda _: None),
        "card": Codec(encode=lambda card: card),
    },
    encode_event=encode_event,
    decode_event=unsupported_codec,
    encode_http_error=encode_http_error,
)
