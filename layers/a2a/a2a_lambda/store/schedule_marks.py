"""How far each schedule has been looked at."""

from contextlib import suppress

from a2a_lambda.store import items
from a2a_lambda.store.items import number
from a2a_lambda.store.table import ConditionFailed, Table

MARK_KEPT_SECONDS = 30 * 86_400
"""Seconds after which DynamoDB may delete a mark that nothing moves: its schedule is gone."""


class ScheduleMarks:
    """For each schedule, the time up to which its turns were started. Calls block, and raise StoreError.

    schedule: its id, cron and time zone.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    def read(self, agent: str, schedule: str) -> float | None:
        """Unix time, or None if the schedule was not looked at for a while."""
        item = self._table.get(items.schedule_mark_key(agent, schedule))
        return None if item is None else float(item["looked"]["N"])

    def advance(self, agent: str, schedule: str, until: float) -> None:
        """Move the mark, never back."""
        item = {
            **items.schedule_mark_key(agent, schedule),
            "looked": {"N": str(until)},
            "expires": number(int(until) + MARK_KEPT_SECONDS),
        }
        with suppress(ConditionFailed):  # another container was further
            self._table.put(item, "attribute_not_exists(pk) OR looked < :looked", {":looked": item["looked"]})
