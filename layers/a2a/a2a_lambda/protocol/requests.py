"""Parameters and results of A2A's operations, as the JSON of A2A 1.0.

Source: https://a2a-protocol.org/v1.0.0/specification, section 3.1.
"""

from collections.abc import Collection, Mapping
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

STREAMED: Collection[Operation] = ("stream", "subscribe")
"""Operations whose answer is a stream."""


WRONG_PAGE_TOKEN = "params.pageToken does not belong to this list; leave it out to begin again"  # noqa: S105
"""What a client gets for a page token that no answer to the same list had."""


class SendMessageConfiguration(TypedDict, total=False):
    acceptedOutputModes: list[str]
    taskPushNotificationConfig: TaskPushNotificationConfig
    historyLength: int
    returnImmediately: bool


class SendMessageRequest(TypedDict):
    """Request of `send` and `stream`.

    creates_task: an unknown taskId creates a task, and a task that has completed, or whose turn was lost,
    can be continued (A2A 0.1). lacks_id: the client gave the message no id, so another one may have the same
    bytes. question: the message answers this question of its task alone; see `Head.open_question`.
    """

    message: Message
    configuration: NotRequired[SendMessageConfiguration]
    metadata: NotRequired[dict[str, Json]]
    tenant: NotRequired[str]
    creates_task: NotRequired[bool]
    lacks_id: NotRequired[bool]
    question: NotRequired[str]


class SendMessageResponse(TypedDict, total=False):
    """Response of `send`.

    task: the task of the message. message: the agent's answer, if it answered with a message only.
    Versions without such answers use the task.
    """

    task: Task
    message: Message


class TaskRequest(TypedDict):
    """Parameters of the operations on one task."""

    id: str
    historyLength: NotRequired[int]
    metadata: NotRequired[dict[str, Json]]
    tenant: NotRequired[str]


class ListTasksRequest(TypedDict, total=False):
    """statusTimestampAfter: an inclusive timestamp in the form of `model.timestamp`."""

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
    """Names a task's push notification config. Without an id, `get` returns the task's first one."""

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
    """Who receives the events. metadata: metadata of the message that they answer, if there is one."""

    owner: str = ""
    metadata: Mapping[str, Json] = MappingProxyType({})
