"""The lines of the development server's log, for the playground."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator

from a2a_lambda import telemetry
from tools.dev import console
from tools.log_entry import LogEntry

KEPT = 500
"""Lines that a page gets when it opens."""

WAITING = 1000
"""Lines that wait for a page that reads slowly. After these, lines are dropped."""

QUIET_SECONDS = 15.0
"""Seconds after which a page without a line gets a sign of life."""


EntryQueue = asyncio.Queue[LogEntry | None]
"""Entries for a follower. None: there will be no more."""


class LogLines(logging.Handler):
    """Keeps the last lines, and passes new ones to everyone who follows. Loggers of any thread may write."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: deque[LogEntry] = deque(maxlen=KEPT)
        self._followers: dict[EntryQueue, asyncio.AbstractEventLoop] = {}

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.add(_entry_of(record))
        except Exception:  # as logging's own handlers do: a wrong call of a logger stops no one
            self.handleError(record)

    def add(self, entry: LogEntry) -> None:
        self._kept.append(entry)
        for queue, loop in list(self._followers.items()):
            loop.call_soon_threadsafe(_put, queue, entry)

    async def follow(self) -> AsyncGenerator[LogEntry | None, None]:
        """The kept lines, then new ones; None after a silence."""
        queue: EntryQueue = asyncio.Queue(WAITING)
        self.acquire()
        try:
            for line in self._kept:
                _put(queue, line)
            self._followers[queue] = asyncio.get_running_loop()
        finally:
            self.release()
        try:
            while True:
                try:
                    async with asyncio.timeout(QUIET_SECONDS):
                        entry = await queue.get()
                except TimeoutError:
                    yield None
                    continue
                if entry is None:
                    return
                yield entry
        finally:
            self._followers.pop(queue, None)

    def end(self) -> None:
        """End what follows: a server that stops waits for its open answers."""
        for queue in list(self._followers):
            while queue.full():
                queue.get_nowait()
            queue.put_nowait(None)


def _entry_of(record: logging.LogRecord) -> LogEntry:
    ids = telemetry.ids()
    entry = LogEntry(
        at=round(record.created * 1000),
        level=record.levelname,
        logger=record.name,
        message=record.getMessage(),
        agent=str(ids.get("agent", "")),
        task=str(ids.get("task_id", "")),
    )
    if record.exc_info and record.exc_info[1] is not None:
        entry["trace"] = console.trace_of(record.exc_info[1])
    return entry


def _put(queue: EntryQueue, entry: LogEntry) -> None:
    if not queue.full():
        queue.put_nowait(entry)


LINES = LogLines()
"""Of this process."""
