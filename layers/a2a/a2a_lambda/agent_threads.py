"""Runs agents' code: synchronous code in separate threads, and asynchronous code on one event loop in a
thread of its own. Because all turns share that loop, a client that a module creates once works in each of
them. A call that blocks by mistake delays the code of other agents, but no keep-alive, no lease and no other
request.

Code can also end the agent loop (`sys.exit` in a task of its own, `loop.stop()`). Then every turn on that
loop fails at once, the next turn gets a new loop, and on Lambda the process is replaced.
"""

import asyncio
import contextvars
import logging
import os
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

IDLE_THREADS = 8
"""Threads of synchronous code that are kept for the next turns."""

CALL_THREADS = 32
"""Threads of an agent loop for `asyncio.to_thread`. asyncio's own limit is six with two CPUs, which a few
calls that hang would use up, for every agent on the loop."""

STRAGGLER_SECONDS = 1.0
"""Seconds in which a skill must end after its turn has ended."""

logger = logging.getLogger(__name__)

_busy: set[object] = set()
"""Code of skills that is running now."""


class CodeThread:
    """A thread for the code of one turn after another. Starting a thread takes longer than handing it
    work."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], None], str]] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    @classmethod
    def run(cls, work: Callable[[], None], name: str) -> None:
        """Run work in a thread that runs nothing else meanwhile, and has the name for that time."""
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


_idle_threads: deque[CodeThread] = deque()


async def call_in_thread(call: Callable[[], Any], name: str) -> Any:
    """Result of synchronous code, in a thread to itself while it runs. The code counts as the turn's even
    when no one waits for it any more."""
    future: Future[Any] = Future()

    def work() -> None:
        with count_as_running():
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(call())
            except BaseException as error:
                failure = error
                # SystemExit must not end the loop, and asyncio raises StopIteration in no future: the caller
                # would wait forever.
                if not isinstance(error, Exception) or isinstance(error, StopIteration):
                    failure = RuntimeError(f"{name} ended with {type(error).__name__}")
                    failure.__cause__ = error
                future.set_exception(failure)

    CodeThread.run(partial(contextvars.copy_context().run, work), name)
    return await asyncio.wrap_future(future)


@contextmanager
def count_as_running() -> Iterator[None]:
    """Code of a skill runs while this lasts: `end_stragglers` waits for it."""
    token = object()
    _busy.add(token)
    try:
        yield
    finally:
        _busy.discard(token)


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


class CallPool(ThreadPoolExecutor):
    """Threads for the calls that asynchronous code makes with `asyncio.to_thread`. A call continues when its
    turn is canceled, so it counts as the turn's until it ends. asyncio looks up names here, too; such a
    lookup is not the skill's code, and does not count."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        if call in (socket.getaddrinfo, socket.getnameinfo):
            return super().submit(call, *args, **options)

        def work() -> Any:
            with count_as_running():
                return call(*args, **options)

        return super().submit(work)


class AgentLoop:
    """An event loop in a thread, and the turns on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(CallPool(CALL_THREADS, "call"))
        self._turns: dict[Future[None], Callable[[BaseException], None]] = {}
        self._lock = threading.Lock()
        self.has_ended = False
        threading.Thread(target=self._run, name="agent loop", daemon=True).start()

    def submit(
        self, work: Coroutine[Any, Any, None], on_failure: Callable[[BaseException], None]
    ) -> "Future[None]":
        """Run the code of a turn, which reports its own errors. `on_failure` gets an error that comes before
        the code, or from elsewhere: at once, if the loop has ended."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        with self._lock:
            self._turns[future] = on_failure
        future.add_done_callback(self._forget)
        if self.has_ended:
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
            self.has_ended = True
            logger.error("the agents' event loop has ended; its turns fail, and the next one gets a new loop")
            self._fail()

    def _fail(self) -> None:
        with self._lock:
            turns, self._turns = self._turns, {}
        for future, on_failure in turns.items():
            # Its coroutine will never run again, so the turn must hear of it from here.
            on_failure(RuntimeError("an agent ended the event loop that asynchronous skills share"))
            future.cancel()  # releases a thread that waits for it

    def _forget(self, future: "Future[None]") -> None:
        with self._lock:
            on_failure = self._turns.pop(future, None)
        # The code of a turn posts its own errors. This one came before it: an agent has changed the loop.
        if on_failure is not None and not future.cancelled() and (error := future.exception()) is not None:
            self.has_ended = True  # for the turns that come: each would fail like this one
            on_failure(error)


def ping_agent_loop() -> "Future[None] | None":
    """A future that is done once the agent loop has run it, which it cannot while a skill blocks the loop.
    None if there is no loop."""
    return _loops[-1].ping() if _loops else None


_loops: list[AgentLoop] = []
"""Agent loops of this process. The last one is in use; the others have ended."""

_loops_lock = threading.Lock()


def get_agent_loop() -> AgentLoop:
    """The loop in use. A new one, if there is none or the last has ended."""
    with _loops_lock:
        if not _loops or _loops[-1].has_ended:
            _loops.append(AgentLoop())
        return _loops[-1]
