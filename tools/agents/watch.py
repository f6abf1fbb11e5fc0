"""Names the code of an agent that keeps others waiting, with its file and line.

an import that has not ended               its agent cannot be called, and a reload waits for it
an async skill that does not await         no other async skill runs
a synchronous skill that does not end      its turn has a thread, and others run
"""

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import FrameType

from a2a_lambda import agent_threads
from a2a_lambda.mistakes import short_path

LOOK_SECONDS = 0.5

BLOCKED_SECONDS = 3.0
"""Seconds after which an import, or code on the agents' loop, is named."""

LONG_SECONDS = 10.0
"""Seconds after which a synchronous skill is named. A call of a model may take that long."""

AGENT_LOOP = "agent loop"

BLOCKS = "blocks all async skills. Await the slow call, or write `def` instead of `async def`"


Say = Callable[[str], None]


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def thread_frames() -> dict[int, FrameType]:
    """The innermost frame of each thread, by the thread's identifier.

    Garbage is not collected meanwhile. Python 3.11 holds its list of threads locked while it makes the dict.
    A collection in between may run Python code and thus let another thread run, and once that one starts or
    ends a thread, both wait forever (https://github.com/python/cpython/issues/106883).
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if is_collecting:
            gc.enable()


class Watch:
    """Looks at the threads that run code of agents. agents: their folder. say: takes a line."""

    def __init__(self, agents: Path, *, say: Say = _print) -> None:
        self._agents = str(agents.resolve())
        self._say = say
        self._since: dict[tuple[int, int], float] = {}
        self._named: set[tuple[int, int]] = set()
        self._ping: Future[None] | None = None
        self._pinged = 0.0

    def start(self) -> None:
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            self.look(time.monotonic())

    def look(self, now: float) -> None:
        """Name what has run for too long. now: seconds."""
        if self._ping is None or self._ping.done():
            self._ping, self._pinged = agent_threads.ping_agent_loop(), now
        frames, starts = thread_frames(), {}
        for thread in threading.enumerate():
            own = list(self._own_frames(frames.get(thread.ident or 0)))
            if not own:
                continue
            place = (thread.ident or 0, id(own[-1]))  # the call from outside stays, whatever it calls
            start = starts[place] = self._since.get(place, now)
            is_import = own[-1].f_code.co_name == "<module>"
            if thread.name == AGENT_LOOP:
                start = max(start, self._pinged)
            limit = BLOCKED_SECONDS if is_import or thread.name == AGENT_LOOP else LONG_SECONDS
            if now - start < limit or place in self._named:
                continue
            self._named.add(place)
            activity = "has been importing" if is_import else "has been running"
            effect = f", and {BLOCKS}" if thread.name == AGENT_LOOP else ""
            position = f"{short_path(own[0].f_code.co_filename)}:{own[0].f_lineno}"
            self._say(f"warning: {position} {activity} for {now - start:.0f} s{effect}")
        self._named &= starts.keys()
        self._since = starts

    def _own_frames(self, frame: FrameType | None) -> Iterator[FrameType]:
        """The frames of agents' code in a stack, the innermost first."""
        while frame is not None:
            if frame.f_code.co_filename.startswith(self._agents):
                yield frame
            frame = frame.f_back
