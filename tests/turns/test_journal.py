"""How a run's events get into the log."""

import asyncio
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from a2a_lambda.errors import StoreError, WriteRefused
from a2a_lambda.protocol.model import Artifact, Event, Part, TaskArtifactUpdateEvent
from a2a_lambda.store.store import Store
from a2a_lambda.turns import journal as journal_module
from a2a_lambda.turns.journal import (
    BACKLOG_BYTES,
    BACKLOG_RETRY_SECONDS,
    FLUSH_BYTES,
    FLUSH_SECONDS,
    SLOWEST_FLUSH_SECONDS,
    Journal,
    size_of,
)
from a2a_lambda.turns.lease import Lease
from tests.conftest import replace_in
from tests.tasks.examples import head

HEAD = head(lease=1.0)


def chunk(text: str) -> Event:
    artifact = Artifact(artifactId="a", parts=[Part(text=text)])
    update = TaskArtifactUpdateEvent(
        taskId="t", contextId="c", artifact=artifact, append=True, lastChunk=False
    )
    return Event(artifactUpdate=update)


def make_journal(append: Callable[..., int]) -> Journal:
    """A journal over a table that stores events as `append` does."""
    store: Any = SimpleNamespace(append=append, clock=lambda: 0.0)
    return Journal(store, Lease(store, HEAD), 0)


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

        journal = make_journal(append)
        journal.add([chunk("first")], 10)
        assert await journal.try_flush()
        assert writes == [1]
        assert await journal.try_flush()
        assert writes == [1, 1], "the next flush takes what came"

    asyncio.run(run())


def test_what_is_pending_has_the_numbers_after_what_is_stored() -> None:
    """The head can hold it then, and the end of a short turn is one write."""

    async def run() -> None:
        journal = make_journal(lambda _, events, *, after: after + len(events))
        journal.add([chunk("first")], 10)
        await journal.flush()
        journal.add([chunk("second, "), chunk("third")], 10)
        assert journal.numbered_unstored() == ((2, chunk("second, third")),)

    asyncio.run(run())


def test_a_refused_write_is_not_tried_again_until_its_events_are_dropped() -> None:
    """The flusher of silences may meet the refusal first: the run hears of it without another write."""
    writes: list[list[Event]] = []

    def append(head: Any, events: list[Event], *, after: int) -> int:
        writes.append(events)
        if len(writes) == 1:
            raise WriteRefused("too large")
        return after + len(events)

    async def run() -> None:
        journal = make_journal(append)
        journal.add([chunk("too large")], 10)
        for _ in range(2):
            with pytest.raises(WriteRefused):
                await journal.try_flush()
        assert len(writes) == 1
        journal.clear()
        journal.add([chunk("last words")], 10)
        await journal.flush()
        assert writes[1:] == [[chunk("last words")]]

    asyncio.run(run())


def test_what_a_failed_write_left_is_stored_while_the_agent_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("a2a_lambda.turns.journal.SILENT_FLUSH_SECONDS", 0.001)
    is_stored = asyncio.Event()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        failures = [StoreError("slow down")]

        def append(head: Any, events: list[Event], *, after: int) -> int:
            if failures:
                raise failures.pop()
            loop.call_soon_threadsafe(is_stored.set)
            return after + len(events)

        journal = make_journal(append)
        journal.add([chunk("said")], 10)
        assert not await journal.try_flush()
        silence = asyncio.create_task(journal.flush_in_silence())
        await asyncio.wait_for(is_stored.wait(), 60)
        silence.cancel()

    asyncio.run(run())


def test_an_agent_waits_until_a_backlog_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the second try, the table takes it. No other event comes that would store it."""
    tries, pauses = list[int](), list[float]()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    replace_in(journal_module, asyncio, monkeypatch, sleep=sleep)

    def append(head: Any, events: list[Event], *, after: int) -> int:
        tries.append(len(events))
        if len(tries) == 1:
            raise StoreError("slow down")
        return after + len(events)

    async def run() -> None:
        journal = make_journal(append)
        journal.add([chunk("small")], BACKLOG_BYTES)
        await asyncio.wait_for(journal.wait_for_room(), 60)
        assert tries == [], "there is room"
        journal.add([chunk("large")], 1)
        await asyncio.wait_for(journal.wait_for_room(), 60)
        assert pauses == [BACKLOG_RETRY_SECONDS], "the table gets a pause before the second try"
        assert tries[0] == 1

    asyncio.run(run())


def test_words_of_one_artifact_are_stored_by_time_and_not_by_the_bytes_around_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each write costs as much as a kilobyte, and a model outputs a hundred words a second."""
    monkeypatch.setattr(journal_module, "FLUSH_SECONDS", 600.0)

    async def count_until_due(event: Event) -> int:
        journal, count = make_journal(lambda *_, **__: 0), 1
        while not journal.add([event], size_of([event])):
            count += 1
        return count

    assert asyncio.run(count_until_due(chunk("word "))) * len("word ") > FLUSH_BYTES / 10
    artifact = chunk("word ")
    artifact["artifactUpdate"]["append"] = False
    assert asyncio.run(count_until_due(artifact)) == math.ceil(FLUSH_BYTES / size_of([artifact]))


@pytest.mark.parametrize(("age", "pause"), [(0, FLUSH_SECONDS), (10, 0.5), (600, SLOWEST_FLUSH_SECONDS)])
def test_a_long_run_stores_its_events_less_often(store: Store, age: float, pause: float) -> None:
    async def is_due_after(seconds: float) -> bool:
        now = 1_000.0
        loop = asyncio.get_running_loop()
        loop.time = lambda: now  # type: ignore[method-assign]
        journal = Journal(store, Lease(store, HEAD), 0)
        now += age
        await journal.try_flush()
        now += seconds
        return journal.add([Event()], 2)

    assert not asyncio.run(is_due_after(0.9 * pause))
    assert asyncio.run(is_due_after(1.1 * pause))
