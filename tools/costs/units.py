"""What a call to DynamoDB is billed as, and how it loads the partitions.

Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from tools.costs.aws import READ_UNIT_BYTES, WRITE_UNIT_BYTES

Item = Mapping[str, Any]

LISTING = ("listing", "changed", "state", "context", "expires")
"""Keys of the index `by-status-time`, and what else is in its entries."""

DUE = ("shard", "due")
"""The same of `by-due`."""


@dataclass(frozen=True, slots=True)
class TableCall:
    """A call of DynamoDB within an operation.

    at: seconds after the operation began. partition: key of the table's partition.

    writes, reads: units of the table. listing, due: write units of its indexes.
    listing_key, due_key: keys of their partitions, "" if they have no entry.
    """

    at: float
    partition: str
    writes: int = 0
    reads: float = 0.0
    listing: int = 0
    listing_key: str = ""
    due: int = 0
    due_key: str = ""

    def with_units_of(self, other: "TableCall") -> "TableCall":
        """This call with the units of another one added."""
        return replace(
            self,
            writes=self.writes + other.writes,
            reads=self.reads + other.reads,
            listing=self.listing + other.listing,
            listing_key=self.listing_key or other.listing_key,
            due=self.due + other.due,
            due_key=self.due_key or other.due_key,
        )


def of_write(at: float, old: Item, new: Item) -> TableCall:
    """A put of an item in place of another, which may be empty."""
    return TableCall(
        at,
        new["pk"]["S"],
        writes=max(ceil(size_of(item) / WRITE_UNIT_BYTES) for item in (old, new)),
        listing=_entry_units(old, new, LISTING),
        listing_key=_key(old, new, "listing"),
        due=_entry_units(old, new, DUE),
        due_key=_key(old, new, "shard"),
    )


def of_read(at: float, partition: str, items: Sequence[Item], *, is_consistent: bool) -> TableCall:
    """A read of items. One that finds nothing costs a unit, too."""
    units = max(1, ceil(sum(map(size_of, items)) / READ_UNIT_BYTES))
    return TableCall(at, partition, reads=units if is_consistent else units / 2)


def of_batch(at: float, items: Sequence[Item]) -> TableCall:
    """A consistent read of items by their keys. Each is rounded up by itself."""
    return TableCall(at, "", reads=sum(ceil(size_of(item) / READ_UNIT_BYTES) for item in items))


def size_of(item: Item) -> int:
    """Bytes of an item, nearly as DynamoDB counts them."""
    values = {name: next(iter(value.values())) for name, value in item.items()}
    return sum(len(name) + (1 if isinstance(value, bool) else len(value)) for name, value in values.items())


def _entry_units(old: Item, new: Item, index: tuple[str, ...]) -> int:
    """Units of an index: its entry is put, deleted, or both if its key changes."""
    old_entry, new_entry = (
        [item.get(name) for name in index] if index[0] in item else None for item in (old, new)
    )
    if old_entry == new_entry:
        return 0
    if old_entry is None or new_entry is None:
        return 1
    return 1 if old_entry[:2] == new_entry[:2] else 2


def _key(old: Item, new: Item, name: str) -> str:
    return str((new.get(name) or old.get(name) or {"S": ""})["S"])
