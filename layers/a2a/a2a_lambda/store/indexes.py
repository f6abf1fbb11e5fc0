"""Queries of the table's indexes: lists of tasks, and the tasks for the sweep. Both are eventually
consistent."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from a2a_lambda.store import items
from a2a_lambda.store.items import Item, number
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Namespace

QUERY_LIMIT = 1_000
"""Tasks that one query reads, if it leaves some of them out: those that have expired, or that do not match
a filter. The first query of a page without a filter reads only as many as the page has."""

READ_LIMIT = 10_000
"""Tasks that are read in the index for a page, or counted. An owner may have millions."""


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """A page of a list of tasks. after: where the page before ended. since: a status time, inclusive."""

    size: int
    after: str = ""
    state: str = ""
    context_id: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Tasks of a page, each with its position in the list.

    after: where the next page begins; "" = there is none.
    """

    tasks: list[tuple[str, str]]
    after: str


class Indexes:
    """The indexes of a table. Calls block, and raise what `Table` raises.

    shards: partitions over which an owner's list of tasks is spread.
    """

    def __init__(self, table: Table, shards: int) -> None:
        self._table = table
        self._shards = shards

    def list_tasks(self, namespace: Namespace, query: TaskQuery) -> TaskPage:
        """A page of a namespace's tasks, newest first. It has fewer than `query.size` tasks, even none, if
        READ_LIMIT tasks had to be read for them. Raises ValueError if `query.after` is not a position in the
        list."""
        if query.after and query.after < query.since:
            raise ValueError("after the end of the list")
        matches: list[Item] = []
        # Every shard was read at least down to this position, the newest at which one of them stopped.
        end = ""
        for shard in range(self._shards):
            arguments = _arguments_of(self._table, items.listing_partition(namespace, shard), query)
            if query.after:
                arguments["ExclusiveStartKey"] = items.listing_key(namespace, shard, query.after)
            first = QUERY_LIMIT if query.state or query.context_id else query.size + 1
            match_count = 0
            for answer in _answers(self._table, arguments, first, READ_LIMIT // self._shards):
                matches += answer["Items"]
                match_count += len(answer["Items"])
                if match_count > query.size:
                    break
            if "LastEvaluatedKey" in answer:
                # This shard may have older tasks than that. A page ends where the least-read shard ends, or
                # tasks would be left out.
                end = max(end, answer["LastEvaluatedKey"]["changed"]["S"])
        # A task whose status changes may be in the index twice for a moment.
        positions_by_id = {
            items.listed_id(position): position
            for position in sorted(item["changed"]["S"] for item in matches)
        }
        positions = sorted(
            (position for position in positions_by_id.values() if position >= end), reverse=True
        )
        if len(positions) > query.size:
            end = positions[query.size - 1]
        return TaskPage(
            [(items.listed_id(position), position) for position in positions[: query.size]], after=end
        )

    def count_tasks(self, namespace: Namespace, query: TaskQuery) -> int:
        """Number of tasks in a list, on all its pages, which are those that match among the READ_LIMIT newest
        ones."""
        count = 0
        for shard in range(self._shards):
            arguments = {
                **_arguments_of(self._table, items.listing_partition(namespace, shard), query),
                "Select": "COUNT",
            }
            limit = READ_LIMIT // self._shards
            count += sum(answer["Count"] for answer in _answers(self._table, arguments, limit, limit))
        return count

    def list_due(self, minute: int) -> list[tuple[Namespace, str]]:
        """Tasks that should be running, and are due for the sweep by a minute (Unix time / 60)."""
        tasks: list[tuple[Namespace, str]] = []
        for shard in range(items.DUE_SHARDS):
            query = {
                "IndexName": "by-due",
                "KeyConditionExpression": "#shard = :shard AND due <= :minute",
                "ExpressionAttributeNames": {"#shard": "shard"},  # a reserved word of DynamoDB
                "ExpressionAttributeValues": {
                    ":shard": items.due_partition(shard),
                    ":minute": number(minute),
                },
            }
            for answer in self._table.query_pages(query):
                tasks += map(items.namespace_and_id_of, answer["Items"])
        return tasks


def _answers(table: Table, arguments: dict[str, Any], first: int, limit: int) -> Iterator[Mapping[str, Any]]:
    """Answers of a query that reads at most `limit` tasks, and at most `first` in its first answer."""
    size = first
    while True:
        answer = table.query_page({**arguments, "Limit": min(size, limit)})
        yield answer
        # `ScannedCount` is what was read, whether or not it matched. A filter that matches nothing must not
        # read the whole list.
        limit -= answer["ScannedCount"]
        if limit <= 0 or "LastEvaluatedKey" not in answer:
            return
        arguments = {**arguments, "ExclusiveStartKey": answer["LastEvaluatedKey"]}
        size = max(size, QUERY_LIMIT)


def _arguments_of(table: Table, listing: dict[str, str], query: TaskQuery) -> dict[str, Any]:
    keys = "listing = :listing"
    values = {":listing": listing, ":now": number(int(table.clock()))}
    filters, names = ["expires > :now"], {}
    if query.since:
        keys += " AND changed >= :since"
        values[":since"] = {"S": query.since}
    if query.state:
        filters.append("#state = :state")
        names["#state"] = "state"
        values[":state"] = {"S": query.state}
    if query.context_id:
        filters.append("#context = :context")
        names["#context"] = "context"
        values[":context"] = {"S": query.context_id}
    arguments: dict[str, Any] = {
        "IndexName": "by-status-time",
        "ScanIndexForward": False,
        "KeyConditionExpression": keys,
        "FilterExpression": " AND ".join(filters),
        "ExpressionAttributeValues": values,
    }
    return arguments | ({"ExpressionAttributeNames": names} if names else {})
