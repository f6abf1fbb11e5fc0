"""Times of a schedule: five fields of cron, in a time zone."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

CRON_FIELDS = 5
"""CronSim takes a sixth one for seconds."""


def check(cron: str) -> None:
    """Raises ValueError, which says what to write instead."""
    try:
        if len(cron.split()) != CRON_FIELDS:
            raise CronSimError(f"{len(cron.split())} fields")
        CronSim(cron, datetime.now(UTC))
    except CronSimError as error:
        raise ValueError(
            f"{cron!r} is not a cron expression ({error}): write minute, hour, day, month and weekday,"
            ' such as "0 7 * * 1-5"'
        ) from None


def times_after(cron: str, timezone: str, after: float) -> Iterator[float]:
    """Unix times, in order, each later than `after`. When clocks are changed, a fixed hour that is left out
    or comes twice counts once, as in Debian's cron; `*` means every hour that passes."""
    start = datetime.fromtimestamp(after, ZoneInfo(timezone))
    # In the hour that comes twice, CronSim also names the time in its first half.
    return (time for time in (moment.timestamp() for moment in CronSim(cron, start)) if time > after)


def times_between(cron: str, timezone: str, after: float, until: float) -> list[float]:
    """Unix times later than `after`, up to and including `until`."""
    return list(takewhile(lambda time: time <= until, times_after(cron, timezone, after)))
