"""Reads tasks as they are now: ends those whose run died, and waits for claims. Works in any process."""

import asyncio
import logging
import time
from contextlib import suppress

from a2a_lambda import telemetry, threads
from a2a_lambda.errors import TaskNotFound
from a2a_lambda.protocol.model import INTERRUPTED, TaskState, TaskStatus, make_status, text_message, timestamp
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.event_log import Numbered
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace

logger = logging.getLogger(__name__)

CLAIM_SECONDS = 10.0
"""Seconds in which a process that has written a message ahead must claim its turn. Then it counts as dead."""

CLAIM_POLL_SECONDS = 0.2
"""Seconds between looks at the task meanwhile."""

LOST = "This turn was lost before it ended; send the message again."


async def load_live_head(
    store: Store, namespace: Namespace, task_id: str, *, path: str = "params.id"
) -> Head:
    """Head of the caller's task. If the task's lease has run out, its turn is ended first, unless it runs
    elsewhere, where another run continues it.

    path: field of the request that names the task. Raises TaskNotFound, StoreError.
    """
    while True:
        head = await threads.run(store.get_head, namespace, task_id)
        if head is None:
            raise TaskNotFound("this caller has no such task with this agent", path=path)
        if not head.has_died(store.clock()):
            return head
        ids = {"task_id": task_id, "context_id": head.context_id}
        logger.warning("a turn of task %s is lost: its lease ran out", task_id, extra=ids)
        with suppress(Conflict):
            return await _end_lost_turn(store, head)  # by the process that looks first


async def load_progress(store: Store, head: Head, *, after: int) -> tuple[Head, list[Numbered]]:
    """Head of a task as `load_live_head` finds it, and the events after a sequence number. Usually one read.

    head: the task's head when it was last read. Raises what `load_live_head` raises.
    """
    current_head, events = await threads.run(store.get_progress, head, after=after)
    # Both are rare, and need more than this read: a task that has expired, or a run that has died.
    if current_head is None or current_head.has_died(store.clock()):
        current_head = await load_live_head(store, head.namespace, head.task_id)
        events = await threads.run(store.get_events, current_head, after=after)
    return current_head, events


async def wait_for_claim(store: Store, head: Head, deadline: float | None) -> Head:
    """The head after another process has claimed the turn of a message that it wrote ahead of this head. If
    it does not do so within CLAIM_SECONDS, it counts as dead: the head gets the next epoch, in which its
    message is not in the way.

    deadline: a `time.monotonic()` value. Raises Conflict if it is over.
    """
    give_up_at = time.monotonic() + CLAIM_SECONDS
    while time.monotonic() < give_up_at:
        if deadline is not None and time.monotonic() + CLAIM_POLL_SECONDS >= deadline:
            raise Conflict(head)
        await asyncio.sleep(CLAIM_POLL_SECONDS)
        current_head = await load_live_head(store, head.namespace, head.task_id)
        if current_head.version != head.version:
            return current_head
    with suppress(Conflict):
        head = await threads.run(store.update_head, head.with_new_epoch())
    return head


async def _end_lost_turn(store: Store, head: Head) -> Head:
    """End a turn whose run has died. If the turn continued a task, the task gets back its earlier state: it
    asks its question again, or is completed with a message that says that the turn was lost. Otherwise it
    fails. A retry of the client's message starts the turn again. Raises Conflict."""
    new_head, new_status, pending = head.as_lost(), lost_status(store, head), None
    if head.reopened_at:
        events = await threads.run(store.get_events, head, include_artifacts=False)
        # A table that was restored from a backup may have a head without its entries.
        old_event = next((event for number, event in events if number == head.reopened_at), None)
        if old_event is not None and "statusUpdate" in old_event:
            old_status = old_event["statusUpdate"]["status"]
            if old_status["state"] in INTERRUPTED:
                new_status = {**old_status, "timestamp": timestamp(store.clock())}
            else:  # A2A 0.1 has reopened it; the message still says that this turn was lost
                new_status = {**new_status, "state": old_status["state"]}
            new_head = head.without_last_request()
    if new_status["state"] in INTERRUPTED:
        pending = head.pending
        # A message that names only the context is the reply, as before.
        await note_question(store, head)
    head = await threads.run(store.seal, new_head, new_status, pending)
    telemetry.measure({"Turns": 1}, agent=head.namespace.agent, outcome="failed")
    return head


async def note_question(store: Store, head: Head) -> None:
    """Note in a task's context that the task has asked a question."""

    def ask(context: Context) -> Context:
        return context.with_question_of(head.task_id)

    context = await threads.run(store.get_context, head.namespace, head.context_id)
    await threads.run(store.update_context, head.namespace, head.context_id, context, ask)


async def end_task(store: Store, head: Head, status: TaskStatus) -> Head:
    """End a task that another run holds, or that no run holds. Raises Conflict."""
    if head.is_stopped:
        # It waits for input, and no run works on it: the head alone changes. The question becomes an event.
        new_head, overflow = head.with_new_epoch().with_events([head.closing_event()])
        if overflow:
            new_head = await threads.run(store.write_ahead, new_head, overflow)
        new_head = new_head.with_closing_status(status, new_head.sequence)
        new_head = await threads.run(store.update_head, new_head)
        if not head.is_suspended:  # its turn was counted when it asked
            return new_head
    else:
        new_head = await threads.run(store.seal, head, status)
    telemetry.measure({"Turns": 1}, agent=head.namespace.agent, outcome=new_head.outcome)
    return new_head


def lost_status(store: Store, head: Head, text: str = LOST) -> TaskStatus:
    """The status of a task that ends without its run."""
    return make_status(TaskState.FAILED, store.clock(), text_message(head.task_id, head.context_id, text))
