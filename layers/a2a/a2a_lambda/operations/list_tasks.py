"""Lists of tasks, page by page (A2A 1.0 section 3.1.4).

The list comes from an index, which is eventually consistent and knows the status and context of a task. The
tasks are then read as they are now. `totalSize` needs a count of the list. It is made for the first page, and
the page token carries it to the others.

A page ends early if it is as large as an answer should be, or if too many tasks had to be read for it.
`totalSize` counts the matches among the owner's newest tasks only: no list takes longer because its owner has
a million tasks.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace

from a2a_lambda import strictjson, threads
from a2a_lambda.errors import InvalidParams, ParseError, TaskNotFound
from a2a_lambda.protocol.model import Task, decode_raw, encode_base64url, truncate_history
from a2a_lambda.protocol.requests import WRONG_PAGE_TOKEN, ListTasksRequest, ListTasksResponse
from a2a_lambda.store.indexes import TaskQuery
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.turns.recovery import load_live_head

DEFAULT_PAGE_SIZE = 50
"""Tasks of a page for which the client names no size."""

PAGE_BYTES = 4_000_000
"""JSON bytes after which a page ends. A buffered answer of Lambda has at most 6 MB."""

READ_AT_ONCE = 4
"""Tasks whose logs are read at the same time."""

ENTRIES_AT_ONCE = 200
"""Entries of logs that are read at the same time, unless one log has more. Each may have 350 KB, and takes
several times that in memory."""


async def list_tasks(store: Store, namespace: Namespace, request: ListTasksRequest) -> ListTasksResponse:
    """A page of a namespace's tasks. Raises InvalidParams for a page token that the kit did not make."""
    query = TaskQuery(
        size=request.get("pageSize", DEFAULT_PAGE_SIZE),
        state=request.get("status", ""),
        context_id=request.get("contextId", ""),
        since=request.get("statusTimestampAfter", ""),
    )
    total: int | None = None
    try:
        if "pageToken" in request:
            position, total = _read_token(request["pageToken"], query)
            query = replace(query, after=position)
        task_page = await threads.run(store.indexes.list_tasks, namespace, query)
    except ValueError:
        raise InvalidParams(WRONG_PAGE_TOKEN, path="params.pageToken") from None
    if total is None:
        total = (
            await threads.run(store.indexes.count_tasks, namespace, query)
            if task_page.after
            else len(task_page.tasks)
        )
    tasks, covered_count = await _read(store, namespace, task_page.tasks, request)
    # The index may be older than the heads that it lists. A page is in the order of what it shows.
    tasks.sort(key=lambda task: task["status"].get("timestamp", ""), reverse=True)
    covers_all = covered_count == len(task_page.tasks)
    position = task_page.after if covers_all else task_page.tasks[covered_count - 1][1]
    token = ""
    if position:
        fields = strictjson.dumps([position, total, _digest(query, position, total)])
        token = encode_base64url(fields)
    return ListTasksResponse(
        tasks=tasks,
        nextPageToken=token,
        pageSize=query.size,
        totalSize=total,
    )


async def _read(
    store: Store, namespace: Namespace, entries: Sequence[tuple[str, str]], request: ListTasksRequest
) -> tuple[list[Task], int]:
    """Tasks until the page is large enough, and how many of the entries they cover."""
    heads = await threads.run(store.get_heads, namespace, [task_id for task_id, _ in entries])
    tasks: list[Task] = []
    room = PAGE_BYTES
    start = 0
    while start < len(entries) and room >= 0:
        # Some at a time: all at once would hold a whole page of large tasks in memory before the first one
        # is counted.
        batch: list[Head | None] = []
        entry_count = 0
        for task_id, _ in entries[start : start + READ_AT_ONCE]:
            head = heads.get(task_id)
            entry_count += head.sequence if head is not None else 0
            if batch and entry_count > ENTRIES_AT_ONCE:
                break
            batch.append(head)
        results = await asyncio.gather(*(_read_task(store, head, request) for head in batch))
        for index, task in enumerate(results):
            if task is None:
                continue
            room -= len(strictjson.dumps(task))
            if room < 0 and tasks:
                return tasks, start + index
            tasks.append(task)
        start += len(batch)
    return tasks, start


async def _read_task(store: Store, head: Head | None, request: ListTasksRequest) -> Task | None:
    """A task as it is in the list; None if it no longer belongs there."""
    if head is None:
        return None
    if head.has_died(store.clock()):
        try:
            head = await load_live_head(store, head.namespace, head.task_id)
        except TaskNotFound:
            return None
    if head.state != request.get("status", head.state):
        return None
    length = request.get("historyLength")
    artifacts = request.get("includeArtifacts", False)
    if length == 0 and not artifacts:
        task = head.empty_task()
        task["status"] = head.status
        return task
    if head.is_inline:  # no call
        task, _ = store.get_task(head, include_artifacts=artifacts)
    else:
        task, _ = await threads.run(store.get_task, head, include_artifacts=artifacts)
    # By which the list is sorted and filtered. A progress text may be newer.
    task["status"] = {**task["status"], "timestamp": head.status["timestamp"]}
    return truncate_history(task, length)


def _digest(query: TaskQuery, position: str, total: int) -> str:
    """Binds a token to its list."""
    source = strictjson.dumps([query.state, query.context_id, query.since, position, total])
    return hashlib.sha256(source).hexdigest()[:16]


def _read_token(token: str, query: TaskQuery) -> tuple[str, int]:
    """Where the list continues, and its size. Raises ValueError for a token that is not of this list."""
    try:
        position, total, digest = strictjson.loads(decode_raw(token))
    except (TypeError, ParseError):
        raise ValueError from None
    if not isinstance(position, str) or type(total) is not int or digest != _digest(query, position, total):
        raise ValueError
    return position, total
