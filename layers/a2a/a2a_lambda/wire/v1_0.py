"""A2A 1.0 (1.0.0 and 1.0.1) over JSON-RPC and HTTP+JSON.

Source: https://a2a-protocol.org/v1.0.0/specification, sections 5, 9 and 11.
"""

from typing import cast

from a2a_lambda.errors import InvalidParams, UnsupportedOperation
from a2a_lambda.protocol.model import Event, Json, Task, TaskPushNotificationConfig, is_empty_end
from a2a_lambda.protocol.requests import (
    WRONG_PAGE_TOKEN,
    ListPushConfigsRequest,
    ListPushConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    PushConfigRequest,
    Recipient,
    SendMessageConfiguration,
    SendMessageRequest,
    SendMessageResponse,
    TaskRequest,
)
from a2a_lambda.wire.interface import Codec, Route, Wire
from a2a_lambda.wire.shared import card_json, error_json, fields, protojson
from a2a_lambda.wire.shared.fields import Object

ROUTES = (
    Route("POST", "message:send", "send"),
    Route("POST", "message:stream", "stream"),
    Route("GET", "tasks", "list"),
    Route("POST", "tasks/{id}:cancel", "cancel"),
    Route("POST", "tasks/{id}:subscribe", "subscribe"),
    Route("GET", "tasks/{id}:subscribe", "subscribe"),
    Route("GET", "tasks/{id}", "get"),
    Route("POST", "tasks/{taskId}/pushNotificationConfigs", "set_push"),
    Route("GET", "tasks/{taskId}/pushNotificationConfigs", "list_push"),
    Route("GET", "tasks/{taskId}/pushNotificationConfigs/{id}", "get_push"),
    Route("DELETE", "tasks/{taskId}/pushNotificationConfigs/{id}", "delete_push"),
    Route("GET", "extendedAgentCard", "card"),
)

PAGE_SIZES = range(1, 101)

PAGE_TOKEN_CHARACTERS = 2_000
"""Maximum length of a page token, which holds a task id, in characters."""

SEND_SPELLINGS = protojson.spellings(SendMessageRequest.__annotations__)
CONFIGURATION_SPELLINGS = protojson.spellings(SendMessageConfiguration.__annotations__)
TASK_REQUEST_SPELLINGS = protojson.spellings(TaskRequest.__annotations__)
LIST_SPELLINGS = protojson.spellings(ListTasksRequest.__annotations__)
PUSH_SPELLINGS = protojson.spellings(
    ListPushConfigsRequest.__annotations__ | PushConfigRequest.__annotations__
)


def decode_send(params: Json) -> SendMessageRequest:
    source = protojson.canonical_fields(params, "params", SEND_SPELLINGS)
    request = SendMessageRequest(message=protojson.decode_message(source.get("message"), "params.message"))
    if "configuration" in source:
        request["configuration"] = decode_configuration(source["configuration"], "params.configuration")
    if (metadata := fields.optional_mapping(source, "metadata", "params")) is not None:
        request["metadata"] = metadata
    if tenant := fields.optional_identifier(source, "tenant", "params"):
        request["tenant"] = tenant
    return request


def decode_configuration(value: Json, path: str) -> SendMessageConfiguration:
    source = protojson.canonical_fields(value, path, CONFIGURATION_SPELLINGS)
    result = SendMessageConfiguration()
    if modes := fields.strings(source, "acceptedOutputModes", path):
        result["acceptedOutputModes"] = modes
    if (length := fields.count(source, "historyLength", path)) is not None:
        result["historyLength"] = length
    if (is_immediate := fields.flag(source, "returnImmediately", path)) is not None:
        result["returnImmediately"] = is_immediate
    if "taskPushNotificationConfig" in source:
        config_path = f"{path}.taskPushNotificationConfig"
        result["taskPushNotificationConfig"] = protojson.decode_config(
            source["taskPushNotificationConfig"], config_path
        )
    return result


def encode_send(request: SendMessageRequest) -> Json:
    result: Object = fields.without(dict(request), ("creates_task", "lacks_id", "question"))
    if "taskPushNotificationConfig" in request.get("configuration", {}):
        config = protojson.encode_config(request["configuration"]["taskPushNotificationConfig"])
        result["configuration"] = {**request["configuration"], "taskPushNotificationConfig": config}
    return result


def decode_get(params: Json) -> TaskRequest:
    source = protojson.canonical_fields(params, "params", TASK_REQUEST_SPELLINGS)
    request = decode_task_reference(source)
    if (length := fields.count(source, "historyLength", "params")) is not None:
        request["historyLength"] = length
    return request


def decode_cancel(params: Json) -> TaskRequest:
    request = decode_task_reference(params)
    if (metadata := fields.optional_mapping(params, "metadata", "params")) is not None:
        request["metadata"] = metadata
    return request


def decode_task_reference(params: Json) -> TaskRequest:
    source = fields.mapping(params, "params")
    request = TaskRequest(id=fields.identifier(source, "id", "params"))
    if tenant := fields.optional_identifier(source, "tenant", "params"):
        request["tenant"] = tenant
    return request


def decode_list(params: Json) -> ListTasksRequest:
    source = protojson.canonical_fields({} if params is None else params, "params", LIST_SPELLINGS)
    # Its name in a draft of 1.0, which a2a-go sends over HTTP+JSON.
    if source.get("statusTimestampAfter") is None and "lastUpdatedAfter" in source:
        source = {**source, "statusTimestampAfter": source["lastUpdatedAfter"]}
    names = [name for name in source if name in LIST_SPELLINGS]
    result = fields.optional({name: source[name] for name in names}, "params", ids=("contextId", "tenant"))
    _check_page_token(result)
    if (
        result.get("status") in ("", 0, "TASK_STATE_UNSPECIFIED") and result["status"] is not False
    ):  # False == 0
        del result["status"]
    if "status" in result:
        result["status"] = protojson.enum_value(result, "status", "params", protojson.STATES_IN_ORDER)
    if (size := fields.count(source, "pageSize", "params")) is not None:
        if size not in PAGE_SIZES:
            path = "params.pageSize"
            raise InvalidParams(f"{path} must be from {PAGE_SIZES[0]} to {PAGE_SIZES[-1]}", path=path)
        result["pageSize"] = size
    if (length := fields.count(source, "historyLength", "params")) is not None:
        result["historyLength"] = length
    if (timestamp := fields.instant(source, "statusTimestampAfter", "params")) is not None:
        result["statusTimestampAfter"] = timestamp
    else:
        result.pop("statusTimestampAfter", None)
    if "includeArtifacts" in source:
        # In a query it is a string, and Python clients write `True`.
        booleans = {"true": True, "false": False}
        value = source["includeArtifacts"]
        result["includeArtifacts"] = booleans.get(value.lower(), value) if isinstance(value, str) else value
        fields.flag(result, "includeArtifacts", "params")
    return cast(ListTasksRequest, result)


def _check_page_token(source: Object) -> None:
    """Check the page token, and remove an empty one."""
    if source.get("pageToken") in (None, ""):
        source.pop("pageToken", None)
    elif len(fields.text(source, "pageToken", "params")) > PAGE_TOKEN_CHARACTERS:
        raise InvalidParams(WRONG_PAGE_TOKEN, path="params.pageToken")


def decode_config(params: Json) -> TaskPushNotificationConfig:
    if isinstance(params, dict) and isinstance(nested := params.get("config"), dict):
        # As a2a-rs and a2a-dotnet send it, the latter with the id beside the config.
        outer = {name: value for name, value in params.items() if value not in (None, "")}
        ids = {"id": outer["configId"]} if "configId" in outer else {}
        params = {**nested, **ids, **fields.without(outer, ("config", "configId"))}
    config = protojson.decode_config(params, "params")
    fields.identifier(dict(config), "taskId", "params")
    return config


def decode_push(params: Json) -> PushConfigRequest:
    source = protojson.canonical_fields(params, "params", PUSH_SPELLINGS)
    result = PushConfigRequest(
        taskId=fields.identifier(source, "taskId", "params"), id=fields.identifier(source, "id", "params")
    )
    if tenant := fields.optional_identifier(source, "tenant", "params"):
        result["tenant"] = tenant
    return result


def decode_pushes(params: Json) -> ListPushConfigsRequest:
    source = protojson.canonical_fields(params, "params", PUSH_SPELLINGS)
    result = fields.optional(fields.without(source, ("id",)), "params", ids=("tenant",))
    result["taskId"] = fields.identifier(source, "taskId", "params")
    _check_page_token(result)
    # The specification sets no limits for this size, and a2a-java sends 0 when its caller names none.
    result.pop("pageSize", None)
    if size := fields.count(source, "pageSize", "params"):
        result["pageSize"] = size
    return cast(ListPushConfigsRequest, result)


def decode_outcome(value: Json) -> SendMessageResponse:
    return cast(SendMessageResponse, protojson.decode_event(value))


def encode_outcome(outcome: SendMessageResponse) -> Json:
    if "message" in outcome:
        return {"message": outcome["message"]}
    return {"task": protojson.encode_task(outcome["task"])}


def decode_tasks(value: Json) -> ListTasksResponse:
    source = protojson.canonical_fields(
        value, "result", protojson.spellings(ListTasksResponse.__annotations__)
    )
    items = fields.array(source, "tasks", "result")
    return ListTasksResponse(
        tasks=[protojson.decode_task(item, f"result.tasks[{index}]") for index, item in enumerate(items)],
        nextPageToken=fields.text(source, "nextPageToken", "result"),
        pageSize=fields.count(source, "pageSize", "result") or 0,
        totalSize=fields.count(source, "totalSize", "result") or 0,
    )


def encode_tasks(response: ListTasksResponse) -> Json:
    return {**response, "tasks": [protojson.encode_task(task) for task in response["tasks"]]}


def decode_configs(value: Json) -> ListPushConfigsResponse:
    source = protojson.canonical_fields(
        value, "result", protojson.spellings(ListPushConfigsResponse.__annotations__)
    )
    items = fields.array(source, "configs", "result") if source.get("configs") else []
    return ListPushConfigsResponse(
        configs=[
            protojson.decode_config(item, f"result.configs[{index}]") for index, item in enumerate(items)
        ],
        nextPageToken=source.get("nextPageToken", ""),
    )


def encode_configs(response: ListPushConfigsResponse) -> Json:
    configs = [protojson.encode_config(config) for config in response["configs"]]
    return {"configs": configs, "nextPageToken": response["nextPageToken"]}


def encode_notification(task: Task) -> Json:
    """A StreamResponse (section 4.3.3)."""
    return {"task": protojson.encode_task(task)}


def encode_event(event: Event, recipient: Recipient) -> list[Json]:
    if "task" in event:
        return [{"task": protojson.encode_task(event["task"])}]
    if is_empty_end(event):
        return []
    return [{"statusUpdate": event["statusUpdate"]}] if "past" in event else [event]


def unchanged(value: Json) -> Json:
    return value


SEND = Codec(decode_send, encode_send)
RESULT_TASK = Codec(protojson.decode_task, protojson.encode_task)
CONFIG = Codec(lambda value: protojson.decode_config(value, "result"), protojson.encode_config)

WIRE = Wire(
    name="1.0",
    versions=("1.0",),
    methods={
        "SendMessage": "send",
        "SendStreamingMessage": "stream",
        "GetTask": "get",
        "ListTasks": "list",
        "CancelTask": "cancel",
        "SubscribeToTask": "subscribe",
        "CreateTaskPushNotificationConfig": "set_push",
        "GetTaskPushNotificationConfig": "get_push",
        "ListTaskPushNotificationConfigs": "list_push",
        "DeleteTaskPushNotificationConfig": "delete_push",
        "GetExtendedAgentCard": "card",
    },
    routes=ROUTES,
    requests={
        "send": SEND,
        "stream": SEND,
        "get": Codec(decode_get, unchanged),
        "list": Codec(decode_list, unchanged),
        "cancel": Codec(decode_cancel, unchanged),
        "subscribe": Codec(decode_task_reference, unchanged),
        "set_push": Codec(decode_config, protojson.encode_config),
        "get_push": Codec(decode_push, unchanged),
        "list_push": Codec(decode_pushes, unchanged),
        "delete_push": Codec(decode_push, unchanged),
        "card": Codec(lambda params: fields.mapping(params or {}, "params"), unchanged),
    },
    results={
        "send": Codec(decode_outcome, encode_outcome),
        "get": RESULT_TASK,
        "list": Codec(decode_tasks, encode_tasks),
        "cancel": RESULT_TASK,
        "set_push": CONFIG,
        "get_push": CONFIG,
        "list_push": Codec(decode_configs, encode_configs),
        "delete_push": Codec(lambda _: None, lambda _: None),
        "card": Codec(unchanged, unchanged),
    },
    encode_card=card_json.v1_0,
    encode_event=encode_event,
    decode_event=protojson.decode_event,
    encode_notification=encode_notification,
    notifies_events=True,
    encode_error=error_json.encode_error,
    media_type="application/a2a+json",
    blocking_by_default=True,
    has_tenants=True,
    subscribe_needs_running=True,
    stream_errors_as_events=False,
    answers_with_messages=True,
    sends_version=True,
    push_config_id="",
    no_extended_card=UnsupportedOperation,
)
