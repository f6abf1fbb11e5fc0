"""Runs a skill's code apart from the server's event loop.

Synchronous code has a thread to itself while it runs. All asynchronous code shares one agent loop in another
thread. So a client that a module made once works in every turn. A call that blocks by mistake delays the code
of other agents, but no keep-alive, no lease and no other request.

Code that yields faster than its outputs are stored must wait: at most AHEAD_OUTPUTS of them are in memory.
Code can also end the agent loop (`sys.exit` in a task of its own, `loop.stop()`). Then every turn on that
loop fails at once, the next turn gets a new loop, and on Lambda the process is replaced.
"""

import asyncio
import contextvars
import inspect
import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from a2a_lambda.agent.outputs import Artifact, Ask, Batch, File, Message
from a2a_lambda.durable.engine import Suspended

if TYPE_CHECKING:
    from a2a_lambda.agent.turn import Turn

LOOK_AHEAD_SECONDS = 0.005
"""Seconds for which an output waits for the next one, to learn whether it is the last. A last chunk that is
known to be the last saves an empty event."""

STRAGGLER_SECONDS = 1.0
"""Seconds in which a skill must end after its turn has ended."""

AHEAD_OUTPUTS = 64
"""Outputs of a skill that may wait to be stored and sent."""

AHEAD_BYTES = 4_000_000
"""The same in bytes of their texts and files."""

IDLE_THREADS = 8
"""Threads of synchronous skills that are kept for the next turns."""

logger = logging.getLogger(__name__)

_busy: set[object] = set()
"""Code of skills that is running now."""


async def execute(call: Callable[[], Any], turn: "Turn", *, is_async: bool) -> AsyncGenerator[Batch, None]:
    """Outputs of `call()` as they come. It may return a value, an awaitable or a generator.

    is_async: the call itself does not block. Closing this generator before the last batch cancels the code:
    asynchronous code gets an `asyncio.CancelledError`, synchronous code sees `turn.cancelled`.
    Raises what the code raises.
    """
    channel = _Channel(asyncio.get_running_loop())
    if turn.engine is not None:
        turn.engine.observe(lambda notice: channel.post(Batch((notice,), last=False)))
    if is_async:
        future = _agent_loop().submit(_await(call, turn, channel), channel)
    else:
        future = Future()
        context = contextvars.copy_context()
        _SkillThread.run(partial(context.run, _call, call, turn, channel, future), f"skill {turn.skill}")
    ahead: Batch | BaseException | None = None
    ended = False
    try:
        while not ended:
            item, ahead = ahead or await channel.get(), None
            # A replay must see the same batches, so those of a durable turn do not depend on the time.
            if isinstance(item, Batch) and not item.last and turn.engine is None:
                if (ahead := channel.get_nowait()) is None:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_AHEAD_SECONDS):
                            ahead = await channel.get()
                if ahead == Batch((), last=True):
                    item = Batch(item.outputs, last=True)
            ended = not isinstance(item, Batch) or item.last
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        channel.close()
        if not ended:
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
        self._closed = False
        self._room = threading.Condition()
        self._blocked = False
        self._waiting: asyncio.Future[None] | None = None

    def post(self, item: Batch | BaseException) -> None:
        """Hand an item over, however many wait."""
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
                self._reader.call_soon_threadsafe(self._signal)

    def _signal(self) -> None:
        self._is_signaled = False  # before the reader looks: what is posted from now on signals again
        if self._arrival is not None:
            _resolve(self._arrival)

    def post_blocking(self, item: Batch, turn: "Turn") -> None:
        """Hand an item over, and wait for room or for the end of the turn."""
        self.post(item)
        if self._is_over(1):
            with self._room:
                self._blocked = True
                self._room.wait_for(lambda: turn.cancelled or not self._is_over(1))

    async def post_waiting(self, item: Batch) -> None:
        """The same on the agent loop."""
        if self._closed:  # a generator that never awaits would not notice its cancellation
            await asyncio.sleep(0)
        self.post(item)
        if self._is_over(1):
            with self._room:
                self._blocked = True
                if not self._is_over(1):
                    return
                self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

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
        if self._blocked and not self._is_over(2):
            self._wake()
        return item

    def close(self) -> None:
        """Nothing is read any more. Code that waits for room continues, and notices its cancellation."""
        self._closed = True
        self._wake()

    def _is_over(self, divisor: int) -> bool:
        """Whether the allowed amount, divided by `divisor`, waits to be read."""
        (posted, posted_bytes), (taken, taken_bytes) = self._posted, self._taken
        is_over = posted - taken >= AHEAD_OUTPUTS // divisor
        return not self._closed and (is_over or posted_bytes - taken_bytes >= AHEAD_BYTES // divisor)

    def _wake(self) -> None:
        with self._room:
            self._blocked = False
            self._room.notify_all()
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            with suppress(RuntimeError):  # the agent loop is closed
                waiting.get_loop().call_soon_threadsafe(_resolve, waiting)


def _size(outputs: Sequence[Any]) -> int:
    """Bytes of the texts and files among outputs, about."""
    total = 0
    for output in outputs:
        match output:
            case str() | bytes():
                total += len(output)
            case File(content=bytes() as content):
                total += len(content)
            case Artifact() | Message():
                total += _size(output.contents)
    return total


def _resolve(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


def end_stragglers() -> None:
    """End the process if a skill's code still runs after its turn, or has ended the agent loop.

    Nothing can stop a thread, or code that blocks the agent loop. Lambda freezes it with the process, and
    it would continue in the turn of another caller. After a loop has ended, the state of its code is
    unknown."""
    if any(loop.has_ended for loop in _loops):
        logger.error("a skill has ended the agents' event loop; the process ends with it")
        os._exit(1)
    give_up_at = time.monotonic() + STRAGGLER_SECONDS
    while _busy and time.monotonic() < give_up_at:
        time.sleep(0.01)
    if _busy:
        logger.error("a skill did not stop when its turn ended; the process ends with it")
        os._exit(1)


class _SkillThread:
    """A thread for the code of one turn after another. To start one takes longer than to hand it work."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], None], str]] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    @classmethod
    def run(cls, work: Callable[[], None], name: str) -> None:
        """Run work in a thread that runs nothing else meanwhile. name: the thread's, for that time."""
        try:
            thread = _idle_threads.pop()
        except IndexError:
            thread = cls()
        thread._work.put((work, name))

    def _run(self) -> None:
        while True:
            work, threading.current_thread().name = self._work.get()
            work()
            del work  # what the turn held is free while the thread waits
            asyncio.set_event_loop(None)  # the code may have made one, and closed it
            if len(_idle_threads) >= IDLE_THREADS:
                return
            _idle_threads.append(self)


_idle_threads: deque[_SkillThread] = deque()


def _call(call: Callable[[], Any], turn: "Turn", channel: _Channel, future: "Future[None]") -> None:
    token = object()
    _busy.add(token)
    try:
        result = call()
        if inspect.isawaitable(result) or inspect.isasyncgen(result):
            _agent_loop().submit(_await(lambda: result, turn, channel, future), channel).result()
        elif inspect.isgenerator(result):
            _iterate(result, turn, channel)
        else:
            channel.post(Batch(_outputs(result), last=True))
    except BaseException as error:
        channel.post(error)
    finally:
        _busy.discard(token)


def _iterate(generator: Generator[Any, Any, Any], turn: "Turn", channel: _Channel) -> None:
    try:
        while not turn.cancelled:
            channel.post_blocking(Batch(_outputs(next(generator)), last=False), turn)
    except StopIteration as stop:
        channel.post(Batch(_outputs(stop.value), last=True))
    finally:
        generator.close()


async def _await(
    call: Callable[[], Any], turn: "Turn", channel: _Channel, cancelled: "Future[None] | None" = None
) -> None:
    if cancelled is not None:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        cancelled.add_done_callback(lambda _: loop.call_soon_threadsafe(task.cancel) if task else None)
    token = object()
    _busy.add(token)
    try:
        result = call()
        if inspect.isawaitable(result):
            result = await result
        if inspect.isasyncgen(result):
            async with aclosing(result):  # its cleanup is part of the turn
                await _iterate_waiting(result, turn, channel)
            result = None
        _check_suspended(turn)
        turn.check_operations()
        channel.post(Batch(_outputs(result), last=True))
    except BaseException as error:
        channel.post(error)
        if isinstance(error, asyncio.CancelledError):
            raise
    finally:
        _busy.discard(token)


async def _iterate_waiting(generator: AsyncGenerator[Any, Any], turn: "Turn", channel: _Channel) -> None:
    """Hand over what a skill yields. A durable skill gets the reply to a question that it yields."""
    reply: Any = None
    with suppress(StopAsyncIteration):
        while True:
            outputs = _outputs(await generator.asend(reply))
            _check_suspended(turn)
            reply = None
            asks = [each for each in outputs if isinstance(each, Ask)]
            if turn.engine is None or not asks:
                await channel.post_waiting(Batch(outputs, last=False))
                continue
            await channel.post_waiting(Batch(outputs[: outputs.index(asks[0])], last=False))
            reply = await turn.wait_for("ask", asks[0])


def _check_suspended(turn: "Turn") -> None:
    """Raises Suspended if the turn is suspended, and its code continued."""
    if turn.engine is not None and turn.engine.suspension is not None:
        raise turn.engine.suspension


async def call_apart(call: Callable[[], Any], name: str) -> Any:
    """Result of synchronous code, in a thread to itself while it runs. It is code of the turn, also after no
    one waits for it any more."""
    future: Future[Any] = Future()

    def work() -> None:
        token = object()
        _busy.add(token)
        try:
            if future.set_running_or_notify_cancel():
                future.set_result(call())
        except Exception as error:
            future.set_exception(error)
        except BaseException as error:  # SystemExit must not leave the step
            future.set_exception(RuntimeError(f"the step ended with {type(error).__name__}"))
        finally:
            _busy.discard(token)

    _SkillThread.run(partial(contextvars.copy_context().run, work), name)
    return await asyncio.wrap_future(future)


def _outputs(value: Any) -> tuple[Any, ...]:
    """A tuple is several outputs; None is no output."""
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


class _AgentLoop:
    """An event loop in a thread, and the turns on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._turns: dict[Future[None], _Channel] = {}
        self._ended = False
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="agent loop", daemon=True).start()

    @property
    def has_ended(self) -> bool:
        return self._ended

    def submit(self, work: Coroutine[Any, Any, None], channel: _Channel) -> "Future[None]":
        """Run the code of a turn. If the loop has ended, the channel gets the error at once."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        with self._lock:
            self._turns[future] = channel
        future.add_done_callback(self._forget)
        if self._ended:
            self._fail()
        return future

    def ping(self) -> "Future[None]":
        return asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        except BaseException:
            logger.exception("an agent ended the event loop that asynchronous skills share")
        finally:
            self._ended = True
            logger.error("the agents' event loop has ended; its turns fail, and the next one gets a new loop")
            self._fail()

    def _fail(self) -> None:
        with self._lock:
            turns, self._turns = self._turns, {}
        for future, channel in turns.items():
            channel.post(RuntimeError("an agent ended the event loop that asynchronous skills share"))
            future.cancel()  # releases a thread that waits for it

    def _forget(self, future: "Future[None]") -> None:
        with self._lock:
            channel = self._turns.pop(future, None)
        # The code of a turn posts its own errors. This one came before it: an agent has changed the loop.
        if channel is not None and not future.cancelled() and (error := future.exception()) is not None:
            channel.post(error)


def ping_agent_loop() -> "Future[None] | None":
    """Done when the agent loop has run it: a loop that a skill blocks does not. None if there is no loop."""
    return _loops[-1].ping() if _loops else None


_loops: list[_AgentLoop] = []
"""Agent loops of this process. The last one is in use; the others have ended."""

_making = threading.Lock()


def _agent_loop() -> _AgentLoop:
    with _making:
        if not _loops or _loops[-1].has_ended:
            _loops.append(_AgentLoop())
        return _loops[-1]
