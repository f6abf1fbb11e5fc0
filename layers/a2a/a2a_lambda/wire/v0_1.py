"""A2A 0.1, the first version: the client chooses the id of a task, and an artifact has an index.

Data that 0.1 has no field for (ids of messages and artifacts) is sent as extra fields, which its clients
ignore. The clients send explicit nulls, and some write the parts of a message as `data`.
Source: https://github.com/a2aproject/A2A, tag v0.1.0, specification/json/a2a.json
"""

import uuid
from dataclasses import replace
from functools import partial
from typing import cast

from a2a_lambda.protocol.model import (
    STOPPED,
    Artifact,
    Event,
    Json,
    Message,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    artifact_id,
    artifact_index,
    is_empty_end,
    is_final,
)
from a2a_lambda.protocol.requests import (
    PushConfigRequest,
    Recipient,
    SendMessageConfiguration,
    SendMessageRequest,
    SendMessageResponse,
    TaskRequest,
)
from a2a_lambda.wire import v0_3
from a2a_lambda.wire.interface import Codec
from a2a_lambda.wire.shared import card_json, fields, json_0x
from a2a_lambda.wire.shared.fields import Object

V0_1_STATES = {TaskState.REJECTED: TaskState.FAILED, TaskState.AUTH_REQUIRED: TaskState.INPUT_REQUIRED}
"""States that it does not know, and those that are sent instead."""


def decode_message(source: Object, path: str, *, is_answer: bool = False) -> Message:
    message = dict(source)
    if message.get("parts") is None and "data" in message:
        message["parts"] = message.pop("data")
    if message.get("parts") is None and "content" in message:  # of python-a2a
        message["parts"] = [message.pop("content")]
    if message.get("messageId") is None:
        message["messageId"] = str(uuid.uuid4())
    return json_0x.decode_message(message, path, kind_field="type", is_answer=is_answer)


def encode_message(message: Message) -> Object:
    parts = [json_0x.encode_part(part, "type") for part in message["parts"]]
    return {**message, "role": json_0x.ROLE_NAMES[message["role"]], "parts": parts}


def decode_send(params: Json) -> SendMessageRequest:
    source = fields.mapping(params, "params")
    message_source = fields.mapping(source.get("message"), "params.message")
    message = decode_message(message_source, "params.message")
    message["taskId"] = fields.identifier(source, "id", "params")
    if (session := fields.optional_identifier(source, "sessionId", "params")) is not None:
        message["contextId"] = session
    length = fields.count(source, "historyLength", "params") or 0
    configuration = SendMessageConfiguration(historyLength=length)
    if modes := fields.strings(source, "acceptedOutputModes", "params"):
        configuration["acceptedOutputModes"] = modes
    if (config := fields.optional_mapping(source, "pushNotification", "params")) is not None:
        configuration["taskPushNotificationConfig"] = json_0x.decode_config(config, "params.pushNotification")
    request = SendMessageRequest(message=message, configuration=configuration, creates_task=True)
    request["lacks_id"] = message_source.get("messageId") is None
    if (metadata := fields.optional_mapping(source, "metadata", "params")) is not None:
        request["metadata"] = metadata
    return request


def encode_send(request: SendMessageRequest) -> Json:
    message = request["message"]
    configuration = request.get("configuration", {})
    ids = ("taskId", "contextId")
    result: Object = {
        "id": message.get("taskId") or str(uuid.uuid4()),
        "message": encode_message(cast(Message, fields.without(dict(message), ids))),
    }
    if "contextId" in message:
        result["sessionId"] = message["contextId"]
    if configuration.get("historyLength"):
        result["historyLength"] = configuration["historyLength"]
    if "acceptedOutputModes" in configuration:
        result["acceptedOutputModes"] = configuration["acceptedOutputModes"]
    if "taskPushNotificationConfig" in configuration:
        config = encode_config(configuration["taskPushNotificationConfig"])
        result["pushNotification"] = config["pushNotificationConfig"]
    if "metadata" in request:
        result["metadata"] = request["metadata"]
    return result


def decode_task_request(params: Json) -> TaskRequest:
    """Without a length, the answer has no history."""
    request = v0_3.decode_task_request(params)
    request.setdefault("historyLength", 0)
    return request


def decode_artifact(source: Object, path: str) -> Artifact:
    artifact = fields.without(source, ("index", "append", "lastChunk"))
    index = fields.count(source, "index", path) or 0
    if artifact.get("artifactId") is None:
        artifact["artifactId"] = artifact_id(index)
    return json_0x.decode_artifact(artifact, path, kind_field="type")


def encode_artifact(artifact: Artifact, index: int) -> Object:
    parts = [json_0x.encode_part(part, "type") for part in artifact["parts"]]
    return {**artifact, "parts": parts, "index": index}


def decode_status(value: Json, path: str) -> TaskStatus:
    source = dict(fields.mapping(value, path))
    message = fields.optional_mapping(source, "message", path)
    source.pop("message", None)
    status = json_0x.decode_status(source, path)
    if message is not None:
        status["message"] = decode_message(message, f"{path}.message", is_answer=True)
    return status


def encode_status(status: TaskStatus) -> Object:
    state = V0_1_STATES.get(status["state"], status["state"])
    result: Object = {**status, "state": json_0x.STATE_NAMES[state]}
    if "message" in status:
        result["message"] = encode_message(status["message"])
    return result


def decode_task(value: Json) -> Task:
    source = fields.mapping(value, "result")
    result = fields.optional(
        fields.without(source, ("sessionId", "artifacts", "history")), "result", objects=("metadata",)
    )
    result["id"] = fields.identifier(source, "id", "result")
    result["contextId"] = fields.optional_identifier(source, "sessionId", "result") or result["id"]
    result["status"] = decode_status(source.get("status"), "result.status")
    if artifacts := fields.mappings(source, "artifacts", "result"):
        result["artifacts"] = [decode_artifact(item, item_path) for item, item_path in artifacts]
    if history := fields.mappings(source, "history", "result"):
        result["history"] = [decode_message(item, item_path, is_answer=True) for item, item_path in history]
    return cast(Task, result)


def encode_task(task: Task) -> Object:
    result: Object = {"id": task["id"], "sessionId": task["contextId"]}
    result |= fields.without(dict(task), ("id", "contextId"))
    result["status"] = encode_status(task["status"])
    if "artifacts" in task:
        result["artifacts"] = [encode_artifact(item, index) for index, item in enumerate(task["artifacts"])]
    if "history" in task:
        result["history"] = [encode_message(message) for message in task["history"]]
    return result


def encode_event(event: Event, recipient: Recipient) -> list[Json]:
    """Events of a stream: artifacts and statuses only. A task becomes its artifacts and its status."""
    if "task" in event:
        task = event["task"]
        is_stopped = task["status"]["state"] in STOPPED
        # Before a turn, no artifact grows.
        are_whole = is_stopped or task["status"]["state"] == TaskState.SUBMITTED
        ids: Object = {"id": task["id"], "sessionId": task["contextId"]}
        events: list[Json] = [
            {**ids, "artifact": {**encode_artifact(item, index), "lastChunk": are_whole}}
            for index, item in enumerate(task.get("artifacts", []))
        ]
        if is_stopped:  # the last event of the stream has the status
            return events
        return [*events, {**ids, "status": encode_status(task["status"]), "final": False}]
    if "statusUpdate" in event:
        update = event["statusUpdate"]
        final = is_final(event)
        rest = fields.without(dict(update), ("taskId", "contextId"))
        ids = {"id": update["taskId"], "sessionId": update["contextId"]}
        return [{**ids, **rest, "status": encode_status(update["status"]), "final": final}]
    if "artifactUpdate" in event and not is_empty_end(event):
        chunk = event["artifactUpdate"]
        artifact = encode_artifact(chunk["artifact"], artifact_index(chunk["artifact"]["artifactId"]))
        artifact |= {"append": chunk["append"], "lastChunk": chunk["lastChunk"]}
        rest = fields.without(dict(chunk), ("taskId", "contextId", "append", "lastChunk"))
        return [{"id": chunk["taskId"], "sessionId": chunk["contextId"], **rest, "artifact": artifact}]
    return []


def decode_event(value: Json) -> Event:
    source = fields.mapping(value, "result")
    if any(isinstance(source.get(name), list) for name in ("artifacts", "history")):
        # 0.1 streams updates alone, and some servers a task.
        return Event(task=decode_task(fields.without(source, ("final",))))
    update = fields.optional(
        fields.without(source, ("id", "sessionId", "final")), "result", objects=("metadata",)
    )
    update["taskId"] = fields.identifier(source, "id", "result")
    update["contextId"] = fields.optional_identifier(source, "sessionId", "result") or update["taskId"]
    if "status" in source:
        update["status"] = decode_status(source["status"], "result.status")
        return cast(Event, {"statusUpdate": update})
    artifact = fields.mapping(source.get("artifact"), "result.artifact")
    update["artifact"] = decode_artifact(artifact, "result.artifact")
    for flag in ("append", "lastChunk"):
        update[flag] = bool(fields.flag(artifact, flag, "result.artifact"))
    return cast(Event, {"artifactUpdate": update})


def decode_config(value: Json, *, path: str = "params") -> TaskPushNotificationConfig:
    """A config. A task has only one, so it needs no id."""
    source = fields.mapping(value, path)
    config_fields = fields.mapping(source.get("pushNotificationConfig"), f"{path}.pushNotificationConfig")
    config = json_0x.decode_config(fields.without(config_fields, ("id",)), f"{path}.pushNotificationConfig")
    config["taskId"] = fields.identifier(source, "id", path)
    return config


def encode_config(config: TaskPushNotificationConfig) -> Object:
    config_fields = fields.without(json_0x.encode_config(config), ("id",))
    return {"id": config.get("taskId"), "pushNotificationConfig": config_fields}


def decode_push(params: Json) -> PushConfigRequest:
    return PushConfigRequest(taskId=fields.identifier(fields.mapping(params, "params"), "id", "params"))


def decode_outcome(value: Json) -> SendMessageResponse:
    return SendMessageResponse(task=decode_task(value))


SEND = Codec(decode_send, encode_send)
TASK = Codec(decode_task_request, v0_3.encode_task_request)
CONFIG = Codec(decode_config, encode_config)

RESULT_CONFIG = Codec(partial(decode_config, path="result"), encode_config)

WIRE = replace(
    v0_3.WIRE,
    name="0.1",
    versions=("0.1",),
    answers_with_messages=False,
    methods={
        "tasks/send": "send",
        "tasks/sendSubscribe": "stream",
        "tasks/get": "get",
        "tasks/cancel": "cancel",
        "tasks/resubscribe": "subscribe",
        "tasks/pushNotification/set": "set_push",
        "tasks/pushNotification/get": "get_push",
    },
    requests={
        "send": SEND,
        "stream": SEND,
        "get": TASK,
        "cancel": TASK,
        "subscribe": TASK,
        "set_push": CONFIG,
        "get_push": Codec(decode_push, lambda request: {"id": request["taskId"]}),
    },
    results={
        "send": Codec(decode_outcome, lambda outcome: encode_task(outcome["task"])),
        "get": Codec(decode_task, encode_task),
        "cancel": Codec(decode_task, encode_task),
        "set_push": RESULT_CONFIG,
        "get_push": RESULT_CONFIG,
    },
    encode_card=card_json.v0_2_5,
    encode_event=encode_event,
    decode_event=decode_event,
    encode_notification=encode_task,
)
