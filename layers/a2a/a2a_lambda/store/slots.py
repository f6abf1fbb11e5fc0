"""Slots of owners in the table: each is a stream, or a long send, that runs now."""

from contextlib import suppress

from a2a_lambda.store import items
from a2a_lambda.store.table import ABSENT_CONDITION, HELD_CONDITION, ConditionFailed, Table


class Slots:
    """Slots in a table. Its calls block, and raise what `Table` raises, except ConditionFailed."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def take(self, owner: str, number: int, holder: str, until: float) -> bool:
        """Take a slot of an owner until a Unix time; False if it is taken."""
        item = items.from_slot(owner, number, holder, until)
        try:
            self._table.put(item, ABSENT_CONDITION, {":now": items.number(int(self._table.clock()))})
        except ConditionFailed:
            return False
        return True

    def renew(self, owner: str, number: int, holder: str, until: float) -> None:
        """Hold a slot until a later Unix time, if the holder still has it."""
        with suppress(ConditionFailed):
            item = items.from_slot(owner, number, holder, until)
            self._table.put(item, HELD_CONDITION, {":holder": {"S": holder}})

    def free(self, owner: str, number: int, holder: str) -> None:
        """Free a slot, if the holder still has it."""
        with suppress(ConditionFailed):
            key = items.slot_key(owner, number)
            self._table.delete_if(key, HELD_CONDITION, {":holder": {"S": holder}})

    def list(self, owner: str) -> set[int]:
        """Slots of an owner that are taken."""
        rows = self._table.query_unexpired("pk = :pk", {":pk": items.slot_key(owner, 0)["pk"]})
        return {items.slot_number(item) for item in rows}
