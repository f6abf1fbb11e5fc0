"""Times of a schedule: five fields of cron, in a time zone."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

CRON_FIELDS = 5
"""CronSim takes a sixth one for seconds."""

MAX_SETBACKS = 120
"""Times in the past that CronSim may name in a row. There are 60 minutes in the hour that comes twice."""

SETBACK_SECONDS = 900.0
"""Seconds that are left out when CronSim names more of them: a quarter of an hour, by which clocks differ."""


def check(cron: str) -> None:
    """Raises ValueError, which says what to write instead."""
    try:
        if len(cron.split()) != CRON_FIELDS:
            raise CronSimError(f"{len(cron.split())} fields")
        if next(CronSim(cron, datetime.now(UTC)), None) is None:
            raise CronSimError("no date has this day of the month and this weekday")
    except CronSimError as error:
        raise ValueError(
            f"{cron!r} is not a cron expression ({error}): write minute, hour, day, month and weekday,"
            ' such as "0 7 * * 1-5"'
        ) from None


def times_after(cron: str, timezone: str, after: float) -> Iterator[float]:
    """Unix times, in order, each later than `after`. When clocks are changed, a fixed hour that is left out
    or comes twice counts once, as in Debian's cron; `*` means every hour that passes."""
    latest, start, zone = after, after, ZoneInfo(timezone)
    while True:
        setbacks = 0
        for moment in CronSim(cron, datetime.fromtimestamp(start, zone)):
            if (time := moment.timestamp()) > latest:
                latest, setbacks = time, 0
                yield time
            # In the hour that comes twice, CronSim also names the times in its first half. Where clocks
            # change at another minute than 0, as in Pacific/Chatham, it names them without end.
            elif (setbacks := setbacks + 1) > MAX_SETBACKS:
                break
        else:
            return
        start = max(start, latest) + SETBACK_SECONDS


def times_between(cron: str, timezone: str, after: float, until: float) -> list[float]:
    """Unix times later than `after`, up to and including `until`."""
    return list(takewhile(lambda time: time <= until, times_after(cron, timezone, after)))
