"""A task seen from outside its run: as it is, and as it goes on. Works in any process."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from a2a_lambda import io
from a2a_lambda.errors import TaskNotFound
from a2a_lambda.head import Head, Scope
from a2a_lambda.model import Event, Part, Published, Task, TaskState, agent_message, status
from a2a_lambda.store import Store, Superseded

POLL = 0.3
"""Seconds between looks at a task somebody else runs."""

LOST = "The run of this task was lost; send the message again."


async def current(store: Store, scope: Scope, task_id: str) -> Head:
    """Head of the caller's task; one whose lease ran out is ended as failed first.

    Raises TaskNotFound, StoreError.
    """
    while True:
        head = await io.call(store.head, scope, task_id)
        if head is None:
            raise TaskNotFound("the key's owner has no such task with this agent", path="params.id")
        if head.resting or head.lease >= store.clock():
            return head
        message = agent_message(head.task_id, head.context_id, [Part(text=LOST)])
        try:
            return await io.call(store.seal, head, status(TaskState.FAILED, store.clock(), message))
        except Superseded:
            continue


async def rested(store: Store, head: Head, deadline: float | None) -> Task:
    """The task once it rests, or as it is when time is up."""
    while not head.resting and not _late(deadline):
        await asyncio.sleep(POLL)
        head = await current(store, head.scope, head.task_id)
    task, _ = await io.call(store.task, head)
    return task


async def watched(
    store: Store, head: Head, after: int | None, deadline: float | None
) -> AsyncGenerator[Published, None]:
    """The task as it is, then each later event once and in order; with `after`, only what comes
    behind that sequence number."""
    if after is None:
        task, sequence = await io.call(store.task, head)
        yield sequence, Event(task=task)
        if head.resting:
            yield sequence, head.closing()
    else:
        sequence = after
    async with aclosing(followed(store, head, sequence, deadline)) as events:
        async for published in events:
            yield published


async def followed(
    store: Store, head: Head, after: int, deadline: float | None
) -> AsyncGenerator[Published, None]:
    """Events behind a sequence number until the task rests or time is up."""
    while True:
        events = await io.call(store.events, head, after=after)
        for sequence, event in events:
            after = sequence
            if "artifactUpdate" in event or "statusUpdate" in event:
                yield sequence, event
        if head.resting:
            if head.sequence > after:
                yield head.sequence, head.closing()
            return
        if _late(deadline):
            return
        await asyncio.sleep(POLL)
        head = await current(store, head.scope, head.task_id)


def _late(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() + POLL >= deadline
