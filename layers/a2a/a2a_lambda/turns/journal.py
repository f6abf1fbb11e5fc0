"""A run's events on their way into the log, in few writes."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress

from a2a_lambda import strictjson, threads
from a2a_lambda.errors import StoreError, WriteRefused
from a2a_lambda.protocol.model import Event
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.event_log import Numbered, coalesce, continues
from a2a_lambda.turns.lease import Lease

FLUSH_SECONDS = 0.25
"""Seconds after which events are stored, when another event comes. In a long run they grow to
FLUSH_FRACTION of the run's time, but to no more than SLOWEST_FLUSH_SECONDS, so that it costs fewer writes."""

FLUSH_FRACTION = 1 / 20

SLOWEST_FLUSH_SECONDS = 1.0

FLUSH_BYTES = 4_000
"""JSON bytes at which events are stored immediately, without waiting for FLUSH_SECONDS. Chunks that
become one event count as one."""

SILENT_FLUSH_SECONDS = 2 * FLUSH_SECONDS
"""Seconds between checks for unstored events that no other event follows."""

BACKLOG_BYTES = 1_000_000
"""JSON bytes that may be unstored while the table takes no writes. Then the agent waits, too."""

BACKLOG_RETRY_SECONDS = 0.5
"""Seconds between tries to store a backlog."""

logger = logging.getLogger(__name__)


def size_of(events: Iterable[Event]) -> int:
    """JSON bytes of events."""
    return sum(len(strictjson.dumps(event)) for event in events)


class Journal:
    """A run's events on their way into the log.

    lease: has the run's head. The run writes while it lasts. sequence: last sequence number stored.
    """

    def __init__(self, store: Store, lease: Lease, sequence: int) -> None:
        self._store = store
        self._lease = lease
        self._lock = asyncio.Lock()
        self._unstored: list[Event] = []
        self._unstored_bytes = self._coalesced_bytes = 0
        self._writing: list[Event] = []
        self._refusal = ""
        self._began_at = self._flushed_at = asyncio.get_running_loop().time()
        self.sequence = sequence

    def add(self, events: Sequence[Event], size: int) -> bool:
        """Add events; returns whether it is time to store them. size: their JSON bytes, as
        `size_of` counts them."""
        self._unstored_bytes += size
        self._coalesced_bytes += size
        for event in events:
            # Around a word of a model's answer, the ids and names of its event are most of its bytes.
            if self._unstored and continues(event, self._unstored[-1]):
                chunk = event["artifactUpdate"]
                chunk_without_parts = {**chunk, "artifact": {**chunk["artifact"], "parts": []}}
                self._coalesced_bytes -= len(strictjson.dumps({"artifactUpdate": chunk_without_parts}))
            self._unstored.append(event)
        return self._is_late() or self._coalesced_bytes >= FLUSH_BYTES

    def clear(self) -> None:
        """Forget the events that are not stored."""
        self._unstored, self._writing, self._refusal = [], [], ""
        self._unstored_bytes = self._coalesced_bytes = 0

    def numbered_unstored(self) -> tuple[Numbered, ...] | None:
        """The unstored events with their numbers; None if earlier events must be written first."""
        if self._writing:
            return None
        # Numbers are provisional until the head that holds them is stored. No client has seen them yet.
        return tuple(enumerate(coalesce(self._unstored), self.sequence + 1))

    async def try_flush(self) -> bool:
        """Store the unstored events. False if the table did not take them; the next try includes them.

        Raises Conflict, WriteRefused.
        """
        async with self._lock:
            # Set even if the write fails, so that a small backlog is tried again after a pause. From
            # FLUSH_BYTES on, every event tries.
            self._flushed_at = asyncio.get_running_loop().time()
            try:
                await self.flush()
            except Conflict:
                raise
            except StoreError:
                logger.exception("events of task %s are not stored yet", self._lease.head.task_id)
                return False
            return True

    async def flush(self) -> None:
        """Store the events that are here now. Those that come during a write wait for the next flush: with
        slow writes and a fast agent, one write would follow another.

        Raises Conflict if the run's lease is over, WriteRefused, including for events that were refused
        before, StoreError.
        """
        if self._writing:
            await self._write()
        if self._unstored:
            self._writing, self._unstored = coalesce(self._unstored), []
            self._unstored_bytes = self._coalesced_bytes = 0
            await self._write()

    async def _write(self) -> None:
        """Store the events that are being written. Raises what `flush` raises."""
        # A write that failed may still have reached the table. So its events keep their numbers and bytes,
        # and are written again as they were.
        head = self._lease.head
        if not head.has_lease(self._store.clock()):
            raise Conflict
        if self._refusal:  # `flush_in_silence` may have met it, which reports it to no one
            raise WriteRefused(self._refusal)
        try:
            self.sequence = await threads.run(self._store.append, head, self._writing, after=self.sequence)
        except WriteRefused as error:
            self._refusal = str(error)
            raise
        self._writing = []

    async def wait_for_room(self) -> None:
        """Wait until a large backlog is stored. Raises Conflict."""
        while self._unstored_bytes > BACKLOG_BYTES:
            await asyncio.sleep(BACKLOG_RETRY_SECONDS)
            await self.try_flush()

    async def flush_in_silence(self) -> None:
        """Store events that no other event follows. Returns when the run may no longer write."""
        with suppress(Conflict, WriteRefused):  # the run notices it, too
            while True:
                await asyncio.sleep(SILENT_FLUSH_SECONDS)
                if (self._unstored or self._writing) and self._is_late():
                    await self.try_flush()

    def _is_late(self) -> bool:
        now = asyncio.get_running_loop().time()
        pause = max(FLUSH_SECONDS, min((now - self._began_at) * FLUSH_FRACTION, SLOWEST_FLUSH_SECONDS))
        return now - self._flushed_at >= pause

    async def wait_for_flush(self) -> None:
        """Wait for the end of a flush, if one has begun."""
        async with self._lock:
            pass
