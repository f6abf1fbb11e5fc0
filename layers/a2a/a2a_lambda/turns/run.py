"""One turn of an agent, under a lease.

    agent --outputs--> EventBuilder --events--+--> published at once, to the client
                                              +--> Journal --> log entries --close--> context, head

The Lease has the head; Run and Journal read it there. An event is published with its sequence number only
after everything up to it is stored. Until then it has no number. Events that are still pending when the
turn ends are stored in the head, with its closing write.

An agent never gets far ahead. It waits for a table that takes no writes, and for a client that reads too
slowly: for the client a minute in all. Then the client gets no more events (`has_dropped_client`). The turn
continues without it, and the client reads the rest from the log.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from a2a_lambda import telemetry, threads, tracing
from a2a_lambda.agent.agents import Loading, agent_of
from a2a_lambda.agent.event_builder import FAILED, EventBuilder
from a2a_lambda.agent.outputs import Batch
from a2a_lambda.agent.turn import context_after
from a2a_lambda.durable.engine import Notice, Suspended
from a2a_lambda.errors import AgentMistake, LimitExceeded, SkillError, StoreError
from a2a_lambda.protocol.model import INTERRUPTED, Event, Published, TaskState
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.head import Head, Pending
from a2a_lambda.turns.claim import Claim
from a2a_lambda.turns.journal import Journal, size_of
from a2a_lambda.turns.lease import Lease
from a2a_lambda.turns.recovery import outcome_of
from a2a_lambda.turns.suspension import question_of, still_asking, suspended_head

CLOSING_SECONDS = 1.5
"""Seconds after a turn's deadline in which its end may still be stored. The deadline leaves so much time."""

END_RETRY_SECONDS = 0.5
"""Seconds between tries to store the end of a turn."""

TIME_LIMIT = "The agent ran out of time."

OUTPUT_BYTES = 50_000_000
"""JSON bytes that a turn may put out. A task is read whole, in several forms at once, in 1 GB of memory."""

UNREAD_EVENTS = 256
"""Events that may wait for a client. Then the agent waits."""

UNREAD_SECONDS = 60.0
"""Seconds for which an agent waits for its client, in all."""

Result = TypeVar("Result")

logger = logging.getLogger(__name__)
hints = logging.getLogger("a2a_lambda.hints")
"""What its author should know of an agent. `make run` shows it as warnings."""


class MemoryRefused(Exception):
    """The memory of a context cannot be changed as the turn says. Its cause says why."""


class Run:
    """A turn that this process has claimed.

    has_diverged: what was published is not what is stored. Usually another process has ended the task.
    has_dropped_client: the client read too slowly, and the end of the events was not published to it.
    suspension: how the turn was suspended, if it was. Then it has not ended, and another run continues it.
    """

    def __init__(self, store: Store, agent: Loading, claim: Claim) -> None:
        head = claim.head
        self._store = store
        self._agent = agent
        self._turn = claim.turn
        self._question = claim.question
        self._replay = claim.replay
        self._asking = claim.asking
        self._first_sequence = claim.sequence
        self._answered = head.requests[-1]
        self._builder = EventBuilder(
            head.task_id, head.context_id, store.clock, artifact_count=head.artifact_count
        )
        self._lease = Lease(store, head)
        self._journal = Journal(store, lambda: self.head, claim.sequence)
        self._published: asyncio.Queue[Published | BaseException | None] = asyncio.Queue()
        self._has_read = asyncio.Event()
        self._unread_limit: int | None = None
        self._is_listened_to = True
        self._patience_seconds = UNREAD_SECONDS
        self._work_task: asyncio.Task[None] | None = None
        self._stop_reason = ""
        self._memory_is_refused = False
        self._turn_is_queued = head.is_background  # no client waits for the worker
        self._invoked_at = telemetry.invoked_at()
        self._first_event_seconds: float | None = None
        self.has_diverged = False
        self.has_dropped_client = False
        self.suspension: Suspended | None = None

    @property
    def head(self) -> Head:
        return self._lease.head

    @property
    def sequence(self) -> int:
        """Last sequence number stored."""
        return self._journal.sequence

    @property
    def artifact_ids(self) -> list[str]:
        """Ids of the artifacts that this turn has started."""
        return self._builder.artifact_ids

    def start(self, *, unread_limit: int | None = None) -> None:
        """Start the turn. It continues to its end, whether a client reads its events or not.

        unread_limit: events that may wait for the client; None = any number.
        """
        self._unread_limit = unread_limit
        task = asyncio.create_task(self._execute())
        _running.add(task)
        task.add_done_callback(_running.discard)

    async def run_to_end(self) -> None:
        """Run the turn, and read its events for no client. Raises StoreError."""
        self.start()
        async with aclosing(self.events()) as events:
            async for _ in events:
                pass

    def stop(self, reason: str) -> None:
        """End the turn as failed, unless its agent is done. The client may read the reason, and make the same
        request again."""
        if self._work_task is None or not self._work_task.done():
            self._stop_reason = reason
        if self._work_task is not None:
            self._work_task.cancel()

    async def events(self) -> AsyncGenerator[Published, None]:
        """Events of the turn, last the closing status. There is none if the run `has_diverged` or
        `has_dropped_client`. Raises StoreError if the turn could not be stored.
        """
        try:
            while (item := await self._published.get()) is not None:
                self._has_read.set()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self._is_listened_to = False
            self._has_read.set()

    async def _execute(self) -> None:
        """The turn, in a span below that of its request, which may have been in another process."""
        head = self.head
        parent = {"traceparent": head.trace} if head.is_background else None
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "a2a_lambda",
            "gen_ai.agent.name": head.scope.agent,
            "gen_ai.conversation.id": head.context_id,
            "a2a.task.id": head.task_id,
        }
        with tracing.span(f"invoke_agent {head.scope.agent}", attributes, parent=parent) as span:
            await self._work_under_lease()
            span.set({"a2a.skill": self._turn.skill, "a2a.task.state": self.head.state.value})
            if self.head.state == TaskState.FAILED:
                span.fail("failed")

    async def _work_under_lease(self) -> None:
        started = time.monotonic()
        renewal = asyncio.create_task(self._lease.renew_until_lost())
        flusher = asyncio.create_task(self._journal.flush_in_silence())
        work = self._work_task = asyncio.create_task(self._work())
        if self._stop_reason:  # stopped before it started
            work.cancel()
        deadline = self._turn.deadline
        seconds = None if deadline is None else self._turn.time_left
        try:
            await asyncio.wait({renewal, work}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            ended, self.has_diverged = work.done(), renewal.done()
            if self.has_diverged and (error := renewal.exception()):
                logger.error("the lease of task %s was given up", self.head.task_id, exc_info=error)
            work.cancel()
            await asyncio.wait({work})
            await self._journal.wait_for_flush()
            flusher.cancel()
            left = None if deadline is None else deadline - self._turn.clock() + CLOSING_SECONDS
            if not self.has_diverged:
                async with asyncio.timeout(left):
                    if self.suspension is not None and ended:
                        await self._retry_until_lease_ends(partial(self._suspend, self.suspension))
                    else:
                        await self._store_end(self._finish_events(work, ended))
        except TimeoutError:
            self._published.put_nowait(StoreError("the end of the turn was not stored in time"))
        except Conflict:
            self.has_diverged = True
        except Exception as error:
            self._published.put_nowait(error)
        finally:
            for task in (renewal, flusher, work):
                task.cancel()
            self._measure(started)
            self._published.put_nowait(None)

    async def _work(self) -> None:
        if not self._agent.done():
            await asyncio.wrap_future(self._agent)
        if self._store.clock() >= self.head.lease:  # the process was frozen meanwhile
            raise Conflict
        try:
            await self._perform()
        except Suspended as suspended:
            self.suspension = suspended

    async def _perform(self) -> None:
        async with aclosing(agent_of(self._agent).perform(self._turn)) as batches:
            async for batch in batches:
                events = self._builder.build(batch)
                size = self._builder.size_bytes
                if self._replay is not None and not _is_notice(batch):
                    events = self._replay.take(events)  # without those that an earlier run has stored
                    size = size_of(events)
                if self._journal.size_bytes + size > OUTPUT_BYTES:
                    raise LimitExceeded(f"The agent put out more than {OUTPUT_BYTES:,} bytes in one turn.")
                is_due = self._journal.add(events, size)
                is_stored = False
                try:
                    if is_due and events and self._builder.closing is None:
                        is_stored = await self._journal.try_flush()
                finally:
                    # Published even if the table does not answer. If they are stored, the last has its
                    # number.
                    for index, event in enumerate(events, 1):
                        is_last = index == len(events)
                        self._publish(event, self.sequence if is_stored and is_last else None)
                if self._builder.closing is not None:
                    return
                await self._journal.wait_for_room()
                await self._wait_for_reader()

    def _finish_events(self, work: "asyncio.Task[None]", ended: bool) -> bool:
        """Whether the skill ended the turn itself. If not, add the events of a failed turn.

        ended: the work was done in time.
        """
        failure = TIME_LIMIT
        if ended:
            error = asyncio.CancelledError() if work.cancelled() else work.exception()
            if error is None:
                if self._builder.is_empty:
                    hints.info("skill %s put out nothing: it may lack a `return`", self._turn.skill)
                return True
            if isinstance(error, Conflict):
                raise error
            failure = str(error) if isinstance(error, SkillError) else FAILED
            if self._stop_reason:
                failure = self._stop_reason
                logger.warning("skill %s was stopped", self._turn.skill)
            elif isinstance(reason := self._agent.result() if self._agent.done() else None, str):
                failure = reason  # the agent could not be imported; public, as `agent_of` says it
                logger.error("%s", reason)
            elif isinstance(error, AgentMistake | LimitExceeded):  # its frames are the kit's
                logger.error("%s: %s", agent_of(self._agent).place_of(self._turn), error)
            else:
                logger.error("skill %s failed", self._turn.skill, exc_info=error)
        else:
            logger.error("skill %s ran out of time", self._turn.skill)
        if self._stop_reason and self._question is not None:
            events = self._builder.restore(self._question)  # the question still waits for its answer
        else:
            events = self._builder.fail(failure)
        self._journal.add(events, size_of(events))
        for event in events:
            self._publish(event)
        return False

    def _measure(self, started: float) -> None:
        """The process that ends a task counts its turn. For a lost turn this run measures the time only."""
        agent = self.head.scope.agent
        if self.head.is_stopped and self.suspension is None:
            telemetry.measure({"Turns": 1}, agent=agent, outcome=outcome_of(self.head))
        times = {"RunTime": time.monotonic() - started}
        if self._first_event_seconds is not None and not self._turn_is_queued:
            times["FirstEventTime"] = self._first_event_seconds
        telemetry.measure(times, agent=agent)

    def _publish(self, event: Event, sequence: int | None = None) -> None:
        if self._first_event_seconds is None:
            self._first_event_seconds = time.monotonic() - self._invoked_at
        if self._is_listened_to:
            self._published.put_nowait((sequence, event))

    async def _wait_for_reader(self) -> None:
        """Wait for a client that reads too slowly, for UNREAD_SECONDS in all."""
        clock = asyncio.get_running_loop().time
        while self._is_listened_to and self._unread_limit and self._published.qsize() > self._unread_limit:
            self._has_read.clear()
            began = clock()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience_seconds):
                    await self._has_read.wait()
            self._patience_seconds -= clock() - began
            if self._patience_seconds <= 0 and self._is_listened_to:
                logger.info("the client of task %s is too slow, and gets no more events", self.head.task_id)
                self._is_listened_to, self.has_dropped_client = False, True
                self._published = asyncio.Queue()
                self._published.put_nowait(None)

    async def _suspend(self, suspended: Suspended) -> None:
        """Store that the turn pauses, or waits. Raises StoreError, Conflict."""
        await self._journal.flush()
        scope, task_id, context_id = self.head.scope, self.head.task_id, self.head.context_id
        asked = question_of(suspended, self._asking)
        if asked is not None:
            # A message that names only the context is the reply.
            def wait(context: Context) -> Context:
                return context if context.waiting == task_id else replace(context, waiting=task_id)

            context = await threads.run(self._store.get_context, scope, context_id)
            await threads.run(self._store.update_context, scope, context_id, context, wait)
        sequence, now = self._journal.sequence, self._store.clock()

        def suspend(head: Head) -> Head:
            rested = suspended_head(suspended, asked, sequence, now, head)
            if self._asking is None or sequence != self._first_sequence:
                return rested
            return still_asking(rested, self._asking)

        await self._lease.update(suspend)

    async def _store_end(self, ended_by_skill: bool) -> None:
        """Store the end of the turn, and publish it. ended_by_skill: the skill ended it itself."""
        try:
            await self._retry_until_lease_ends(partial(self._store_context_and_end, ended_by_skill))
            self._publish(self.head.closing_event(), self.head.sequence)
        except StoreError:
            raise
        except Exception:
            # Something cannot be stored as it is. Without the pending events and the context the turn can
            # end. But what was published of it is then not what is stored.
            logger.exception("the end of task %s cannot be stored as it is", self.head.task_id)
            self._journal.clear()
            self._builder.fail(FAILED)
            await self._retry_until_lease_ends(self._end)
            self.has_diverged = True

    async def _store_context_and_end(self, ended_by_skill: bool) -> None:
        try:
            await self._end(await self._context_update(ended_by_skill))
        except MemoryRefused as refused:
            self._memory_is_refused = True  # a retry must not store it after all
            error = refused.__cause__
            logger.error("the memory of task %s cannot be changed", self.head.task_id, exc_info=error)
            self._builder.fail(str(error) if isinstance(error, SkillError) else FAILED)
            await self._end()

    async def _end(self, before: Callable[[], None] | None = None) -> None:
        """Store the closing status, and the pending events if they fit beside it.

        before: as in `Lease.end`."""
        closing = self._builder.closing
        assert closing is not None
        numbered = self._journal.numbered_pending()
        inline = (*self.head.inline, *(numbered or ()))
        if numbered is None or not replace(self.head, status=closing, inline=inline).fits:
            await self._journal.flush()
            numbered = ()
        last = self._journal.sequence + len(numbered)
        pending: Pending | None = None
        if closing["state"] in INTERRUPTED:
            asked = self._builder.asked
            # Without a question of its own, the turn was stopped: an earlier question waits again.
            pending = (
                self._turn.pending
                if asked is None
                else agent_of(self._agent).pending_after(self._turn, asked)
            )

        def end(head: Head) -> Head:
            whole = replace(head, inline=(*head.inline, *numbered))
            if self._stop_reason:  # its request does not count as answered
                whole = replace(whole, requests=whole.requests[:-1])
            return whole.with_closing_status(closing, last, pending, message_only=self._builder.message_only)

        if before is None:
            await self._lease.update(end)
        else:
            await self._lease.end(before, end)

    async def _retry_until_lease_ends(self, step: Callable[[], Awaitable[Result]]) -> Result:
        """Try a step until it succeeds or the lease ends. The step must be safe to repeat. The turn is done;
        only its end is not stored yet."""
        while True:
            try:
                return await step()
            except Conflict:
                raise
            except StoreError:
                if self._store.clock() + END_RETRY_SECONDS >= self.head.lease:
                    raise
                logger.exception("the end of task %s is not stored yet", self.head.task_id)
            await asyncio.sleep(END_RETRY_SECONDS)

    async def _context_update(self, ended_by_skill: bool) -> Callable[[], None] | None:
        """A call that stores what the context keeps of the turn. It blocks, and raises MemoryRefused. Of a
        failed turn, memory keeps nothing. Of a stopped turn, the context keeps nothing at all.

        Raises Conflict if another process holds the task."""
        if self._stop_reason or self._memory_is_refused:
            return None
        scope, task_id, context_id = self.head.scope, self.head.task_id, self.head.context_id
        await self._lease.check_held()
        context = self._turn.context
        # An earlier try of this turn may have changed the stored context.
        is_retry = (
            self._replay is not None
            or self._turn.attempt > 1
            or self._turn.id in (*context.turns, *context.failed)
        )
        if is_retry:
            context = await threads.run(self._store.get_context, scope, context_id)
        assert self._builder.closing is not None
        asks = self._builder.closing["state"] in INTERRUPTED

        def change(context: Context) -> Context:
            newer = context_after(
                context, self._turn, self._builder.parts, self._answered, ended_by_skill=ended_by_skill
            )
            if newer is context and not is_retry:
                return context
            waiting = task_id if asks else "" if newer.waiting == task_id else newer.waiting
            return newer if waiting == newer.waiting else replace(newer, waiting=waiting)

        def store() -> None:
            try:
                self._store.update_context(scope, context_id, context, change)
            except (TypeError, ValueError, SkillError) as error:
                raise MemoryRefused from error

        return store


def _is_notice(batch: Batch) -> bool:
    """Whether a batch is a notice of an operation. A replay does not make it again."""
    return any(isinstance(output, Notice) for output in batch.outputs)


async def wait_for_turns() -> None:
    """Wait until every turn of this process has ended, also those whose client has left."""
    while _running:
        await asyncio.wait(_running)


_running: set["asyncio.Task[None]"] = set()
