"""Runs a skill's code apart from the event loop, whatever it is made of.

Synchronous code gets a thread of its own. Asynchronous code gets the process's one agent loop, so a
client a module made once works in every turn, and a call that blocks by mistake holds up other
agents' code but no keep-alive, no lease and no other request of the server's.
"""

import asyncio
import contextvars
import inspect
import logging
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from typing import Any

from a2a_lambda.outputs import Batch
from a2a_lambda.turn import Turn

LOOK_AHEAD = 0.005
"""Seconds an output waits to learn whether it is the last: it mostly is known at once."""

GRACE = 1.0
"""Seconds a skill has to end once its turn has."""

logger = logging.getLogger(__name__)

Post = Callable[[Batch | BaseException], None]

_busy: set[object] = set()
"""Skills' code that is running now."""


async def play(call: Callable[[], Any], turn: Turn, *, asynchronous: bool) -> AsyncGenerator[Batch, None]:
    """Outputs of `call()`, as they come: of the value, awaitable or generator it returns.

    asynchronous: calling it is sure not to block. Closing this generator before the last batch
    cancels the code: an `asyncio.CancelledError` in asynchronous code, `turn.cancelled` in
    synchronous.
    Raises what the code raises.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Batch | BaseException] = asyncio.Queue()

    def post(item: Batch | BaseException) -> None:
        if not isinstance(item, Batch | Exception):  # SystemExit and its like stay with the skill
            error = RuntimeError(f"the skill ended with {type(item).__name__}")
            error.__cause__ = item
            item = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(queue.put_nowait, item)

    if asynchronous:
        future = asyncio.run_coroutine_threadsafe(_await(call, post), _agent_loop())
    else:
        future = Future()
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run,
            args=(_call, call, turn, post, future),
            name=f"skill {turn.skill}",
            daemon=True,
        )
        thread.start()
    ahead: list[Batch | BaseException] = []

    async def taken() -> Batch | BaseException:
        return ahead.pop() if ahead else await queue.get()

    ended = False
    try:
        while not ended:
            item = await taken()
            if isinstance(item, Batch) and not item.last:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_AHEAD):
                        ahead.append(await queue.get())
                if ahead and ahead[0] == Batch((), last=True):
                    item = Batch(item.outputs, last=True)
            ended = not isinstance(item, Batch) or item.last
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        if not ended:
            turn.cancel()
            future.cancel()


def end_stragglers() -> None:
    """End the process where a skill's code goes on behind its turn's end. Nothing stops a thread, or code
    that blocks the agent loop; frozen with the process it would go on in somebody else's turn."""
    give_up = time.monotonic() + GRACE
    while _busy and time.monotonic() < give_up:
        time.sleep(0.01)
    if _busy:
        logger.error("a skill did not stop when its turn ended; the process ends with it")
        os._exit(1)


def _call(call: Callable[[], Any], turn: Turn, post: Post, future: "Future[None]") -> None:
    token = object()
    _busy.add(token)
    try:
        result = call()
        if inspect.isawaitable(result) or inspect.isasyncgen(result):
            asyncio.run_coroutine_threadsafe(_await(lambda: result, post, future), _agent_loop()).result()
        elif inspect.isgenerator(result):
            _iterate(result, turn, post)
        else:
            post(Batch(_outputs(result), last=True))
    except BaseException as error:
        post(error)
    finally:
        _busy.discard(token)


def _iterate(generator: Generator[Any, Any, Any], turn: Turn, post: Post) -> None:
    try:
        while not turn.cancelled:
            post(Batch(_outputs(next(generator)), last=False))
    except StopIteration as stop:
        post(Batch(_outputs(stop.value), last=True))
    finally:
        generator.close()


async def _await(call: Callable[[], Any], post: Post, cancelled: "Future[None] | None" = None) -> None:
    if cancelled is not None:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        cancelled.add_done_callback(lambda _: loop.call_soon_threadsafe(task.cancel) if task else None)
    token = object()
    _busy.add(token)
    try:
        result = call()
        if inspect.isasyncgen(result):
            async for value in result:
                post(Batch(_outputs(value), last=False))
            post(Batch((), last=True))
            return
        if inspect.isawaitable(result):
            result = await result
        if inspect.isasyncgen(result):
            await _await(lambda: result, post)
            return
        post(Batch(_outputs(result), last=True))
    except BaseException as error:
        post(error)
        if isinstance(error, asyncio.CancelledError):
            raise
    finally:
        _busy.discard(token)


def _outputs(value: Any) -> tuple[Any, ...]:
    """A tuple is several outputs, None is none."""
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


@cache
def _agent_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="agent loop", daemon=True).start()
    return loop
