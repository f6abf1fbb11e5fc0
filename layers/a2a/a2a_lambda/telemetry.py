"""What a function tells of its invocation: ids that every log line bears, and measurements.

The core says them. `lambda_` writes JSON lines, metrics and traces of them. A process of Lambda's serves
one invocation at a time, so there is one set of ids in it. A server that takes several requests at once
collects the ids of each.
"""

import logging
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass

MEASURES = logging.getLogger("a2a_lambda.measures")
"""Each record is a measurement: `values` by metric, `dimensions` by name."""

MEASURES.propagate = False


@dataclass(slots=True)
class Invocation:
    """own: ids of the invocation itself. ids: as they stand on log lines. begun: on `time.monotonic`."""

    own: Mapping[str, str | bool]
    begun: float
    ids: dict[str, str | bool]


_invocation: Invocation | None = None

_collected: ContextVar[dict[str, str] | None] = ContextVar("collected", default=None)


def begin(**ids: str | bool) -> None:
    """An invocation begins: ids of the one before are forgotten."""
    global _invocation  # noqa: PLW0603
    _invocation = Invocation(ids, time.monotonic(), dict(ids))


def collect() -> Mapping[str, str]:
    """Ids bound from here on in this context and those made from it, as they come."""
    found: dict[str, str] = {}
    _collected.set(found)
    return found


def about(**ids: str) -> None:
    """From here on the invocation is about this, and no longer about what it was before."""
    if _invocation is not None:
        _invocation.ids = {**_invocation.own, **ids}


def bind(**ids: str) -> None:
    """Add ids to what the invocation is about."""
    if _invocation is not None:
        _invocation.ids.update(ids)
    elif (collected := _collected.get()) is not None:
        collected.update(ids)


def ids() -> Mapping[str, str | bool]:
    return {} if _invocation is None else _invocation.ids


def begun() -> float:
    """When the invocation began, on `time.monotonic`; outside of one, now."""
    return time.monotonic() if _invocation is None else _invocation.begun


def measure(values: Mapping[str, float], **dimensions: str) -> None:
    """Tell a measurement. Metrics without dimensions add up over an invocation.

    values: Turns, Pushes, FailedRecords, KeyFailures and DynamoDBCalls are counts; FirstEventTime and RunTime
    are seconds.
    """
    if MEASURES.isEnabledFor(logging.INFO):
        MEASURES.info("", extra={"values": values, "dimensions": dimensions})
