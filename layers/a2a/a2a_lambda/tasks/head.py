"""The head of a task; its place in the table is `store`'s affair."""

from dataclasses import dataclass, replace
from typing import TypedDict

from a2a_lambda import strictjson
from a2a_lambda.protocol.model import (
    RESTING,
    Event,
    Json,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    status,
)
from a2a_lambda.tasks.event_log import Fence, Numbered
from a2a_lambda.tasks.identity import Request, Scope, Seen

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

    incarnation: tells the entries of this task from those of an expired one with the same id.
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
    incarnation: str
    created: float
    expires: int
    version: int = 1
    epoch: int = 1
    floor: int = 0
    sequence: int = 0
    status: TaskStatus
    inline: tuple[Numbered, ...] = ()
    turn: str = ""
    holder: str = ""
    lease: float = 0.0
    due: int = 0
    requests: tuple[Seen, ...] = ()
    successor: str = ""
    pending: Pending | None = None
    dialect: str = ""
    push: tuple[str, ...] = ()
    bare: bool = False
    queued: bool = False
    attempts: int = 0
    artifacts: int = 0

    @property
    def state(self) -> TaskState:
        return self.status["state"]

    @property
    def resting(self) -> bool:
        """Nobody runs the task; its log ends before `sequence`, the number of the closing status."""
        return self.state in RESTING

    @property
    def fence(self) -> Fence:
        return Fence(self.epoch, self.floor, self.sequence - 1 if self.resting else None)

    @property
    def whole(self) -> bool:
        """Every event is inline: the log need not be read."""
        return self.resting and [sequence for sequence, _ in self.inline] == list(range(1, self.sequence))

    @property
    def lost(self) -> bool:
        """Its run died, and no request counts as answered by it."""
        return self.state == TaskState.FAILED and not self.requests

    def running(self, now: float) -> bool:
        """Whether a run holds the task."""
        return bool(self.holder) and not self.resting and self.lease >= now

    def owned_by(self, run: "Head") -> bool:
        """Whether the run that holds `run` still holds the task."""
        return not self.resting and (self.epoch, self.holder) == (run.epoch, run.holder)

    def seen(self, request: Request) -> Seen | None:
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
            "bare": self.bare,
            "queued": self.queued,
            "attempts": self.attempts,
            "artifacts": self.artifacts,
        }

    @property
    def fits(self) -> bool:
        """Whether it can carry its inline events."""
        return len(strictjson.dumps(self.document())) <= DOCUMENT_BYTES

    def succeeded(self) -> "Head":
        """The head in the epoch that follows a rest. One is left out: a seal that was overtaken by the
        rest may stand in the log with it, and must not outrank what comes."""
        return replace(self, epoch=self.epoch + 2)

    def settled(self, events: list[Event]) -> tuple["Head", list[Event]]:
        """The head with events behind its log, inline where they fit; else they are left to append.

        At rest the closing status holds the last number without standing in the log: the first event
        has to be that status, and takes its place there.
        """
        last = max(0, self.sequence - 1)
        inline = (*self.inline, *enumerate(events, last + 1))
        whole = replace(self, inline=inline, sequence=last + len(events), floor=last + len(events))
        return (whole, []) if whole.fits else (replace(self, sequence=last, floor=last), events)

    def closed(
        self, status: TaskStatus, sequence: int, pending: Pending | None = None, *, bare: bool = False
    ) -> "Head":
        """The head at rest: its log ends at `sequence`, and the status has the number behind."""
        return replace(
            self,
            status=status,
            sequence=sequence + 1,
            holder="",
            lease=0.0,
            pending=pending,
            bare=bare,
            queued=False,
        )

    def blank(self) -> Task:
        """The task before its first event."""
        submitted = status(TaskState.SUBMITTED, self.created)
        return Task(id=self.task_id, contextId=self.context_id, status=submitted)

    def closing(self) -> Event:
        """The status as an event; at rest, the one that stands at `sequence`."""
        return Event(
            statusUpdate=TaskStatusUpdateEvent(
                taskId=self.task_id, contextId=self.context_id, status=self.status
            )
        )
