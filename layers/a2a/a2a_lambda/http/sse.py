"""Server-sent events, and what keeps an answer alive while the agent is silent.

Clients of the official SDKs give up after 5 s of silence, gateways after 30 to 60 s.
Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable
from typing import TypeVar

from a2a_lambda.protocol.model import Event, Published
from a2a_lambda.tasks.event_log import restate

KEEP_ALIVE_SECONDS = 3.0
"""Seconds of silence before a keep-alive. A cold start of two seconds still fits into a client's five."""

MAX_ITEMS_AT_ONCE = 32
"""Items that are read at once. Then the event loop does something else."""

COMMENT = b": \n"
"""One line, and no blank line after it. With a blank line, httpx-sse sees an event without data, and a2a-sdk
0.2 and 0.3 fail."""

LINE_SEPARATORS = tuple((char.encode(), f"\\u{ord(char):04x}".encode()) for char in "\u0085\u2028\u2029")
"""Unicode's ends of line. This format does not have them, but a reader that splits lines as Unicode does
would cut a JSON string there."""

MEDIA_TYPE = "text/event-stream"

Element = TypeVar("Element")

Events = AsyncGenerator[Published, None]


class StreamView:
    """What the client of a stream knows of its task. Clients take one task a stream (a2a-sdk 0.3 fails on a
    second one), and some cannot replace an artifact.

    replaces: whether the client can replace an artifact. is_stale: the client has something else than what is
        stored. Then no event has an id, because the client would resume the stream from it.
    """

    def __init__(self, *, replaces: bool) -> None:
        self.is_stale = False
        self._replaces = replaces
        self._has_task = False
        self._artifact_ids: set[str] = set()
        self._broken_ids: set[str] = set()

    def take(self, event: Event) -> list[Event]:
        """Take an event of the log; returns what is sent for it."""
        updates = [event]
        if "task" in event:
            if not self._has_task:
                self._has_task = True
                self._artifact_ids = {
                    artifact["artifactId"] for artifact in event["task"].get("artifacts", [])
                }
                return updates
            # The turn lost its task, so the client has chunks that were never stored; or it lacks some,
            # because it read too slowly.
            updates = restate(event["task"])
            self._broken_ids |= self._artifact_ids
            self.is_stale = not self._replaces
        return updates if self._replaces else [update for update in updates if self._admit(update)]

    def _admit(self, update: Event) -> bool:
        """Note an event; returns whether a client that cannot replace an artifact gets it. It gets no more of
        an artifact that is not whole: a gap in a text is worse than an early end."""
        if "artifactUpdate" in update:
            artifact_id = update["artifactUpdate"]["artifact"]["artifactId"]
            # A turn that runs again begins its artifacts again, after what the client has of them.
            begins_again = artifact_id in self._artifact_ids and not update["artifactUpdate"]["append"]
            self.is_stale = self.is_stale or begins_again
            self._artifact_ids.add(artifact_id)
            return artifact_id not in self._broken_ids
        return True


def encode(data: bytes, event_id: int | None = None, *, event: str = "") -> bytes:
    """Bytes of one event. data: JSON on one line. event_id: number for Last-Event-ID."""
    head = b"" if event_id is None else b"id: %d\n" % event_id
    head += b"event: %s\n" % event.encode() if event else b""
    for separator, escape in LINE_SEPARATORS:
        data = data.replace(separator, escape)
    return head + b"data: " + data + b"\n\n"


async def with_silences(
    items: AsyncGenerator[Element, None], silence_seconds: float
) -> AsyncGenerator[Element | None, None]:
    """The items, and None after every `silence_seconds` without one."""
    next_item: asyncio.Task[Element] | None = None
    ready_count = 0
    try:
        while True:
            next_item = next_item or _start(anext(items))
            ready_count = ready_count + 1 if next_item.done() else 0
            # Many items that are ready would keep the event loop from everything else, such as the renewal
            # of the lease.
            if ready_count == MAX_ITEMS_AT_ONCE:
                ready_count = 0
                await asyncio.sleep(0)
            if not next_item.done():
                await asyncio.wait({next_item}, timeout=silence_seconds)
            if not next_item.done():
                yield None
                continue
            try:
                item = next_item.result()
            except StopAsyncIteration:
                return
            next_item = None
            yield item
    finally:
        if next_item is not None:
            next_item.cancel()
            await asyncio.wait({next_item})
        await items.aclose()


def _start(work: Awaitable[Element]) -> "asyncio.Task[Element]":
    """Start work as a task. From Python 3.12 on, it runs at once up to its first wait, so that an item that
    is ready costs no turn of the event loop."""

    async def wait() -> Element:
        return await work

    if sys.version_info >= (3, 12):
        return asyncio.Task(wait(), loop=asyncio.get_running_loop(), eager_start=True)
    return asyncio.ensure_future(wait())


async def with_spaces(future: asyncio.Future[bytes], silence_seconds: float) -> AsyncGenerator[bytes, None]:
    """A JSON text, with white space before it until it is ready."""
    try:
        while not (await asyncio.wait({future}, timeout=silence_seconds))[0]:
            yield b" "
        yield future.result()
    finally:
        future.cancel()
