"""How often a run stores its events."""

import asyncio

import pytest

from a2a_lambda.protocol.model import Event
from a2a_lambda.store.store import Store
from a2a_lambda.turns.journal import FLUSH_SECONDS, SLOWEST_FLUSH_SECONDS, Journal


@pytest.mark.parametrize(("age", "pause"), [(0, FLUSH_SECONDS), (10, 0.5), (600, SLOWEST_FLUSH_SECONDS)])
def test_a_long_run_stores_its_events_less_often(store: Store, age: float, pause: float) -> None:
    async def is_due_after(seconds: float) -> bool:
        now = 1_000.0
        loop = asyncio.get_running_loop()
        loop.time = lambda: now  # type: ignore[method-assign]
        journal = Journal(store, lambda: pytest.fail("nothing is stored here"), 0)
        now += age
        await journal.try_flush()
        now += seconds
        return journal.add([Event()], 2)

    assert not asyncio.run(is_due_after(0.9 * pause))
    assert asyncio.run(is_due_after(1.1 * pause))
