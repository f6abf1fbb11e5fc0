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
    """Tasks of a page, each with its place in the list. more: another page follows."""

    tasks: list[tuple[str, str]]
    more: bool


def list_tasks(table: Table, scope: Scope, page: TaskQuery) -> TaskPage:
    """A page of a scope's tasks. Raises ValueError if `page.after` is not a place in the list."""
    arguments = _query(table, scope, page)
    if page.after:
        if page.after < page.since:
            raise ValueError("after the end of the list")
        arguments["ExclusiveStartKey"] = items.listing_key(scope, page.after)
    arguments["Limit"] = page.size + 1 if not (page.state or page.context_id) else FILTERED_QUERY_LIMIT
    found: list[Item] = []
    for answer in table.pages(arguments):
        found += answer["Items"]
        if len(found) > page.size:
            break
    tasks = [(items.listed_id(item), item["changed"]["S"]) for item in found[: page.size]]
    return TaskPage(tasks, more=len(found) > page.size)


def count_tasks(table: Table, scope: Scope, page: TaskQuery) -> int:
    """Number of tasks in a list, on all its pages. Reads the whole list."""
    arguments = {**_query(table, scope, page), "Select": "COUNT"}
    return sum(answer["Count"] for answer in table.pages(arguments))


def list_due(table: Table, minute: int) -> Iterator[tuple[Scope, str]]:
    """Tasks that should be running, and are due for the sweep by a minute (Unix time / 60)."""
    for shard in range(items.SHARDS):
        query = {
            "IndexName": "by-due",
            "KeyConditionExpression": "#shard = :shard AND due <= :minute",
            "ExpressionAttributeNames": {"#shard": "shard"},  # a reserved word of DynamoDB
            "ExpressionAttributeValues": {":shard": items.due_key(shard), ":minute": number(minute)},
        }
        for answer in table.pages(query):
            yield from map(items.task_of_item, answer["Items"])


def _query(table: Table, scope: Scope, page: TaskQuery) -> dict[str, Any]:
    keys = "listing = :listing"
    values = {":listing": items.listing(scope), ":now": number(int(table.clock()))}
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
