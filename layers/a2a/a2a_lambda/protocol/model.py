"""The canonical A2A objects: the JSON of A2A 1.0, typed.

Everything inside the kit speaks these and only these; `wire/` translates them to and from the
other versions. They are plain dicts, so fields nobody knows travel with them, in order.
Source: https://a2a-protocol.org/v1.0.0/specification, section 4.
"""

import base64
import uuid
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

URL_SAFE = str.maketrans("-_", "+/")

Json = Any
"""Whatever `strictjson.loads` returns."""


class TaskState(StrEnum):
    SUBMITTED = "TASK_STATE_SUBMITTED"
    WORKING = "TASK_STATE_WORKING"
    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    REJECTED = "TASK_STATE_REJECTED"
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"
    UNSPECIFIED = "TASK_STATE_UNSPECIFIED"


TERMINAL = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED})
INTERRUPTED = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})
STOPPED = TERMINAL | INTERRUPTED
"""States in which no agent code runs: a stream ends and a blocking call answers."""


STAGE = "stage"
"""Key of a working status message's metadata: the name of the step it tells of."""


class Role(StrEnum):
    USER = "ROLE_USER"
    AGENT = "ROLE_AGENT"


class Part(TypedDict, total=False):
    """One of text, raw (base64), url or data; `data` is any JSON value."""

    text: str
    raw: str
    url: str
    data: Json
    filename: str
    mediaType: str
    metadata: dict[str, Json]


class Message(TypedDict):
    messageId: str
    role: Role
    parts: list[Part]
    contextId: NotRequired[str]
    taskId: NotRequired[str]
    metadata: NotRequired[dict[str, Json]]
    extensions: NotRequired[list[str]]
    referenceTaskIds: NotRequired[list[str]]


class Artifact(TypedDict):
    artifactId: str
    parts: list[Part]
    name: NotRequired[str]
    description: NotRequired[str]
    metadata: NotRequired[dict[str, Json]]
    extensions: NotRequired[list[str]]


class TaskStatus(TypedDict):
    """timestamp: ISO 8601, UTC, milliseconds; other agents may leave it out."""

    state: TaskState
    timestamp: NotRequired[str]
    message: NotRequired[Message]


class Task(TypedDict):
    id: str
    contextId: str
    status: TaskStatus
    artifacts: NotRequired[list[Artifact]]
    history: NotRequired[list[Message]]
    metadata: NotRequired[dict[str, Json]]


class TaskStatusUpdateEvent(TypedDict):
    taskId: str
    contextId: str
    status: TaskStatus
    metadata: NotRequired[dict[str, Json]]


class TaskArtifactUpdateEvent(TypedDict):
    taskId: str
    contextId: str
    artifact: Artifact
    append: bool
    lastChunk: bool
    metadata: NotRequired[dict[str, Json]]


class RequestOptions(TypedDict):
    """What an agent may know of the request a message came in, and the turn it began."""

    turn: str
    acceptedOutputModes: list[str]
    extensions: list[str]
    metadata: dict[str, Json]


class Event(TypedDict, total=False):
    """A 1.0 StreamResponse: exactly one of its fields. In the log, `asked` may stand beside a message."""

    asked: RequestOptions
    task: Task
    message: Message
    statusUpdate: TaskStatusUpdateEvent
    artifactUpdate: TaskArtifactUpdateEvent


class AuthenticationInfo(TypedDict, total=False):
    """scheme: an HTTP authentication scheme. schemes: all of them, where an older version gave several."""

    scheme: str
    schemes: list[str]
    credentials: str


class TaskPushNotificationConfig(TypedDict):
    """id is the server's choice where the client leaves it out."""

    url: str
    taskId: NotRequired[str]
    id: NotRequired[str]
    token: NotRequired[str]
    authentication: NotRequired[AuthenticationInfo]


Published = tuple[int | None, Event]
"""An event on its way to a client, and the sequence number up to which the log is stored with it."""


def timestamp(seconds: float) -> str:
    """ISO 8601, UTC, milliseconds, of a Unix time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def unix_time(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def word(state: str) -> str:
    """A state as 0.x spells it: completed, input-required …"""
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def status(state: TaskState, seconds: float, message: Message | None = None) -> TaskStatus:
    """Status with a timestamp; `seconds` is a Unix time."""
    result = TaskStatus(state=state, timestamp=timestamp(seconds))
    if message is not None:
        result["message"] = message
    return result


def agent_message(task_id: str, context_id: str, parts: list[Part]) -> Message:
    """New message of the agent's in a task."""
    return Message(
        messageId=str(uuid.uuid4()), role=Role.AGENT, parts=parts, contextId=context_id, taskId=task_id
    )


def artifact_id(index: int) -> str:
    """Id of a task's artifact, from its place among them: unique within the task, as section 4.1.7 asks."""
    return f"artifact-{index + 1}"


def artifact_index(identity: str) -> int:
    """Place of an artifact in its task, from its id; 0 where the id does not tell."""
    number = identity.removeprefix("artifact-")
    return int(number) - 1 if number.isdecimal() and int(number) else 0


def text_of(parts: list[Part]) -> str:
    """Texts of the parts, a line each."""
    return "\n".join(part["text"] for part in parts if "text" in part)


def decode_raw(raw: str) -> bytes:
    """Bytes of a part's `raw`: base64, standard or url-safe, padded or not. Raises ValueError."""
    plain = raw.rstrip("=").translate(URL_SAFE)
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


def latest(history: list[Message], length: int | None) -> list[Message]:
    """The `length` most recent messages; None = all (section 3.2.4)."""
    return history if length is None else history[len(history) - min(length, len(history)) :]
