"""Turns that outlive their request: what the worker does.

send, blocking: false ── head submitted, queued ── SQS ── run ── the same Run as ever
                                 └───── due ───── sweep ── SQS, again

claim    a queued head nobody runs                      -> WORKING, an attempt more
claim    a queued head whose run's lease ran out        -> the same, in a new epoch: what the dead
                                                           run stored stays, and its successor
                                                           replaces its artifacts
claim    running, at rest, in a later turn, or taken    -> nothing: a message delivered twice, or late
         meanwhile
"""

import logging
import uuid
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import replace

from a2a_lambda import telemetry, threads
from a2a_lambda.agent.agent import Agent
from a2a_lambda.aws.queue import Queue, QueuedTurn
from a2a_lambda.protocol.model import TaskState, status, unix_time
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.event_log import apply
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Scope
from a2a_lambda.turns.claim import LEASE_SECONDS, Claim, minute_after
from a2a_lambda.turns.recovery import end_task, load_head, lost_status
from a2a_lambda.turns.run import Run

TURN_ATTEMPTS = 3
"""How often a turn is begun before it counts as one that cannot be run."""

QUEUED_TURN_SECONDS = 4 * 86_400.0
"""Seconds a turn may wait for its worker: as long as SQS keeps its message. No backlog is given up."""

REQUEUE_MINUTES = 5
"""Minutes before a turn that still waits is enqueued again, or as many as it has waited, if that is more:
a backlog is no reason to grow it."""

GIVEN_UP = "This turn could not be run to its end."

logger = logging.getLogger(__name__)


class Worker:
    def __init__(self, store: Store, agents: Mapping[str, Agent], queue: Queue) -> None:
        self._store = store
        self._agents = agents
        self._queue = queue

    async def run(self, ticket: QueuedTurn, deadline: float | None) -> None:
        """Run a queued turn to its end. Raises StoreError: the message should come again.

        deadline: on `time.monotonic`, when the turn is ended.
        """
        claim = await self._claimed(ticket, deadline)
        if claim is None:
            return
        run = Run(self._store, self._agents[ticket.scope.agent], claim)
        run.start()
        async with aclosing(run.events()) as events:
            async for _ in events:
                pass

    def postpone(self, arn: str, handle: str, attempt: int) -> None:
        """Let the message of a turn that could not be worked off come again soon; see `Queue`. Blocks."""
        self._queue.postpone(arn, handle, attempt)

    async def bury(self, ticket: QueuedTurn) -> None:
        """End a turn whose message nobody could work off."""
        head = await self._waiting(ticket)
        if head is not None:
            await self._give_up(head)

    async def sweep(self) -> int:
        """Look at every task somebody should be running: end what died, enqueue what waits. Returns how
        many were looked at."""
        minute = int(self._store.clock()) // 60
        due = await threads.run(self._store.list_due, minute)
        for scope, task_id in due:
            telemetry.about(owner=scope.owner, agent=scope.agent, task_id=task_id)
            try:
                await self._look(scope, task_id, minute)
            except Conflict:
                logger.info("task %s went on meanwhile", task_id)
            except Exception:  # one task holds up no other
                logger.exception("the sweep could not look at task %s", task_id)
        return len(due)

    async def _look(self, scope: Scope, task_id: str, minute: int) -> None:
        head = await threads.run(self._store.get_head, scope, task_id)
        now = self._store.clock()
        if head is None or head.is_stopped or head.is_running(now) or head.due > minute:
            return
        if not head.is_queued:
            await load_head(self._store, scope, task_id)  # ends it
            return
        waited = now - unix_time(head.status["timestamp"])
        if head.attempts >= TURN_ATTEMPTS or (not head.attempts and waited > QUEUED_TURN_SECONDS):
            await self._give_up(head)
            return
        # First, so that a sweep that dies here leaves the task to the next one.
        await threads.run(self._queue.send, QueuedTurn.of(head))
        dead = head.state == TaskState.WORKING  # then nobody works at it now
        later = replace(
            head,
            due=minute + max(REQUEUE_MINUTES, int(waited) // 60),
            status=status(TaskState.SUBMITTED, now) if dead else head.status,
        )
        await threads.run(self._store.replace, later)

    async def _waiting(self, ticket: QueuedTurn) -> Head | None:
        """Head of the task, where nobody runs this turn of it."""
        telemetry.about(owner=ticket.scope.owner, agent=ticket.scope.agent, task_id=ticket.task_id)
        head = await threads.run(self._store.get_head, ticket.scope, ticket.task_id)
        if head is None or head.turn != ticket.turn or not head.is_queued:
            return None
        return None if head.is_stopped or head.is_running(self._store.clock()) else head

    async def _claimed(self, ticket: QueuedTurn, deadline: float | None) -> Claim | None:
        while (head := await self._waiting(ticket)) is not None:
            if head.attempts >= TURN_ATTEMPTS or ticket.scope.agent not in self._agents:
                await self._give_up(head)
                return None
            # The head changes for other reasons, too: a push config was set, the sweep came by.
            with suppress(Conflict):
                return await self._begun(await self._taken(head), deadline)
        return None

    async def _taken(self, head: Head) -> Head:
        """The head with a run's claim. Raises Conflict."""
        now = self._store.clock()
        if head.holder:
            head = await threads.run(self._store.take_over, head)
        claimed = replace(
            head,
            status=status(TaskState.WORKING, now),
            holder=str(uuid.uuid4()),
            lease=now + LEASE_SECONDS,
            due=minute_after(now + LEASE_SECONDS),
            attempts=head.attempts + 1,
        )
        return await threads.run(self._store.replace, claimed)

    async def _begun(self, head: Head, deadline: float | None) -> Claim | None:
        numbered = await threads.run(self._store.get_events, head)
        said = [event for _, event in numbered if "message" in event]
        if not said or "asked" not in said[-1] or said[-1]["asked"]["turn"] != head.turn:
            # Whoever took the message in died before it was stored: what is there is an earlier one.
            await self._give_up(replace(head, requests=()))
            return None
        telemetry.bind(context_id=head.context_id, version=head.dialect)
        context = await threads.run(self._store.get_context, head.scope, head.context_id)
        task = head.empty_task()
        apply(task, (event for _, event in numbered))
        return Claim.of(
            head,
            task,
            max(numbered[-1][0], head.sequence),
            said[-1]["message"],
            said[-1]["asked"],
            context=context.before(head.turn, head.task_id),
            pending=head.pending,
            deadline=deadline,
        )

    async def _give_up(self, head: Head) -> None:
        logger.warning("task %s is given up after %d attempts", head.task_id, head.attempts)
        try:
            await end_task(self._store, head, lost_status(self._store, head, GIVEN_UP))
        except Conflict:
            logger.info("task %s went on meanwhile", head.task_id)
