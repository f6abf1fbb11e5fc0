"""Queries of the table's indexes: lists of tasks, and the tasks for the sweep. Both are eventually
consistent."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from a2a_lambda.store import items
from a2a_lambda.store.items import Item, number
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Scope

FILTERED_QUERY_LIMIT = 1_000
"""Tasks that one query reads, if it filters some of them out."""

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
    """Tasks of a page, each with its place in the list.

    after: where the next page begins; "" = there is none.
    """

    tasks: list[tuple[str, str]]
    after: str


def list_tasks(table: Table, scope: Scope, page: TaskQuery, shards: int) -> TaskPage:
    """A page of a scope's tasks, newest first. It has fewer than `page.size` tasks, even none, if READ_LIMIT
    tasks had to be read for them. Raises ValueError if `page.after` is not a place in the list."""
    if page.after and page.after < page.since:
        raise ValueError("after the end of the list")
    found: list[Item] = []
    end = ""  # up to here, every shard was read: the latest of the places where one was not read further
    for shard in range(shards):
        arguments = _query(table, items.listing(scope, shard), page)
        if page.after:
            arguments["ExclusiveStartKey"] = items.listing_key(scope, shard, page.after)
        arguments["Limit"] = page.size + 1 if not (page.state or page.context_id) else FILTERED_QUERY_LIMIT
        matching = read = 0
        for answer in table.pages(arguments):
            found += answer["Items"]
            matching += len(answer["Items"])
            read += answer["ScannedCount"]
            if "LastEvaluatedKey" in answer and (matching > page.size or read >= READ_LIMIT // shards):
                end = max(end, answer["LastEvaluatedKey"]["changed"]["S"])
                break
    places = sorted((item["changed"]["S"] for item in found if item["changed"]["S"] >= end), reverse=True)
    if len(places) > page.size:
        end = places[page.size - 1]
    return TaskPage([(items.listed_id(place), place) for place in places[: page.size]], after=end)


def count_tasks(table: Table, scope: Scope, page: TaskQuery, shards: int) -> int:
    """Number of tasks in a list, on all its pages: of the READ_LIMIT newest tasks, those that match."""
    count = 0
    for shard in range(shards):
        arguments = {**_query(table, items.listing(scope, shard), page), "Select": "COUNT"}
        arguments["Limit"] = left = READ_LIMIT // shards
        for answer in table.pages(arguments):
            count += answer["Count"]
            left -= answer["ScannedCount"]
            if left <= 0:
                break
            arguments["Limit"] = left
    return count


def list_due(table: Table, minute: int) -> Iterator[tuple[Scope, str]]:
    """Tasks that should be running, and are due for the sweep by a minute (Unix time / 60)."""
    for shard in range(items.DUE_SHARDS):
        query = {
            "IndexName": "by-due",
            "KeyConditionExpression": "#shard = :shard AND due <= :minute",
            "ExpressionAttributeNames": {"#shard": "shard"},  # a reserved word of DynamoDB
            "ExpressionAttributeValues": {":shard": items.due_key(shard), ":minute": number(minute)},
        }
        for answer in table.pages(query):
            yield from map(items.task_of_item, answer["Items"])


def _query(table: Table, listing: dict[str, str], page: TaskQuery) -> dict[str, Any]:
    keys = "listing = :listing"
    values = {":listing": listing, ":now": number(int(table.clock()))}
    filters, names = ["expires > :now"], {}
    if page.since:
        keys += " AND changed >= :since"
        values[":since"] = {"S": page.since}
    if page.state:
        filters.append("#state = :state")
        names["#state"] = "state"
        values[":state"] = {"S": page.state}
    if page.context_id:
        filters.append("#context = :context")
        names["#context"] = "context"
        values[":context"] = {"S": page.context_id}
    arguments: dict[str, Any] = {
        "IndexName": "by-status-time",
        "ScanIndexForward": False,
        "KeyConditionExpression": keys,
        "FilterExpression": " AND ".join(filters),
        "ExpressionAttributeValues": values,
    }
    return arguments | ({"ExpressionAttributeNames": names} if names else {})
