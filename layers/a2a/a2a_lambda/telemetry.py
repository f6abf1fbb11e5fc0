"""Telemetry of an invocation: the ids on every log line, and measurements; and what keeps the log as it is.

Every module may add to it. `lambda_` writes log lines, metrics and traces from it. A process on Lambda
serves one invocation at a time, so it has one set of ids. A server that serves several requests at once
collects the ids of each request.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

Values = Mapping[str, float]
Dimensions = Mapping[str, str]

sink: Callable[[Values, Dimensions], None] | None = None
"""Takes the measurements. None = they are dropped."""


@dataclass(slots=True)
class _Invocation:
    """The invocation that this process serves.

    own: ids of the invocation itself. ids: the ids on its log lines. invoked_at: a `time.monotonic()`
    value.
    """

    own: Mapping[str, str | bool]
    invoked_at: float
    ids: dict[str, str | bool]


_invocation: _Invocation | None = None

_collected: ContextVar[dict[str, str] | None] = ContextVar("collected", default=None)


def begin(**ids: str | bool) -> None:
    """Begin an invocation. The ids of the one before are forgotten."""
    global _invocation  # noqa: PLW0603
    _invocation = _Invocation(ids, time.monotonic(), dict(ids))


def collect() -> Mapping[str, str]:
    """A map that gets all ids bound from now on, in this context and those made from it."""
    id_map: dict[str, str] = {}
    _collected.set(id_map)
    return id_map


def replace_ids(**ids: str) -> None:
    """Replace the ids of what the invocation works on."""
    if _invocation is not None:
        _invocation.ids = {**_invocation.own, **ids}
    elif (id_map := _collected.get()) is not None:
        id_map.clear()
        id_map.update(ids)


def bind(**ids: str) -> None:
    """Add ids of what the invocation works on."""
    if _invocation is not None:
        _invocation.ids.update(ids)
    elif (id_map := _collected.get()) is not None:
        id_map.update(ids)


def ids() -> Mapping[str, str | bool]:
    """Ids of the invocation; in a server, those collected for this request."""
    return (_collected.get() or {}) if _invocation is None else _invocation.ids


def invoked_at() -> float:
    """When the invocation began, on `time.monotonic`; outside of an invocation, now."""
    return time.monotonic() if _invocation is None else _invocation.invoked_at


def measure(values: Values, **dimensions: str) -> None:
    """Record a measurement. Metrics without dimensions are summed up over an invocation.

    values: Turns, Pushes, Faults, FailedRecords, KeyFailures, Sweeps and DynamoDBCalls are counts;
        FirstEventTime and RunTime are seconds.
    """
    if sink is not None:
        sink(values, dimensions)


class LogGuard:
    """Undoes what the import of an agent does to the logging of all of them.

    `logging.basicConfig(force=True)` in an agent's module removes the handler that keeps texts of users out
    of the log. So does `logging.config.dictConfig`, and by default it disables all loggers that it does not
    name, which would hide every agent's errors.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._imports = 0  # that run now: the first one sees the log as it was
        self._handlers: list[logging.Handler] = []
        self._levels = (logging.NOTSET, logging.NOTSET)

    def __enter__(self) -> None:
        with self._lock:
            if not self._imports:
                self._handlers = [*logging.root.handlers]
                self._levels = logging.root.level, logging.root.manager.disable
            self._imports += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._imports -= 1
            root_level, disabled_level = self._levels
            if not {*self._handlers} <= {*logging.root.handlers}:
                logging.root.handlers[:] = self._handlers
                logging.root.setLevel(root_level)
            logging.disable(disabled_level)
            for name, logger in list(logging.Logger.manager.loggerDict.items()):
                if name.startswith("a2a_lambda.") and isinstance(logger, logging.Logger):
                    logger.disabled = False


log_guard = LogGuard()
