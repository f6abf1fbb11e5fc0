"""A run's hold on its task: the head as the run knows it, and the lease, renewed until the run ends.

    0 s   the run claims the task: lease until 30 s
    2 s   look at the head: another process may have canceled the task
    10 s  renewal: lease until 40 s
    ..    the run ends: the head gets the closing status, and no lease

If the process freezes or dies, nothing renews the lease. From then on any process that looks at the task
may end it, or give it to another run.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

from a2a_lambda import threads
from a2a_lambda.errors import StoreError
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.head import LEASE_SECONDS, Head

LEASE_RENEWAL_SECONDS = 10.0

CANCEL_POLL_SECONDS = 2.0
"""Seconds between looks at the head. A cancel from elsewhere is noticed within that time."""

LEASE_LOOK_SECONDS = 1.0
"""Seconds for which a look at the head is recent enough."""

logger = logging.getLogger(__name__)


class Lease:
    """The hold that a run has on its task.

    head: the head as it was last read or stored. The run reads it here.
    """

    def __init__(self, store: Store, head: Head) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._looked_at = store.clock()
        self.head = head

    @property
    def is_over(self) -> bool:
        """Whether the lease has ended by the clock, as after the process was frozen."""
        return not self.head.has_lease(self._store.clock())

    async def renew_until_lost(self) -> None:
        """Renew the lease. Returns when another process has taken or ended the task, or when the lease has
        run out."""
        renewed_at = self._store.clock()
        # The lease runs out if the process was frozen, or the table took no renewal. Then another process may
        # have the task.
        while self.head.has_lease(self._store.clock()):
            await asyncio.sleep(CANCEL_POLL_SECONDS)
            now = self._store.clock()
            try:
                if now - renewed_at >= LEASE_RENEWAL_SECONDS:
                    await self.update(lambda head: replace(head, lease=self._store.clock() + LEASE_SECONDS))
                    renewed_at = now  # one that failed is made again at the next look
                else:
                    await self._reload()
                self._looked_at = now
            except Conflict:
                return
            except StoreError:
                logger.exception("the lease of task %s is not renewed yet", self.head.task_id)

    async def update(self, change: Callable[[Head], Head]) -> None:
        """Store a changed head. Raises Conflict if the run no longer holds the task.

        The head may also change for reasons that leave the run its task, such as a new push notification
        config. Then the change is made again, on the newer head.
        """
        async with self._lock:
            while True:
                new_head = change(self.head)
                try:
                    self.head = await threads.run(self._store.update_head, new_head)
                    return
                except Conflict as conflict:
                    if not self._holds(conflict.head):
                        raise
                    self.head = conflict.head

    async def update_after(self, store_first: Callable[[], None], change: Callable[[Head], Head]) -> None:
        """Call `store_first`, which blocks, and then store a changed head, both in one thread. Raises what
        `store_first` and `update` raise."""

        def store_both(head: Head) -> Head:
            store_first()
            return self._store.update_head(head)

        # Not under the lock: the lease is renewed while `store_first` waits for a slow table.
        try:
            new_head = await threads.run(store_both, change(self.head))
        except Conflict as conflict:
            if not self._holds(conflict.head):
                raise
            await self.update(change)  # on the newer head
            return
        # The lock: a look at the head that began earlier must not replace the new one. The version: a renewal
        # may have stored a newer head in the meantime.
        async with self._lock:
            if new_head.version > self.head.version:
                self.head = new_head

    async def check_held(self) -> None:
        """Raises Conflict if the run no longer held the task at the last look, LEASE_LOOK_SECONDS ago at
        most."""
        if self._store.clock() - self._looked_at > LEASE_LOOK_SECONDS:
            await self._reload()

    async def _reload(self) -> None:
        async with self._lock:
            head = await threads.run(self._store.get_head, self.head.namespace, self.head.task_id)
            if not self._holds(head):
                raise Conflict(head)
            self.head = head

    def _holds(self, head: Head | None) -> "TypeGuard[Head]":
        """Whether the run still holds the task, whose head is this one now."""
        return head is not None and head.is_held_by(self.head)
