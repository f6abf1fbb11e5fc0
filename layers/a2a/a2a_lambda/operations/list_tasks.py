"""Lists of tasks, a page at a time (A2A 1.0 section 3.1.4).

The index of a list is eventually consistent, and knows a task's last status and its context; the
tasks themselves are read as they are now. `totalSize` costs a count of the whole list, made for its
first page unless that holds it all; the page token carries it on. A page ends early once it has as many
bytes as an answer should have.
"""

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import replace

from a2a_lambda import strictjson, threads
from a2a_lambda.errors import InvalidParams, ParseError, TaskNotFound
from a2a_lambda.operations.follow import truncate_history
from a2a_lambda.protocol.model import Task
from a2a_lambda.protocol.requests import ListTasksRequest, ListTasksResponse
from a2a_lambda.store.indexes import TaskQuery
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Scope
from a2a_lambda.turns.recovery import load_head

PAGE_SIZE = 50

PAGE_BYTES = 4_000_000
"""JSON bytes after which a page ends, so that it fits a buffered answer of Lambda's (6 MB)."""

READ_AT_ONCE = 4
"""Tasks read at the same time: each may be as large as its agent made it."""


async def listed(store: Store, scope: Scope, request: ListTasksRequest) -> ListTasksResponse:
    """Raises InvalidParams for a page token that is not ours."""
    page = TaskQuery(
        size=request.get("pageSize", PAGE_SIZE),
        state=request.get("status", ""),
        context_id=request.get("contextId", ""),
        since=request.get("statusTimestampAfter", ""),
    )
    total: int | None = None
    if "pageToken" in request:
        behind, total = _opened(request["pageToken"], page)
        page = replace(page, behind=behind)
    try:
        found = await threads.run(store.list_tasks, scope, page)
    except ValueError:
        raise _foreign() from None
    if total is None:
        total = await threads.run(store.count_tasks, scope, page) if found.more else len(found.tasks)
    tasks, last = await _read(store, scope, found.tasks, request)
    more = found.more or last < len(found.tasks)
    return ListTasksResponse(
        tasks=tasks,
        nextPageToken=_token(page, found.tasks[last - 1][1], total) if more else "",
        pageSize=page.size,
        totalSize=total,
    )


async def _read(
    store: Store, scope: Scope, found: Sequence[tuple[str, str]], request: ListTasksRequest
) -> tuple[list[Task], int]:
    """Tasks until the page has bytes enough, and how many of those found they are."""
    tasks: list[Task] = []
    room = PAGE_BYTES
    for start in range(0, len(found), READ_AT_ONCE):
        some = found[start : start + READ_AT_ONCE]
        read = await asyncio.gather(*(_task(store, scope, task_id, request) for task_id, _ in some))
        for index, task in enumerate(read):
            if task is None:
                continue
            room -= len(strictjson.dumps(task))
            if room < 0 and tasks:
                return tasks, start + index
            tasks.append(task)
    return tasks, len(found)


async def _task(store: Store, scope: Scope, task_id: str, request: ListTasksRequest) -> Task | None:
    """A task as the list tells it; None where it no longer belongs there."""
    try:
        head = await load_head(store, scope, task_id)
    except TaskNotFound:
        return None
    if head.state != request.get("status", head.state):
        return None
    length = request.get("historyLength")
    artifacts = request.get("includeArtifacts", False)
    if length == 0 and not artifacts:
        return _bare(head)
    task, _ = await threads.run(store.get_task, head, artifacts=artifacts)
    return truncate_history(task, length)


def _bare(head: Head) -> Task:
    task = head.empty_task()
    task["status"] = head.status
    return task


def _token(page: TaskQuery, behind: str, total: int) -> str:
    whole = [behind, total, _mark(page, behind, total)]
    return base64.urlsafe_b64encode(strictjson.dumps(whole)).decode().rstrip("=")


def _mark(page: TaskQuery, behind: str, total: int) -> str:
    """Ties a token to the list it goes on in."""
    source = strictjson.dumps([page.state, page.context_id, page.since, behind, total])
    return hashlib.sha256(source).hexdigest()[:16]


def _opened(token: str, page: TaskQuery) -> tuple[str, int]:
    """Where the list goes on, and its size. Raises InvalidParams."""
    try:
        behind, total, mark = strictjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError, TypeError, ParseError):
        raise _foreign() from None
    if not isinstance(behind, str) or type(total) is not int or mark != _mark(page, behind, total):
        raise _foreign()
    return behind, total


def _foreign() -> InvalidParams:
    return InvalidParams("params.pageToken is none this agent gave out", path="params.pageToken")
