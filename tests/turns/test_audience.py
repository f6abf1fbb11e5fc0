"""The client of a run: one that reads slowly, one that leaves."""

import asyncio

import pytest

from a2a_lambda.protocol.model import Event
from a2a_lambda.turns import audience
from a2a_lambda.turns.audience import Audience


def full_audience(limit: int, events: int) -> Audience:
    """An audience with room for `limit` events, to which more were published than it has read."""
    listener = Audience()
    listener.unread_limit = limit
    for _ in range(events):
        listener.publish(Event(), None)
    return listener


def test_a_client_that_is_too_slow_gets_the_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run does not wait for it any more."""
    monkeypatch.setattr(audience, "UNREAD_SECONDS", 0.05)

    async def go() -> None:
        listener = full_audience(2, events=4)
        stream = listener.events()
        await anext(stream)
        await asyncio.wait_for(listener.wait_for_room(), 60)
        assert listener.was_dropped
        assert [item async for item in stream] == []
        listener.publish(Event(), None)
        await asyncio.wait_for(listener.wait_for_room(), 60)

    asyncio.run(go())


def test_a_run_waits_until_its_client_has_read() -> None:
    async def go() -> None:
        listener = full_audience(2, events=5)
        stream = listener.events()
        await anext(stream)
        work = asyncio.ensure_future(listener.wait_for_room())
        await asyncio.sleep(0)
        await anext(stream)
        await asyncio.sleep(0)
        assert not work.done(), "three events are unread"
        await anext(stream)
        await asyncio.wait_for(work, 60)
        assert not listener.was_dropped
        listener.close()
        assert len([item async for item in stream]) == 2

    asyncio.run(go())


def test_a_run_does_not_wait_for_a_client_that_left() -> None:
    async def go() -> None:
        listener = full_audience(1, events=5)
        stream = listener.events()
        await anext(stream)
        work = asyncio.ensure_future(listener.wait_for_room())
        await asyncio.sleep(0)
        await stream.aclose()
        await asyncio.wait_for(work, audience.UNREAD_SECONDS / 2)
        await asyncio.wait_for(listener.wait_for_room(), 60)
        assert not listener.was_dropped

    asyncio.run(go())


def test_nothing_is_kept_for_a_client_that_has_not_begun() -> None:
    """If it begins later, it finds the end at once, and reads the log."""

    async def go() -> None:
        listener = full_audience(2, events=5)
        await asyncio.wait_for(listener.wait_for_room(), audience.UNREAD_SECONDS / 2)
        listener.publish(Event(), None)
        assert listener.was_dropped
        assert [item async for item in listener.events()] == []

    asyncio.run(go())


def test_an_error_of_the_run_is_its_clients() -> None:
    async def go() -> None:
        listener = Audience()
        listener.publish(Event(), 7)
        listener.close(RuntimeError("of the run"))
        stream = listener.events()
        assert await anext(stream) == (7, Event())
        with pytest.raises(RuntimeError, match="of the run"):
            await anext(stream)

    asyncio.run(go())
