"""A turn claimed: what `intake` hands to `run`."""

from dataclasses import dataclass

from a2a_lambda.head import Head, Seen
from a2a_lambda.model import Task
from a2a_lambda.turn import Turn

LEASE = 30.0
"""Seconds a run holds its task without renewing."""


def minute_after(time: float) -> int:
    """First whole minute (Unix time / 60) behind a Unix time: when the sweep looks at a run that has to
    renew its lease before."""
    return int(time) // 60 + 1


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn begun: the head as claimed, the task with the message in it, the last sequence
    stored, and what the turn sees."""

    head: Head
    task: Task
    sequence: int
    turn: Turn
    seen: Seen
