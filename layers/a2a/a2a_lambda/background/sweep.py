"""The sweep: looks at every task whose head is due, and at executions that have ended.

a lease that has run out            the task fails, or asks its question again; a turn of the worker is queued
                                    again
a turn that no worker has taken     it is queued again
a durable turn that is late         it is woken again; if its execution is gone, the task ends as failed
"""

import logging
import math
import time
from dataclasses import replace

from a2a_lambda import telemetry, threads
from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.background.takeover import give_up, load_head_of_execution
from a2a_lambda.background.worker import TURN_ATTEMPTS
from a2a_lambda.protocol.model import TaskState, make_status, unix_time
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.head import Head, Place, sweep_minute
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.tasks.suspension import EXECUTION_LOOK_SECONDS, LATE_SECONDS, execution_of
from a2a_lambda.turns.recovery import load_live_head

QUEUED_TURN_SECONDS = 4 * 86_400.0
"""Seconds for which a turn may wait for the worker, which is how long SQS keeps its message."""

REQUEUE_MINUTES = 5
"""Minutes after which a waiting turn is queued again. After a longer wait, the next pause is as long as the
turn has waited so far: a backlog does not grow by itself."""

MAX_REQUEUE_MINUTES = int(QUEUED_TURN_SECONDS) // 60 // 2
"""Minutes after which a waiting turn is queued again at the latest: before SQS deletes its last message."""

SWEEP_HOLD_MINUTES = 2
"""Minutes for which a sweep has a turn to itself while it queues it."""

logger = logging.getLogger(__name__)


class Sweep:
    """Finds the tasks that no live process works on, and ends or dispatches their turns."""

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher

    async def run(self, deadline: float = math.inf) -> int:
        """Look at every task that is due: end what died, dispatch what waits. Returns how many tasks it
        looked at. deadline: `time.monotonic()` value at which it stops; the next sweep continues."""
        telemetry.measure({"Sweeps": 1})
        minute = int(self._store.clock()) // 60
        due_tasks = await threads.run(self._store.indexes.list_due, minute)
        for count, (namespace, task_id) in enumerate(due_tasks):
            if time.monotonic() >= deadline:
                logger.warning("%d due tasks are left for the next sweep", len(due_tasks) - count)
                return count
            telemetry.replace_ids(owner=namespace.owner, agent=namespace.agent, task_id=task_id)
            try:
                await self.look_at(namespace, task_id, minute)
            except Conflict:
                logger.info("task %s has changed meanwhile", task_id)
            except Exception:  # one task must not hold up the others
                logger.exception("the sweep could not look at task %s", task_id)
                telemetry.measure({"FailedRecords": 1})
        return len(due_tasks)

    async def end_execution(self, arn: str) -> None:
        """End the turn of an execution that has failed, timed out or was stopped. Raises StoreError."""
        if not self._dispatcher.has_executions:  # the function was removed since
            return
        turn = await self._dispatcher.find_turn(arn)
        while (head := await load_head_of_execution(self._store, turn, arn)) is not None:
            await give_up(self._store, head, "its execution has ended")

    async def look_at(self, namespace: Namespace, task_id: str, minute: int) -> None:
        """Look at a task, if it is due at a minute (Unix time / 60). Raises StoreError, Conflict."""
        head = await threads.run(self._store.get_head, namespace, task_id)
        if head is None or head.is_running(self._store.clock()) or head.due > minute:
            return
        match head.place:
            case Place.EXECUTION:
                await self._look_at_execution(head)
            case Place.WORKER:
                await self._look_at_queued(head)
            case Place.REQUEST:
                await load_live_head(self._store, namespace, task_id)  # ends it

    async def _look_at_execution(self, head: Head) -> None:
        """Wake a turn that is late. Without its execution no one would continue it, and without the durable
        function only the end of a pause."""
        execution, now = execution_of(head), self._store.clock()
        # Wake first, then ask: the usual reason is a lost wake, and a second one does no harm.
        arn = await self._dispatcher.dispatch(head)
        # A release without durable skills, after a rollback: its function is there, and ends the pause.
        if not self._dispatcher.has_executions and execution.until + LATE_SECONDS <= now:
            await give_up(self._store, head, "this deployment has no durable function")
            return
        if arn and not await self._dispatcher.is_running(arn):
            await give_up(self._store, head, "its execution is gone")
            return
        is_late = 0 < execution.until <= now
        is_waiting = head.is_asleep and not is_late
        pause = EXECUTION_LOOK_SECONDS if is_waiting else LATE_SECONDS
        await threads.run(self._store.update_head, replace(head, due=sweep_minute(now + pause)))

    async def _look_at_queued(self, head: Head) -> None:
        now = self._store.clock()
        minute = int(now) // 60  # not the one in which the sweep began: a sweep may last longer
        age = now - unix_time(head.status["timestamp"])
        is_dead = head.state == TaskState.WORKING  # its run died: no one works on it now
        if head.attempts >= TURN_ATTEMPTS:
            await give_up(self._store, head, f"its turn was started {head.attempts} times")
            return
        if not is_dead and age > QUEUED_TURN_SECONDS:
            await give_up(self._store, head, "it waited for longer than SQS keeps its message")
            return
        # The first write keeps away a sweep that runs at the same time, which would queue the turn, too. If
        # this one dies before the queue has the turn, the task is due again soon.
        new_status = make_status(TaskState.SUBMITTED, now) if is_dead else head.status
        head = await threads.run(
            self._store.update_head, replace(head, due=minute + SWEEP_HOLD_MINUTES, status=new_status)
        )
        await self._dispatcher.dispatch(head)
        pause = min(max(REQUEUE_MINUTES, int(age) // 60), MAX_REQUEUE_MINUTES)
        await threads.run(self._store.update_head, replace(head, due=minute + pause))
