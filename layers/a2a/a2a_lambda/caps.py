"""How many streams and followers an owner may have open at once: one key must not hold every Lambda.

A slot is an item of its own, taken by a conditional write and freed by a delete, so that no two streams
meet on one item. A slot whose process died is free when its time is up.
"""

import random
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from a2a_lambda import io
from a2a_lambda.errors import StoreError, TooManyStreams
from a2a_lambda.store import Store

LONGEST = 900.0
"""Seconds a stream lives at most: Lambda's own limit."""

GUESSES = 2
"""Slots tried at random before it is looked which are free."""


class Caps:
    """limit: slots of an owner; 0 = no limit."""

    def __init__(self, store: Store, limit: int) -> None:
        self._store = store
        self._limit = limit

    @asynccontextmanager
    async def slot(self, owner: str, deadline: float | None) -> AsyncGenerator[None, None]:
        """Hold a slot. deadline: on `time.monotonic`. Raises TooManyStreams, StoreError."""
        if not self._limit:
            yield
            return
        left = LONGEST if deadline is None else max(1.0, deadline - time.monotonic())
        holder = str(uuid.uuid4())
        number = await self._taken(owner, holder, int(self._store.clock() + left) + 1)
        try:
            yield
        finally:
            with suppress(StoreError):  # it is free when its time is up
                await io.call(self._store.free_slot, owner, number, holder)

    async def _taken(self, owner: str, holder: str, until: int) -> int:
        for _ in range(GUESSES):
            number = random.randrange(self._limit)  # noqa: S311
            if await io.call(self._store.take_slot, owner, number, holder, until):
                return number
        while free := set(range(self._limit)) - await io.call(self._store.slots, owner):
            number = random.choice(sorted(free))  # noqa: S311
            if await io.call(self._store.take_slot, owner, number, holder, until):
                return number
        raise TooManyStreams(f"an owner has at most {self._limit} at once")
