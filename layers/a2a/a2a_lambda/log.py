"""A task as a log of events: the pure part, with no table in sight.

    events --coalesce--> fewer events --split--> entries (bytes, one per sequence number)
    entries --committed--> those that count --join--> (sequence, event) --replay--> Task

An event is a 1.0 StreamResponse; the user's messages stand in the log as `message` events.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from a2a_lambda import strictjson
from a2a_lambda.model import (
    INTERRUPTED,
    Artifact,
    Event,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
)

ENTRY_BYTES = 350_000
"""Largest body of one entry; a DynamoDB item may have 400 KB, keys and names included."""

Numbered = tuple[int, Event]
"""An event and the sequence number of its last byte."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Part of the log as stored. `more`: the event goes on in the next entry."""

    sequence: int
    epoch: int
    body: bytes
    more: bool = False


@dataclass(frozen=True, slots=True)
class Fence:
    """Which entries count, as the head says.

    Each run of a task has an epoch. `floor` is the sequence that was committed when the current
    epoch began; `last` is where the log ends once nobody runs the task, else None. A run that lost
    its lease may go on writing for a moment: its entries bear an older epoch above the floor, so
    they never show, and its successor overwrites them.
    """

    epoch: int
    floor: int
    last: int | None

    def admits(self, entry: Entry) -> bool:
        if self.last is not None and entry.sequence > self.last:
            return False
        return entry.sequence <= self.floor or entry.epoch == self.epoch


def split(events: Iterable[Event], *, after: int, epoch: int) -> list[Entry]:
    """Entries of events, numbered from `after` + 1."""
    entries: list[Entry] = []
    for event in events:
        body = strictjson.dumps(event)
        for start in range(0, len(body), ENTRY_BYTES):
            piece = body[start : start + ENTRY_BYTES]
            more = start + ENTRY_BYTES < len(body)
            entries.append(Entry(after + len(entries) + 1, epoch, piece, more))
    return entries


def join(inline: Iterable[Numbered], entries: Iterable[Entry], *, after: int) -> Iterator[Numbered]:
    """Whole events behind `after`, in order, of those kept inline and those kept as entries.

    Stops at a gap: a query may meet a later entry and have missed one written just before it. Part of
    an event whose run ended in its midst is left out.
    """
    kept = {sequence: event for sequence, event in inline}
    stored = {entry.sequence: entry for entry in entries}
    sequence, body, epoch = after + 1, b"", 0
    while True:
        if sequence in kept:
            yield sequence, kept[sequence]
        elif sequence in stored:
            entry = stored[sequence]
            body = body + entry.body if entry.epoch == epoch else entry.body
            epoch = entry.epoch
            if not entry.more:
                yield sequence, strictjson.loads(body)
                body = b""
        else:
            return
        sequence += 1


def coalesce(events: Iterable[Event]) -> list[Event]:
    """The same log in fewer events: chunks that follow one another in an artifact become one."""
    result: list[Event] = []
    for event in events:
        chunk = event.get("artifactUpdate")
        before = result[-1].get("artifactUpdate") if result else None
        if (
            chunk is not None
            and before is not None
            and chunk["append"]
            and chunk["artifact"]["artifactId"] == before["artifact"]["artifactId"]
        ):
            joined = TaskArtifactUpdateEvent(
                taskId=before["taskId"],
                contextId=before["contextId"],
                artifact=_appended(before["artifact"], chunk["artifact"]),
                append=before["append"],
                lastChunk=chunk["lastChunk"],
            )
            metadata = {**before.get("metadata", {}), **chunk.get("metadata", {})}
            if metadata:
                joined["metadata"] = metadata
            result[-1] = Event(artifactUpdate=joined)
        else:
            result.append(event)
    return result


def apply(task: Task, event: Event) -> None:
    """Bring a task up to date with one event, in place.

    A question the task asked moves from its status to its history when the status moves on.
    """
    if "message" in event:
        _settle(task)
        task.setdefault("history", []).append(event["message"])
    elif "statusUpdate" in event:
        _settle(task)
        task["status"] = event["statusUpdate"]["status"]
    elif "artifactUpdate" in event:
        update = event["artifactUpdate"]
        artifacts = task.setdefault("artifacts", [])
        for index, artifact in enumerate(artifacts):
            if artifact["artifactId"] == update["artifact"]["artifactId"]:
                artifacts[index] = (
                    _appended(artifact, update["artifact"]) if update["append"] else update["artifact"]
                )
                return
        artifacts.append(update["artifact"])


def _settle(task: Task) -> None:
    asked: Message | None = task["status"].get("message")
    if asked is not None and task["status"]["state"] in INTERRUPTED:
        task.setdefault("history", []).append(asked)
        task["status"] = TaskStatus(state=task["status"]["state"], timestamp=task["status"]["timestamp"])


def _appended(artifact: Artifact, chunk: Artifact) -> Artifact:
    result = artifact.copy()
    result.update(chunk)
    result["parts"] = list(artifact["parts"])
    for part in chunk["parts"]:
        _append(result["parts"], part)
    metadata = {**artifact.get("metadata", {}), **chunk.get("metadata", {})}
    if metadata:
        result["metadata"] = metadata
    return result


def _append(parts: list[Part], part: Part) -> None:
    if part.keys() != {"text"}:
        parts.append(part)
    elif parts and parts[-1].keys() == {"text"}:
        parts[-1] = Part(text=parts[-1]["text"] + part["text"])
    elif part["text"] or not parts:
        parts.append(part)
