"""Work of a process beside the event loop, and on it."""

import asyncio
import gc
import threading

from a2a_lambda import threads


def test_work_that_no_one_waits_for_is_not_collected() -> None:
    cancellations: list[str] = []

    async def wait() -> None:
        # Nothing but this work refers to what it waits for.
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancellations.append("work")

    async def go() -> None:
        threads.keep(asyncio.ensure_future(wait()))
        await asyncio.sleep(0)
        gc.collect()
        assert not cancellations

    asyncio.run(go())
    assert cancellations, "it is canceled with its loop"


def test_a_value_is_made_once_however_many_threads_need_it() -> None:
    """A client of S3 is one, when the files of a turn come at once."""
    is_made_again = threading.Event()
    values: list[object] = []
    others: list[threading.Thread] = []

    def make() -> object:
        values.append(object())
        if len(values) > 1:
            is_made_again.set()
        else:
            others.append(threading.Thread(target=once.get))
            others[0].start()
            is_made_again.wait(0.2)
        return values[-1]

    once = threads.Once(make)
    assert once.get() is once.get() is values[0]
    others[0].join()
    assert len(values) == 1
