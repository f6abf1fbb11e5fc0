"""Turns of durable skills: one execution a turn, one run for each time that it continues.

    send ── head submitted ── start ── execution ── run ── pause or wait ── head suspended
                                            └──── a timer, a reply, or the death of a process: run again

A run takes the head as a worker does. The log says what is known already: the message, the replies to waits,
how many outputs are stored, and the context as it was when the turn began. An execution has one process at a
time, so a head that another run of the same execution holds belongs to a dead one.

    reply to a wait ── head answered ── wake
    sweep ── answered, and not continued: wake again. Its execution is gone: the task ends as failed
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from a2a_lambda import telemetry, threads
from a2a_lambda.agent.agents import Agents
from a2a_lambda.aws.executions import Executions
from a2a_lambda.aws.queue import QueuedTurn, read_message
from a2a_lambda.durable.engine import Engine, Reply
from a2a_lambda.errors import StoreError
from a2a_lambda.protocol.model import OPERATION, TERMINAL, Event, Part
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.callback import CALLBACK_PATH, callback_token
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.head import Head, WaitState
from a2a_lambda.tasks.replay import Replay, last_mark
from a2a_lambda.turns.claim import Claim, make_turn, minute_after
from a2a_lambda.turns.recovery import end_task, lost_status
from a2a_lambda.turns.run import Run
from a2a_lambda.turns.suspension import (
    LATE_SECONDS,
    LOOK_SECONDS,
    REPLYING,
    answered_head,
    held_for_reply,
    reply_events,
    resumed_head,
)

RUN_ATTEMPTS = 5
"""Number of times in a row that a run of a turn may die before the turn fails for good."""

REPLY_POLL_SECONDS = 0.2
"""Seconds between looks at a task whose reply is being stored."""

GIVEN_UP = "This turn could not be run to its end."

Replies = Mapping[str, Reply]
"""By the key of their wait."""

MakeEngine = Callable[[Replies, Callable[[str], str]], Engine]
"""Makes the engine of a run, with the replies that are known, and what makes the url of a wait."""

logger = logging.getLogger(__name__)


class DurableTurns:
    def __init__(self, store: Store, agents: Agents, executions: Executions) -> None:
        self._store = store
        self._agents = agents
        self._executions = executions

    async def run(
        self, queued: QueuedTurn, arn: str, make_engine: MakeEngine, deadline: float | None
    ) -> None:
        """Run a turn until it ends. Raises Suspended if it pauses or waits; StoreError: then the run must
        come again.

        arn: of the execution. deadline: a `time.monotonic()` value, when this run must end.
        """
        claim = await self._claim(queued, arn, make_engine, deadline)
        if claim is None:
            return
        run = Run(self._store, self._agents.start(queued.scope.agent), claim)
        await run.run_to_end()
        if run.has_diverged and await self._load(queued, arn) is not None:
            raise StoreError("the run lost its task, which has not ended")
        if run.suspension is not None and not run.has_diverged:
            raise run.suspension

    async def dispatch(self, head: Head) -> str:
        """Start the execution of a turn, or wake it; returns its ARN, or "" if it is not known. Raises
        StoreError."""
        assert head.execution is not None
        arn = head.execution["arn"] or await threads.run(self._executions.start, QueuedTurn.of(head))
        for callback in head.execution["wakes"]:
            await threads.run(self._executions.wake, callback)
        return arn

    async def stop(self, head: Head) -> None:
        """Stop the execution of a turn that was canceled. head: before that. If this fails, the execution
        ends by itself when it continues."""
        if head.execution is not None and head.execution["arn"]:
            await threads.run(self._executions.stop, head.execution["arn"])

    async def sweep(self, head: Head) -> None:
        """Look after a turn that is due and that no run holds. Raises StoreError, Conflict."""
        assert head.execution is not None
        arn, now = await self.dispatch(head), self._store.clock()
        if arn and not await threads.run(self._executions.is_running, arn):
            await self._give_up(head)
            return
        is_late = 0 < head.execution["until"] <= now
        is_resting = head.is_suspended and not head.execution["wakes"] and not is_late
        pause = LOOK_SECONDS if is_resting else LATE_SECONDS
        await threads.run(self._store.update_head, replace(head, due=minute_after(now + pause)))

    async def end_lost(self, arn: str) -> None:
        """End the turn of an execution that has failed, timed out or was stopped. Raises StoreError."""
        queued = read_message(await threads.run(self._executions.turn_of, arn))
        while (head := await self._load(queued, arn)) is not None:
            with suppress(Conflict):  # it changes for other reasons, too
                await end_task(self._store, head, lost_status(self._store, head, GIVEN_UP))

    async def _load(self, queued: QueuedTurn, arn: str) -> Head | None:
        """Head of the task, if this execution has its turn."""
        telemetry.about(owner=queued.scope.owner, agent=queued.scope.agent, task_id=queued.task_id)
        head = await threads.run(self._store.get_head, queued.scope, queued.task_id)
        if head is None or head.turn_id != queued.turn_id or head.execution is None:
            return None
        return head if head.execution["arn"] in ("", arn) and head.state not in TERMINAL else None

    async def _claim(
        self, queued: QueuedTurn, arn: str, make_engine: MakeEngine, deadline: float | None
    ) -> Claim | None:
        while (head := await self._load(queued, arn)) is not None:
            if head.holder == REPLYING and head.lease > self._store.clock():
                await asyncio.sleep(REPLY_POLL_SECONDS)
                continue
            if head.attempts >= RUN_ATTEMPTS or queued.scope.agent not in self._agents:
                await self._give_up(head)
                return None
            # The head also changes for other reasons: a reply came, or a push config was set.
            with suppress(Conflict):
                claim = await self._read_claim(await self._take(head, arn), make_engine, deadline)
                return replace(claim, asking=head) if claim is not None and head.is_stopped else claim
        return None

    async def _take(self, head: Head, arn: str) -> Head:
        """The head, held by a new run. Raises Conflict."""
        if head.holder and not head.is_stopped:
            head = await threads.run(self._store.take_over, head)
        taken, overflow = resumed_head(head, arn, self._store.clock())
        taken = await threads.run(self._store.update_head, taken)
        if overflow:
            await threads.run(self._store.append, taken, overflow, after=taken.sequence)
        return taken

    async def _read_claim(self, head: Head, make_engine: MakeEngine, deadline: float | None) -> Claim | None:
        """The claim of a turn, from the log. None if its message was never stored."""
        numbered = await threads.run(self._store.get_events, head)
        place = next(
            (index for index, (_, event) in enumerate(numbered) if _began(event, head.turn_id)), None
        )
        if place is None:
            # The process that took the message died before it stored it.
            await self._give_up(replace(head, requests=()))
            return None
        telemetry.bind(context_id=head.context_id, version=head.wire_name)
        sequence = max(numbered[-1][0], head.sequence)
        asked, own = numbered[place][1], [event for _, event in numbered[place + 1 :]]
        kept = next((event["context"] for event in own if "context" in event), None)
        if kept is None:
            # Other turns may change the context before this one ends. Each run must see it as the first one
            # did.
            found = await threads.run(self._store.get_context, head.scope, head.context_id)
            kept = found.before(head.turn_id, head.task_id).seen()
            sequence = await threads.run(self._store.append, head, [Event(context=kept)], after=sequence)
        turn = make_turn(
            head,
            asked["message"],
            asked["asked"],
            context=Context.of_seen(kept),
            pending=head.pending,
            deadline=deadline,
            engine=make_engine(replies_of(own, head.turn_id), partial(_callback_url, head)),
        )
        return Claim(head, sequence, turn, replay=Replay(last_mark(own)))

    async def _give_up(self, head: Head) -> None:
        logger.warning("task %s is given up after %d attempts", head.task_id, head.attempts)
        with suppress(Conflict):
            await end_task(self._store, head, lost_status(self._store, head, GIVEN_UP))


async def store_reply(
    store: Store,
    head: Head,
    wait: WaitState,
    reply: Event,
    change: Callable[[Head], Head] = lambda head: head,
) -> Head:
    """Store the reply to a wait of a suspended turn; returns the head. Then the turn must be woken.

    change: what else becomes of the head. Raises Conflict if the head is not as it was, or another reply is
    being stored; StoreError. Then the wait is still open.
    """
    now = store.clock()
    if head.holder and head.lease > now:
        await asyncio.sleep(REPLY_POLL_SECONDS)
        raise Conflict(head)
    events = reply_events(head, reply)
    base = head.with_new_epoch() if head.is_stopped or head.holder else head
    small = answered_head(change(base.with_events_after(events)), wait, now)
    if small.fits:
        return await threads.run(store.update_head, small)
    held = await threads.run(store.update_head, held_for_reply(head, now))
    last = await threads.run(store.append, held, events, after=held.committed)
    whole = replace(held, sequence=last, committed=last)
    return await threads.run(store.update_head, answered_head(change(whole), wait, store.clock()))


def _began(event: Event, turn: str) -> bool:
    """Whether an event is the message that began a turn."""
    return "asked" in event and event["asked"]["turn"] == turn and "answers" not in event["asked"]


def has_ended(events: Iterable[Event], turn: str, key: str) -> bool:
    """Whether a wait of a turn has ended, by a reply or by its timeout."""
    is_own = False
    for event in events:
        is_own = is_own or _began(event, turn)
        said = event["statusUpdate"].get("metadata", {}).get(OPERATION, {}) if "statusUpdate" in event else {}
        if is_own and (said.get("kind"), said.get("name"), said.get("state")) == ("wait", key, "ended"):
            return True
    return False


def replies_of(events: Iterable[Event], turn: str) -> dict[str, Reply]:
    """Replies to the waits of a turn, by their key."""
    replies: dict[str, Reply] = {}
    for event in events:
        if "callback" in event and event["callback"]["turn"] == turn:
            callback = event["callback"]
            replies[callback["key"]] = Reply([Part(data=callback["data"])], is_callback=True)
        elif "asked" in event and event["asked"]["turn"] == turn and "answers" in event["asked"]:
            replies[event["asked"]["answers"]] = Reply(event["message"]["parts"])
    return replies


def _callback_url(head: Head, key: str) -> str:
    assert head.execution is not None
    return f"{head.execution['url']}/{CALLBACK_PATH}/{callback_token(head, key)}"
