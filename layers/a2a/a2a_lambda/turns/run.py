"""One agent turn under a lease.

    agent --outputs--> reply --events--+--> published to whoever listens, at once
                                       +--> journal --> log entries --close--> context, head

An event is published with a sequence number only once everything up to it is stored; until then
without one. What is still pending when the turn ends goes onto the head with its closing write.

An agent never gets far ahead: it waits for a table that takes nothing, and for a client that reads too
slowly. For the client it waits a minute, all in all. Then the client is `left_behind`: the turn continues
without it, and the client reads the rest from the log.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from a2a_lambda import telemetry, threads
from a2a_lambda.agent.agent import Agent
from a2a_lambda.agent.event_builder import FAILED, EventBuilder
from a2a_lambda.agent.turn import conclude
from a2a_lambda.errors import SkillError, StoreError
from a2a_lambda.protocol.model import INTERRUPTED, Event, Published, TaskStatus
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.head import Head, Pending
from a2a_lambda.turns.claim import Claim
from a2a_lambda.turns.journal import Journal, size_of
from a2a_lambda.turns.lease import Lease
from a2a_lambda.turns.recovery import outcome_of

CLOSING_SECONDS = 1.5
"""Seconds behind a turn's deadline in which its end may still be stored: what the deadline left for it."""

END_RETRY_SECONDS = 0.5
"""Seconds between tries to store a turn's end."""

TIME_LIMIT = "The agent ran out of time."

OUTPUT_BYTES = 50_000_000
"""JSON bytes a turn may put out. A task is read whole, in several forms at once, and a function has 1 GB."""

UNREAD_EVENTS = 256
"""Events that wait for a client before the agent does."""

UNREAD_SECONDS = 60.0
"""How long, all in all, an agent waits for its client."""

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


class Run:
    """A turn of a task this process has claimed.

    lost: what was published is not what is stored; mostly, another ended the task meanwhile.
    left_behind: the client was too slow, and the end of what was published is dropped.
    """

    def __init__(self, store: Store, agent: Agent, claim: Claim) -> None:
        head = claim.head
        self._store = store
        self._agent = agent
        self._turn = claim.turn
        self._seen = claim.seen
        self._reply = EventBuilder(head.task_id, head.context_id, store.clock, artifacts=head.artifacts)
        self._lease = Lease(store, head)
        self._journal = Journal(store, lambda: self.head, claim.sequence)
        self._published: asyncio.Queue[Published | BaseException | None] = asyncio.Queue()
        self._read = asyncio.Event()
        self._unread_limit: int | None = None
        self._listening = True
        self._patience = UNREAD_SECONDS
        self._work_task: asyncio.Task[None] | None = None
        self._stopped_with = ""
        self._queued = head.is_queued
        self._begun = telemetry.begun()
        self._first: float | None = None
        self._resumes = claim.resumes
        self.lost = False
        self.left_behind = False

    @property
    def head(self) -> Head:
        return self._lease.head

    @property
    def sequence(self) -> int:
        """Last sequence number stored."""
        return self._journal.sequence

    @property
    def artifact_ids(self) -> list[str]:
        """Ids of the artifacts this turn has begun."""
        return self._reply.artifact_ids

    def start(self, *, unread_limit: int | None = None) -> None:
        """Begin the turn; it continues to its end whether anyone listens or not.

        unread_limit: events that may wait to be read before the agent waits; None = any number.
        """
        self._unread_limit = unread_limit
        task = asyncio.create_task(self._execute())
        _running.add(task)
        task.add_done_callback(_running.discard)

    def stop(self, reason: str) -> None:
        """End the turn as failed, with a reason the client may read, unless its agent is done. The same
        request can be made again."""
        if self._work_task is None or not self._work_task.done():
            self._stopped_with = reason
        if self._work_task is not None:
            self._work_task.cancel()

    async def events(self) -> AsyncGenerator[Published, None]:
        """Events of the turn, the closing status last; without it where the run is `lost` or the client
        `left_behind` afterwards. Raises StoreError where the turn could not be stored.
        """
        try:
            while (item := await self._published.get()) is not None:
                self._read.set()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self._listening = False
            self._read.set()

    async def _execute(self) -> None:
        began = time.monotonic()
        beat = asyncio.create_task(self._lease.renew_until_lost())
        flusher = asyncio.create_task(self._journal.flush_in_silence())
        work = self._work_task = asyncio.create_task(self._work())
        if self._stopped_with:  # before it began
            work.cancel()
        try:
            await asyncio.wait(
                {beat, work}, timeout=self._seconds_left(), return_when=asyncio.FIRST_COMPLETED
            )
            ended, self.lost = work.done(), beat.done()
            if self.lost and (error := beat.exception()):
                logger.error("the lease of task %s was given up", self.head.task_id, exc_info=error)
            work.cancel()
            await asyncio.wait({work})
            await self._journal.wait_for_flush()
            flusher.cancel()
            if not self.lost:
                async with asyncio.timeout_at(self._last_moment()):
                    await self._conclude(self._outcome(work, ended))
        except TimeoutError:
            self._published.put_nowait(StoreError("the end of the turn was not stored in time"))
        except Conflict:
            self.lost = True
        except Exception as error:
            self._published.put_nowait(error)
        finally:
            for task in (beat, flusher, work):
                task.cancel()
            self._measure(began)
            self._published.put_nowait(None)

    async def _work(self) -> None:
        async with aclosing(self._agent.perform(self._turn)) as batches:
            async for batch in batches:
                events = self._reply.compose(batch)
                size = size_of(events)
                if self._journal.size_bytes + size > OUTPUT_BYTES:
                    raise SkillError(f"The agent put out more than {OUTPUT_BYTES:,} bytes in one turn.")
                await self._record(events, size)
                if self._reply.closing is not None:
                    return
                await self._journal.wait_for_room()
                await self._await_reader()

    def _outcome(self, work: "asyncio.Task[None]", ended: bool) -> bool:
        """Whether the turn ended as its skill meant; else the reply is made a failed one."""
        failure = TIME_LIMIT
        if ended:
            error = asyncio.CancelledError() if work.cancelled() else work.exception()
            if error is None:
                return True
            if isinstance(error, Conflict):
                raise error
            failure = str(error) if isinstance(error, SkillError) else FAILED
            if self._stopped_with:
                failure = self._stopped_with
                logger.warning("skill %s was stopped", self._turn.skill)
            else:
                logger.error("skill %s failed", self._turn.skill, exc_info=error)
        else:
            logger.error("skill %s ran out of time", self._turn.skill)
        if self._stopped_with and self._resumes is not None:
            events = self._reply.restore(self._resumes)  # the question is still to be answered
        else:
            events = self._reply.fail(failure)
        self._journal.add(events, size_of(events))
        for event in events:
            self._publish(event)
        return False

    async def _record(self, events: Sequence[Event], size: int) -> None:
        """Take events in, whole; store them if it is time to; publish them, the last with its number."""
        if not events:
            return
        due = self._journal.add(events, size)
        stored = False
        try:
            if due and self._reply.closing is None:
                stored = await self._journal.flush()
        finally:
            for event in events[:-1]:
                self._publish(event)
            self._publish(events[-1], self.sequence if stored else None)

    def _measure(self, began: float) -> None:
        """Whoever ends a task counts the turn: of a lost one only the time is told here."""
        agent = self.head.scope.agent
        if self.head.is_stopped:
            telemetry.measure({"Turns": 1}, agent=agent, outcome=outcome_of(self.head))
        times = {"RunTime": time.monotonic() - began}
        if self._first is not None and not self._queued:  # nobody waits for the worker
            times["FirstEventTime"] = self._first
        telemetry.measure(times, agent=agent)

    def _publish(self, event: Event, sequence: int | None = None) -> None:
        if self._first is None:
            self._first = time.monotonic() - self._begun
        if self._listening:
            self._published.put_nowait((sequence, event))

    async def _await_reader(self) -> None:
        """Wait for a client that is far behind, as long as there is patience."""
        clock = asyncio.get_running_loop().time
        while self._listening and self._unread_limit and self._published.qsize() > self._unread_limit:
            self._read.clear()
            began = clock()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await self._read.wait()
            self._patience -= clock() - began
            if self._patience <= 0 and self._listening:
                logger.info("the client of task %s is left behind", self.head.task_id)
                self._listening, self.left_behind = False, True
                self._published = asyncio.Queue()
                self._published.put_nowait(None)

    async def _conclude(self, meant: bool) -> None:
        try:
            await self._close(meant)
        except StoreError:
            raise
        except Exception:
            # Something here cannot be stored. Without the pending events and the context, the turn can end.
            # What was published of it is not what is stored then.
            logger.exception("the end of task %s cannot be stored as it is", self.head.task_id)
            self._journal.clear()
            self._reply.fail(FAILED)
            await self._retry_until_lease_ends(self._end)
            self.lost = True

    async def _close(self, meant: bool) -> None:
        await self._retry_until_lease_ends(partial(self._remember, meant))
        await self._retry_until_lease_ends(self._end)
        self._publish(self.head.closing_event(), self.head.sequence)

    async def _end(self) -> None:
        closing = self._closing
        numbered = self._journal.numbered_pending()
        inline = (*self.head.inline, *(numbered or ()))
        if numbered is None or not replace(self.head, status=closing, inline=inline).fits:
            await self._journal.write()
            numbered = ()
        last = self._journal.sequence + len(numbered)
        pending = self._waits(closing)

        def end(head: Head) -> Head:
            whole = replace(head, inline=(*head.inline, *numbered))
            if self._stopped_with:  # its request does not count as answered
                whole = replace(whole, requests=whole.requests[:-1])
            return whole.with_closing_status(closing, last, pending, message_only=self._reply.message_only)

        await self._lease.update(end)

    async def _retry_until_lease_ends(self, step: Callable[[], Awaitable[Result]]) -> Result:
        """Result of a step that is safe to repeat, tried until the lease ends: the turn is done, and
        only its storing is not."""
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

    @property
    def _closing(self) -> TaskStatus:
        assert self._reply.closing is not None
        return self._reply.closing

    async def _remember(self, meant: bool) -> None:
        """Store what the context keeps of the turn: of a failed one, not its changes to memory; of one that
        was stopped, nothing. Raises Conflict if the task is another's by now, as far as a look a second
        ago tells."""
        if self._stopped_with:
            return
        scope, task_id, context_id = self.head.scope, self.head.task_id, self.head.context_id
        await self._lease.check_held()
        context = self._turn.context
        # An earlier try of this turn may have changed it; then what the turn saw is not all there is.
        again = self._turn.attempt > 1 or self._turn.id in (*context.turns, *context.failed)
        if again:
            context = await threads.run(self._store.get_context, scope, context_id)

        def change(context: Context) -> Context:
            newer = conclude(context, self._turn, self._reply.parts, self._seen, meant=meant)
            if newer is context and not again:
                return context
            waiting = "" if newer.waiting == task_id else newer.waiting
            if self._closing["state"] in INTERRUPTED:
                waiting = task_id
            return newer if waiting == newer.waiting else replace(newer, waiting=waiting)

        try:
            await threads.run(self._store.update_context, scope, context_id, context, change)
        except (TypeError, ValueError, SkillError) as error:
            logger.error("the memory of task %s cannot be changed", task_id, exc_info=error)
            self._reply.fail(str(error) if isinstance(error, SkillError) else FAILED)

    def _waits(self, closing: TaskStatus) -> Pending | None:
        if closing["state"] not in INTERRUPTED:
            return None
        if self._reply.asked is None:  # the question was asked before
            return self._turn.pending
        return self._agent.waiting(self._turn, self._reply.asked)

    def _last_moment(self) -> float | None:
        """When even the turn's end has to be stored, on the event loop's clock."""
        if self._turn.deadline is None:
            return None
        return asyncio.get_running_loop().time() + self._turn.deadline - self._turn.clock() + CLOSING_SECONDS

    def _seconds_left(self) -> float | None:
        left = self._turn.time_left
        return None if left == float("inf") else left


async def wait_for_turns() -> None:
    """Wait for every turn of this process to end, those nobody listens to included."""
    while _running:
        await asyncio.wait(_running)


_running: set["asyncio.Task[None]"] = set()
