"""Work of a process beside the event loop, and on it."""

import asyncio
import gc

from a2a_lambda import threads


def test_work_that_no_one_waits_for_is_not_collected() -> None:
    ended: list[str] = []

    async def wait() -> None:
        # Nothing but this work refers to what it waits for.
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("work")

    async def go() -> None:
        threads.keep(asyncio.ensure_future(wait()))
        await asyncio.sleep(0)
        gc.collect()
        assert not ended

    asyncio.run(go())
    assert ended, "it is canceled with its loop"
