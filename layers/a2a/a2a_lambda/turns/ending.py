"""How a turn ends in the table: its context first, then its head, with the events that are not stored yet.

    end       context ── head: closing status, no lease
    suspend   context, if the client is asked ── head: suspended, no lease

Each step is safe to repeat, and is repeated until the table takes it or the lease ends.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from a2a_lambda import threads
from a2a_lambda.agent.event_builder import FAILED, EventBuilder
from a2a_lambda.durable.engine import Suspended
from a2a_lambda.errors import LimitExceeded, SkillError, StoreError, WriteRefused, error_text
from a2a_lambda.protocol.model import INTERRUPTED
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.context import Context, TurnRecord
from a2a_lambda.tasks.head import Head, Pending
from a2a_lambda.tasks.suspension import suspended_head, wait_to_ask, with_old_question
from a2a_lambda.turns.claim import Claim
from a2a_lambda.turns.journal import Journal
from a2a_lambda.turns.lease import Lease
from a2a_lambda.turns.recovery import note_question

END_RETRY_SECONDS = 0.5
"""Seconds between tries to store the end of a turn."""

MANY_WAITS = "The agent waits for too many things at once. A task can hold about a thousand open waits."

logger = logging.getLogger(__name__)


class MemoryRefused(Exception):
    """The memory of a context cannot be changed as the turn says. Its cause says why."""


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn has ended.

    was_ended_by_skill: the skill ended it itself. Memory keeps nothing of a failed turn.
    was_stopped: it was stopped from outside, so the context keeps nothing of it at all, and its request does
        not count as answered.
    pending: what a task that asks was about to do; see `Head`.
    """

    was_ended_by_skill: bool
    was_stopped: bool
    pending: Pending | None


class Ending:
    """Stores the end of a run's turn."""

    def __init__(
        self, store: Store, claim: Claim, lease: Lease, journal: Journal, builder: EventBuilder
    ) -> None:
        self._store = store
        self._claim = claim
        self._lease = lease
        self._journal = journal
        self._builder = builder
        self._has_refused_memory = False

    async def store(self, end: TurnEnd) -> bool:
        """Store the end as the builder has it; returns False if only a failed end could be stored, without
        the unstored events and the context. Raises StoreError, Conflict."""
        try:
            await self._retry_until_lease_ends(partial(self._store_context_and_end, end))
            return True
        except StoreError:
            raise
        except Exception:
            logger.exception("the end of task %s cannot be stored as it is", self._lease.head.task_id)
            self._journal.clear()
            self._builder.fail(FAILED)
            # The client has seen events that are not stored. The caller makes it read the task again.
            await self._retry_until_lease_ends(partial(self._end, end))
            return False

    async def suspend(self, suspension: Suspended) -> None:
        """Store that the turn pauses, or waits. Raises LimitExceeded if it waits for too much, StoreError,
        Conflict."""
        question_head = self._claim.question_head
        question = wait_to_ask(suspension, question_head)

        async def store_suspension() -> None:
            await self._journal.flush()
            if question is not None:  # a message that names only the context is the reply
                await note_question(self._store, self._lease.head)
            sequence, now = self._journal.sequence, self._store.clock()

            def change(head: Head) -> Head:
                new_head = suspended_head(head, suspension, question, sequence, now)
                if question_head is None:
                    return new_head
                has_new_events = sequence != self._claim.sequence
                return with_old_question(new_head, question_head, has_new_events=has_new_events)

            try:
                await self._lease.update(change)
            except WriteRefused:  # the head has each wait, and an item of DynamoDB takes 400 KB
                raise LimitExceeded(MANY_WAITS) from None

        await self._retry_until_lease_ends(store_suspension)

    async def _store_context_and_end(self, end: TurnEnd) -> None:
        try:
            await self._end(end, await self._prepare_context_update(end))
        except MemoryRefused as refusal:
            self._has_refused_memory = True  # a retry must not store it after all
            error = refusal.__cause__
            task_id = self._lease.head.task_id
            logger.error("the memory of task %s cannot be changed", task_id, exc_info=error)
            self._builder.fail(error_text(error) if isinstance(error, SkillError) else FAILED)
            await self._end(end)

    async def _end(self, end: TurnEnd, store_context: Callable[[], None] | None = None) -> None:
        """Store the closing status, and the unstored events if they fit in the head, too.

        store_context: stores the context before the head, in the same thread; None = it stays as it is."""
        # The last events and the closing status are one write if they fit into the head. Otherwise the
        # events go into the log first: a task must not look finished before its last words can be read.
        closing_status, head = self._builder.closing_status, self._lease.head
        assert closing_status is not None
        pending = end.pending if closing_status["state"] in INTERRUPTED else None
        pairs = self._journal.numbered_unstored()
        inline_events = (*head.inline, *(pairs or ()))
        if (
            pairs is None
            or not replace(head, status=closing_status, inline=inline_events, pending=pending).fits
        ):
            await self._journal.flush()
            pairs = ()
        last_sequence = self._journal.sequence + len(pairs)
        # A client that continues a task knows it already, so it gets the task, which stays in its list.
        is_first_turn = self._claim.old_status is None
        is_message_only = self._builder.message_only and self._claim.takes_message and is_first_turn

        # The lease may make the change again on a newer head, so it must depend on nothing but that head
        # and what is fixed above.
        def change(head: Head) -> Head:
            new_head = replace(head, inline=(*head.inline, *pairs))
            if end.was_stopped:
                new_head = new_head.without_last_request()
            return new_head.with_closing_status(
                closing_status, last_sequence, pending, message_only=is_message_only
            )

        if store_context is None:
            await self._lease.update(change)
        else:
            await self._lease.update_after(store_context, change)

    async def _prepare_context_update(self, end: TurnEnd) -> Callable[[], None] | None:
        """A call that stores what the context keeps of the turn. It blocks, and raises MemoryRefused.

        Raises Conflict if another process holds the task."""
        if end.was_stopped or self._has_refused_memory:
            return None
        await self._lease.check_held()
        head, turn, closing_status = self._lease.head, self._claim.turn, self._builder.closing_status
        assert closing_status is not None
        context = turn.context
        # An earlier try of this turn may have changed the stored context.
        is_retry = (
            self._claim.replay is not None
            or turn.attempt > 1
            or turn.id in (*context.turns, *context.failed_turns)
        )
        if is_retry:
            context = await threads.run(self._store.get_context, head.namespace, head.context_id)
        record = TurnRecord(
            turn_id=turn.id,
            task_id=head.task_id,
            message=turn.sent_parts,
            reply=self._builder.parts,
            exchanges=self._builder.exchanges,
            changes=turn.memory.changes,
            answered=self._claim.head.requests,
            was_ended_by_skill=end.was_ended_by_skill,
        )

        def change(context: Context) -> Context:
            # `after` knows the turns that the context includes, so a second try changes nothing.
            new_context = context.after(record)
            if new_context is context and not is_retry:
                return context
            if closing_status["state"] in INTERRUPTED:
                return new_context.with_question_of(head.task_id)
            return new_context.without_question_of(head.task_id)

        def store_context() -> None:
            try:
                self._store.update_context(head.namespace, head.context_id, context, change)
            except (TypeError, ValueError, SkillError) as error:
                raise MemoryRefused from error

        return store_context

    async def _retry_until_lease_ends(self, step: Callable[[], Awaitable[None]]) -> None:
        """Try a step until it succeeds or the lease ends. The turn is done; only its end is not stored
        yet."""
        while True:
            try:
                return await step()
            except Conflict:
                raise
            except StoreError:
                if not self._lease.head.has_lease(self._store.clock() + END_RETRY_SECONDS):
                    raise
                logger.exception("the end of task %s is not stored yet", self._lease.head.task_id)
            await asyncio.sleep(END_RETRY_SECONDS)
