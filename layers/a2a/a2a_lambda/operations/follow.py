"""A task seen from outside its run: as it is, and each later event. Works in any process."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from a2a_lambda import threads
from a2a_lambda.protocol.model import INTERRUPTED, Event, Published, truncate_history, unix_time
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.event_log import publish
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.suspension import execution_of
from a2a_lambda.turns.recovery import load_live_head, load_progress

FOLLOW_POLL_SECONDS = 0.3
"""Seconds between looks at a task that another process runs."""

SILENT_POLL_SECONDS = 1.0
"""Maximum pause between looks at a silent task, in seconds."""

SLOWDOWN = 1.2
"""Factor by which pauses grow while nothing happens."""

STOP_POLL_SECONDS = 2.0
"""Maximum pause between looks if only the end of the task matters, in seconds."""

SUSPENDED_FOLLOW_SECONDS = 60.0
"""Seconds for which a call follows a durable turn that stays suspended for longer than the call may last."""

ANSWER_POLL_SECONDS = 1.0
"""Seconds between looks at a task that waits for input."""


async def wait_until_stopped(
    store: Store, head: Head, deadline: float | None, *, or_suspended: bool = False
) -> Head:
    """The head after its task has stopped, or stays suspended, or as it is at the deadline (a
    `time.monotonic()` value). or_suspended: or as soon as its durable turn is suspended.

    The longer the task takes, the longer the pauses between looks at it.
    """
    pause = FOLLOW_POLL_SECONDS
    while not (head.is_stopped or _is_late(deadline) or _stays_suspended(store, head, deadline)):
        if or_suspended and head.is_asleep:
            break
        await asyncio.sleep(pause)
        pause = min(SLOWDOWN * pause, STOP_POLL_SECONDS)
        head = await load_live_head(store, head.namespace, head.task_id)
    return head


async def follow(
    store: Store,
    head: Head,
    *,
    after: int | None = None,
    history_length: int | None = None,
    deadline: float | None = None,
    answer_wait_seconds: float = 0.0,
) -> AsyncGenerator[Published, None]:
    """The task as it is, then each later event, once and in order.

    after: a sequence number. Yield only later events, and not the task itself, unless the task stops before
        it.
    answer_wait_seconds: seconds for which a task that waits for input is followed.
    """
    # A client that comes back with a number beyond the log has it from a log that was lost, such as one
    # before a restore. It gets the task again.
    if after is not None and not (head.is_stopped and after > head.sequence):
        sequence = after
    else:
        task, sequence = await threads.run(store.get_task, head)
        yield sequence, Event(task=truncate_history(task, history_length))
        if head.is_stopped and not (head.state in INTERRUPTED and answer_wait_seconds):
            yield sequence, head.closing_event()
            return
    # The client has everything up to the question. What follows is an answer, perhaps by another client,
    # and then the next run.
    if head.state in INTERRUPTED and answer_wait_seconds and head.sequence == sequence:
        head = await _wait_for_answer(store, head, answer_wait_seconds, deadline)
        if head.is_stopped and head.sequence == sequence:
            return
    async with aclosing(follow_from(store, head, sequence, deadline)) as events:
        async for number, event in events:
            # Nothing was yielded of a log that ends before `after`, so the client gets the task.
            if after is not None and number is not None and number < after:
                head = await load_live_head(store, head.namespace, head.task_id)
                items = follow(store, head, history_length=history_length, deadline=deadline)
                async with aclosing(items):
                    async for item in items:
                        yield item
                return
            yield number, event


async def follow_from(
    store: Store, head: Head, sequence: int, deadline: float | None
) -> AsyncGenerator[Published, None]:
    """Events after a sequence number, until the task stops or stays suspended, or the deadline is near."""
    events = await threads.run(store.get_events, head, after=sequence)
    pause = FOLLOW_POLL_SECONDS
    while True:
        for item in publish(events):
            yield item
        sequence = events[-1][0] if events else sequence
        if head.is_stopped:
            yield head.sequence, head.closing_event()
            return
        if _is_late(deadline) or _stays_suspended(store, head, deadline):
            return
        # A task that streams is looked at often, one that is silent less and less. A function that follows
        # costs as long as it runs, and each look costs a read.
        pause = FOLLOW_POLL_SECONDS if events else min(SLOWDOWN * pause, SILENT_POLL_SECONDS)
        await asyncio.sleep(pause)
        head, events = await load_progress(store, head, after=sequence)


async def _wait_for_answer(store: Store, head: Head, seconds: float, deadline: float | None) -> Head:
    """The head after the task's question was answered, or as it is when the time is up."""
    asked_at, end = head.sequence, time.monotonic() + seconds
    while head.is_stopped and head.sequence == asked_at and time.monotonic() < end:
        if _is_late(deadline):
            break
        await asyncio.sleep(ANSWER_POLL_SECONDS)
        head = await load_live_head(store, head.namespace, head.task_id)
    return head


def _stays_suspended(store: Store, head: Head, deadline: float | None) -> bool:
    """Whether a durable turn has been suspended for a while, and will probably not continue before the
    deadline."""
    if not head.is_asleep:
        return False
    execution, now = execution_of(head), store.clock()
    seconds_left = float("inf") if deadline is None else deadline - time.monotonic()
    # Only a timer's end is known. For a person or another system, a call waits no longer than
    # SUSPENDED_FOLLOW_SECONDS.
    continues_soon = not execution.waits and execution.until - now < seconds_left
    return not continues_soon and now - unix_time(head.status["timestamp"]) > SUSPENDED_FOLLOW_SECONDS


def _is_late(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() + FOLLOW_POLL_SECONDS >= deadline
