"""References to files whose content is in the bucket, and not in the task.

A reference is the `url` of a part: `a2a-file:` and a path. The path is relative to the owner and the agent of
the task, so no reference can name a file of another owner or another agent.

    a2a-file:tasks/<digest of the task's id>/<turn id>/<number>   the agent produced it
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

from a2a_lambda.protocol.model import Event, Json, Message, Part, Task

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

Holder = TypeVar("Holder", Task, Event, Message)

HOLDER_LISTS = ("artifacts", "history")
"""Fields of a task whose items have parts."""

HOLDERS = ("task", "message", "artifactUpdate", "artifact", "statusUpdate", "status")
"""Fields of a task or an event that have parts, at some depth."""

PartChange = Callable[[Part], Part]
"""Returns a part with another content, or an equal one."""


def output_folder(task_id: str) -> str:
    """Prefix of the references of all files that a task's turns output."""
    # A client of A2A 0.1 chooses the ids of its tasks, and must not choose a key.
    return f"{SCHEME}tasks/{hashlib.sha256(task_id.encode()).hexdigest()[:32]}/"


def output_reference(task_id: str, turn_id: str, number: int) -> str:
    """Reference of a file that a turn outputs. number: counts the files of the turn, from 1."""
    return f"{output_folder(task_id)}{turn_id}/{number}"


def is_reference(part: Part) -> bool:
    """Whether the content of a part is said to be in the bucket."""
    return part.get("url", "").startswith(SCHEME)


def has_same_parts(message: Message, other: Message) -> bool:
    """Whether two messages have the same parts. A file that was sent again may have another reference."""
    parts, others = message["parts"], other["parts"]
    return len(parts) == len(others) and all(
        {**part, "url": ""} == {**twin, "url": ""}
        if is_reference(part) and is_reference(twin)
        else part == twin
        for part, twin in zip(parts, others, strict=True)
    )


def is_stored_apart(message: Message) -> bool:
    """Whether a message has a file that is in the bucket, or is too large for the table."""
    return any(
        is_reference(part) or len(part.get("raw", "")) > INLINE_CHARACTERS for part in parts_of(message)
    )


def change_parts(holder: Holder, change: PartChange) -> Holder:
    """A task, an event or a message with changed parts; the same object if they are equal to the old ones.

    The parts are those of artifacts, then those of messages. The pictures of Alibaba's suite, which are in
    the metadata of a message (see `alibaba_metadata.images`), follow its parts: each is changed as the part
    that it would be.
    """
    fields = cast(dict[str, Json], holder)
    new_fields: dict[str, Json] = {}
    # Nothing else in a message or an artifact is looked at: a client may write anything into other fields.
    if "parts" in fields:
        new_fields["parts"] = [change(part) for part in fields["parts"]]
        if images := _images(fields):
            new_images = [_change_image(image, change) for image in images]
            new_fields["metadata"] = {**fields["metadata"], "images": new_images}
    else:
        for name in [name for name in HOLDER_LISTS if name in fields]:
            new_fields[name] = [change_parts(item, change) for item in fields[name]]
        for name in [name for name in HOLDERS if name in fields]:
            new_fields[name] = change_parts(fields[name], change)
    # Fast where nothing has changed: Python compares an object with itself by identity.
    new_holder = {**fields, **new_fields}
    return holder if new_holder == fields else cast(Holder, new_holder)


def parts_of(holder: Task | Event | Message) -> list[Part]:
    """The parts of a task, an event or a message, and its pictures in metadata as parts, in the order of
    `change_parts`."""
    # Each event of a stream comes through here, so nothing is copied on the way to the parts.
    fields = cast(dict[str, Json], holder)
    if "parts" in fields:
        return [*fields["parts"], *filter(None, map(_part_of_image, _images(fields)))]
    holders = [item for name in HOLDER_LISTS for item in fields.get(name, ())]
    holders += [fields[name] for name in HOLDERS if name in fields]
    return [part for inner_holder in holders for part in parts_of(inner_holder)]


def _images(fields: dict[str, Json]) -> list[Json]:
    """The pictures of a message; none for an artifact."""
    images: Json = fields.get("metadata", {}).get("images") if "role" in fields else None
    return images if isinstance(images, list) else []


def _part_of_image(image: Json) -> Part | None:
    """The part that a picture would be; None if it is no picture."""
    if not isinstance(image, dict) or not isinstance(image.get("value"), str):
        return None
    if image.get("type") not in ("base64", "url"):
        return None
    return Part(raw=image["value"]) if image["type"] == "base64" else Part(url=image["value"])


def _change_image(image: Json, change: PartChange) -> Json:
    if (part := _part_of_image(image)) is None:
        return image
    new_part = change(part)
    if new_part == part:
        return image
    is_url = "url" in new_part
    return {**image, "type": "url" if is_url else "base64", "value": new_part["url" if is_url else "raw"]}
