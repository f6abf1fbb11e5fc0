"""The head of a task: its status, and who may write to its log.

A task is one head and a log of entries, each with a sequence number. The head says which entries count:

    lease      A run holds its task until a time, and renews that time while it works. A run that misses
               its renewals is considered dead.
    epoch      A number that every entry carries. The run that takes a task from a dead run writes in a
               higher epoch.
    committed  The last sequence number that was stored when the epoch began. Entries after it count only
               if they carry the head's epoch, so the late entries of a dead run never show.

`store` decides where the head is kept.
"""

import uuid
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NotRequired, TypedDict

from a2a_lambda import strictjson
from a2a_lambda.errors import LimitExceeded
from a2a_lambda.protocol.model import (
    INTERRUPTED,
    STOPPED,
    Event,
    Json,
    Part,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    make_status,
    state_word,
)
from a2a_lambda.tasks.event_log import Fence, Numbered
from a2a_lambda.tasks.execution import Execution, StoredWait
from a2a_lambda.tasks.identity import KEPT_REQUESTS, KnownRequest, Namespace, RequestIdentity, TurnReference

LEASE_SECONDS = 30.0
"""Seconds for which a run holds its task without a renewal."""

REPLYING = "reply"
"""Holder of a task while a reply that does not fit into the head is being stored."""

DOCUMENT_BYTES = 3_300
"""JSON bytes of a head up to which it has events inline. With the other attributes the item is then within
4 KB, and within two to three KB if it is text, which the store compresses."""

CALL_BYTES = 300_000
"""JSON bytes that a task stores of a call that lacks an argument: its message, and the arguments it has."""

ARGUMENTS_BYTES = 100_000
"""JSON bytes that a task keeps of its arguments while it waits for the answer to a question of its skill. The
question may have 256 KB itself, both are in the head, and a DynamoDB item may have 400 KB."""


class Pending(TypedDict):
    """What a task that waits for input was about to do.

    skill: id of the skill that asked. slots: the texts to try, for each argument known so far that came as a
    text. values: those that came as JSON. asks: the parameter that the answer fills, or None. call: parts of
    the message that called the skill, if the skill itself has asked nothing yet, because the question is for
    a parameter that its call lacks.
    """

    skill: str
    slots: dict[str, list[str]]
    asks: str | None
    values: NotRequired[dict[str, Json]]
    call: NotRequired[list[Part]]


class Place(StrEnum):
    """Where a turn runs. It is chosen once, in `background/placement`, when the turn is claimed."""

    REQUEST = "request"
    """In the process that answers its request, and with it."""

    WORKER = "worker"
    """In the worker, which takes it from a queue."""

    EXECUTION = "execution"
    """In runs of a durable execution, which suspends it in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """State of a task. Times are Unix seconds.

    generation: separates the entries of this task from those of an expired task with the same id.
    version: grows by one with every write. Every write is conditional on it.
    epoch, committed: see above.
    sequence: last sequence number that the head knows. If the task is stopped, it is the number of the
        closing status.
    inline: events small enough to be kept in the head.
    turn_id: the same for every attempt at the turn.
    holder, lease: the run that holds the task, and until when.
    due: minute (Unix time / 60) at which the sweep looks at the task. A renewal does not change it.
    requests: the last requests that the task knows. A lost turn's request is not one of them.
    successor: the task that the same request made after its repeat window, or "".
    wire_name: name of the wire that the task was created over. push_config_ids: configs that count.
    message_only: the client was answered with the status message, and has never heard of the task.
    place: where the current turn runs. After a turn has ended, the place is REQUEST.
    attempts: number of times that the turn was started; of a durable turn, since it was last suspended.
    execution: the durable execution of the turn, if that is its place; None = another place.
    artifact_count: artifacts that the task had before the turn. The next attempt replaces those of the turn.
    reopened_at: number of the event with the status that the task had before the turn; 0 = there was none.
    trace: `traceparent` of the request that began the turn, for the spans of other processes; "" = none.
    """

    namespace: Namespace
    task_id: str
    context_id: str
    generation: str
    created: float
    expires: int
    version: int = 1
    epoch: int = 1
    committed: int = 0
    sequence: int = 0
    status: TaskStatus
    inline: tuple[Numbered, ...] = ()
    turn_id: str = ""
    holder: str = ""
    lease: float = 0.0
    due: int = 0
    requests: tuple[KnownRequest, ...] = ()
    successor: str = ""
    pending: Pending | None = None
    wire_name: str = ""
    push_config_ids: tuple[str, ...] = ()
    message_only: bool = False
    place: Place = Place.REQUEST
    attempts: int = 0
    artifact_count: int = 0
    reopened_at: int = 0
    execution: Execution | None = None
    trace: str = ""

    @property
    def state(self) -> TaskState:
        return self.status["state"]

    @property
    def position(self) -> str:
        """Where a stopped task is: at the message with which it asks or has ended, else at its last event."""
        return self.status.get("message", {}).get("messageId", "") or f"{self.task_id}@{self.sequence}"

    @property
    def is_stopped(self) -> bool:
        """Whether no run works on the task. The closing status then has the number `sequence`, one after the
        log's last entry."""
        return self.state in STOPPED

    @property
    def outcome(self) -> str:
        """The state as metrics have it: completed, input_required …"""
        return state_word(self.state).replace("-", "_")

    @property
    def log_end(self) -> int:
        """Number of the log's last event. The closing status of a stopped task has the number after it."""
        return self.sequence - 1 if self.is_stopped else self.sequence

    @property
    def fence(self) -> Fence:
        return Fence(self.epoch, self.committed, self.log_end if self.is_stopped else None)

    @property
    def is_inline(self) -> bool:
        """Whether every event is in the head, so that the log need not be read."""
        return self.is_stopped and [sequence for sequence, _ in self.inline] == list(range(1, self.sequence))

    @property
    def is_lost(self) -> bool:
        """Whether the task's first turn was lost or stopped, so that no request counts as answered by it: see
        `as_lost`."""
        return self.state == TaskState.FAILED and not self.requests

    def has_lost(self, request: RequestIdentity) -> bool:
        """Whether the turn of a request that the task knew was lost: no one has answered the request."""
        return self.is_lost or (self.state in INTERRUPTED and request.find(self.requests) is None)

    @property
    def is_suspended(self) -> bool:
        """Whether the task has a durable turn that pauses or waits."""
        return self.execution is not None and self.execution.is_suspended

    @property
    def is_woken(self) -> bool:
        """Whether a suspended turn has a reply, so that it runs again soon."""
        return self.is_suspended and self.execution is not None and bool(self.execution.wakes)

    @property
    def is_asleep(self) -> bool:
        """Whether a turn is suspended, and nothing has woken it."""
        return self.is_suspended and not self.is_woken

    @property
    def open_question(self) -> str:
        """Identity of the question that the client may still answer: its turn and its wait, or `position` if
        the turn has ended; "" if there is none. If the timer of another branch wakes the turn, the question
        stays open while the turn runs."""
        waits = self.execution.waits if self.execution is not None else ()
        if key := next((wait.key for wait in waits if wait.is_question), ""):
            return f"{self.turn_id} {key}"
        return self.position if self.state in INTERRUPTED else ""

    @property
    def is_replying(self) -> bool:
        """Whether a reply that does not fit into the head is being stored. Its entries count once a head
        answers the wait."""
        return self.holder == REPLYING

    @property
    def message_wait(self) -> StoredWait | None:
        """The wait that a message to the task ends: the one whose question was asked, or else the first that
        takes messages. A wait for another system takes none: the client must not be able to reply in its
        place."""
        waits = self.execution.waits if self.execution is not None and self.is_suspended else ()
        question = next((wait for wait in waits if wait.is_question), None)
        if self.is_woken:  # it may ask another question next, which the client has not seen
            return question
        return question or next((wait for wait in waits if wait.takes_messages), None)

    def has_lease(self, now: float) -> bool:
        """Whether the lease of the run, or of the reply, that holds the task has not run out."""
        return self.lease > now

    @property
    def turn_reference(self) -> TurnReference:
        """Which turn is the task's current one."""
        return TurnReference(self.namespace, self.task_id, self.turn_id)

    def is_running(self, now: float) -> bool:
        """Whether a live run holds the task."""
        return bool(self.holder) and not self.is_stopped and self.has_lease(now)

    def has_died(self, now: float) -> bool:
        """Whether the run of the task's turn has died, and no other one will be started."""
        return not self.is_stopped and self.place is Place.REQUEST and not self.has_lease(now)

    def is_held_by(self, run: "Head") -> bool:
        """Whether the run that had the head `run` still holds the task."""
        # Either one alone would miss a case. A run that takes a turn which no run holds changes only the
        # holder. A reply to such a turn changes only the epoch.
        return not self.is_stopped and (self.epoch, self.holder) == (run.epoch, run.holder)

    def as_lost(self) -> "Head":
        """The head of a task whose run has died, without its requests: the same request starts its turn
        again."""
        return replace(self, requests=())

    def with_holder(self, now: float) -> "Head":
        """The head of a turn that a new run holds: WORKING, with a lease and one more attempt."""
        return replace(
            self,
            status=make_status(TaskState.WORKING, now),
            holder=str(uuid.uuid4()),
            lease=now + LEASE_SECONDS,
            due=sweep_minute(now + LEASE_SECONDS),
            attempts=self.attempts + 1,
        )

    def with_request(self, request: RequestIdentity, now: float) -> "Head":
        """The head that knows a request, once: an earlier message may have had the same bytes."""
        others = [known for known in self.requests if known["key"] != request.key]
        requests = *others, KnownRequest(key=request.key, body=request.body, task=self.task_id, at=now)
        # The first one has usually made the task, and counts for as long as the task is kept.
        return replace(self, requests=(*requests[:1], *requests[1:][-KEPT_REQUESTS:]))

    def without_last_request(self) -> "Head":
        """The head that forgets its newest request, which is the turn's own: the same request starts the turn
        again. The task still knows its other requests."""
        return replace(self, requests=self.requests[:-1])

    def document(self) -> dict[str, Json]:
        """What is stored as JSON."""
        return {
            "status": self.status,
            "inline": self.inline,
            "requests": self.requests,
            "pending": self.pending,
            "push": self.push_config_ids,
            "message_only": self.message_only,
            "place": self.place,
            "attempts": self.attempts,
            "artifacts": self.artifact_count,
            **({"execution": self.execution.document()} if self.execution else {}),
            **({"trace": self.trace} if self.trace else {}),
            **({"reopened": self.reopened_at} if self.reopened_at else {}),
        }

    @property
    def fits(self) -> bool:
        """Whether the head can hold its inline events."""
        return len(strictjson.dumps(self.document())) <= DOCUMENT_BYTES

    def with_events(self, events: list[Event]) -> tuple["Head", list[Event]]:
        """The head of a new task, or of a new epoch, with events added, and the events that it cannot hold:
        append those."""
        new_head = self.with_events_after(self.committed, events)
        return (new_head, []) if new_head.fits else (replace(self, sequence=self.committed), events)

    def with_new_epoch(self) -> "Head":
        """The head of a stopped or suspended task in a new epoch. What the log has counts, and nothing that a
        writer of an earlier epoch adds to it.

        It skips two numbers. With the first, another process may have sealed the log just before. The second
        is that of `Store.write_ahead`.
        """
        return replace(self, epoch=self.epoch + 3, committed=self.log_end)

    def with_events_after(self, after: int, events: list[Event]) -> "Head":
        """The head with events numbered after `after`, whether they fit or not. If that is the `log_end` of a
        stopped task, the first event is its closing status."""
        last_sequence = after + len(events)
        inline_events = (*self.inline, *enumerate(events, after + 1))
        return replace(self, inline=inline_events, sequence=last_sequence, committed=last_sequence)

    def with_closing_status(
        self, status: TaskStatus, sequence: int, pending: Pending | None = None, *, message_only: bool = False
    ) -> "Head":
        """The head of the stopped task. Its log ends at `sequence`, and the status has the next number. Its
        durable execution is over."""
        return replace(
            self,
            status=status,
            sequence=sequence + 1,
            holder="",
            lease=0.0,
            pending=pending,
            message_only=message_only,
            place=Place.REQUEST,
            execution=None,
        )

    def empty_task(self) -> Task:
        """The task before its first event."""
        submitted_status = make_status(TaskState.SUBMITTED, self.created)
        return Task(id=self.task_id, contextId=self.context_id, status=submitted_status)

    def closing_event(self) -> Event:
        """The status as an event. If the task is stopped, it is the event with the number `sequence`."""
        return Event(
            statusUpdate=TaskStatusUpdateEvent(
                taskId=self.task_id, contextId=self.context_id, status=self.status
            )
        )


def check_pending(pending: Pending) -> None:
    """Raises LimitExceeded if no head can hold what a task was about to do."""
    size = len(strictjson.dumps(pending))
    if "call" in pending and size > CALL_BYTES:
        raise LimitExceeded(
            f"This message cannot wait for an answer, because it has more than {CALL_BYTES:,} bytes of JSON"
            f" with its files. Send it again with {pending['asks']}."
        )
    if "call" not in pending and size > ARGUMENTS_BYTES:
        raise LimitExceeded(
            f"The arguments cannot wait for an answer, because they have more than {ARGUMENTS_BYTES:,} bytes"
            " of JSON. An agent can keep large values in turn.memory."
        )


def sweep_minute(time: float) -> int:
    """First whole minute (Unix time / 60) after a Unix time. By then a run must have renewed its lease, or
    it is dead, and the sweep looks at its task."""
    return int(time) // 60 + 1
