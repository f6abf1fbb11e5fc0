"""Sends a stored turn to where it runs: to the worker's queue, or to its durable execution."""

import logging
from typing import TYPE_CHECKING

from a2a_lambda import threads
from a2a_lambda.aws.queue import Queue
from a2a_lambda.errors import StoreError
from a2a_lambda.protocol.model import TaskState
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.identity import TurnReference
from a2a_lambda.tasks.suspension import execution_of

if TYPE_CHECKING:
    from a2a_lambda.aws.executions import Executions

logger = logging.getLogger(__name__)


def may_lack_dispatch(head: Head) -> bool:
    """Whether a turn that runs elsewhere, or the reply to one, may not have been dispatched: no run has taken
    it yet. A second dispatch runs nothing twice, but may add a message to the queue."""
    return head.is_woken or (head.place is not Place.REQUEST and head.state == TaskState.SUBMITTED)


class Dispatcher:
    """Dispatches stored turns, and asks about and stops their executions.

    queue: the worker's; None = there is no worker. executions: None = there is no durable function.
    Every method except `try_dispatch` raises StoreError if AWS does not answer.
    """

    def __init__(self, queue: Queue | None = None, executions: "Executions | None" = None) -> None:
        self._queue = queue
        self._executions = executions
        self.has_worker = queue is not None
        self.has_executions = executions is not None

    async def dispatch(self, head: Head) -> str:
        """Queue a turn for the worker, or start or wake its execution. Returns the execution's ARN, or ""
        if it is not known. A turn of a request is not dispatched, nor one whose place this process cannot
        reach."""
        if head.place is Place.WORKER and self._queue is not None:
            await threads.run(self._queue.send, head.turn_reference)
        elif head.place is Place.EXECUTION and self._executions is not None:
            execution = execution_of(head)
            # A second start under the same name starts nothing, so a dispatch that died half-way can be
            # repeated.
            arn = execution.arn or await threads.run(self._executions.start, head.turn_reference)
            for callback_id in execution.wakes:
                await threads.run(self._executions.wake, callback_id)
            return arn
        return ""

    async def try_dispatch(self, head: Head) -> None:
        """Dispatch a turn. If AWS does not answer, the sweep dispatches it later."""
        try:
            await self.dispatch(head)
        except StoreError:
            logger.exception("task %s waits for the sweep", head.task_id)

    async def stop(self, head: Head) -> None:
        """Stop the execution of a turn that was canceled. head: the task's head before that."""
        if head.place is Place.EXECUTION and self._executions is not None and (arn := execution_of(head).arn):
            await threads.run(self._executions.stop, arn)

    async def is_running(self, arn: str) -> bool:
        """Whether an execution has not ended. A paused one has not."""
        return self._executions is not None and await threads.run(self._executions.is_running, arn)

    async def find_turn(self, arn: str) -> TurnReference:
        """The turn of an execution."""
        assert self._executions is not None
        return TurnReference.read(await threads.run(self._executions.turn_of, arn))
