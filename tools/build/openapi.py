"""The HTTP+JSON API of A2A 1.0 as FastAPI describes it: `http/discovery/openapi.json` of the kit.

python -m tools.build.openapi writes it. A deployment adds its agents to it, and imports no FastAPI.
No schema has `anyOf`, `oneOf` or `allOf`, because Amazon Bedrock AgentCore Gateway does not take them.

Sources: https://a2a-protocol.org/v1.0.0/specification, sections 3, 4 and 11;
https://docs.aws.amazon.com/bedrock-agentcore/latest/devguide/gateway-schema-openapi.html
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NotRequired

from fastapi import FastAPI, Header, Query
from fastapi.sse import EventSourceResponse
from pydantic import BaseModel, ConfigDict, Field, with_config
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict

from a2a_lambda.http import discovery
from a2a_lambda.http.request import MAX_IDEMPOTENCY_KEY_CHARACTERS
from a2a_lambda.protocol.model import Role, TaskState
from a2a_lambda.protocol.stored_file import FILE_BYTES
from a2a_lambda.wire.shared.fields import Object

PATH = Path(discovery.__file__).with_name("openapi.json")

ERROR = "#/components/schemas/Error"

AnyFields = Annotated[Object, Field(description="Any fields.")]


@with_config(ConfigDict(json_schema_extra={"minProperties": 1}))
class Part(TypedDict, total=False):
    """A piece of content: one of text, raw, url and data."""

    text: str
    raw: Annotated[str, Field(description="Bytes of a file, in base64.")]
    url: Annotated[str, Field(description="URL of a file.")]
    data: Annotated[Any, Field(description="Any JSON: in a message, the arguments of a skill.")]
    filename: str
    mediaType: str
    metadata: AnyFields


class Message(TypedDict):
    """One message of a conversation."""

    messageId: Annotated[str, Field(min_length=1, description="The sender chooses it, such as a UUID.")]
    role: Role
    parts: Annotated[list[Part], Field(min_length=1)]
    contextId: Annotated[
        NotRequired[str],
        Field(description="The conversation to continue. Without it, the message begins a new one."),
    ]
    taskId: Annotated[NotRequired[str], Field(description="The task whose question the message answers.")]
    metadata: Annotated[
        NotRequired[Object],
        Field(description='Any fields. `{"intentInfos": [{"intent": "<id>"}]}` names a skill.'),
    ]
    extensions: NotRequired[list[str]]
    referenceTaskIds: NotRequired[list[str]]


class Artifact(TypedDict):
    """A result of a task."""

    artifactId: str
    parts: list[Part]
    name: NotRequired[str]
    description: NotRequired[str]
    metadata: NotRequired[AnyFields]
    extensions: NotRequired[list[str]]


class TaskStatus(TypedDict):
    """The state of a task, since when, and what the agent says about it, such as a question."""

    state: TaskState
    timestamp: NotRequired[str]
    message: NotRequired[Message]


class Task(TypedDict):
    """What becomes of a message: its status, its results, and its conversation."""

    id: str
    contextId: str
    status: TaskStatus
    artifacts: NotRequired[list[Artifact]]
    history: NotRequired[list[Message]]
    metadata: NotRequired[AnyFields]


class AuthenticationInfo(TypedDict):
    """How the webhook knows the deployment: the header Authorization."""

    scheme: str
    credentials: NotRequired[str]


class TaskPushNotificationConfig(TypedDict):
    """A webhook that gets the updates of a task."""

    url: str
    id: NotRequired[str]
    taskId: NotRequired[str]
    token: Annotated[NotRequired[str], Field(description="Sent to the webhook in X-A2A-Notification-Token.")]
    authentication: NotRequired[AuthenticationInfo]


class SendMessageConfiguration(TypedDict, total=False):
    """How the answer should be."""

    acceptedOutputModes: Annotated[list[str], Field(description="Media types.")]
    historyLength: Annotated[int, Field(ge=0, description="Messages of the history in the answer.")]
    returnImmediately: Annotated[bool, Field(description="Answer before the task has ended.")]
    taskPushNotificationConfig: TaskPushNotificationConfig


class SendMessageRequest(TypedDict):
    """A message for the agent."""

    message: Message
    configuration: NotRequired[SendMessageConfiguration]
    metadata: NotRequired[AnyFields]


class SendMessageResponse(TypedDict, total=False):
    """The task of the message, or a message if there is none."""

    task: Task
    message: Message


class TaskStatusUpdateEvent(TypedDict):
    """A new status of a task."""

    taskId: str
    contextId: str
    status: TaskStatus
    metadata: NotRequired[AnyFields]


class TaskArtifactUpdateEvent(TypedDict):
    """A result, or a piece of it."""

    taskId: str
    contextId: str
    artifact: Artifact
    append: Annotated[NotRequired[bool], Field(description="Add the parts to those of the same artifact.")]
    lastChunk: NotRequired[bool]
    metadata: NotRequired[AnyFields]


class StreamResponse(TypedDict, total=False):
    """`data` of one event of a stream: exactly one of the fields."""

    task: Task
    message: Message
    statusUpdate: TaskStatusUpdateEvent
    artifactUpdate: TaskArtifactUpdateEvent


class ListTasksResponse(TypedDict):
    """A page of tasks, the newest first."""

    tasks: list[Task]
    nextPageToken: Annotated[str, Field(description="Empty on the last page.")]
    pageSize: int
    totalSize: int


class ListTaskPushNotificationConfigsResponse(TypedDict):
    """A page of a task's webhooks."""

    configs: list[TaskPushNotificationConfig]
    nextPageToken: Annotated[NotRequired[str], Field(description="Empty on the last page.")]


class Status(TypedDict):
    """google.rpc.Status."""

    code: Annotated[int, Field(description="The HTTP status.")]
    status: Annotated[str, Field(description="Name in google.rpc.Code, such as NOT_FOUND.")]
    message: str
    details: NotRequired[list[Object]]


class Error(TypedDict):
    """Why a request was refused."""

    error: Status


Text = str | SkipJsonSchema[None]

IdempotencyKey = Annotated[
    Annotated[str, Field(min_length=1, max_length=MAX_IDEMPOTENCY_KEY_CHARACTERS)] | SkipJsonSchema[None],
    Header(
        alias="Idempotency-Key",
        description="A request that repeats a key gets the task of the first one. If its parameters differ,"
        " it is refused.",
    ),
]

Count = Annotated[int, Field(ge=0)] | SkipJsonSchema[None]

PageSize = (
    Annotated[int, Field(ge=1, le=100, description="Maximum number of items on a page.")]
    | SkipJsonSchema[None]
)


class UploadRequest(BaseModel):
    """A file that is too large for a message."""

    size: Annotated[int, Field(ge=1, le=FILE_BYTES, description="Bytes of the file, at most.")]
    mediaType: Annotated[str, Field(description="Media type of the file, which the agent must accept.")]


class UploadForm(BaseModel):
    """What to post as multipart/form-data: these fields, and then the file, as `file`."""

    url: str
    fields: dict[str, str]


class Upload(BaseModel):
    """A place for a file. Send `url` in a part of a message within a day after the upload."""

    url: str
    form: UploadForm
    expires: Annotated[str, Field(description="When the form expires: ISO 8601.")]


def api() -> FastAPI:
    """An application with the API's routes. They do nothing: only their types are read."""
    app = FastAPI(title="A2A", version="1.0", responses={"default": {"model": Error, "description": "Error"}})
    configs = "/tasks/{taskId}/pushNotificationConfigs"

    @app.post("/message:send", operation_id="sendMessage", summary="Send a message, and get its task")
    def send(request: SendMessageRequest, idempotency_key: IdempotencyKey = None) -> SendMessageResponse:
        raise NotImplementedError

    @app.post(
        "/message:stream",
        operation_id="sendStreamingMessage",
        summary="Send a message, and follow its task",
        response_class=EventSourceResponse,
    )
    def stream(
        request: SendMessageRequest, idempotency_key: IdempotencyKey = None
    ) -> Iterable[StreamResponse]:
        yield StreamResponse()

    @app.get("/tasks", operation_id="listTasks", summary="List your tasks, the newest first")
    def list_tasks(
        *,
        contextId: Annotated[Text, Query(description="Only of this conversation.")] = None,
        status: Annotated[TaskState | SkipJsonSchema[None], Query(description="Only in this state.")] = None,
        pageSize: PageSize = None,
        pageToken: Annotated[Text, Query(description="nextPageToken of the page before.")] = None,
        historyLength: Annotated[
            Count, Query(description="Maximum number of messages in each task's history.")
        ] = None,
        statusTimestampAfter: Annotated[
            Text, Query(description="Only changed since then: RFC 3339, with an offset.")
        ] = None,
        includeArtifacts: Annotated[bool, Query(description="With each task's artifacts.")] = False,
    ) -> ListTasksResponse:
        raise NotImplementedError

    @app.get("/tasks/{id}", operation_id="getTask", summary="Get a task")
    def get_task(
        id: str,
        historyLength: Annotated[
            Count, Query(description="Maximum number of messages in the history.")
        ] = None,
    ) -> Task:
        raise NotImplementedError

    @app.post("/tasks/{id}:cancel", operation_id="cancelTask", summary="Cancel a task")
    def cancel(id: str) -> Task:
        raise NotImplementedError

    @app.get(
        "/tasks/{id}:subscribe",
        operation_id="subscribeToTask",
        summary="Follow a task that has not ended",
        response_class=EventSourceResponse,
    )
    def subscribe(id: str) -> Iterable[StreamResponse]:
        yield StreamResponse()

    @app.post(configs, operation_id="createTaskPushNotificationConfig", summary="Add a webhook to a task")
    def create_config(taskId: str, config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        raise NotImplementedError

    @app.get(configs, operation_id="listTaskPushNotificationConfigs", summary="List a task's webhooks")
    def list_configs(
        taskId: str, pageSize: PageSize = None, pageToken: Text = None
    ) -> ListTaskPushNotificationConfigsResponse:
        raise NotImplementedError

    @app.get(
        f"{configs}/{{id}}", operation_id="getTaskPushNotificationConfig", summary="Get a task's webhook"
    )
    def get_config(taskId: str, id: str) -> TaskPushNotificationConfig:
        raise NotImplementedError

    @app.delete(
        f"{configs}/{{id}}",
        operation_id="deleteTaskPushNotificationConfig",
        summary="Remove a task's webhook",
    )
    def delete_config(taskId: str, id: str) -> dict[str, Any]:
        raise NotImplementedError

    @app.post("/uploads", operation_id="createUpload", summary="Get a place for a large file")
    def create_upload(request: UploadRequest) -> Upload:
        raise NotImplementedError

    @app.get("/extendedAgentCard", operation_id="getExtendedAgentCard", summary="Get the extended card")
    def get_card() -> dict[str, Any]:
        raise NotImplementedError

    return app


def openapi() -> Object:
    """Paths and schemas of the API."""
    document = api().openapi()
    schemas = document["components"]["schemas"]
    for path in document["paths"].values():
        for operation in path.values():
            responses = operation["responses"]
            responses["200"]["description"] = "OK"
            responses["default"]["content"] = {"application/json": {"schema": {"$ref": ERROR}}}
            if events := responses["200"]["content"].get("text/event-stream"):
                # `itemSchema` is of OpenAPI 3.2, which few readers know.
                data = events.pop("itemSchema")["properties"]["data"]["contentSchema"]
                responses["200"] |= {"description": "Server-sent events, whose data is this"}
                events["schema"] = data
    _strip_titles(document["paths"])
    _strip_titles(schemas)
    return {"openapi": document["openapi"], "paths": document["paths"], "components": {"schemas": schemas}}


def openapi_json() -> str:
    return json.dumps(openapi(), indent=1) + "\n"


def _strip_titles(value: Any) -> None:
    """Remove the titles, which are the names once more."""
    if isinstance(value, list):
        for item in value:
            _strip_titles(item)
    if isinstance(value, dict):
        if isinstance(value.get("title"), str):
            del value["title"]
        for item in value.values():
            _strip_titles(item)


if __name__ == "__main__":
    PATH.write_text(openapi_json(), "utf-8")
