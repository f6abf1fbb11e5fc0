"""Limits how many calls of an owner run at once, so that one owner cannot use up the concurrency of a
deployment.

Streams, followers and long sends each hold a slot. A slot is an item of its own, taken by a conditional write
and released by a delete, so two calls never compete for one item. A call renews its slot while it runs. If
its process dies, the slot expires.
"""

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from a2a_lambda import threads
from a2a_lambda.errors import StoreError, TooManyCalls
from a2a_lambda.store.store import Store

SLOT_SECONDS = 90.0
"""Seconds for which a slot is held without being renewed."""

SLOT_RENEWAL_SECONDS = 40.0

RANDOM_TRIES = 2
"""Slots that are tried at random, before the free ones are looked up."""


class Slot:
    """A slot that a call holds."""

    def __init__(self, store: Store, owner: str, number: int, holder: str) -> None:
        self._store = store
        self._owner, self._number, self._holder = owner, number, holder

    async def renew_until_canceled(self) -> None:
        """Renew the slot every SLOT_RENEWAL_SECONDS, even while its client reads nothing."""
        while True:
            await asyncio.sleep(SLOT_RENEWAL_SECONDS)
            until = self._store.clock() + SLOT_SECONDS
            with suppress(StoreError):  # the next renewal may still come in time
                await threads.run(self._store.slots.renew, self._owner, self._number, self._holder, until)

    async def release(self) -> None:
        """Release the slot, even if the caller is canceled meanwhile."""

        async def free() -> None:
            with suppress(StoreError):  # then it expires
                await threads.run(self._store.slots.free, self._owner, self._number, self._holder)

        await asyncio.shield(threads.keep(asyncio.ensure_future(free())))


class CallSlots:
    """The slots of each owner. limit: slots of one owner; 0 = no limit."""

    def __init__(self, store: Store, limit: int) -> None:
        self._store = store
        self._limit = limit

    @asynccontextmanager
    async def hold(self, owner: str) -> AsyncGenerator[None, None]:
        """Hold a slot, if there is a limit, and renew it. Raises TooManyCalls, StoreError."""
        if not self._limit:
            yield
            return
        holder = str(uuid.uuid4())
        until = self._store.clock() + SLOT_SECONDS
        number_future = asyncio.ensure_future(self._take(owner, holder, until))

        async def give_back() -> None:
            with suppress(TooManyCalls, StoreError):
                await Slot(self._store, owner, await number_future, holder).release()

        try:
            number = await asyncio.shield(number_future)
        except asyncio.CancelledError:
            # The write may be on its way. Its slot would be taken until it expires.
            threads.keep(asyncio.ensure_future(give_back()))
            raise
        slot = Slot(self._store, owner, number, holder)
        renewal = asyncio.create_task(slot.renew_until_canceled())
        try:
            yield
        finally:
            renewal.cancel()
            await slot.release()

    async def _take(self, owner: str, holder: str, until: float) -> int:
        """Number of a slot that is now the holder's. Raises TooManyCalls."""
        # A random slot is usually free, and costs one write. Only an owner with many streams needs a look
        # at all of them.
        for _ in range(RANDOM_TRIES):
            number = random.randrange(self._limit)  # noqa: S311
            if await threads.run(self._store.slots.take, owner, number, holder, until):
                return number
        while free_slots := set(range(self._limit)) - await threads.run(self._store.slots.list, owner):
            number = random.choice(sorted(free_slots))  # noqa: S311
            if await threads.run(self._store.slots.take, owner, number, holder, until):
                return number
        raise TooManyCalls(
            f"an owner may have at most {self._limit} streams and long sends at once: end one, or try again"
            " later"
        )
