"""Runs a skill's code apart from the server's event loop.

`agent_threads` says where the code runs. Code that yields faster than its outputs are stored must wait: at
most AHEAD_OUTPUTS of them are in memory.
"""

import asyncio
import contextvars
import inspect
import logging
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from a2a_lambda import agent_threads
from a2a_lambda.agent.files import output_files
from a2a_lambda.agent.outputs import (
    Ask,
    Batch,
    File,
    FinalMessage,
    NamedArtifact,
    Reject,
    class_name,
    snapshot,
)
from a2a_lambda.agent.turn import Turn
from a2a_lambda.durable.engine import Suspended, error_besides_suspension
from a2a_lambda.errors import AgentMistake, only_error

LOOK_AHEAD_SECONDS = 0.005
"""Seconds for which an output waits for the next one, to learn whether it is the last. A last chunk that is
known to be the last saves an empty event."""

AHEAD_OUTPUTS = 64
"""Outputs of a skill that may wait to be stored and sent."""

AHEAD_BYTES = 4_000_000
"""The same in bytes of their texts and files."""

ENDINGS = (Ask, Reject, FinalMessage)
"""Outputs that end a turn. Code after the `yield` of one does not run, as after a `return`. A question that a
durable skill yields is an exception: the skill waits for the reply."""

logger = logging.getLogger(__name__)


async def execute(code: Callable[[], Any], turn: Turn, *, is_async: bool) -> AsyncGenerator[Batch, None]:
    """Outputs of `code()` as they come. It may return a value, an awaitable or a generator.

    is_async: the code does not block. Closing this generator before the last batch cancels the code:
    asynchronous code gets an `asyncio.CancelledError`, synchronous code sees `turn.cancelled`.
    Raises what the code raises.
    """
    channel = _Channel(asyncio.get_running_loop())
    if turn.engine is not None:
        turn.engine.observe(lambda notice: channel.post(Batch((notice,), is_last=False)))
        turn.tell = lambda exchange: channel.post(Batch((exchange,), is_last=False))
    if is_async:
        future = agent_threads.get_agent_loop().submit(_run_on_loop(code, turn, channel), channel.post)
    else:
        future = Future()
        context = contextvars.copy_context()
        agent_threads.CodeThread.run(
            partial(context.run, _run_in_thread, code, turn, channel, future), f"skill {turn.skill}"
        )
    next_item: Batch | BaseException | None = None
    is_over = False
    try:
        while not is_over:
            # An output is held back until the next one comes, for LOOK_AHEAD_SECONDS at most: if that is the
            # end, this output is the last chunk.
            item, next_item = await channel.get() if next_item is None else next_item, None
            # A replay must see the same batches, so those of a durable turn do not depend on the time.
            if isinstance(item, Batch) and not item.is_last and turn.engine is None:
                if (next_item := channel.get_nowait()) is None:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_AHEAD_SECONDS):
                            next_item = await channel.get()
                if next_item == Batch((), is_last=True):
                    item = Batch(item.outputs, is_last=True)
            is_over = not isinstance(item, Batch) or item.is_last
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        channel.close()
        if not is_over:
            turn.cancel()
            future.cancel()


class _Channel:
    """Outputs of a skill's code, on their way from its thread or loop to the server's loop."""

    def __init__(self, reader: asyncio.AbstractEventLoop) -> None:
        self._reader = reader
        self._items: deque[tuple[Batch | BaseException, int]] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._is_signaled = False
        # Pairs: outputs and bytes. Only the code's thread changes the first, only the reader the second.
        self._posted = (0, 0)
        self._taken = (0, 0)
        self._is_closed = False
        self._room = threading.Condition()
        self._is_blocked = False
        self._waiting: asyncio.Future[None] | None = None

    def post(self, item: Batch | BaseException) -> None:
        """Hand an item over, however many wait."""
        item = only_error(item) if isinstance(item, BaseException) else item
        if not isinstance(item, Batch | Exception | Suspended):  # SystemExit must not leave the skill
            error = RuntimeError(f"the skill ended with {type(item).__name__}")
            error.__cause__ = item
            item = error
        size = _size(item.outputs) if isinstance(item, Batch) else 0
        self._posted = (self._posted[0] + 1, self._posted[1] + size)
        self._items.append((item, size))
        # One call wakes the reader for all items that are there by then: it costs more than the rest of this.
        if not self._is_signaled:
            self._is_signaled = True
            with suppress(RuntimeError):  # the reader's loop is closed: no one reads any more
                self._reader.call_soon_threadsafe(self.signal)

    def signal(self) -> None:
        self._is_signaled = False  # before the reader looks: what is posted from now on signals again
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def post_blocking(self, item: Batch, turn: Turn) -> None:
        """Hand an item over, and wait for room or for the end of the turn."""
        self.post(item)
        if self.fill() >= 1:
            with self._room:
                self._is_blocked = True
                self._room.wait_for(lambda: turn.cancelled or self.fill() < 1)

    async def post_waiting(self, item: Batch) -> None:
        """Hand an item over, and wait for room without blocking the agent loop."""
        if self._is_closed:  # a generator that never awaits would not notice its cancellation
            await asyncio.sleep(0)
        self.post(item)
        if self.fill() >= 1:
            with self._room:
                self._is_blocked = True
                if self.fill() < 1:
                    return
                # The server's loop may wake it, and forget it, before this thread awaits it.
                waiter = self._waiting = asyncio.get_running_loop().create_future()
            await waiter

    async def get(self) -> Batch | BaseException:
        while (item := self.get_nowait()) is None:
            self._arrival = self._reader.create_future()
            await self._arrival
        return item

    def get_nowait(self) -> Batch | BaseException | None:
        """The next item, if there is one."""
        if not self._items:
            return None
        item, size = self._items.popleft()
        self._taken = (self._taken[0] + 1, self._taken[1] + size)
        # At half, not sooner: else a fast skill and a slow table would alternate at every output.
        if self._is_blocked and self.fill() < 0.5:
            self.wake()
        return item

    def close(self) -> None:
        """Nothing is read any more. Code that waits for room continues, and notices its cancellation."""
        self._is_closed = True
        self.wake()

    def fill(self) -> float:
        """Share of the allowed amount that waits to be read. A closed channel has room for everything."""
        if self._is_closed:
            return 0.0
        (posts, post_bytes), (reads, read_bytes) = self._posted, self._taken
        return max((posts - reads) / AHEAD_OUTPUTS, (post_bytes - read_bytes) / AHEAD_BYTES)

    def wake(self) -> None:
        with self._room:
            self._is_blocked = False
            self._room.notify_all()
            waiter, self._waiting = self._waiting, None
        if waiter is not None:
            with suppress(RuntimeError):  # the agent loop is closed
                waiter.get_loop().call_soon_threadsafe(_resolve, waiter)


def _size(outputs: Sequence[Any]) -> int:
    """Bytes of the texts and files among outputs, about."""
    total = 0
    for output in outputs:
        match output:
            case str() | bytes():
                total += len(output)
            case File(content=bytes() as content):
                total += len(content)
            case NamedArtifact() | FinalMessage():
                total += _size(output.contents)
    return total


def _resolve(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


def _run_in_thread(code: Callable[[], Any], turn: Turn, channel: _Channel, future: "Future[None]") -> None:
    """Run code that may block, in a thread of its own, and post its outputs, the last one marked as such, or
    what it raises. Code that turns out to be asynchronous runs on the agent loop meanwhile, and canceling
    `future` cancels it."""
    with agent_threads.count_as_running():
        try:
            result = code()
            # A plain function that returns a coroutine, as a decorator or `functools.partial` may.
            if inspect.isawaitable(result) or inspect.isasyncgen(result):
                work = _run_on_loop(lambda: result, turn, channel, future)
                agent_threads.get_agent_loop().submit(work, channel.post).result()
            elif inspect.isgenerator(result):
                try:
                    while not turn.cancelled:
                        outputs = output_files.store(turn, _outputs(turn, next(result)))
                        if any(isinstance(output, ENDINGS) for output in outputs):
                            result.close()  # before the turn ends: its cleanup is part of the turn
                            channel.post(Batch(outputs, is_last=True))
                            break
                        channel.post_blocking(Batch(outputs, is_last=False), turn)
                    else:  # it has canceled its own turn; for another cause no one reads this
                        channel.post(Batch((), is_last=True))
                except StopIteration as stop:
                    turn.check_operations()
                    channel.post(Batch(output_files.store(turn, _outputs(turn, stop.value)), is_last=True))
                finally:
                    result.close()
            else:
                turn.check_operations()
                channel.post(Batch(output_files.store(turn, _outputs(turn, result)), is_last=True))
        except BaseException as error:
            channel.post(error)


async def _run_on_loop(
    code: Callable[[], Any], turn: Turn, channel: _Channel, cancellation: "Future[None] | None" = None
) -> None:
    """Run asynchronous code on the agent loop, and post its outputs, the last one marked as such, or what it
    raises. If the turn was suspended, the suspension is posted instead of that.

    cancellation: a future whose end cancels the code; None = the task of this coroutine is canceled itself.
    """
    if cancellation is not None:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        cancellation.add_done_callback(lambda _: loop.call_soon_threadsafe(task.cancel) if task else None)
    with agent_threads.count_as_running():
        try:
            result = code()
            if inspect.isawaitable(result):
                result = await result
            outputs: tuple[Any, ...] | None = None
            if inspect.isasyncgen(result):
                async with _close_at_end(result):  # its cleanup is part of the turn
                    outputs = await _iterate_waiting(result, turn, channel)
            if inspect.isgenerator(result):
                raise AgentMistake(
                    "asynchronous code returned a generator: write `for part in …: yield part`"
                )
            _check_suspended(turn)
            turn.check_operations()
            if outputs is None:
                outputs = await output_files.store_async(turn, _outputs(turn, result))
            channel.post(Batch(outputs, is_last=True))
        except BaseException as error:
            suspension = turn.engine.suspension if turn.engine is not None else None
            if suspension is not None and (other := error_besides_suspension(error)) is not None:
                logger.warning("skill %s raised an error while it was suspended", turn.skill, exc_info=other)
            channel.post(suspension or error)
            if isinstance(error, asyncio.CancelledError):
                raise


@asynccontextmanager
async def _close_at_end(generator: AsyncGenerator[Any, Any]) -> AsyncIterator[None]:
    """Close a generator at the end. A TaskGroup around its `yield` puts the GeneratorExit into a group."""
    try:
        yield
    finally:
        try:
            await generator.aclose()
        except BaseExceptionGroup as group:
            if group.split(GeneratorExit)[1] is not None:
                raise


async def _iterate_waiting(
    generator: AsyncGenerator[Any, Any], turn: Turn, channel: _Channel
) -> tuple[Any, ...]:
    """Hand over what a skill yields; returns the outputs that end the turn, if it yields any. A durable skill
    gets the reply to a question that it yields."""
    reply: Any = None
    with suppress(StopAsyncIteration):
        while True:
            outputs = await output_files.store_async(turn, _outputs(turn, await generator.asend(reply)))
            _check_suspended(turn)
            reply = None
            questions = [output for output in outputs if isinstance(output, Ask)]
            if turn.engine is not None and questions:
                await channel.post_waiting(Batch(outputs[: outputs.index(questions[0])], is_last=False))
                reply = await turn.wait_for("ask", questions[0])
            elif any(isinstance(output, ENDINGS) for output in outputs):
                return outputs
            else:
                await channel.post_waiting(Batch(outputs, is_last=False))
    return ()


def _check_suspended(turn: Turn) -> None:
    """Raises Suspended if the turn is suspended, and its code continued."""
    if turn.engine is not None and turn.engine.suspension is not None:
        raise turn.engine.suspension


def _outputs(turn: Turn, value: Any) -> tuple[Any, ...]:
    """A tuple is several outputs; None is no output, even in a tuple. What a router chooses, before there is
    a skill, stays as it is."""
    outputs = value if isinstance(value, tuple) else (value,)
    outputs = tuple(output for output in outputs if output is not None)
    # What ends the turn comes after the other outputs.
    outputs = tuple(sorted(outputs, key=lambda output: isinstance(output, ENDINGS)))
    if len(outputs) > 1 and isinstance(outputs[-2], ENDINGS):
        first, second = map(class_name, outputs[-2:])
        raise AgentMistake(f"{first} and {second} would both end the turn: return or yield only one of them")
    return tuple(map(snapshot, outputs)) if turn.skill else outputs
