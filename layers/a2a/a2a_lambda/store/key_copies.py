"""A copy of the API keys, which the containers of a deployment share.

Parameter Store allows about 40 reads a second to a whole account. With a copy in the table, one container
reads it for all others. The copy has the time at which Parameter Store was read. `keys` decides how old it
may be.
"""

import json
import logging
import uuid
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from a2a_lambda.store import items
from a2a_lambda.store.documents import pack, unpack
from a2a_lambda.store.items import number
from a2a_lambda.store.table import HELD_CONDITION, ConditionFailed, Table

Rows = list[list[Any]]
"""JSON values: a row for each key, and for each issuer of tokens."""

COPY_KEPT_SECONDS = 3_600.0
"""Seconds after which DynamoDB may delete a copy or a load that no container renews."""

ROWS_VERSION = 3
"""Version of a copy. A release that changes what it holds takes the next number. Then every other release
reads Parameter Store instead."""

OLDER_COPY_CONDITION = (
    "attribute_not_exists(pk) OR NOT attribute_type(loaded, :number) OR loaded < :loaded OR loaded > :now"
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeyCopy:
    """Every key in Parameter Store.

    loaded_at: Unix time at which the first one was read. issuers_loaded_at: the same for the issuers, which
    is earlier if they could not be read; 0 = never. is_of_card: the copy was loaded to show the issuers
    in a card, and not to check a key.
    """

    loaded_at: float
    pages: int
    rows: Rows
    issuers_loaded_at: float
    is_of_card: bool = False


KEYS_PART, ISSUERS_PART = 0, 1
"""What a load reads: first the keys, then the issuers of tokens."""


@dataclass(slots=True)
class KeyLoad:
    """A load of the keys. One container at a time may load them.

    started_at: Unix time of its first page. page_token: where it continues; "" = at the first page of its
    part. part: KEYS_PART or ISSUERS_PART. issuers_loaded_at: see KeyCopy; None = at started_at.
    refusal: why the issuers could not be read; None = they were read, or have not been asked for.
    """

    started_at: float
    pages: int = 0
    page_token: str = ""
    part: int = KEYS_PART
    rows: Rows = field(default_factory=list)
    issuers_loaded_at: float | None = None
    is_of_card: bool = False
    holder: str = field(default_factory=lambda: str(uuid.uuid4()))
    refusal: Exception | None = None

    def as_copy(self) -> KeyCopy:
        issuers_loaded_at = self.started_at if self.issuers_loaded_at is None else self.issuers_loaded_at
        return KeyCopy(self.started_at, self.pages, self.rows, issuers_loaded_at, self.is_of_card)


class KeyCopies:
    """The copy of the API keys in the table. Calls block. They raise StoreError if DynamoDB does not answer,
    WriteRefused if the keys do not fit an item of 400 KB: more than about 5,000.

    path: path of the keys in Parameter Store.
    """

    def __init__(self, table: Table, path: str) -> None:
        self._table = table
        self._path = path

    def read_copy(self) -> KeyCopy | None:
        """The newest copy. None if there is none that this release can read."""
        item = self._table.get(items.keys_key(self._path, "copy"))
        if item is None:
            return None
        try:
            return KeyCopy(
                float(item["loaded"]["N"]),
                int(item["pages"]["N"]),
                _rows_of(item),
                float(item["issuers_loaded"]["N"]),
                bool(item["card"]["BOOL"]),
            )
        except UNREADABLE as error:
            logger.warning("the copy of the keys cannot be read, and is made again: %r", error)
            return None

    def begin_load(self, *, seconds: float, resume: float) -> KeyLoad | None:
        """A load for this container, for at most so many seconds; None while another container loads.

        resume: seconds from its first page for which a stopped load is continued.
        """
        now = self._table.clock()
        load = KeyLoad(started_at=now)
        item = {
            **items.keys_key(self._path, "load"),
            "holder": {"S": load.holder},
            "until": {"N": str(now + seconds)},
            "expires": number(int(now + COPY_KEPT_SECONDS)),
        }
        try:
            old_item = self._table.take(item, now)
        except ConditionFailed:
            return None
        try:
            if old_item and "token" in old_item and now - float(old_item["begun"]["N"]) <= resume:
                return KeyLoad(
                    started_at=float(old_item["begun"]["N"]),
                    pages=int(old_item["pages"]["N"]),
                    page_token=str(old_item["token"]["S"]),
                    part=int(old_item["part"]["N"]),
                    rows=_rows_of(old_item),
                    holder=load.holder,
                )
        except UNREADABLE as error:
            logger.warning("a load of the keys cannot be continued, and begins again: %r", error)
        return load

    def finish_load(self, load: KeyLoad) -> None:
        """Share what was loaded, unless there is a newer copy. Others may load again."""
        now, copy = self._table.clock(), load.as_copy()
        item = {
            **items.keys_key(self._path, "copy"),
            "loaded": {"N": str(copy.loaded_at)},
            "issuers_loaded": {"N": str(copy.issuers_loaded_at)},
            "pages": number(copy.pages),
            "rows": pack(copy.rows),
            "card": {"BOOL": copy.is_of_card},
            "version": number(ROWS_VERSION),
            "expires": number(int(now + COPY_KEPT_SECONDS)),
        }
        values = {":loaded": item["loaded"], ":now": {"N": str(now)}, ":number": {"S": "N"}}
        try:
            with suppress(ConditionFailed):  # a load that began later has finished first
                self._table.put(item, OLDER_COPY_CONDITION, values)
        finally:
            self._end(load, {"until": {"N": "0"}})

    def stop_load(self, load: KeyLoad, *, cooldown_seconds: float) -> None:
        """Leave a load for another container to continue, after `cooldown_seconds` at the earliest."""
        fields: dict[str, Any] = {"until": {"N": str(self._table.clock() + cooldown_seconds)}}
        if load.pages:
            fields |= {
                "begun": {"N": str(load.started_at)},
                "pages": number(load.pages),
                "token": {"S": load.page_token},
                "part": number(load.part),
                "rows": pack(load.rows),
                "version": number(ROWS_VERSION),
            }
        self._end(load, fields)

    def _end(self, load: KeyLoad, fields: dict[str, Any]) -> None:
        item = {
            **items.keys_key(self._path, "load"),
            "holder": {"S": load.holder},
            "expires": number(int(self._table.clock() + COPY_KEPT_SECONDS)),
            **fields,
        }
        with suppress(ConditionFailed):  # it took too long, and another container loads now
            self._table.put(item, HELD_CONDITION, {":holder": {"S": load.holder}})


def _rows_of(item: Mapping[str, Any]) -> Rows:
    """Raises one of UNREADABLE."""
    version = int(item["version"]["N"])
    if version != ROWS_VERSION:
        raise ValueError(f"it has version {version}")
    rows: Rows = json.loads(unpack(item["rows"]))
    return rows


UNREADABLE = (zlib.error, ValueError, TypeError, KeyError)
