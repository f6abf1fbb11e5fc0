"""The operations of A2A: what each is asked with and what it answers, as the JSON of A2A 1.0.

Source: https://a2a-protocol.org/v1.0.0/specification, section 3.1.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, NotRequired, TypedDict

from a2a_lambda.protocol.model import Json, Message, Task, TaskPushNotificationConfig, TaskState

Operation = Literal[
    "send",
    "stream",
    "get",
    "list",
    "cancel",
    "subscribe",
    "set_push",
    "get_push",
    "list_push",
    "delete_push",
    "card",
]


class SendMessageConfiguration(TypedDict, total=False):
    acceptedOutputModes: list[str]
    taskPushNotificationConfig: TaskPushNotificationConfig
    historyLength: int
    returnImmediately: bool


class SendMessageRequest(TypedDict):
    """creates_task: an unknown taskId makes a task, and a completed one goes on (A2A 0.1)."""

    message: Message
    configuration: NotRequired[SendMessageConfiguration]
    metadata: NotRequired[dict[str, Json]]
    tenant: NotRequired[str]
    creates_task: NotRequired[bool]


class SendMessageResponse(TypedDict, total=False):
    """task: what the message led to. message: what the agent answered, where that is all there is to it;
    versions without such answers take the task."""

    task: Task
    message: Message


class TaskRequest(TypedDict):
    """Parameters of the operations on one task."""

    id: str
    historyLength: NotRequired[int]
    metadata: NotRequired[dict[str, Json]]
    tenant: NotRequired[str]


class ListTasksRequest(TypedDict, total=False):
    """statusTimestampAfter: as `timestamp` writes it, and included."""

    contextId: str
    status: TaskState
    pageSize: int
    pageToken: str
    historyLength: int
    statusTimestampAfter: str
    includeArtifacts: bool
    tenant: str


class ListTasksResponse(TypedDict):
    tasks: list[Task]
    nextPageToken: str
    pageSize: int
    totalSize: int


class PushConfigRequest(TypedDict):
    """Names one config of a task; without an id, the one there is."""

    taskId: str
    id: NotRequired[str]
    tenant: NotRequired[str]


class ListPushConfigsRequest(TypedDict):
    taskId: str
    pageSize: NotRequired[int]
    pageToken: NotRequired[str]
    tenant: NotRequired[str]


class ListPushConfigsResponse(TypedDict):
    configs: list[TaskPushNotificationConfig]
    nextPageToken: str


class Recipient(NamedTuple):
    """Whom events are for. metadata: that of the message they answer, where there is one."""

    owner: str = ""
    metadata: Mapping[str, Json] = MappingProxyType({})
