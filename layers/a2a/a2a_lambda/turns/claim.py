"""A claimed turn: what `intake` and `worker` give to `run`."""

import uuid
from dataclasses import dataclass, replace

from a2a_lambda.agent.turn import Turn
from a2a_lambda.durable.engine import Engine
from a2a_lambda.protocol.model import Message, RequestOptions, Task, TaskState, TaskStatus, status
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.head import Head, Pending
from a2a_lambda.tasks.replay import Replay

LEASE_SECONDS = 30.0
"""Seconds for which a run holds its task without a renewal."""


def minute_after(time: float) -> int:
    """First whole minute (Unix time / 60) after a Unix time. By then a run must have renewed its lease, or
    it is dead, and the sweep looks at its task."""
    return int(time) // 60 + 1


def held_head(head: Head, now: float) -> Head:
    """The head, held by a new run of its turn: WORKING, one attempt more."""
    return replace(
        head,
        status=status(TaskState.WORKING, now),
        holder=str(uuid.uuid4()),
        lease=now + LEASE_SECONDS,
        due=minute_after(now + LEASE_SECONDS),
        attempts=head.attempts + 1,
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn that this process may run.

    head: as claimed. sequence: last sequence number that is stored. task: with the message in it, for the
        request that runs the turn; None if none does.
    question: that the turn is to answer, or None. replay: of a durable turn. asking: head of a durable turn
        before this run, if it asked then.
    """

    head: Head
    sequence: int
    turn: Turn
    task: Task | None = None
    question: TaskStatus | None = None
    replay: Replay | None = None
    asking: Head | None = None


def make_turn(
    head: Head,
    message: Message,
    options: RequestOptions,
    *,
    context: Context,
    pending: Pending | None,
    deadline: float | None,
    engine: Engine | None = None,
) -> Turn:
    """The turn of a message, as its skill sees it. deadline: a `time.monotonic()` value. engine: of a durable
    turn."""
    return Turn(
        message=message,
        owner=head.scope.owner,
        agent=head.scope.agent,
        task_id=head.task_id,
        context_id=head.context_id,
        context=context,
        pending=pending,
        id=head.turn_id,
        attempt=max(1, head.attempts),
        deadline=deadline,
        accepted_output_modes=tuple(options["acceptedOutputModes"]),
        extensions=tuple(options["extensions"]),
        request_metadata=options["metadata"],
        engine=engine,
    )
