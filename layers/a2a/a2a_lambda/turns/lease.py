"""A run's hold on its task: the head as the run knows it, and the lease on it, renewed until the run ends
or another has the task."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from a2a_lambda import threads
from a2a_lambda.errors import StoreError
from a2a_lambda.store.store import Store, Superseded
from a2a_lambda.tasks.head import Head
from a2a_lambda.turns.claim import LEASE

RENEWAL = 10.0
WATCH = 2.0
"""Seconds between looks at the head, for a cancel from elsewhere."""

FRESH = 1.0
"""Seconds for which a look at the head is worth another."""

logger = logging.getLogger(__name__)


class Lease:
    """head: as it was last seen or stored."""

    def __init__(self, store: Store, head: Head) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._looked = store.clock()
        self.head = head

    async def kept(self) -> None:
        """Renew it; returns when the task is no longer this run's."""
        renewed = self._store.clock()
        while self._store.clock() < self.head.lease:
            await asyncio.sleep(WATCH)
            now = self._store.clock()
            try:
                if now - renewed >= RENEWAL:
                    renewed = now
                    await self.put(lambda head: replace(head, lease=self._store.clock() + LEASE))
                else:
                    await self._look()
                self._looked = now
            except Superseded:
                return
            except StoreError:
                logger.exception("the lease of task %s is not renewed yet", self.head.task_id)

    async def put(self, change: Callable[[Head], Head]) -> None:
        """Store a changed head while this run holds the task. Raises Superseded when it does not."""
        async with self._lock:
            while True:
                newer = change(self.head)
                try:
                    self.head = await threads.call(self._store.replace, newer)
                    return
                except Superseded as error:
                    if error.head is None or not error.head.owned_by(self.head):
                        raise
                    self.head = error.head

    async def check(self) -> None:
        """Raises Superseded where the task is another's by now, as far as a look a second ago tells."""
        if self._store.clock() - self._looked > FRESH:
            await self._look()

    async def _look(self) -> None:
        async with self._lock:
            found = await threads.call(self._store.head, self.head.scope, self.head.task_id)
            if found is None or not found.owned_by(self.head):
                raise Superseded(found)
            self.head = found
