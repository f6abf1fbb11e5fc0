"""References to files whose content is in the bucket, and not in the task.

A reference is the `url` of a part: `a2a-file:` and a path. The path is relative to the owner and the agent of
the task, so no reference can name a file of another owner or another agent.

    a2a-file:tasks/<digest of the task's id>/<turn id>/<number>   the agent put it out
    a2a-file:messages/<id>                                        it came within a message
    a2a-file:uploads/<id>                                         a client uploaded it; see `http/uploads`
    a2a-file:uploads/<id>/<version>                               the same, when its message has been received

The log and the conversation hold references. A client gets a URL that is made for its answer instead, so it
knows only the references of its own uploads.
"""

import hashlib
import re
from collections.abc import Callable
from typing import TypeVar, cast

from a2a_lambda.protocol.model import Artifact, Event, Json, Message, Part, Task, TaskStatus

SCHEME = "a2a-file:"

INLINE_BYTES = 100_000
"""Bytes of a file that stays in its task, so that one answer has it all. The content of a larger one costs
many times as much in the table as in the bucket, and is read with every read of the task. docs/files.md has
the figures."""

INLINE_CHARACTERS = -(-INLINE_BYTES // 3) * 4
"""Characters of base64 that INLINE_BYTES have."""

FILE_BYTES = 5 * 2**30
"""Bytes of the largest file: what S3 takes from a form."""

CHUNK_BYTES = 2**20
"""Bytes of a file that are read at once."""

UPLOAD = re.compile(rf"{SCHEME}uploads/[0-9a-f]{{32}}")
"""A reference that a client may send."""

REFERENCE = re.compile(
    rf"{SCHEME}(?P<path>tasks/[0-9a-f]{{32}}/[\w-]+/\d+|(?:messages|uploads)/[0-9a-f]{{32}})"
    r"(?:/(?P<version>[\w-]+-\d+))?",
    re.ASCII,
)
"""Any reference. path: of the object, below its owner and agent. version: see `StoredObject`."""

_Item = TypeVar("_Item")

_Holder = TypeVar("_Holder")

Change = Callable[[Part], Part]
"""Returns a part with another content, or the part itself."""


def output_folder(task_id: str) -> str:
    """What the references of all files begin with that a task's turns put out."""
    # A client of A2A 0.1 chooses the ids of its tasks, and must not choose a key.
    return f"{SCHEME}tasks/{hashlib.sha256(task_id.encode()).hexdigest()[:32]}/"


def output_reference(task_id: str, turn_id: str, number: int) -> str:
    """Reference of a file that a turn puts out. number: counts the files of the turn, from 1."""
    return f"{output_folder(task_id)}{turn_id}/{number}"


def is_reference(part: Part) -> bool:
    """Whether the content of a part is said to be in the bucket."""
    return part.get("url", "").startswith(SCHEME)


def is_stored_apart(message: Message) -> bool:
    """Whether a message has a file that is in the bucket, or is too large for the table."""
    return any(
        is_reference(part) or len(part.get("raw", "")) > INLINE_CHARACTERS for part in parts_of(message)
    )


def change_task(task: Task, change: Change) -> Task:
    """The task with changed parts: those of its artifacts, its history and its status. The same object if
    none has changed, as with all of these functions."""
    result = task
    if "artifacts" in task:
        result = _with(result, "artifacts", _each(task["artifacts"], lambda item: _artifact(item, change)))
    if "history" in task:
        messages = _each(task["history"], lambda message: change_message(message, change))
        result = _with(result, "history", messages)
    return _with(result, "status", _status(task["status"], change))


def change_event(event: Event, change: Change) -> Event:
    """The event with changed parts."""
    if "task" in event:
        return _with(event, "task", change_task(event["task"], change))
    if "message" in event:
        return _with(event, "message", change_message(event["message"], change))
    if "artifactUpdate" in event:
        update = event["artifactUpdate"]
        artifact = _artifact(update["artifact"], change)
        return _with(event, "artifactUpdate", _with(update, "artifact", artifact))
    if "statusUpdate" in event:
        status_update = event["statusUpdate"]
        status = _status(status_update["status"], change)
        return _with(event, "statusUpdate", _with(status_update, "status", status))
    return event


def change_message(message: Message, change: Change) -> Message:
    """The message with changed parts, and with changed pictures of Alibaba's suite, which are in its metadata
    (see `alibaba_metadata.images`): each is changed as the part that it would be."""
    result = _with(message, "parts", _each(message["parts"], change))
    images: Json = message.get("metadata", {}).get("images")
    if not isinstance(images, list):
        return result
    new_images = _each(images, lambda image: _image(image, change))
    if new_images is images:
        return result
    return _with(result, "metadata", {**message["metadata"], "images": new_images})


def parts_of(message: Message) -> list[Part]:
    """The parts of a message, and its pictures in metadata as parts, in the order of `change_message`."""
    parts: list[Part] = []

    def collect(part: Part) -> Part:
        parts.append(part)
        return part

    change_message(message, collect)
    return parts


def _image(image: Json, change: Change) -> Json:
    if not isinstance(image, dict) or not isinstance(image.get("value"), str):
        return image
    if image.get("type") not in ("base64", "url"):
        return image
    field = "raw" if image["type"] == "base64" else "url"
    part = cast(Part, {field: image["value"]})
    new_part = change(part)
    if new_part is part:
        return image
    is_url = "url" in new_part
    return {**image, "type": "url" if is_url else "base64", "value": new_part["url" if is_url else "raw"]}


def _artifact(artifact: Artifact, change: Change) -> Artifact:
    return _with(artifact, "parts", _each(artifact["parts"], change))


def _status(status: TaskStatus, change: Change) -> TaskStatus:
    if "message" not in status:
        return status
    return _with(status, "message", change_message(status["message"], change))


def _each(items: list[_Item], change: Callable[[_Item], _Item]) -> list[_Item]:
    new_items = [change(item) for item in items]
    return new_items if any(new is not old for new, old in zip(new_items, items, strict=True)) else items


def _with(holder: _Holder, name: str, value: Json) -> _Holder:
    """The mapping with another value, or the same if it has the value."""
    fields = cast(dict[str, Json], holder)
    return holder if fields[name] is value else cast(_Holder, {**fields, name: value})
