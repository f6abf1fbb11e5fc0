"""Telemetry of an invocation: the ids on every log line, and measurements.

Every module may add to it. `lambda_` writes log lines, metrics and traces from it. A process on Lambda
serves one invocation at a time, so it has one set of ids. A server that serves several requests at once
collects the ids of each request.
"""

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

Values = Mapping[str, float]
Dimensions = Mapping[str, str]

sink: Callable[[Values, Dimensions], None] | None = None
"""Takes the measurements. None = they are dropped."""


URL_LOGGERS = ("httpx2", "httpcore2")
"""Loggers that write URLs, which may hold secrets."""


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
