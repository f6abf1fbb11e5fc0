"""The objects of A2A: the JSON of A2A 1.0, with types.

The whole kit uses these objects. `wire/` translates them to and from the other versions. They are plain
dicts, so unknown fields stay in them, in order.
Source: https://a2a-protocol.org/v1.0.0/specification, section 4.
"""

import base64
import re
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import translate
from typing import Any, NotRequired, TypedDict, final

URL_SAFE = str.maketrans("-_", "+/")

Json = Any
"""A value that `strictjson.loads` returns."""


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
"""States in which no run works on the task. A stream ends, and a blocking call answers."""


STAGE = "stage"
"""Key in the metadata of a progress message: the name of the step."""


OPERATION = "operation"
"""Key in the metadata of a status update: what a durable turn does. Its value has `kind` (step, sleep, wait),
`name`, `state` (started, ended, failed) and, for a pause or a wait that ends by itself, `until`."""


CHOICES = "choices"
"""Key in the metadata of a question: texts that answer it, which a client may offer as buttons."""


FILLS = "fills"
"""Key in the metadata of a question: the parameter of the skill that the answer fills."""


class Role(StrEnum):
    USER = "ROLE_USER"
    AGENT = "ROLE_AGENT"


PART_CONTENT = ("text", "raw", "url", "data")
"""Fields of a part of which it has one."""


class Part(TypedDict, total=False):
    """One of PART_CONTENT. raw: base64. data: any JSON value."""

    text: str
    raw: str
    url: str
    data: Json
    filename: str
    mediaType: str
    metadata: dict[str, Json]


@final  # so that a type checker can tell it from a Task
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
    """Status of a task.

    timestamp: ISO 8601, UTC, milliseconds. Other agents may leave it out.
    """

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
    """What an agent may know of a message's request.

    turn: id of the turn that the message started, or in which it is a reply. answers: key of the wait that
    the message ends, if it is a reply. caller: who sent it, unless with a key; see `protocol.caller.Caller`.
    """

    turn: str
    acceptedOutputModes: list[str]
    extensions: list[str]
    metadata: dict[str, Json]
    answers: NotRequired[str]
    caller: NotRequired[dict[str, Json]]


class Callback(TypedDict):
    """What another system sent to the URL of the wait with this key."""

    turn: str
    key: str
    data: Json


class Event(TypedDict, total=False):
    """A StreamResponse of 1.0: exactly one of `task`, `message`, `statusUpdate` and `artifactUpdate`.

    past: set for a status that the task has since left; such a status ends no stream.
    The log has more fields, which clients do not see. options: with the message of a turn that does not run
    in its request. again: set for a message whose turn was lost; it replaces the lost message, if that is the
    last of the history. mark: position of an output in a durable turn; see `tasks/replay`. callback: a reply
    to such a turn. context: what such a turn sees of its conversation.
    """

    past: bool
    again: bool
    options: RequestOptions
    mark: list[Json]
    callback: Callback
    context: Json
    task: Task
    message: Message
    statusUpdate: TaskStatusUpdateEvent
    artifactUpdate: TaskArtifactUpdateEvent


def is_final(event: Event) -> bool:
    """Whether a status event is the last one of its stream."""
    return event["statusUpdate"]["status"]["state"] in STOPPED and "past" not in event


def ends_task(event: Event) -> bool:
    """Whether the task is over after an event. A question does not end it."""
    status = event.get("task", event.get("statusUpdate", {})).get("status")
    return "message" in event or (status is not None and status["state"] in TERMINAL)


def is_empty_end(event: Event) -> bool:
    """Whether an event has no content, and says only that an artifact of files or data has ended. Versions in
    which `lastChunk` is optional do not send it, because an artifact has parts."""
    return "artifactUpdate" in event and not event["artifactUpdate"]["artifact"]["parts"]


DEFAULT_SCHEME = "Bearer"
"""Scheme of a webhook whose client named none."""


class AuthenticationInfo(TypedDict, total=False):
    """How a webhook wants to be called.

    scheme: an HTTP authentication scheme. schemes: all of them, if an older version has several.
    """

    scheme: str
    schemes: list[str]
    credentials: str


class TaskPushNotificationConfig(TypedDict):
    """A webhook of a task.

    id: the server chooses it if the client does not.
    """

    url: str
    taskId: NotRequired[str]
    id: NotRequired[str]
    token: NotRequired[str]
    authentication: NotRequired[AuthenticationInfo]


Published = tuple[int | None, Event]
"""An event for a client, and its sequence number if the log is stored up to it, else None."""


def timestamp(seconds: float) -> str:
    """ISO 8601, UTC, milliseconds, of a Unix time."""
    # Rounded, as the table stores a time, so that two texts of one time are the same.
    return datetime.fromtimestamp(round(seconds, 3), UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def unix_time(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def state_word(state: str) -> str:
    """A state as 0.x spells it: completed, input-required …"""
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def make_status(state: TaskState, seconds: float, message: Message | None = None) -> TaskStatus:
    """Status with a timestamp. seconds: Unix time."""
    result = TaskStatus(state=state, timestamp=timestamp(seconds))
    if message is not None:
        result["message"] = message
    return result


def agent_message(task_id: str, context_id: str, parts: list[Part]) -> Message:
    """A new message of the agent in a task."""
    return Message(
        messageId=str(uuid.uuid4()), role=Role.AGENT, parts=parts, contextId=context_id, taskId=task_id
    )


def text_message(
    task_id: str, context_id: str, text: str, choices: Sequence[str] = (), fills: str | None = None
) -> Message:
    """A new text of the agent in a task. choices: if it is a question, texts to offer as answers. fills: the
    parameter that the answer is for."""
    message = agent_message(task_id, context_id, [Part(text=text)])
    metadata: dict[str, Json] = {CHOICES: [*choices]} if choices else {}
    if fills is not None:
        metadata[FILLS] = fills
    if metadata:
        message["metadata"] = metadata
    return message


def artifact_id(index: int) -> str:
    """Id of an artifact by its position in the task. It is unique in the task, as section 4.1.7 requires."""
    return f"artifact-{index + 1}"


def artifact_index(id_: str) -> int:
    """Position of an artifact in its task, by its id; 0 if the id does not show it."""
    number = id_.removeprefix("artifact-")
    return int(number) - 1 if number.isdecimal() and int(number) else 0


def text_of(parts: list[Part]) -> str:
    """Texts of the parts, each on a line."""
    return "\n".join(part["text"] for part in parts if "text" in part)


def plain_media_type(media_type: str | None) -> str:
    """A media type without its parameters, in lower case; "" if there is none."""
    return (media_type or "").partition(";")[0].strip().lower()


def matches_media_type(media_type: str | None, patterns: Iterable[str]) -> bool:
    """Whether a media type matches one of the patterns, such as image/*, which have no parameters."""
    plain_type = plain_media_type(media_type)
    # A client may name new patterns in each request. `fnmatchcase` would keep 32,768 of them; `re` keeps 512.
    return any(re.match(translate(pattern.lower()), plain_type) for pattern in patterns)


def truncate_history(task: Task, length: int | None) -> Task:
    """The task with its `length` most recent messages; None = all. With no message it has no history."""
    history = task.get("history", [])
    if length is not None:
        history = history[max(0, len(history) - length) :]
    result = task.copy()
    if history:
        result["history"] = history
    else:
        result.pop("history", None)
    return result


def skip_artifacts(task: Task, count: int) -> Task:
    """The task without its first `count` artifacts."""
    result = task.copy()
    if "artifacts" in result:
        result["artifacts"] = result["artifacts"][count:]
    return result


def parts_of_artifacts(task: Task) -> list[Part]:
    return [part for artifact in task.get("artifacts", []) for part in artifact["parts"]]


def encode_base64url(content: bytes) -> str:
    """Bytes as url-safe base64 without padding (RFC 7515 section 2)."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decode_raw(text: str) -> bytes:
    """Bytes of base64, standard or url-safe, padded or not. Raises ValueError."""
    standard_text = text.rstrip("=").translate(URL_SAFE)
    return base64.b64decode(standard_text + "=" * (-len(standard_text) % 4), validate=True)
