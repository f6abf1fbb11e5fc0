"""A task's events as a log: how they become entries, which entries count, and what task they describe.

    events --coalesce--> fewer events --split--> entries (bytes, one for each sequence number)
    entries --Fence--> those that count --join--> (sequence, event) --apply--> Task

One write stores one entry. When many chunks are stored at once, an entry holds as many as fit. An event
that does not fit is in several entries. An event is a StreamResponse of A2A 1.0. The user's messages are in
the log as `message` events.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from a2a_lambda import strictjson
from a2a_lambda.protocol.model import (
    INTERRUPTED,
    STOPPED,
    Artifact,
    Event,
    Json,
    Message,
    Part,
    Published,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
)
from a2a_lambda.protocol.stored_file import has_same_parts

ENTRY_BYTES = 350_000
"""Maximum size of an entry's body, in bytes. A DynamoDB item may have 400 KB, keys and names included."""

GROUPED_CHUNKS = 16
"""Minimum number of consecutive artifact chunks that share entries. Everything else has an entry of its own,
so that each event has its own number. Every wire sends a chunk that has parts, so clients get the number of a
shared entry unless its last chunk is an empty end."""

SEQUENCE_DIGITS = 10
"""Digits of the largest sequence number."""

Numbered = tuple[int, Event]
"""An event, and the sequence number of its last entry. Events of one entry have the same number."""

_Number = TypeVar("_Number")


@dataclass(frozen=True, slots=True)
class Entry:
    """Events as stored, or a piece of a large one.

    body: JSON of an event, or of a list of events. piece: counts from 0. more: the event continues in the
    next entry.
    """

    sequence: int
    epoch: int
    body: bytes
    piece: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class Fence:
    """Which entries count. The head decides it.

    Every run of a task writes in an epoch. A run that lost its lease may continue to write for a moment.
    Its entries carry an old epoch and a number after `committed`, so they never count, and the next run
    overwrites them.

    epoch: the head's epoch. committed: last sequence number that was stored when the epoch began.
    last_sequence: where the log of a stopped task ends, else None.
    """

    # run A (epoch 1)    1  2  .. A freezes; its lease ends ............ 3 refused: epoch 2 is there
    # seal  (epoch 2)          3 (empty) .. run A can append no more
    # head               epoch 3, committed 2
    # run B (epoch 3)          3 (replaces the seal)  4  5 .. close
    #
    # 1 and 2 count: they are committed. B's 3 counts: it has the head's epoch. Whatever A or the seal
    # left after 2 does not.

    epoch: int
    committed: int
    last_sequence: int | None

    def admits(self, entry: Entry) -> bool:
        if self.last_sequence is not None and entry.sequence > self.last_sequence:
            return False
        return entry.sequence <= self.committed or entry.epoch == self.epoch


def begins_context(body: bytes) -> bool:
    """Whether the body of an entry begins the event in which a durable turn keeps its conversation. It has
    an entry of its own, and its JSON no spaces (see `split`)."""
    return body.startswith(b'{"context":')


def split(events: Iterable[Event], *, after: int, epoch: int) -> list[Entry]:
    """Entries of events that are stored at once, numbered from `after` + 1. The same events have the same
    entries."""
    entries: list[Entry] = []
    for group in _groups(events):
        body = group[0] if len(group) == 1 else b"[" + b",".join(group) + b"]"
        for piece, start in enumerate(range(0, len(body), ENTRY_BYTES)):
            end = start + ENTRY_BYTES
            sequence = after + len(entries) + 1
            entries.append(Entry(sequence, epoch, body[start:end], piece, end < len(body)))
    return entries


def _groups(events: Iterable[Event]) -> Iterator[list[bytes]]:
    """JSON of the events that share an entry."""
    for is_chunk, run in groupby(events, lambda event: "artifactUpdate" in event):
        # When there are only a few chunks, each has its own entry, so that a client can resume after any of
        # them. Many chunks share entries, because each entry is a write.
        bodies = [strictjson.dumps(event) for event in run]
        if not is_chunk or len(bodies) < GROUPED_CHUNKS:
            yield from ([body] for body in bodies)
            continue
        group: list[bytes] = []
        room = ENTRY_BYTES
        for body in bodies:
            room -= len(body) + 1
            if group and room <= 0:
                yield group
                group, room = [], ENTRY_BYTES - len(body) - 1
            group.append(body)
        yield group


def join(inline: Iterable[Numbered], entries: Iterable[Entry], *, after: int) -> Iterator[Numbered]:
    """Whole events after the number `after`, in order, from the head and from entries.

    It stops at a gap: a query may return an entry and miss one that was written just before. It leaves out
    an event whose last pieces were never written, and the rest of an event that `after` points into.
    """
    inline_events = {sequence: event for sequence, event in inline}
    log_entries = {entry.sequence: entry for entry in entries}
    sequence = after + 1
    pieces: list[bytes] = []
    while True:
        if sequence in inline_events:
            yield sequence, inline_events[sequence]
        elif sequence in log_entries:
            entry = log_entries[sequence]
            if entry.piece == 0:
                pieces = [entry.body]
            elif pieces:
                pieces.append(entry.body)
            if pieces and not entry.more:
                stored_at_once = json.loads(b"".join(pieces))
                for event in stored_at_once if isinstance(stored_at_once, list) else [stored_at_once]:
                    yield sequence, event
                pieces = []
        else:
            return
        sequence += 1


def publish(pairs: Sequence[Numbered]) -> Iterator[Published]:
    """What clients get of a log: artifacts, statuses of running turns, and questions that were answered since
    (`past`). Only the last event of an entry has the number, because a client that has the number must have
    all of them."""
    for (sequence, event), (next_sequence, _) in zip(pairs, [*pairs[1:], (None, None)], strict=False):
        number = None if sequence == next_sequence else sequence
        if "artifactUpdate" in event:
            yield number, without_mark(event)
        elif "statusUpdate" in event:
            state = event["statusUpdate"]["status"]["state"]
            if state in INTERRUPTED:
                yield number, Event(statusUpdate=event["statusUpdate"], past=True)
            elif state not in STOPPED:
                yield number, without_mark(event)


def coalesce(events: Iterable[Event]) -> list[Event]:
    """The same log in fewer events: consecutive chunks of an artifact become one."""
    return [event for _, event in coalesce_numbered((None, event) for event in events)]


def continues(event: Event, last_event: Event) -> bool:
    """Whether an event is the next chunk of the artifact of the event before it."""
    chunk, last_chunk = event.get("artifactUpdate"), last_event.get("artifactUpdate")
    if chunk is None or last_chunk is None:
        return False
    return chunk["append"] and chunk["artifact"]["artifactId"] == last_chunk["artifact"]["artifactId"]


def coalesce_numbered(pairs: Iterable[tuple[_Number, Event]]) -> list[tuple[_Number, Event]]:
    """`coalesce` for numbered events: each keeps the number of its last chunk."""
    runs: list[list[tuple[_Number, Event]]] = []
    for number, event in pairs:
        if runs and continues(event, runs[-1][-1][1]):
            runs[-1].append((number, event))
        else:
            runs.append([(number, event)])
    return [
        run[0] if len(run) == 1 else (run[-1][0], _join_chunks([event for _, event in run])) for run in runs
    ]


def _join_chunks(events: list[Event]) -> Event:
    """One event for several chunks. It has the mark of the last one."""
    chunks = [event["artifactUpdate"] for event in events]
    update = chunks[0].copy()
    update["artifact"] = _append_all([chunk["artifact"] for chunk in chunks])
    update["lastChunk"] = chunks[-1]["lastChunk"]
    result = Event(artifactUpdate=update)
    if "mark" in events[-1]:
        result["mark"] = events[-1]["mark"]
    return result


def without_mark(event: Event) -> Event:
    """An event of the log, for a client."""
    if "mark" not in event:
        return event
    result = event.copy()
    del result["mark"]
    return result


def apply(task: Task, events: Iterable[Event]) -> None:
    """Update a task with events, in place. The time is linear in their size.

    When the status changes, the question that it asked moves to the history.
    """
    chunks = {artifact["artifactId"]: [artifact] for artifact in task.get("artifacts", [])}
    message_ids = {message["messageId"] for message in task.get("history", [])}
    for event in events:
        if "message" in event:
            _move_question_to_history(task, message_ids)
            history = task.setdefault("history", [])
            # Its turn may have had replies since, which stay.
            if event.get("again") and history and has_same_parts(history[-1], event["message"]):
                history.pop()
            history.append(event["message"])
            message_ids.add(event["message"]["messageId"])
        elif "statusUpdate" in event:
            _move_question_to_history(task, message_ids)
            task["status"] = event["statusUpdate"]["status"]
        elif "artifactUpdate" in event:
            update = event["artifactUpdate"]
            pieces = chunks.setdefault(update["artifact"]["artifactId"], [])
            # A chunk that does not append starts its artifact anew.
            if not update["append"]:
                pieces.clear()
            pieces.append(update["artifact"])
    if chunks:
        # Once for each artifact: joining it with every chunk would copy it every time.
        task["artifacts"] = [
            pieces[0] if len(pieces) == 1 else _append_all(pieces) for pieces in chunks.values()
        ]


def restate(task: Task) -> list[Event]:
    """A task's artifacts as events. They replace what a client has of the artifacts."""
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


def _move_question_to_history(task: Task, message_ids: set[str]) -> None:
    """message_ids: those of the history, to which that of the question is added."""
    question: Message | None = task["status"].get("message")
    if question is not None and task["status"]["state"] in INTERRUPTED:
        # A turn that a timer woke asks the same question again.
        if question["messageId"] not in message_ids:
            task.setdefault("history", []).append(question)
            message_ids.add(question["messageId"])
        task["status"] = TaskStatus(state=task["status"]["state"], timestamp=task["status"]["timestamp"])


def _append_all(chunks: list[Artifact]) -> Artifact:
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
    """The parts, with consecutive texts joined. An empty text is dropped if there is another part."""
    result: list[Part] = []
    for is_text, run in groupby(parts, lambda part: part.keys() == {"text"}):
        if not is_text:
            result += run
        elif text := "".join(part["text"] for part in run):
            result.append(Part(text=text))
    return result or [Part(text="")]
