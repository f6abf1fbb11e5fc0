"""How a run's events get into the log."""

import asyncio
from types import SimpleNamespace
from typing import Any

from a2a_lambda.protocol.model import Artifact, Event, Part, TaskArtifactUpdateEvent
from a2a_lambda.turns.journal import Journal


def chunk(text: str) -> Event:
    artifact = Artifact(artifactId="a", parts=[Part(text=text)])
    update = TaskArtifactUpdateEvent(
        taskId="t", contextId="c", artifact=artifact, append=True, lastChunk=False
    )
    return Event(artifactUpdate=update)


def test_events_that_come_during_a_write_wait_for_the_next() -> None:
    """A table that writes slowly, and a fast agent: not one write after another."""
    writes: list[int] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()

        def append(head: Any, events: list[Event], *, after: int) -> int:
            writes.append(len(events))
            if len(writes) < 9:
                loop.call_soon_threadsafe(journal.add, [chunk("more")], 10)  # writes run in a thread
            return after + len(events)

        store: Any = SimpleNamespace(append=append, clock=lambda: 0.0)
        head: Any = SimpleNamespace(lease=1.0)
        journal = Journal(store, lambda: head, 0)
        journal.add([chunk("first")], 10)
        assert await journal.try_flush()
        assert writes == [1]
        assert await journal.try_flush()
        assert writes == [1, 1], "the next flush takes what came"

    asyncio.run(run())
