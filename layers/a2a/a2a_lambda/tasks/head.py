"""The head of a task; its place in the table is `store`'s affair."""

from dataclasses import dataclass, replace
from typing import TypedDict

from a2a_lambda import strictjson
from a2a_lambda.protocol.model import (
    STOPPED,
    Event,
    Json,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    status,
)
from a2a_lambda.tasks.event_log import Fence, Numbered
from a2a_lambda.tasks.identity import AnsweredRequest, Request, Scope

DOCUMENT_BYTES = 3_300
"""JSON of a head, events included; with the rest of the item it stays within 4 KB, four write units."""

PENDING_BYTES = 1_000
"""JSON of what a waiting task keeps of its arguments."""


class Pending(TypedDict):
    """What a task waiting for input was about to do.

    slots: arguments known so far, the texts to try for each; asks: the parameter
    the answer fills, if it fills one.
    """

    skill: str
    slots: dict[str, list[str]]
    asks: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """State of a task. Times are Unix seconds.

    generation: tells the entries of this task from those of an expired one with the same id.
    version: grows by one with every write; every write is conditional on it.
    epoch, floor: see `log.Fence`.
    sequence: last sequence number the head knows; at rest, that of the closing status itself.
    inline: events small enough to live here.
    turn: id of the turn it is in, the same for every run of it.
    holder, lease: the run that has the task, and until when.
    due: minute (Unix time / 60) at which the sweep looks at it; a renewal leaves it alone.
    requests: the last ones it answered.
    successor: task the same request made after its repeat window, when there is one.
    dialect: name of the wire it was made over. push: ids of its push notification configs.
    bare: its status message alone is the answer, where the wire has such answers.
    queued: the turn is the worker's. attempts: how often it was begun. artifacts: how many the task had
        before the turn, so that another attempt puts its own in the place of the last one's.
    """

    scope: Scope
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
    turn: str = ""
    holder: str = ""
    lease: float = 0.0
    due: int = 0
    requests: tuple[AnsweredRequest, ...] = ()
    successor: str = ""
    pending: Pending | None = None
    dialect: str = ""
    push: tuple[str, ...] = ()
    message_only: bool = False
    is_queued: bool = False
    attempts: int = 0
    artifacts: int = 0

    @property
    def state(self) -> TaskState:
        return self.status["state"]

    @property
    def is_stopped(self) -> bool:
        """Nobody runs the task; its log ends before `sequence`, the number of the closing status."""
        return self.state in STOPPED

    @property
    def fence(self) -> Fence:
        return Fence(self.epoch, self.committed, self.sequence - 1 if self.is_stopped else None)

    @property
    def is_inline(self) -> bool:
        """Every event is inline: the log need not be read."""
        return self.is_stopped and [sequence for sequence, _ in self.inline] == list(range(1, self.sequence))

    @property
    def is_lost(self) -> bool:
        """Its run died, and no request counts as answered by it."""
        return self.state == TaskState.FAILED and not self.requests

    def is_running(self, now: float) -> bool:
        """Whether a run holds the task."""
        return bool(self.holder) and not self.is_stopped and self.lease >= now

    def is_held_by(self, run: "Head") -> bool:
        """Whether the run that holds `run` still holds the task."""
        return not self.is_stopped and (self.epoch, self.holder) == (run.epoch, run.holder)

    def find_answer(self, request: Request) -> AnsweredRequest | None:
        """The newest answer to a request."""
        return next((seen for seen in reversed(self.requests) if seen["key"] == request.key), None)

    def document(self) -> dict[str, Json]:
        """What is stored as JSON."""
        return {
            "status": self.status,
            "inline": self.inline,
            "requests": self.requests,
            "pending": self.pending,
            "push": self.push,
            "bare": self.message_only,
            "queued": self.is_queued,
            "attempts": self.attempts,
            "artifacts": self.artifacts,
        }

    @property
    def fits(self) -> bool:
        """Whether it can carry its inline events."""
        return len(strictjson.dumps(self.document())) <= DOCUMENT_BYTES

    def next_epoch(self) -> "Head":
        """The head in the epoch that follows a rest. One is left out: a seal that was overtaken by the
        rest may stand in the log with it, and must not outrank what comes."""
        return replace(self, epoch=self.epoch + 2)

    def with_events(self, events: list[Event]) -> tuple["Head", list[Event]]:
        """The head with events behind its log, inline where they fit; else they are left to append.

        At rest the closing status holds the last number without standing in the log: the first event
        has to be that status, and takes its place there.
        """
        last = max(0, self.sequence - 1)
        inline = (*self.inline, *enumerate(events, last + 1))
        whole = replace(self, inline=inline, sequence=last + len(events), committed=last + len(events))
        return (whole, []) if whole.fits else (replace(self, sequence=last, committed=last), events)

    def with_closing_status(
        self, status: TaskStatus, sequence: int, pending: Pending | None = None, *, message_only: bool = False
    ) -> "Head":
        """The head at rest: its log ends at `sequence`, and the status has the number behind."""
        return replace(
            self,
            status=status,
            sequence=sequence + 1,
            holder="",
            lease=0.0,
            pending=pending,
            message_only=message_only,
            is_queued=False,
        )

    def empty_task(self) -> Task:
        """The task before its first event."""
        submitted = status(TaskState.SUBMITTED, self.created)
        return Task(id=self.task_id, contextId=self.context_id, status=submitted)

    def closing_event(self) -> Event:
        """The status as an event; at rest, the one that stands at `sequence`."""
        return Event(
            statusUpdate=TaskStatusUpdateEvent(
                taskId=self.task_id, contextId=self.context_id, status=self.status
            )
        )
