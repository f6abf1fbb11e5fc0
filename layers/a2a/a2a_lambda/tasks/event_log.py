"""A task as a log of events: the pure part, with no table in sight.

    events --coalesce--> fewer events --split--> entries (bytes, one per sequence number)
    entries --Fence--> those that count --join--> (sequence, event) --apply--> Task

An event is a 1.0 StreamResponse; the user's messages stand in the log as `message` events.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from a2a_lambda import strictjson
from a2a_lambda.protocol.model import (
    INTERRUPTED,
    Artifact,
    Event,
    Json,
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
    """Piece of an event as stored; `piece` counts from 0, `more`: it goes on in the next entry."""

    sequence: int
    epoch: int
    body: bytes
    piece: int = 0
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
    committed: int
    last: int | None

    def admits(self, entry: Entry) -> bool:
        if self.last is not None and entry.sequence > self.last:
            return False
        return entry.sequence <= self.committed or entry.epoch == self.epoch


def split(events: Iterable[Event], *, after: int, epoch: int) -> list[Entry]:
    """Entries of events, numbered from `after` + 1."""
    entries: list[Entry] = []
    for event in events:
        body = strictjson.dumps(event)
        for piece, start in enumerate(range(0, len(body), ENTRY_BYTES)):
            end = start + ENTRY_BYTES
            sequence = after + len(entries) + 1
            entries.append(Entry(sequence, epoch, body[start:end], piece, end < len(body)))
    return entries


def join(inline: Iterable[Numbered], entries: Iterable[Entry], *, after: int) -> Iterator[Numbered]:
    """Whole events behind `after`, in order, of those kept inline and those kept as entries.

    Stops at a gap: a query may meet a later entry and have missed one written just before it. An event
    whose run ended in its midst is left out, and so is the rest of one that `after` points into.
    """
    kept = {sequence: event for sequence, event in inline}
    stored = {entry.sequence: entry for entry in entries}
    sequence = after + 1
    pieces: list[bytes] = []
    while True:
        if sequence in kept:
            yield sequence, kept[sequence]
        elif sequence in stored:
            entry = stored[sequence]
            if entry.piece == 0:
                pieces = [entry.body]
            elif pieces:
                pieces.append(entry.body)
            if pieces and not entry.more:
                yield sequence, json.loads(b"".join(pieces))
                pieces = []
        else:
            return
        sequence += 1


def coalesce(events: Iterable[Event]) -> list[Event]:
    """The same log in fewer events: chunks that follow one another in an artifact become one."""
    runs: list[list[Event]] = []
    for event in events:
        chunk = event.get("artifactUpdate")
        before = runs[-1][-1].get("artifactUpdate") if runs else None
        if (
            chunk is not None
            and before is not None
            and chunk["append"]
            and chunk["artifact"]["artifactId"] == before["artifact"]["artifactId"]
        ):
            runs[-1].append(event)
        else:
            runs.append([event])
    return [run[0] if len(run) == 1 else _joined([event["artifactUpdate"] for event in run]) for run in runs]


def _joined(chunks: list[TaskArtifactUpdateEvent]) -> Event:
    joined = chunks[0].copy()
    joined["artifact"] = _appended([chunk["artifact"] for chunk in chunks])
    joined["lastChunk"] = chunks[-1]["lastChunk"]
    return Event(artifactUpdate=joined)


def apply(task: Task, events: Iterable[Event]) -> None:
    """Bring a task up to date with events, in place, in time linear to their size.

    A question the task asked moves from its status to its history when the status moves on.
    """
    chunks = {artifact["artifactId"]: [artifact] for artifact in task.get("artifacts", [])}
    for event in events:
        if "message" in event:
            _settle(task)
            task.setdefault("history", []).append(event["message"])
        elif "statusUpdate" in event:
            _settle(task)
            task["status"] = event["statusUpdate"]["status"]
        elif "artifactUpdate" in event:
            update = event["artifactUpdate"]
            known = chunks.setdefault(update["artifact"]["artifactId"], [])
            if not update["append"]:
                known.clear()
            known.append(update["artifact"])
    if chunks:
        # Each artifact is joined once: joining it with every chunk would copy it as often.
        task["artifacts"] = [known[0] if len(known) == 1 else _appended(known) for known in chunks.values()]


def restate(task: Task) -> list[Event]:
    """A task's artifacts as events that put them in the place of what a client has of them."""
    return [
        Event(
            artifactUpdate=TaskArtifactUpdateEvent(
                taskId=task["id"],
                contextId=task["contextId"],
                artifact=artifact,
                append=False,
                lastChunk=True,
            )
        )
        for artifact in task.get("artifacts", [])
    ]


def _settle(task: Task) -> None:
    asked: Message | None = task["status"].get("message")
    if asked is not None and task["status"]["state"] in INTERRUPTED:
        task.setdefault("history", []).append(asked)
        task["status"] = TaskStatus(state=task["status"]["state"], timestamp=task["status"]["timestamp"])


def _appended(chunks: list[Artifact]) -> Artifact:
    result = chunks[0].copy()
    metadata: dict[str, Json] = {}
    for chunk in chunks:
        result.update(chunk)
        metadata |= chunk.get("metadata", {})
    result["parts"] = join_texts([part for chunk in chunks for part in chunk["parts"]])
    if metadata:
        result["metadata"] = metadata
    return result


def join_texts(parts: Iterable[Part]) -> list[Part]:
    """Texts that follow one another as one part; an empty one goes where there is another part."""
    result: list[Part] = []
    for plain, run in groupby(parts, lambda part: part.keys() == {"text"}):
        if not plain:
            result += run
        elif text := "".join(part["text"] for part in run):
            result.append(Part(text=text))
    return result or [Part(text="")]
