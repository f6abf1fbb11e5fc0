"""The worker: turns that outlive their request, and the sweep.

    send, blocking: false ── head submitted, queued ── SQS ── run ── a Run, as for any turn
                                     └───── due ───── sweep ── SQS, again

What a message of the queue finds:

    a background head that no run holds     it is claimed: WORKING, one attempt more
    a background head with a dead run       the same, in a new epoch. What the dead run stored stays, and
                                            the new run replaces its artifacts
    running, stopped, or in a later turn    nothing to do: the message came twice, or late

What the sweep finds, at the minute at which a head is due:

    a lease that has run out                the task is ended as failed; a background turn is queued again
    a turn that no worker has taken         it is queued again
"""

import logging
from contextlib import suppress
from dataclasses import replace

from a2a_lambda import telemetry, threads
from a2a_lambda.agent.agents import Agents
from a2a_lambda.aws.queue import Queue, QueuedTurn
from a2a_lambda.protocol.model import TaskState, status, unix_time
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Scope
from a2a_lambda.turns.claim import Claim, held_head, make_turn
from a2a_lambda.turns.durable import DurableTurns
from a2a_lambda.turns.recovery import end_task, load_live_head, lost_status
from a2a_lambda.turns.run import Run

TURN_ATTEMPTS = 3
"""Number of times that a turn is started before it fails for good."""

QUEUED_TURN_SECONDS = 4 * 86_400.0
"""Seconds for which a turn may wait for the worker: as long as SQS keeps its message."""

REQUEUE_MINUTES = 5
"""Minutes after which a waiting turn is queued again. After a longer wait, the next pause is as long as the
turn has waited so far: a backlog does not grow by itself."""

GIVEN_UP = "This turn could not be run to its end."

logger = logging.getLogger(__name__)


class Worker:
    """durable: turns of durable skills; None = the deployment has none."""

    def __init__(
        self, store: Store, agents: Agents, queue: Queue, durable: DurableTurns | None = None
    ) -> None:
        self._store = store
        self._agents = agents
        self._queue = queue
        self._durable = durable

    async def run_turn(self, queued: QueuedTurn, deadline: float | None) -> None:
        """Run a queued turn to its end. Raises StoreError: then its message must come again.

        deadline: a `time.monotonic()` value, when the turn must end.
        """
        claim = await self._claim(queued, deadline)
        if claim is None:
            return
        await Run(self._store, self._agents.start(queued.scope.agent), claim).run_to_end()

    async def end_execution(self, arn: str) -> None:
        """End the turn of a durable execution that has failed, timed out or was stopped. Raises
        StoreError."""
        if self._durable is not None:
            await self._durable.end_lost(arn)

    def postpone(self, arn: str, handle: str, attempt: int) -> None:
        """Make a failed message come again soon; see `Queue`. Blocks."""
        self._queue.postpone(arn, handle, attempt)

    async def fail_turn(self, queued: QueuedTurn) -> None:
        """End a turn whose message is a dead letter."""
        head = await self._load_waiting(queued)
        if head is not None:
            await self._give_up(head)

    async def sweep(self) -> int:
        """Look at every task that is due: end what died, put what waits into the queue. Returns how many
        tasks it looked at."""
        telemetry.measure({"Sweeps": 1})
        minute = int(self._store.clock()) // 60
        due = await threads.run(self._store.list_due, minute)
        for scope, task_id in due:
            telemetry.about(owner=scope.owner, agent=scope.agent, task_id=task_id)
            try:
                await self._sweep_task(scope, task_id, minute)
            except Conflict:
                logger.info("task %s has changed meanwhile", task_id)
            except Exception:  # one task must not hold up the others
                logger.exception("the sweep could not look at task %s", task_id)
        return len(due)

    async def _sweep_task(self, scope: Scope, task_id: str, minute: int) -> None:
        head = await threads.run(self._store.get_head, scope, task_id)
        now = self._store.clock()
        if head is None or head.is_running(now) or head.due > minute:
            return
        if head.execution is not None:
            if self._durable is not None:
                await self._durable.sweep(head)
            else:  # the deployment has lost the function that would continue it
                await self._give_up(head)
            return
        if head.is_stopped:
            return
        if not head.is_background:
            await load_live_head(self._store, scope, task_id)  # ends it
            return
        waited = now - unix_time(head.status["timestamp"])
        if head.attempts >= TURN_ATTEMPTS or (not head.attempts and waited > QUEUED_TURN_SECONDS):
            await self._give_up(head)
            return
        # The queue first. If this sweep dies here, the task is still due for the next one.
        await threads.run(self._queue.send, QueuedTurn.of(head))
        is_dead = head.state == TaskState.WORKING  # its run died: no one works on it now
        later = replace(
            head,
            due=minute + max(REQUEUE_MINUTES, int(waited) // 60),
            status=status(TaskState.SUBMITTED, now) if is_dead else head.status,
        )
        await threads.run(self._store.update_head, later)

    async def _load_waiting(self, queued: QueuedTurn) -> Head | None:
        """Head of the task, if this turn of it waits for a run."""
        telemetry.about(owner=queued.scope.owner, agent=queued.scope.agent, task_id=queued.task_id)
        head = await threads.run(self._store.get_head, queued.scope, queued.task_id)
        if head is None or head.turn_id != queued.turn_id or not head.is_background:
            return None
        return None if head.is_stopped or head.is_running(self._store.clock()) else head

    async def _claim(self, queued: QueuedTurn, deadline: float | None) -> Claim | None:
        while (head := await self._load_waiting(queued)) is not None:
            if head.attempts >= TURN_ATTEMPTS or queued.scope.agent not in self._agents:
                await self._give_up(head)
                return None
            # The head also changes for other reasons: a push config was set, or the sweep came by.
            with suppress(Conflict):
                return await self._read_claim(await self._take(head), deadline)
        return None

    async def _take(self, head: Head) -> Head:
        """The head, held by a new run. Raises Conflict."""
        now = self._store.clock()
        if head.holder:
            head = await threads.run(self._store.take_over, head)
        return await threads.run(self._store.update_head, held_head(head, now))

    async def _read_claim(self, head: Head, deadline: float | None) -> Claim | None:
        """The claim of a turn, from the log. None if its message was never stored."""
        numbered = await threads.run(self._store.get_events, head)
        messages = [event for _, event in numbered if "message" in event]
        if not messages or "asked" not in messages[-1] or messages[-1]["asked"]["turn"] != head.turn_id:
            # The process that took the message died before it stored it. The last message is an older one.
            await self._give_up(replace(head, requests=()))
            return None
        telemetry.bind(context_id=head.context_id, version=head.wire_name)
        context = await threads.run(self._store.get_context, head.scope, head.context_id)
        turn = make_turn(
            head,
            messages[-1]["message"],
            messages[-1]["asked"],
            context=context.before(head.turn_id, head.task_id),
            pending=head.pending,
            deadline=deadline,
        )
        return Claim(head, max(numbered[-1][0], head.sequence), turn)

    async def _give_up(self, head: Head) -> None:
        logger.warning("task %s is given up after %d attempts", head.task_id, head.attempts)
        try:
            await end_task(self._store, head, lost_status(self._store, head, GIVEN_UP))
        except Conflict:
            logger.info("task %s has changed meanwhile", head.task_id)
