"""A task seen from outside its run: as it is, and each later event. Works in any process."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from a2a_lambda import threads
from a2a_lambda.protocol.model import (
    INTERRUPTED,
    STOPPED,
    Event,
    Published,
    Task,
    latest,
)
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.head import Head
from a2a_lambda.turns.recovery import load_head

POLL_SECONDS = 0.3
"""Seconds between looks at a task somebody else runs."""

STOP_POLL_SECONDS = 2.0
"""The same at most, if only the end matters."""

ANSWER_POLL_SECONDS = 1.0
"""The same, of a task that waits for input."""


async def wait_until_stopped(store: Store, head: Head, deadline: float | None) -> Head:
    """The head once its task rests, or as it is when time is up. Looked at ever more rarely: what has taken
    long may take longer."""
    pause = POLL_SECONDS
    while not head.is_stopped and not _is_late(deadline):
        await asyncio.sleep(pause)
        pause = min(1.2 * pause, STOP_POLL_SECONDS)
        head = await load_head(store, head.scope, head.task_id)
    return head


async def follow(
    store: Store,
    head: Head,
    *,
    after: int | None = None,
    history_length: int | None = None,
    deadline: float | None = None,
    waiting: float = 0.0,
) -> AsyncGenerator[Published, None]:
    """The task as it is, then each later event once and in order; with `after`, only what comes behind
    that sequence number, if there is one such.

    waiting: seconds to stay with a task that waits for input.
    """
    if after is not None and not (head.is_stopped and after > head.sequence):
        sequence = after
    else:
        task, sequence = await threads.run(store.get_task, head)
        yield sequence, Event(task=truncate_history(task, history_length))
        if head.is_stopped and not (head.state in INTERRUPTED and waiting):
            yield sequence, head.closing_event()
            return
    if head.state in INTERRUPTED and waiting and head.sequence == sequence:
        head = await _wait_for_answer(store, head, waiting, deadline)
        if head.is_stopped and head.sequence == sequence:
            return
    async with aclosing(follow_from(store, head, sequence, deadline)) as events:
        async for published in events:
            yield published


async def follow_from(
    store: Store, head: Head, after: int, deadline: float | None
) -> AsyncGenerator[Published, None]:
    """Events behind a sequence number until the task rests or time is up."""
    while True:
        events = await threads.run(store.get_events, head, after=after)
        for sequence, event in events:
            after = sequence
            if "artifactUpdate" in event or _is_progress(event):
                yield sequence, event
        if head.is_stopped:
            yield head.sequence, head.closing_event()
            return
        if _is_late(deadline):
            return
        await asyncio.sleep(POLL_SECONDS)
        head = await load_head(store, head.scope, head.task_id)


async def _wait_for_answer(store: Store, head: Head, waiting: float, deadline: float | None) -> Head:
    """The head once the question it waits with is answered, or as it is when time is up."""
    asked, until = head.sequence, time.monotonic() + waiting
    while head.is_stopped and head.sequence == asked and time.monotonic() < until and not _is_late(deadline):
        await asyncio.sleep(ANSWER_POLL_SECONDS)
        head = await load_head(store, head.scope, head.task_id)
    return head


def truncate_history(task: Task, length: int | None) -> Task:
    """The task with the `length` most recent messages; none at all = no history."""
    history = latest(task.get("history", []), length)
    if history:
        task["history"] = history
    else:
        task.pop("history", None)
    return task


def _is_progress(event: Event) -> bool:
    """Whether it is a status told while running; a question asked earlier is not news."""
    return "statusUpdate" in event and event["statusUpdate"]["status"]["state"] not in STOPPED


def _is_late(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() + POLL_SECONDS >= deadline
