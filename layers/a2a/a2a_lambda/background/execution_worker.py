"""Turns of durable skills: one execution a turn, one run for each time that it continues.

    send ── head submitted ── start ── execution ── run ── pause or wait ── head suspended
                                            └──── a timer, a reply, or the death of a process: run again

A run's way: Lambda ── functions/durable ── lambda_/execution_handler, with the engine of lambda_/sdk_engine
── `ExecutionWorker.run` here ── takeover ── turns/run ── agent/steps ── turns/ending. To start or wake an
execution: dispatch ── aws/executions. If an execution fails, EventBridge ── lambda_/batch ──
`Sweep.end_execution`.

The log says what is known already: the message, the replies to waits, how many outputs are stored, and the
context as it was when the turn began. An execution has one process at a time, so a head that another run of
the same execution holds belongs to a dead one.
"""

import asyncio
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field

from a2a_lambda import threads
from a2a_lambda.agent.turn import make_turn
from a2a_lambda.background import takeover
from a2a_lambda.background.takeover import TakenTurn
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.durable.engine import Engine, Reply
from a2a_lambda.errors import StoreError
from a2a_lambda.files.files import Files
from a2a_lambda.protocol.model import Event
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.callback_token import callback_token
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.execution import CALLBACK_PATH
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import TurnReference
from a2a_lambda.tasks.replay import NoticeKey, Replay, last_mark, notices_in, replies_in
from a2a_lambda.tasks.suspension import REPLY_POLL_SECONDS, execution_of, resumed_head
from a2a_lambda.turns.claim import Claim
from a2a_lambda.turns.run import Run

RUN_ATTEMPTS = 5
"""Number of times in a row that a run of a turn may die before the turn fails for good."""


@dataclass(frozen=True, slots=True)
class EarlierRuns:
    """What the runs of a turn before this one have left.

    replies: replies to the turn's waits, by the key of the wait. notices: notices that the log has. timeouts:
    Unix times at which the open waits time out, by the key of the wait.
    """

    replies: Mapping[str, Reply] = field(default_factory=dict)
    notices: Set[NoticeKey] = frozenset()
    timeouts: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, taken_turn: TakenTurn) -> "EarlierRuns":
        waits = execution_of(taken_turn.old_head).waits
        return cls(
            replies_in(taken_turn.later_events, taken_turn.head.turn_id, taken_turn.head.namespace.owner),
            notices_in(taken_turn.later_events),
            {wait.key: wait.until for wait in waits if wait.until},
        )


MakeEngine = Callable[[EarlierRuns, Callable[[str], str]], Engine]
"""Makes the engine of a run from what earlier runs left, and a function that makes the URL of a wait."""


class ExecutionWorker:
    """Runs turns that have an execution, as `Worker` runs those of the queue."""

    def __init__(self, store: Store, agents: Agents, files: Files) -> None:
        self._store = store
        self._files = files
        self._agents = agents

    async def run(
        self, turn: TurnReference, arn: str, make_engine: MakeEngine, deadline: float | None
    ) -> None:
        """Run a turn until it ends. Raises Suspended if it pauses or waits; StoreError: then the run must
        come again.

        arn: ARN of the execution. deadline: a `time.monotonic()` value, when this run must end.
        """

        async def load() -> Head | None:
            """Head of the task, if this execution has its turn. While a reply is stored, the turn waits for
            it."""
            while (head := await takeover.load_head_of_execution(self._store, turn, arn)) is not None:
                if not head.is_replying or not head.has_lease(self._store.clock()):
                    return head
                await asyncio.sleep(REPLY_POLL_SECONDS)
            return None

        claim: Claim | None = None
        while claim is None:
            taken_turn = await takeover.take(
                self._store,
                self._agents,
                load,
                lambda head, now: resumed_head(head, arn, now),
                attempts=RUN_ATTEMPTS,
            )
            if taken_turn is None:
                return
            with suppress(Conflict):  # the task changed while its context was stored: take it again
                claim = await self._claim(taken_turn, make_engine, deadline)
        # From here on it is a run like any other. The engine replays what earlier runs have done, and
        # `Replay` keeps its events from being stored twice.
        run = Run(self._store, self._agents.start(turn.namespace.agent), claim, self._files)
        await run.run_to_end()
        # Another process changed the task under this run. If the turn is still this execution's, Lambda
        # must run it again.
        if run.has_diverged and await takeover.load_head_of_execution(self._store, turn, arn) is not None:
            raise StoreError("the run lost its task, which has not ended")
        if run.suspension is not None:
            raise run.suspension

    async def _claim(self, taken_turn: TakenTurn, make_engine: MakeEngine, deadline: float | None) -> Claim:
        head, sequence = taken_turn.head, taken_turn.sequence
        context = next((event["context"] for event in taken_turn.later_events if "context" in event), None)
        if context is None:
            # Other turns may change the context before this one ends. Each run must see it as the first one
            # did.
            current = await threads.run(self._store.get_context, head.namespace, head.context_id)
            context = current.before(head.turn_id, head.task_id).turn_document()
            sequence = await threads.run(self._store.append, head, [Event(context=context)], after=sequence)

        def callback_url(key: str) -> str:
            return f"{execution_of(head).url}/{CALLBACK_PATH}/{callback_token(head, key)}"

        engine = make_engine(EarlierRuns.of(taken_turn), callback_url)
        turn = make_turn(
            head,
            taken_turn.message["message"],
            taken_turn.message["options"],
            context=Context.of_turn_document(context),
            pending=head.pending,
            deadline=deadline,
            engine=engine,
        )
        question_head = taken_turn.old_head if taken_turn.old_head.open_question else None
        return Claim(
            head,
            sequence,
            turn,
            replay=Replay(last_mark(taken_turn.later_events)),
            question_head=question_head,
        )
