"""A `KeyCopies` in memory, for tests with one container."""

import time
from collections.abc import Callable

from a2a_lambda.store.key_copies import KeyCopies, KeyCopy, KeyLoad


class UnsharedKeyCopies(KeyCopies):
    """Keeps in memory what `KeyCopies` keeps in the table."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._copy: KeyCopy | None = None
        self._stopped: tuple[float, KeyLoad] | None = None

    def read_copy(self) -> KeyCopy | None:
        return self._copy

    def begin_load(self, *, seconds: float, resume: float) -> KeyLoad | None:
        if self._stopped is None:
            return KeyLoad(self._clock())
        free_at, load = self._stopped
        if self._clock() < free_at:
            return None
        self._stopped = None
        return load if self._clock() - load.started_at <= resume else KeyLoad(self._clock())

    def finish_load(self, load: KeyLoad) -> None:
        self._copy = load.as_copy()

    def stop_load(self, load: KeyLoad, *, cooldown_seconds: float) -> None:
        self._stopped = (self._clock() + cooldown_seconds, load)
