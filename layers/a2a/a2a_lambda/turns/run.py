"""One turn of an agent, under a lease.

    agent --outputs--> EventBuilder --events--+--> Audience, at once, to the client
                                              +--> Journal --> log entries --Ending--> context, head

The Lease has the head; Run, Journal and Ending read it there. An event is published with its sequence number
only after everything up to it is stored. Until then it has no number. Events that are still unstored when the
turn ends are stored in the head, with its closing write.

An agent never gets far ahead: it waits for a table that takes no writes, and for a client that reads too
slowly.
"""

import asyncio
import logging
import time
from contextlib import aclosing

from a2a_lambda import mistakes, telemetry, tracing
from a2a_lambda.agent.event_builder import FAILED, FILE_FAILED, FILE_GONE, EventBuilder
from a2a_lambda.catalog.agents import AgentImport, agent_of
from a2a_lambda.durable.engine import OperationNotice, Suspended
from a2a_lambda.errors import (
    AgentMistake,
    FileAbsent,
    FilesUnavailable,
    LimitExceeded,
    SkillError,
    StoreError,
    error_text,
)
from a2a_lambda.files.files import Files
from a2a_lambda.files.turn_files import TurnFiles
from a2a_lambda.protocol.model import TaskState
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.head import Head, Pending, Place, check_pending
from a2a_lambda.turns.audience import Audience
from a2a_lambda.turns.claim import Claim
from a2a_lambda.turns.ending import Ending, TurnEnd
from a2a_lambda.turns.journal import Journal, size_of
from a2a_lambda.turns.lease import Lease

CLOSING_SECONDS = 1.5
"""Seconds after a turn's deadline in which its end may still be stored. The deadline leaves that much
time."""

TIME_LIMIT = "The agent ran out of time."

OUTPUT_BYTES = 50_000_000
"""JSON bytes that a turn may output. A task is read whole, in several forms at once, in 1 GB of memory."""

logger = logging.getLogger(__name__)


class Run:
    """A turn that this process has claimed.

    audience: the client that reads the events of the turn. Its last event is the closing status, unless the
        run `has_diverged` or the client was dropped.
    has_diverged: what was published is not what is stored. Usually another process has ended the task.
    suspension: how the turn was suspended, if it was. Then it has not ended, and another run continues it.
    """

    def __init__(self, store: Store, agent_import: AgentImport, claim: Claim, files: Files) -> None:
        head = claim.head
        claim.turn.file_store = TurnFiles(head, files.bucket, allow_loopback=files.allow_loopback)
        self._agent_import = agent_import
        self._claim = claim
        self._lease = Lease(store, head)
        self._journal = Journal(store, self._lease, claim.sequence)
        self._builder = EventBuilder(
            head.task_id,
            head.context_id,
            store.clock,
            artifact_count=head.artifact_count,
            stale_ids=claim.stale_artifact_ids,
        )
        self._ending = Ending(store, claim, self._lease, self._journal, self._builder)
        self._work_task: asyncio.Task[None] | None = None
        self._stop_reason = ""
        self._pending: Pending | None = None
        self.audience = Audience()
        self.has_diverged = False
        self.suspension: Suspended | None = None

    @property
    def head(self) -> Head:
        return self._lease.head

    @property
    def artifact_ids(self) -> list[str]:
        """Ids of the artifacts that this turn has started."""
        return self._builder.artifact_ids

    def start(self, *, unread_limit: int | None = None) -> None:
        """Start the turn. It continues to its end, whether a client reads its events or not.

        unread_limit: events that may wait for the client before the agent waits; None = any number.
        """
        self.audience.unread_limit = unread_limit
        task = asyncio.create_task(self._execute())
        _running[task] = self
        task.add_done_callback(_running.pop)

    async def run_to_end(self) -> None:
        """Run the turn, and read its events for no client. Raises StoreError."""
        self.start()
        async with aclosing(self.audience.events()) as events:
            async for _ in events:
                pass

    def stop(self, reason: str) -> None:
        """End the turn, unless its agent is done. The task gets back its old status, or fails with the
        reason, which the client may read. The client may make the same request again. If it is called twice,
        the first reason counts."""
        if self._work_task is None or not self._work_task.done():
            self._stop_reason = self._stop_reason or reason
        if self._work_task is not None:
            self._work_task.cancel()

    async def _execute(self) -> None:
        """The turn, in a span below that of its request, which may have been in another process."""
        head = self.head
        parent = None if head.place is Place.REQUEST else {"traceparent": head.trace}
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "a2a_lambda",
            "gen_ai.agent.name": head.namespace.agent,
            "gen_ai.conversation.id": head.context_id,
            "a2a.task.id": head.task_id,
        }
        with tracing.span(f"invoke_agent {head.namespace.agent}", attributes, parent=parent) as span:
            await self._work_under_lease()
            span.set({"a2a.skill": self._claim.turn.skill, "a2a.task.state": self.head.state.value})
            if self.head.state == TaskState.FAILED:
                span.fail("failed")

    async def _work_under_lease(self) -> None:
        """Run the agent until it ends, its time is up or the lease is lost. Store the end, unless the lease
        is lost.

        Three tasks run side by side. `work` is the agent. `renewal` keeps the lease, and ends only when it is
        lost. Another process may own the task then, so nothing more is stored. `flusher` stores events that
        no other event follows. The end is stored while the renewal still runs. Every write of the head is
        conditional, so a lease that is lost meanwhile shows as Conflict.
        """
        # The agent's import may still run: `work` waits for it, while `renewal` keeps the lease.
        start, turn = time.monotonic(), self._claim.turn
        renewal = asyncio.create_task(self._lease.renew_until_lost())
        flusher = asyncio.create_task(self._journal.flush_in_silence())
        work = self._work_task = asyncio.create_task(self._work())
        if self._stop_reason:  # stopped before it started
            work.cancel()
        seconds = None if turn.deadline is None else turn.time_left
        error: BaseException | None = None
        try:
            # Whatever ends first decides: the agent, the loss of the lease, or the deadline, at which
            # neither is done.
            await asyncio.wait({renewal, work}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            is_in_time, self.has_diverged = work.done(), renewal.done()
            if self.has_diverged and (cause := renewal.exception()):
                logger.error("the lease of task %s was given up", self.head.task_id, exc_info=cause)
            work.cancel()
            await asyncio.wait({work})
            work_error = asyncio.CancelledError() if work.cancelled() else work.exception()
            # The flusher may be writing: wait for it. A flush that `work.cancel` interrupted is written
            # again, with the same numbers.
            await self._journal.wait_for_flush()
            flusher.cancel()
            # A run that has lost its task stores nothing more. Its client reads the rest from the log.
            if not self.has_diverged:
                end_seconds = None
                if turn.deadline is not None:
                    end_seconds = turn.deadline - time.monotonic() + CLOSING_SECONDS
                async with asyncio.timeout(end_seconds):
                    await self._store_end(work_error, is_in_time)
        except TimeoutError:
            error = StoreError("the end of the turn was not stored in time")
        except Conflict:
            self.has_diverged = True
        except Exception as failure:
            error = failure
        finally:
            for task in (renewal, flusher, work):
                task.cancel()
            self._measure(start)
            self.audience.close(error)

    async def _work(self) -> None:
        """Perform the turn. Raises Suspended if it pauses or waits, Conflict if the lease is over or lost,
        LimitExceeded, Unavailable if the agent cannot be imported, and what the agent raises."""
        if not self._agent_import.done():
            await asyncio.wrap_future(self._agent_import)
        if self._lease.is_over:  # the process was frozen meanwhile
            raise Conflict
        agent, turn = agent_of(self._agent_import), self._claim.turn
        async with aclosing(agent.perform(turn)) as batches:
            async for batch in batches:
                events = self._builder.build(batch)
                size = self._builder.size_bytes
                # A replay outputs again what an earlier run has stored. Notices of operations are always
                # new.
                is_notice = any(isinstance(output, OperationNotice) for output in batch.outputs)
                # A plain skill, which a router may have chosen, is not replayed: its artifacts begin anew.
                if self._claim.replay is not None and turn.engine is not None and not is_notice:
                    events = self._claim.replay.take(events)
                    size = size_of(events)
                # A replay builds again what an earlier run has stored, so this is what all runs output.
                if self._builder.total_bytes > OUTPUT_BYTES:
                    raise LimitExceeded(f"The agent output more than {OUTPUT_BYTES:,} bytes in one turn.")
                # What is published may not be stored yet. It has no number then, so a client that comes
                # back asks for what follows the last number that it has.
                is_due = self._journal.add(events, size)
                is_stored = False
                try:
                    if is_due and events and self._builder.closing_status is None:
                        is_stored = await self._journal.try_flush()
                finally:
                    # Published even if the table does not answer. If they are stored, the last has its
                    # number.
                    for index, event in enumerate(events, 1):
                        is_last = index == len(events)
                        self.audience.publish(
                            event, self._journal.sequence if is_stored and is_last else None
                        )
                if self._builder.question is not None:
                    self._pending = agent.pending_after(turn, self._builder.question)
                    check_pending(self._pending)
                if self._builder.closing_status is not None:
                    return
                # Back pressure, from the table and then from the client. The generator waits
                # meanwhile, so the agent does, too.
                await self._journal.wait_for_room()
                await self.audience.wait_for_room()

    async def _store_end(self, error: BaseException | None, is_in_time: bool) -> None:
        """Store that the turn has ended, or is suspended, and publish its end.

        error: what ended the work, or None. is_in_time: the work was done before the deadline. Raises
        StoreError, Conflict.
        """
        if isinstance(error, Suspended) and is_in_time:
            try:
                await self._ending.suspend(error)
                self.suspension = error
                return
            except LimitExceeded as limit:
                error = limit
        if isinstance(error, Conflict):  # the work noticed that the lease is lost
            raise error
        was_ended_by_skill, was_stopped = is_in_time and error is None, bool(self._stop_reason)
        if not was_ended_by_skill:
            self._publish_failure(error if is_in_time else None)
        elif self._builder.is_empty:
            mistakes.hint_at_empty_answer(self._claim.turn.skill)
        if await self._ending.store(TurnEnd(was_ended_by_skill, was_stopped, self._pending)):
            self.audience.publish(self.head.closing_event(), self.head.sequence)
        else:  # what was published of the turn is not what is stored
            self.has_diverged = True

    def _publish_failure(self, error: BaseException | None) -> None:
        """Add and publish the events with which a turn fails, or, if it was stopped, goes back to its old
        status.

        error: what ended the work before the deadline; None = its time was up.
        """
        if error is None:
            logger.error("skill %s ran out of time", self._claim.turn.skill)
        failure = TIME_LIMIT if error is None else self._explain(error)
        if self._stop_reason and self._claim.old_status is not None:
            # A question still waits for its answer, as it did before the turn.
            events = self._builder.restore(self._claim.old_status)
            self._pending = self._claim.turn.pending
        else:
            events = self._builder.fail(failure)
        self._journal.add(events, size_of(events))
        for event in events:
            self.audience.publish(event)

    def _explain(self, error: BaseException) -> str:
        """What the client may read of a failure. The log gets the rest."""
        skill = self._claim.turn.skill
        if self._stop_reason:
            logger.warning("skill %s was stopped", skill)
            return self._stop_reason
        agent = self._agent_import.result() if self._agent_import.done() else None
        if isinstance(agent, str):  # why it could not be imported, which the client may read
            logger.error("%s", agent)
            return agent
        if isinstance(error, AgentMistake | LimitExceeded):  # its frames are the kit's
            logger.error("%s: %s", agent_of(self._agent_import).source_of(self._claim.turn), error)
        else:
            logger.error("skill %s failed", skill, exc_info=error)
        if isinstance(error, FilesUnavailable):
            return FILE_FAILED
        if isinstance(error, FileAbsent):
            return FILE_GONE
        return error_text(error) if isinstance(error, SkillError) else FAILED

    def _measure(self, start: float) -> None:
        """Record the time of the turn and, if this run ended the task, its outcome. The process that ends a
        lost turn counts it."""
        head = self._claim.head
        if self.head.is_stopped and self.suspension is None:
            telemetry.measure({"Turns": 1}, agent=head.namespace.agent, outcome=self.head.outcome)
        times = {"RunTime": time.monotonic() - start}
        seconds = self.audience.first_event_seconds
        if seconds is not None and head.place is Place.REQUEST:  # elsewhere no client waits for it
            times["FirstEventTime"] = seconds
        telemetry.measure(times, agent=head.namespace.agent)


async def wait_for_turns() -> None:
    """Wait until every turn of this process has ended, including those whose client has left."""
    while _running:
        await asyncio.wait(_running)


async def stop_turns(reason: str, *, after: float) -> None:
    """Stop the turns of this event loop that have not ended within some seconds, as `Run.stop` does, and wait
    until they have. after: the seconds."""
    loop = asyncio.get_running_loop()
    runs = {task: run for task, run in list(_running.items()) if task.get_loop() is loop}
    pending = (await asyncio.wait(runs, timeout=after))[1] if runs else set()
    for task in pending:
        runs[task].stop(reason)
    if pending:
        await asyncio.wait(pending)


_running: dict["asyncio.Task[None]", Run] = {}
