"""Replies to the waits of suspended turns: messages of the client, and calls of a wait's URL.

reply to a wait ── head answered ── wake
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from a2a_lambda import threads
from a2a_lambda.protocol.model import Event
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.execution import StoredWait
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.suspension import REPLY_POLL_SECONDS, answered_head, reply_events, replying_head


async def store_reply(
    store: Store,
    head: Head,
    wait: StoredWait,
    reply: Event,
    change: Callable[[Head], Head] = lambda head: head,
) -> Head:
    """Store the reply to a wait of a suspended turn; returns the head. Then the turn must be dispatched.

    change: what else the reply changes in the head. Raises Conflict if the head is not as it was, or another
    reply is being stored: then the wait is still open. After StoreError it may be open or not.
    """
    now = store.clock()
    # A run or another reply holds the turn. Waiting here keeps the caller's retries from becoming a busy
    # loop.
    if head.holder and head.has_lease(now):
        await asyncio.sleep(REPLY_POLL_SECONDS)
        raise Conflict(head)
    # A reply that fits into the head is one write. A longer one is three: hold the turn, append, answer. If
    # this process dies in between, the hold runs out and the wait is still open.
    events = reply_events(head, reply)
    # The run that asked, or a reply that died, may still append something. In a new epoch it does not count.
    base = head.with_new_epoch() if head.is_stopped or head.holder else head
    new_head = answered_head(change(base.with_events_after(base.log_end, events)), wait, now)
    if new_head.fits:
        return await threads.run(store.update_head, new_head)
    held_head = await threads.run(store.update_head, replying_head(head, now))
    last_sequence = await threads.run(store.append, held_head, events, after=held_head.committed)
    head = change(replace(held_head, sequence=last_sequence, committed=last_sequence))
    return await threads.run(store.update_head, answered_head(head, wait, store.clock()))
