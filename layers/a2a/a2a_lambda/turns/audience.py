"""The client that reads the events of a run, while there is one.

An agent never gets far ahead of a client that reads too slowly: it waits, for UNREAD_SECONDS in all. Then the
client gets no more events, the turn continues without it, and the client reads the rest from the log. For a
client that left before its answer began, no agent waits.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import suppress

from a2a_lambda import telemetry
from a2a_lambda.protocol.model import Event, Published

UNREAD_EVENTS = 256
"""Events that may wait for a client. Then the agent waits."""

UNREAD_SECONDS = 60.0
"""Seconds for which an agent waits for its client, in all."""

logger = logging.getLogger(__name__)


class Audience:
    """Events on their way to a client.

    unread_limit: events that may wait for the client; None = any number.
    was_dropped: the client gets no more events, because it read too slowly, or had not begun to read.
    first_event_seconds: time from the invocation to the first event; None = there was no event.
    """

    def __init__(self) -> None:
        self.unread_limit: int | None = None
        self.was_dropped = False
        self.first_event_seconds: float | None = None
        self._invoked_at = telemetry.invoked_at()
        self._items: asyncio.Queue[Published | BaseException | None] = asyncio.Queue()
        self._has_read = asyncio.Event()
        self._is_listening = True
        self._has_begun = False
        self._patience_seconds = UNREAD_SECONDS

    def publish(self, event: Event, sequence: int | None = None) -> None:
        """Hand an event to the client. It has its sequence number if the log is stored up to it."""
        if self.first_event_seconds is None:
            self.first_event_seconds = time.monotonic() - self._invoked_at
        if self._is_listening:
            self._items.put_nowait((sequence, event))

    def close(self, error: BaseException | None = None) -> None:
        """End the events. error: what `events` raises after the last one; None = nothing."""
        self._items.put_nowait(error)

    async def events(self, first: Published | None = None) -> AsyncGenerator[Published, None]:
        """Events until `close`, after the first one if there is one. Raises the error of `close`."""
        self._has_begun = True
        try:
            if first is not None:
                yield first
            while (item := await self._items.get()) is not None:
                self._has_read.set()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self._is_listening = False
            self._has_read.set()

    async def wait_for_room(self) -> None:
        """Wait for a client that reads too slowly, for UNREAD_SECONDS in all; not for one that has not begun
        to read."""
        clock = asyncio.get_running_loop().time
        while self._is_listening and self.unread_limit and self._items.qsize() > self.unread_limit:
            if not self._has_begun:
                return self._drop()
            self._has_read.clear()
            started_at = clock()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience_seconds):
                    await self._has_read.wait()
            self._patience_seconds -= clock() - started_at
            if self._patience_seconds <= 0 and self._is_listening:
                logger.info("a client is too slow, and gets no more events")
                self._drop()

    def _drop(self) -> None:
        # A new queue, so that the client finds the end at once and not after hundreds of unread events.
        self._is_listening, self.was_dropped = False, True
        self._items = asyncio.Queue()
        self.close()
