"""A task seen from outside its run: as it is, and as it goes on. Works in any process."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace

from a2a_lambda import telemetry, threads
from a2a_lambda.errors import StoreError, TaskNotFound
from a2a_lambda.protocol.model import (
    INTERRUPTED,
    RESTING,
    Event,
    Part,
    Published,
    Task,
    TaskState,
    TaskStatus,
    agent_message,
    latest,
    status,
)
from a2a_lambda.store.store import Store, Superseded
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Scope

logger = logging.getLogger(__name__)

POLL = 0.3
"""Seconds between looks at a task somebody else runs."""

REST_POLL = 2.0
"""The same at most, if only the end matters."""

PATIENT_POLL = 1.0
"""The same, of a task that waits for input."""

LOST = "This turn was lost before it ended; send the message again."


async def current(store: Store, scope: Scope, task_id: str, *, path: str = "params.id") -> Head:
    """Head of the caller's task; one whose lease ran out is ended as failed first, but for those that
    the worker will begin again.

    path: field that named it.

    Raises TaskNotFound, StoreError.
    """
    while True:
        head = await threads.call(store.head, scope, task_id)
        if head is None:
            raise TaskNotFound("the key's owner has no such task with this agent", path=path)
        if head.resting or head.queued or head.lease >= store.clock():
            return head
        try:
            logger.warning("task %s is lost: its lease ran out", task_id)
            return await ended(store, replace(head, requests=()), lost(store, head))
        except Superseded:
            continue


async def ended(store: Store, head: Head, status: TaskStatus) -> Head:
    """End a task that another run holds, or nobody. Raises Superseded."""
    head = await threads.call(store.seal, head, status)
    telemetry.measure({"Turns": 1}, agent=head.scope.agent, outcome=outcome(head))
    return head


def outcome(head: Head) -> str:
    """The state of a task in metrics: completed, input_required …"""
    return head.state.removeprefix("TASK_STATE_").lower()


async def abandon(store: Store, head: Head) -> None:
    """End a task this process claimed and cannot run, so that the same request can be made again."""
    with suppress(StoreError):
        closed = replace(head, requests=()).closed(lost(store, head), head.sequence)
        await threads.call(store.replace, closed)


async def rested(store: Store, head: Head, deadline: float | None) -> Head:
    """The head once its task rests, or as it is when time is up. Looked at ever more rarely: what has taken
    long may take longer."""
    pause = POLL
    while not head.resting and not _late(deadline):
        await asyncio.sleep(pause)
        pause = min(1.2 * pause, REST_POLL)
        head = await current(store, head.scope, head.task_id)
    return head


async def watched(
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
    if after is not None and not (head.resting and after > head.sequence):
        sequence = after
    else:
        task, sequence = await threads.call(store.task, head)
        yield sequence, Event(task=shortened(task, history_length))
        if head.resting and not (head.state in INTERRUPTED and waiting):
            yield sequence, head.closing()
            return
    if head.state in INTERRUPTED and waiting and head.sequence == sequence:
        head = await _answered(store, head, waiting, deadline)
        if head.resting and head.sequence == sequence:
            return
    async with aclosing(followed(store, head, sequence, deadline)) as events:
        async for published in events:
            yield published


async def followed(
    store: Store, head: Head, after: int, deadline: float | None
) -> AsyncGenerator[Published, None]:
    """Events behind a sequence number until the task rests or time is up."""
    while True:
        events = await threads.call(store.events, head, after=after)
        for sequence, event in events:
            after = sequence
            if "artifactUpdate" in event or _progress(event):
                yield sequence, event
        if head.resting:
            yield head.sequence, head.closing()
            return
        if _late(deadline):
            return
        await asyncio.sleep(POLL)
        head = await current(store, head.scope, head.task_id)


async def _answered(store: Store, head: Head, waiting: float, deadline: float | None) -> Head:
    """The head once the question it waits with is answered, or as it is when time is up."""
    asked, until = head.sequence, time.monotonic() + waiting
    while head.resting and head.sequence == asked and time.monotonic() < until and not _late(deadline):
        await asyncio.sleep(PATIENT_POLL)
        head = await current(store, head.scope, head.task_id)
    return head


def shortened(task: Task, length: int | None) -> Task:
    """The task with the `length` most recent messages; none at all = no history."""
    history = latest(task.get("history", []), length)
    if history:
        task["history"] = history
    else:
        task.pop("history", None)
    return task


def _progress(event: Event) -> bool:
    """Whether it is a status told while running; a question asked earlier is not news."""
    return "statusUpdate" in event and event["statusUpdate"]["status"]["state"] not in RESTING


def _late(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() + POLL >= deadline


def lost(store: Store, head: Head, text: str = LOST) -> TaskStatus:
    """The status of a task that ends without its run."""
    message = agent_message(head.task_id, head.context_id, [Part(text=text)])
    return status(TaskState.FAILED, store.clock(), message)
