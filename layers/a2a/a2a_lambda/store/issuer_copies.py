"""A copy of each issuer's public keys, which the containers of a deployment share."""

import json
import logging
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from a2a_lambda.protocol.model import Json
from a2a_lambda.store import items
from a2a_lambda.store.items import number
from a2a_lambda.store.table import HELD_CONDITION, ConditionFailed, Table

KEPT_SECONDS = 2 * 86_400
"""Seconds after which DynamoDB may delete a copy that no container renews."""

FETCH_LEASE_SECONDS = 10.0
"""Seconds after which a fetch counts as over, even if its container died."""

NEWER_FETCH_CONDITION = "attribute_not_exists(pk) OR fetched < :fetched OR issuer_url <> :url"

logger = logging.getLogger(__name__)


class FetchState(StrEnum):
    """State of a fetch: it is running, the issuer has answered, or the fetch has failed."""

    BUSY = "busy"
    DONE = "done"
    FAILED = "failed"


class NamedIssuer(Protocol):
    """An issuer by its name. url: its `iss`: with another URL, it is another one."""

    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...


@dataclass(frozen=True, slots=True)
class IssuerCopy:
    """The keys of an issuer, as a container has stored them for the others.

    fetched_at: Unix time at which the issuer was asked; 0 = never. jwks: JSON Web Keys.
    """

    fetched_at: float = 0.0
    jwks: list[Json] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fetch:
    """A container asks an issuer. began_at: Unix time. cooldown_seconds: seconds until the next one may.
    holder: the container, so that two that begin at once differ."""

    began_at: float
    cooldown_seconds: float
    holder: str = field(default_factory=lambda: str(uuid.uuid4()))


class IssuerCopies:
    """Copies of issuers' keys in the table. Calls block. They raise StoreError.

    path: path of the API keys in Parameter Store.
    """

    def __init__(self, table: Table, path: str) -> None:
        self._table = table
        self._path = path

    def read_copy(self, issuer: NamedIssuer) -> IssuerCopy:
        """The newest copy; an empty one if there is none."""
        item = self._table.get(self._key("jwks", issuer))
        if item is None or item["issuer_url"]["S"] != issuer.url:
            return IssuerCopy()
        try:
            return IssuerCopy(float(item["fetched"]["N"]), json.loads(item["keys"]["S"]))
        except (ValueError, TypeError, KeyError) as error:
            logger.warning("the copy of an issuer's keys cannot be read, and is made again: %r", error)
            return IssuerCopy()

    def begin_fetch(self, issuer: NamedIssuer, *, cooldown_seconds: float) -> Fetch | None:
        """A fetch by this container; None if another one began one in the last `cooldown_seconds`."""
        fetch = Fetch(self._table.clock(), cooldown_seconds)
        try:
            self._table.take(self._item_of(issuer, fetch, FetchState.BUSY), fetch.began_at)
        except ConditionFailed:
            return None
        return fetch

    def read_fetch_state(self, issuer: NamedIssuer) -> FetchState | None:
        """State of the last fetch; None if there was none."""
        item = self._table.get(self._key("fetch", issuer))
        if item is None:
            return None
        is_over = float(item["began"]["N"]) + FETCH_LEASE_SECONDS <= self._table.clock()
        state = FetchState(item["state"]["S"])
        return FetchState.FAILED if state == FetchState.BUSY and is_over else state

    def finish_fetch(self, issuer: NamedIssuer, fetch: Fetch, jwks: list[Json]) -> None:
        """Share what the issuer said, unless a later fetch has shared its own. Raises WriteRefused."""
        item = {
            **self._key("jwks", issuer),
            "issuer_url": {"S": issuer.url},
            "fetched": {"N": str(fetch.began_at)},
            "keys": {"S": json.dumps(jwks, separators=(",", ":"), ensure_ascii=False)},
            "expires": number(int(self._table.clock() + KEPT_SECONDS)),
        }
        with suppress(ConditionFailed):
            self._table.put(
                item, NEWER_FETCH_CONDITION, {":fetched": item["fetched"], ":url": item["issuer_url"]}
            )
        self.end_fetch(issuer, fetch, FetchState.DONE)

    def end_fetch(self, issuer: NamedIssuer, fetch: Fetch, state: FetchState) -> None:
        """Tell the others whether the issuer answered."""
        item = self._item_of(issuer, fetch, state)
        with suppress(ConditionFailed):  # it took too long, and another container asks now
            self._table.put(item, HELD_CONDITION, {":holder": item["holder"]})

    def _item_of(self, issuer: NamedIssuer, fetch: Fetch, state: FetchState) -> dict[str, Any]:
        return {
            **self._key("fetch", issuer),
            "holder": {"S": fetch.holder},
            "began": {"N": str(fetch.began_at)},
            "until": {"N": str(fetch.began_at + fetch.cooldown_seconds)},
            "state": {"S": state},
            "expires": number(int(fetch.began_at + KEPT_SECONDS)),
        }

    def _key(self, what: str, issuer: NamedIssuer) -> dict[str, Any]:
        return items.keys_key(self._path, f"{what}#{issuer.name}")
