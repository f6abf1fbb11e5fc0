"""What a message starts: a claim, for a run in this process; a handover, for one elsewhere; or nothing, if
the message was sent before."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from a2a_lambda.agent.turn import Turn
from a2a_lambda.protocol.model import Task, TaskStatus
from a2a_lambda.tasks.head import Head

if TYPE_CHECKING:
    from a2a_lambda.tasks.replay import Replay  # of durable turns, which another function runs


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn that this process may run.

    head: the head as claimed. sequence: last sequence number that is stored.
    task: the task with the message in it, if the turn runs in its request; else None.
    takes_message: its client may be answered with a message instead of the task.
    old_status: status of the task before the turn, which it gets back if the turn is stopped; None = the
        turn is the first, or the one before it was lost.
    stale_artifact_ids: see `EventBuilder`.
    replay: which outputs of a durable turn are new; None for other turns.
    question_head: head of a durable turn before this run, if it asked then; else None.
    """

    head: Head
    sequence: int
    turn: Turn
    task: Task | None = None
    takes_message: bool = False
    old_status: TaskStatus | None = None
    stale_artifact_ids: Sequence[str] = ()
    replay: "Replay | None" = None
    question_head: Head | None = None


@dataclass(frozen=True, slots=True)
class Handover:
    """A turn that was stored just now, and must be dispatched, because it does not run in its request."""

    head: Head


@dataclass(frozen=True, slots=True)
class Repeat:
    """A request that was sent before. head: head of the task that answers it."""

    head: Head


TurnStart = Claim | Handover | Repeat
