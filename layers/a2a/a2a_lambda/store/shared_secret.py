"""A random secret that the containers of a deployment share, made when it is first needed."""

import secrets
from contextlib import suppress

from a2a_lambda.errors import StoreError
from a2a_lambda.store import items
from a2a_lambda.store.items import number
from a2a_lambda.store.table import ConditionFailed, Table

SECRET_BYTES = 32

FAR_UNIX_TIME = 2**33
"""A Unix time in the year 2242."""


class SharedSecret:
    """A secret that all containers of a deployment share.

    path: path of the API keys in Parameter Store. name: what it is for.
    """

    def __init__(self, table: Table, path: str, name: str) -> None:
        self._table = table
        self._key = items.secret_key(path, name)
        self._value = b""

    def get(self) -> bytes:
        """The secret, which is created if there is none. Blocks. Raises StoreError."""
        if not self._value:
            item = self._table.get(self._key)
            if item is None:
                with suppress(ConditionFailed):  # another container was first
                    value = {"B": secrets.token_bytes(SECRET_BYTES)}
                    new_item = {**self._key, "value": value, "expires": number(FAR_UNIX_TIME)}
                    self._table.put(new_item, "attribute_not_exists(pk)")
                item = self._table.get(self._key)
            if item is None:
                raise StoreError("a secret of the deployment could not be made")
            self._value = bytes(item["value"]["B"])
        return self._value
