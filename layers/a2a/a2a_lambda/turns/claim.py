"""A turn claimed: what `intake` and `background` hand to `run`."""

from dataclasses import dataclass

from a2a_lambda.agent.turn import Turn
from a2a_lambda.protocol.model import Message, RequestOptions, Task, TaskStatus
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.head import Head, Pending
from a2a_lambda.tasks.identity import AnsweredRequest

LEASE_SECONDS = 30.0
"""Seconds a run holds its task without renewing."""


def minute_after(time: float) -> int:
    """First whole minute (Unix time / 60) behind a Unix time: when the sweep looks at a run that has to
    renew its lease before."""
    return int(time) // 60 + 1


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn begun: the head as claimed, the task with the message in it, the last sequence
    stored, and what the turn sees. resumes: the question that the turn is to answer, if one."""

    head: Head
    task: Task
    sequence: int
    turn: Turn
    seen: AnsweredRequest
    resumes: TaskStatus | None = None

    @classmethod
    def of(
        cls,
        head: Head,
        task: Task,
        sequence: int,
        message: Message,
        asked: RequestOptions,
        *,
        context: Context,
        pending: Pending | None,
        deadline: float | None,
        resumes: TaskStatus | None = None,
    ) -> "Claim":
        """The claim of a message's turn. deadline: on `time.monotonic`."""
        turn = Turn(
            message=message,
            owner=head.scope.owner,
            agent=head.scope.agent,
            task_id=head.task_id,
            context_id=head.context_id,
            context=context,
            pending=pending,
            id=head.turn,
            attempt=max(1, head.attempts),
            deadline=deadline,
            accepted_output_modes=tuple(asked["acceptedOutputModes"]),
            extensions=tuple(asked["extensions"]),
            request_metadata=asked["metadata"],
        )
        return cls(head, task, sequence, turn, head.requests[-1], resumes)
