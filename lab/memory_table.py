"""A DynamoDB and a Parameter Store in the memory of the measured process, as much of them as the kit calls.

They answer in no time, so what is measured is the kit. Conditions of writes always hold.
"""

import json
import re
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from typing import Any

from a2a_lambda.access.credentials import digest_of

StoredItem = dict[str, Any]

LISTED = ("pk", "sk", "listing", "changed", "state", "context", "expires")
"""What the index `by-status-time` has of an item."""


class MemoryTable:
    """Methods, arguments and answers are botocore's."""

    def __init__(self) -> None:
        self._items: dict[tuple[str, str], StoredItem] = {}
        self._sorted: dict[str, list[str]] = defaultdict(list)
        self._listed: dict[str, list[tuple[str, str, str]]] = defaultdict(list)

    def put_item(self, *, Item: StoredItem, **_: Any) -> StoredItem:
        key = _key(Item)
        old = self._items.get(key)
        if old is None:
            insort(self._sorted[key[0]], key[1])
        elif "listing" in old:
            entries = self._listed[old["listing"]["S"]]
            del entries[bisect_left(entries, (old["changed"]["S"], *key))]
        if "listing" in Item:
            insort(self._listed[Item["listing"]["S"]], (Item["changed"]["S"], *key))
        self._items[key] = Item
        return {}

    def update_item(
        self, *, Key: StoredItem, UpdateExpression: str, ExpressionAttributeValues: StoredItem, **_: Any
    ) -> StoredItem:
        changes = re.findall(r"(\w+) = (:\w+)", UpdateExpression)
        new = {name: ExpressionAttributeValues[value] for name, value in changes}
        self.put_item(Item={**self._items.get(_key(Key), Key), **new})
        return {}

    def get_item(self, *, Key: StoredItem, **_: Any) -> StoredItem:
        item = self._items.get(_key(Key))
        return {} if item is None else {"Item": item}

    def batch_get_item(self, *, RequestItems: StoredItem) -> StoredItem:
        [(table, request)] = RequestItems.items()
        items = [self._items[_key(key)] for key in request["Keys"] if _key(key) in self._items]
        return {"Responses": {table: items}}

    def delete_item(self, *, Key: StoredItem, **_: Any) -> StoredItem:
        key = _key(Key)
        if self._items.pop(key, None) is not None:
            self._sorted[key[0]].remove(key[1])
        return {}

    def query(self, *, ExpressionAttributeValues: StoredItem, **options: Any) -> StoredItem:
        values = {name: value.get("S", "") for name, value in ExpressionAttributeValues.items()}
        if options.get("Select") == "COUNT":
            count = min(len(self._listed[values[":listing"]]), options["Limit"])
            return {"Count": count, "ScannedCount": count}
        if "IndexName" in options:
            items = self._list(values, options)
            last = {"LastEvaluatedKey": items[-1]} if len(items) == options["Limit"] else {}
            return {"Items": items, "ScannedCount": len(items), **last}
        keys = self._sorted[values[":pk"]]
        low, high = values.get(":first", values.get(":prefix", "")), values.get(":last", "")
        names = keys[bisect_left(keys, low) : bisect_right(keys, high) if high else None]
        matches = (name for name in names if high or name.startswith(low))
        return {"Items": [self._items[values[":pk"], name] for name in matches]}

    def _list(self, values: dict[str, str], options: dict[str, Any]) -> list[StoredItem]:
        """The newest tasks of a namespace."""
        entries = self._listed[values[":listing"]]
        end = len(entries)
        if "ExclusiveStartKey" in options:
            end = bisect_left(entries, (options["ExclusiveStartKey"]["changed"]["S"],))
        newest = entries[max(0, end - options["Limit"]) : end]
        items = (self._items[pk, sk] for _, pk, sk in reversed(newest))
        return [{name: item[name] for name in LISTED if name in item} for item in items]


class MemoryParameters:
    """One key, as `make key` would create it."""

    def __init__(self, path: str, secret: str) -> None:
        record = {"digest": digest_of(secret), "owner": "bench", "agents": [], "local": True}
        self._parameters = [{"Name": f"{path}/bench", "Value": json.dumps(record)}]

    def get_parameters_by_path(self, *, Path: str, **_: Any) -> dict[str, Any]:
        return {
            "Parameters": [parameter for parameter in self._parameters if parameter["Name"].startswith(Path)]
        }


def _key(item: StoredItem) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]
