"""A page of the list of an owner with very many tasks: what it calls of DynamoDB."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from a2a_lambda.operations.list_tasks import list_tasks
from a2a_lambda.protocol.model import TaskState, make_status, timestamp
from a2a_lambda.protocol.requests import ListTasksRequest
from a2a_lambda.store import items
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Namespace
from lab.scale.meter import LISTED
from tools.costs import aws
from tools.costs.units import LISTING, of_batch, of_read, size_of

SCOPE = Namespace("owner", "model")

QUERY_BYTES = 1_000_000
"""Of the items that one query reads.
Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Query.Pagination.html"""

NOW = 1_800_000_000.0

Item = dict[str, Any]


@dataclass(frozen=True)
class Page:
    """What a page needs. seconds: about how long it waits for DynamoDB."""

    calls: int
    reads: float
    seconds: float


class ManyTasks:
    """A client of a table with so many tasks, one a second, which it makes when they are read."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.calls = 0
        self.reads = 0.0
        store = Store(Table(self, "scale"), ttl=86_400)  # type: ignore[arg-type]
        completion = make_status(TaskState.COMPLETED, NOW)
        self._item = items.from_head(store.new_head(SCOPE, "task-0000000", "context", completion), 1)
        self._at_once = QUERY_BYTES // size_of({name: self._item[name] for name in ("pk", "sk", *LISTING)})

    def batch_get_item(self, *, RequestItems: Item) -> Item:
        [(table, request)] = RequestItems.items()
        entries = [self._item | key for key in request["Keys"]]
        self.calls += 1
        self.reads += of_batch(0.0, entries).reads
        return {"Responses": {table: entries}}

    def query(self, **arguments: Any) -> Item:
        first = int(arguments["ExclusiveStartKey"]["number"]) if "ExclusiveStartKey" in arguments else 0
        last = min(self._count, first + min(arguments["Limit"], self._at_once))
        entries = [self._entry(number) for number in range(first, last)]
        self.calls += 1
        self.reads += of_read(0.0, "", entries, is_consistent=False).reads
        is_match = ":context" not in arguments["ExpressionAttributeValues"]
        answer: Item = {"Count": len(entries) * is_match, "ScannedCount": len(entries)}
        if "Select" not in arguments:
            answer["Items"] = entries if is_match else []
        if last < self._count:
            answer["LastEvaluatedKey"] = entries[-1] | {"number": last}
        return answer

    def _entry(self, number: int) -> Item:
        entry = {name: self._item[name] for name in ("pk", "sk", *LISTING)}
        return entry | {"changed": {"S": f"{timestamp(NOW - number)}#task-{number:07}"}}


def measure(count: int, *, context_id: str = "") -> Page:
    """The first page of an owner with so many tasks, either of all of them or of a context that has none."""
    client = ManyTasks(count)
    store = Store(Table(client, "scale", clock=time.time), ttl=86_400)  # type: ignore[arg-type]
    request = ListTasksRequest(pageSize=LISTED)
    if context_id:
        request["contextId"] = context_id
    asyncio.run(list_tasks(store, SCOPE, request))
    return Page(client.calls, client.reads, client.calls * aws.CALL_SECONDS)
