"""How a process takes a turn that waits for it in the table. The worker and durable executions share it.

load    the head, if the turn is still the task's current one
hold    the head gets a holder and a lease; a dead run's entries are sealed off first
read    the log has the turn's message, and what earlier runs of the turn have stored
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from a2a_lambda import telemetry, threads
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.protocol.model import Event
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.identity import TurnReference
from a2a_lambda.tasks.replay import events_of_turn
from a2a_lambda.tasks.suspension import execution_of
from a2a_lambda.turns.recovery import end_task, lost_status

END_MARGIN_SECONDS = 5.0
"""Seconds before the deadline of its process at which a turn that outlives its request must end."""

GIVEN_UP = "This turn could not be run to its end."

LoadHead = Callable[[], Awaitable[Head | None]]
"""Returns the head of a turn that is free to be taken, or None."""

HoldHead = Callable[[Head, float], tuple[Head, list[Event]]]
"""Makes the head of a run at a Unix time, and the events that the head cannot hold."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TakenTurn:
    """A turn that this process holds.

    old_head: the head as it was. sequence: last number stored. message: the event that began the turn.
    later_events: the events of the log after `message`.
    """

    head: Head
    old_head: Head
    sequence: int
    message: Event
    later_events: Sequence[Event]

    @property
    def artifact_ids(self) -> list[str]:
        """Ids of the artifacts that an earlier attempt at the turn has left."""
        updates = (event["artifactUpdate"] for event in self.later_events if "artifactUpdate" in event)
        return list(dict.fromkeys(update["artifact"]["artifactId"] for update in updates))


async def load_head_of_turn(store: Store, turn: TurnReference) -> Head | None:
    """Head of the task, if the turn is its current one."""
    telemetry.replace_ids(owner=turn.namespace.owner, agent=turn.namespace.agent, task_id=turn.task_id)
    head = await threads.run(store.get_head, turn.namespace, turn.task_id)
    return None if head is None or head.turn_id != turn.turn_id else head


async def load_head_of_execution(store: Store, turn: TurnReference, arn: str) -> Head | None:
    """Head of the task, if this execution has its turn, and the turn has not ended."""
    head = await load_head_of_turn(store, turn)
    if head is None or head.place is not Place.EXECUTION:
        return None
    return head if execution_of(head).arn in ("", arn) else None


async def take(
    store: Store, agents: Agents, load: LoadHead, hold: HoldHead, *, attempts: int
) -> TakenTurn | None:
    """The turn, held by this process; None if there is nothing to run. Raises StoreError, and
    ConfigurationError for a turn of the worker whose agent this version of the function does not have.

    attempts: number of times that the turn is started before it fails for good.
    """
    while (head := await load()) is not None:
        if head.attempts >= attempts:
            await give_up(store, head, f"its turn was started {head.attempts} times")
            return None
        if head.namespace.agent not in agents:
            if head.place is Place.WORKER:
                # While a deployment moves calls to the next version, the queue gives the turns of a new agent
                # to the old one, too. So the message comes again. If no version has the agent, the message
                # becomes a dead letter, which ends the turn.
                raise ConfigurationError(f"this version has no agent {head.namespace.agent}")
            await give_up(store, head, "this deployment has no such agent")
            return None
        # The head also changes for other reasons: a reply came, a push config was set, or the sweep came by.
        with suppress(Conflict):
            old_head = head
            # The earlier run may still be alive, only slow. The seal in the log makes sure that it can store
            # nothing after what this run reads now.
            if head.holder and not head.is_stopped:
                head = await threads.run(store.take_over, head)
            head, overflow = hold(head, store.clock())
            if overflow:
                head = await threads.run(store.write_ahead, head, overflow)
            head = await threads.run(store.update_head, head)
            pairs = await threads.run(store.get_events, head)
            events = events_of_turn([event for _, event in pairs], head.turn_id)
            if not events:  # a table that was restored from a backup may have a head without its entries
                await give_up(store, head.as_lost(), "the log lacks its message")
                return None
            telemetry.bind(context_id=head.context_id, version=head.wire_name)
            sequence = max(pairs[-1][0], head.sequence)
            return TakenTurn(head, old_head, sequence, events[0], events[1:])
    return None


async def give_up(store: Store, head: Head, reason: str) -> None:
    """End a turn as failed, unless its task changes meanwhile. reason: why, for the log."""
    logger.warning("gave up on task %s: %s", head.task_id, reason)
    try:
        await end_task(store, head, lost_status(store, head, GIVEN_UP))
    except Conflict:
        logger.info("task %s has changed meanwhile", head.task_id)
