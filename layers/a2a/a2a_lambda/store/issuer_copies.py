"""A copy of each issuer's public keys, which the containers of a deployment share."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from a2a_lambda.protocol.model import Json
from a2a_lambda.store import items
from a2a_lambda.store.items import number
from a2a_lambda.store.table import ConditionFailed, Table

KEPT_SECONDS = 2 * 86_400
"""Seconds after which DynamoDB may delete a copy that no container renews."""

FETCH_SECONDS = 10.0
"""Seconds after which a fetch has ended, also if its container died."""

FREE = "attribute_not_exists(pk) OR #until <= :now"

logger = logging.getLogger(__name__)


class Named(Protocol):
    """An issuer. url: its `iss`: with another url, it is another one."""

    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...


@dataclass(frozen=True, slots=True)
class IssuerCopy:
    """fetched_at: Unix time; 0 = never. jwks: JSON Web Keys."""

    fetched_at: float = 0.0
    jwks_uri: str = ""
    jwks: list[Json] = field(default_factory=list)


class IssuerCopies:
    """Calls block. They raise StoreError. path: path of the API keys in Parameter Store."""

    def __init__(self, table: Table, path: str) -> None:
        self._table = table
        self._path = path

    def copy(self, issuer: Named) -> IssuerCopy:
        """The newest copy; an empty one if there is none."""
        item = self._table.get(self._key("jwks", issuer))
        if item is None or item["url"]["S"] != issuer.url:
            return IssuerCopy()
        try:
            content: Mapping[str, Any] = json.loads(item["keys"]["S"])
            return IssuerCopy(float(item["fetched"]["N"]), content["uri"], content["keys"])
        except (ValueError, TypeError, KeyError) as error:
            logger.warning("the copy of an issuer's keys cannot be read, and is made again: %r", error)
            return IssuerCopy()

    def begin_fetch(self, issuer: Named, *, rest: float) -> bool:
        """Whether this container may ask the issuer: no other one has, for `rest` seconds."""
        now = self._table.clock()
        item = {
            **self._key("fetch", issuer),
            "until": {"N": str(now + rest)},
            "busy": {"N": str(now + FETCH_SECONDS)},
            "expires": number(int(now + KEPT_SECONDS)),
        }
        try:
            self._table.swap(item, FREE, {":now": {"N": str(now)}}, {"#until": "until"})
        except ConditionFailed:
            return False
        return True

    def is_fetching(self, issuer: Named) -> bool:
        """Whether a container asks the issuer now."""
        item = self._table.get(self._key("fetch", issuer))
        return item is not None and "busy" in item and float(item["busy"]["N"]) > self._table.clock()

    def finish_fetch(self, issuer: Named, copy: IssuerCopy) -> None:
        """Share what the issuer said."""
        content = json.dumps({"uri": copy.jwks_uri, "keys": copy.jwks}, separators=(",", ":"))
        self._table.put(
            {
                **self._key("jwks", issuer),
                "url": {"S": issuer.url},
                "fetched": {"N": str(copy.fetched_at)},
                "keys": {"S": content},
                "expires": number(int(self._table.clock() + KEPT_SECONDS)),
            }
        )
        self.end_fetch(issuer)

    def end_fetch(self, issuer: Named) -> None:
        """No container asks the issuer any more. The rest after it goes on."""
        item = self._table.get(self._key("fetch", issuer))
        if item is not None:
            self._table.put({name: value for name, value in item.items() if name != "busy"})

    def _key(self, what: str, issuer: Named) -> dict[str, Any]:
        return items.keys_key(self._path, f"{what}#{issuer.name}")
