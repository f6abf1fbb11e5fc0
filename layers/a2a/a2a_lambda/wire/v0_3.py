"""A2A 0.2.5, 0.2.6 and 0.3.0 over JSON-RPC. The three are the same on the wire.

Source: https://a2a-protocol.org/v0.3.0/specification, section 7.
"""

from functools import partial
from typing import cast

from a2a_lambda.errors import (
    ExtendedAgentCardNotConfigured,
    ExtensionSupportRequired,
    InvalidRequest,
    ProtocolError,
    VersionNotSupported,
)
from a2a_lambda.protocol.model import Event, Json, TaskPushNotificationConfig, is_empty_end
from a2a_lambda.protocol.requests import (
    ListPushConfigsRequest,
    ListPushConfigsResponse,
    PushConfigRequest,
    Recipient,
    SendMessageConfiguration,
    SendMessageRequest,
    SendMessageResponse,
    TaskRequest,
)
from a2a_lambda.wire.interface import Codec, Wire
from a2a_lambda.wire.shared import card_json, fields, json_0x
from a2a_lambda.wire.shared.fields import Object


def decode_send(params: Json) -> SendMessageRequest:
    source = fields.mapping(params, "params")
    message = fields.mapping(source.get("message"), "params.message")
    request = SendMessageRequest(message=json_0x.decode_message(message, "params.message"))
    if (options := fields.optional_mapping(source, "configuration", "params")) is not None:
        path, configuration = "params.configuration", SendMessageConfiguration()
        request["configuration"] = configuration
        if modes := fields.strings(options, "acceptedOutputModes", path):
            configuration["acceptedOutputModes"] = modes
        if (length := fields.count(options, "historyLength", path)) is not None:
            configuration["historyLength"] = length
        if (is_blocking := fields.flag(options, "blocking", path)) is not None:
            configuration["returnImmediately"] = not is_blocking
        if (config := fields.optional_mapping(options, "pushNotificationConfig", path)) is not None:
            configuration["taskPushNotificationConfig"] = json_0x.decode_config(
                config, f"{path}.pushNotificationConfig"
            )
    if (metadata := fields.optional_mapping(source, "metadata", "params")) is not None:
        request["metadata"] = metadata
    return request


def encode_send(request: SendMessageRequest) -> Json:
    result: Object = {"message": json_0x.encode_message(request["message"])}
    if "configuration" in request:
        configuration = request["configuration"]
        options: Object = {
            name: configuration[name]
            for name in ("acceptedOutputModes", "historyLength")
            if name in configuration
        }
        if "returnImmediately" in configuration:
            options["blocking"] = not configuration["returnImmediately"]
        if "taskPushNotificationConfig" in configuration:
            options["pushNotificationConfig"] = json_0x.encode_config(
                configuration["taskPushNotificationConfig"]
            )
        result["configuration"] = options
    if "metadata" in request:
        result["metadata"] = request["metadata"]
    return result


def decode_task_request(params: Json) -> TaskRequest:
    source = fields.mapping(params, "params")
    result = TaskRequest(id=fields.identifier(source, "id", "params"))
    if (length := fields.count(source, "historyLength", "params")) is not None:
        result["historyLength"] = length
    if (metadata := fields.optional_mapping(source, "metadata", "params")) is not None:
        result["metadata"] = metadata
    return result


def encode_task_request(request: TaskRequest) -> Json:
    return fields.without(dict(request), ("tenant",))


def decode_outcome(value: Json) -> SendMessageResponse:
    return cast(SendMessageResponse, json_0x.decode_event(value))


def encode_outcome(outcome: SendMessageResponse) -> Json:
    if "message" in outcome:
        return json_0x.encode_message(outcome["message"])
    return json_0x.encode_task(outcome["task"])


def decode_task(value: Json) -> Json:
    return json_0x.decode_task(fields.mapping(value, "result"), "result")


def decode_config(value: Json, *, path: str = "params") -> TaskPushNotificationConfig:
    source = fields.mapping(value, path)
    config_fields = fields.mapping(source.get("pushNotificationConfig"), f"{path}.pushNotificationConfig")
    config = json_0x.decode_config(config_fields, f"{path}.pushNotificationConfig")
    config["taskId"] = fields.identifier(source, "taskId", path)
    return config


def encode_config(config: TaskPushNotificationConfig) -> Json:
    return {"taskId": config["taskId"], "pushNotificationConfig": json_0x.encode_config(config)}


def decode_push(params: Json) -> PushConfigRequest:
    source = fields.mapping(params, "params")
    result = PushConfigRequest(taskId=fields.identifier(source, "id", "params"))
    if (config_id := fields.optional_identifier(source, "pushNotificationConfigId", "params")) is not None:
        result["id"] = config_id
    return result


def decode_deletion(params: Json) -> PushConfigRequest:
    fields.identifier(fields.mapping(params, "params"), "pushNotificationConfigId", "params")
    return decode_push(params)


def encode_push(request: PushConfigRequest) -> Json:
    id_field = {"pushNotificationConfigId": request["id"]} if "id" in request else {}
    return {"id": request["taskId"], **id_field}


def decode_pushes(params: Json) -> ListPushConfigsRequest:
    return ListPushConfigsRequest(taskId=fields.identifier(fields.mapping(params, "params"), "id", "params"))


def decode_configs(value: Json) -> ListPushConfigsResponse:
    items = fields.array({"result": value}, "result", "")
    configs = [decode_config(item, path=f"result[{index}]") for index, item in enumerate(items)]
    return ListPushConfigsResponse(configs=configs, nextPageToken="")


def encode_event(event: Event, recipient: Recipient) -> list[Json]:
    return [] if is_empty_end(event) else [json_0x.encode_event(event)]


def encode_error(error: ProtocolError) -> Json:
    """An error. Codes of later versions become that of an invalid request."""
    is_later = error.code in (ExtensionSupportRequired.code, VersionNotSupported.code)
    code = InvalidRequest.code if is_later else error.code
    result: Object = {"code": code, "message": str(error)}
    if error.path is not None:
        result["data"] = {"path": error.path}
    return result


SEND = Codec(decode_send, encode_send)
TASK = Codec(decode_task_request, encode_task_request)
OUTCOME = Codec(decode_outcome, encode_outcome)
CONFIG = Codec(decode_config, encode_config)

RESULT_CONFIG = Codec(partial(decode_config, path="result"), encode_config)

WIRE = Wire(
    name="0.3",
    versions=("0.2", "0.3"),
    methods={
        "message/send": "send",
        "message/stream": "stream",
        "tasks/get": "get",
        "tasks/cancel": "cancel",
        "tasks/resubscribe": "subscribe",
        "tasks/pushNotificationConfig/set": "set_push",
        "tasks/pushNotificationConfig/get": "get_push",
        "tasks/pushNotificationConfig/list": "list_push",
        "tasks/pushNotificationConfig/delete": "delete_push",
        "agent/getAuthenticatedExtendedCard": "card",
    },
    requests={
        "send": SEND,
        "stream": SEND,
        "get": TASK,
        "cancel": TASK,
        "subscribe": TASK,
        "set_push": CONFIG,
        "get_push": Codec(decode_push, encode_push),
        "list_push": Codec(decode_pushes, lambda request: {"id": request["taskId"]}),
        "delete_push": Codec(decode_deletion, encode_push),
        "card": Codec(lambda _: {}, lambda _: None),
    },
    results={
        "send": OUTCOME,
        "get": Codec(decode_task, json_0x.encode_task),
        "cancel": Codec(decode_task, json_0x.encode_task),
        "set_push": RESULT_CONFIG,
        "get_push": RESULT_CONFIG,
        "list_push": Codec(
            decode_configs, lambda response: [encode_config(config) for config in response["configs"]]
        ),
        "delete_push": Codec(lambda _: None, lambda _: None),
        "card": Codec(lambda value: value, lambda card: card),
    },
    encode_card=card_json.v0_3_0,
    encode_event=encode_event,
    decode_event=json_0x.decode_event,
    encode_notification=json_0x.encode_task,
    encode_error=encode_error,
    answers_with_messages=True,
    no_extended_card=ExtendedAgentCardNotConfigured,
)
