"""Time that passes only when everyone waits: threads with a virtual clock, one of which runs at a time."""

import heapq
import itertools
import threading
from collections.abc import Callable, Sequence


class Simulation:
    """`run` starts actors, each in a thread. `sleep` and `clock` are theirs; the order is always the same."""

    def __init__(self, begin: float = 1_000_000.0) -> None:
        self.now = begin
        self._waiting: list[tuple[float, int, threading.Event]] = []
        self._numbers = itertools.count()
        self._idle = threading.Semaphore(0)
        self._errors: list[BaseException] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        awake = threading.Event()
        heapq.heappush(self._waiting, (self.now + max(seconds, 0.0), next(self._numbers), awake))
        self._idle.release()
        awake.wait()

    def run(self, actors: Sequence[Callable[[], None]]) -> None:
        """Until every actor has returned. Raises what the first of them raised."""
        threads = [threading.Thread(target=self._act, args=(actor,), daemon=True) for actor in actors]
        for thread in threads:
            thread.start()
            self._idle.acquire()
        while self._waiting:
            self.now, _, awake = heapq.heappop(self._waiting)
            awake.set()
            self._idle.acquire()
        if self._errors:
            raise self._errors[0]

    def _act(self, actor: Callable[[], None]) -> None:
        try:
            self.sleep(0.0)
            actor()
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._idle.release()
