"""How many streams, followers and lasting sends an owner may have: one key must not hold every Lambda.

A slot is an item of its own, taken by a conditional write and freed by a delete, so that no two streams
meet on one item. A stream renews its slot as it goes on; one whose process died is free when its time is up.
"""

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from a2a_lambda import threads
from a2a_lambda.errors import StoreError, TooManyStreams
from a2a_lambda.store.store import Store

SLOT_SECONDS = 90.0
"""Seconds a slot is held without being renewed: a process that died gives it back soon."""

SLOT_RENEWAL_SECONDS = 40.0

RANDOM_TRIES = 2
"""Slots tried at random before it is looked which are free."""


class Slot:
    """A slot somebody holds. index: its number; -1 where there is no limit."""

    def __init__(self, store: Store, owner: str, index: int, holder: str) -> None:
        self._store = store
        self._owner, self._index, self._holder = owner, index, holder
        self._renewed = store.clock()

    async def keep(self) -> None:
        """Renew it, where it is time to; called as the stream goes on."""
        now = self._store.clock()
        if self._index < 0 or now - self._renewed < SLOT_RENEWAL_SECONDS:
            return
        self._renewed = now
        with suppress(StoreError):
            await threads.run(self._store.keep_slot, self._owner, self._index, self._holder, _until(now))

    async def free(self) -> None:
        """Give it back, even where the caller is being cancelled meanwhile."""
        if self._index < 0:
            return
        await asyncio.shield(_keep(asyncio.ensure_future(self._free())))

    async def _free(self) -> None:
        with suppress(StoreError):  # it is free when its time is up
            await threads.run(self._store.free_slot, self._owner, self._index, self._holder)


class StreamLimit:
    """limit: slots of an owner; 0 = no limit."""

    def __init__(self, store: Store, limit: int) -> None:
        self._store = store
        self._limit = limit

    @asynccontextmanager
    async def slot(self, owner: str) -> AsyncGenerator[Slot, None]:
        """Hold a slot. Raises TooManyStreams, StoreError."""
        holder = str(uuid.uuid4())
        index = -1
        if self._limit:
            taking = asyncio.ensure_future(self._taken(owner, holder, _until(self._store.clock())))
            try:
                index = await asyncio.shield(taking)
            except asyncio.CancelledError:
                # The write may be on its way: its slot would stay taken until it expires.
                _keep(asyncio.ensure_future(self._give_back(taking, owner, holder)))
                raise
        slot = Slot(self._store, owner, index, holder)
        try:
            yield slot
        finally:
            await slot.free()

    async def _give_back(self, taking: "asyncio.Future[int]", owner: str, holder: str) -> None:
        with suppress(TooManyStreams, StoreError):
            await Slot(self._store, owner, await taking, holder).free()

    async def _taken(self, owner: str, holder: str, until: int) -> int:
        for _ in range(RANDOM_TRIES):
            number = random.randrange(self._limit)  # noqa: S311
            if await threads.run(self._store.take_slot, owner, number, holder, until):
                return number
        while free := set(range(self._limit)) - await threads.run(self._store.list_slots, owner):
            number = random.choice(sorted(free))  # noqa: S311
            if await threads.run(self._store.take_slot, owner, number, holder, until):
                return number
        raise TooManyStreams(f"an owner has at most {self._limit} at once")


def _until(now: float) -> int:
    return int(now + SLOT_SECONDS) + 1


def _keep(future: "asyncio.Future[None]") -> "asyncio.Future[None]":
    """The future, which the event loop alone would let go of."""
    _freeing.add(future)
    future.add_done_callback(_freeing.discard)
    return future


_freeing: set["asyncio.Future[None]"] = set()
