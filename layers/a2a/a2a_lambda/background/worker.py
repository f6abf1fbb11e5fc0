"""The worker: turns that outlive their request.

    send, returnImmediately ── head submitted, place WORKER ── SQS ── run ── a Run, as for any turn
                                     └───── due ───── sweep ── SQS, again

What a message of the queue finds:

    a head of the worker that no run holds  it is claimed: WORKING, one more attempt
    one with a dead run                     the same, in a new epoch. What the dead run stored stays, and
                                            the new run replaces its artifacts
    running, stopped, or in a later turn    nothing to do: the message came twice, or late
"""

from functools import partial

from a2a_lambda import threads
from a2a_lambda.agent.turn import make_turn
from a2a_lambda.background import takeover
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.files.files import Files
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.identity import TurnReference
from a2a_lambda.turns.claim import Claim
from a2a_lambda.turns.run import Run

TURN_ATTEMPTS = 3
"""Number of times that a turn is started before it fails for good."""


class Worker:
    """Runs the turns of the worker's queue."""

    def __init__(self, store: Store, agents: Agents, files: Files) -> None:
        self._store = store
        self._files = files
        self._agents = agents

    async def run_turn(self, queued_turn: TurnReference, deadline: float | None) -> None:
        """Run a queued turn to its end. Raises StoreError, ConfigurationError: then its message must come
        again.

        deadline: a `time.monotonic()` value, when the turn must end.
        """
        taken_turn = await takeover.take(
            self._store,
            self._agents,
            partial(self._load, queued_turn),
            lambda head, now: (head.with_holder(now), []),
            attempts=TURN_ATTEMPTS,
        )
        if taken_turn is None:
            return
        head = taken_turn.head
        context = await threads.run(self._store.get_context, head.namespace, head.context_id)
        turn = make_turn(
            head,
            taken_turn.message["message"],
            taken_turn.message["options"],
            context=context.before(head.turn_id, head.task_id),
            pending=head.pending,
            deadline=deadline,
        )
        claim = Claim(head, taken_turn.sequence, turn, stale_artifact_ids=taken_turn.artifact_ids)
        await Run(self._store, self._agents.start(head.namespace.agent), claim, self._files).run_to_end()

    async def fail_turn(self, turn: TurnReference) -> None:
        """End a turn whose message is a dead letter."""
        head = await self._load(turn)
        if head is not None:
            await takeover.give_up(self._store, head, "its message is a dead letter")

    async def _load(self, turn: TurnReference) -> Head | None:
        """Head of the task, if this turn of it waits for a run of the worker."""
        head = await takeover.load_head_of_turn(self._store, turn)
        if head is None or head.place is not Place.WORKER or head.is_running(self._store.clock()):
            return None
        return head
