"""Lists of tasks, a page at a time (A2A 1.0 section 3.1.4).

The index behind a list is eventually consistent, and knows a task's last status and its context; the
tasks themselves are read as they are now. `totalSize` costs a count of the whole list, made for its
first page unless that holds it all; the page token carries it on.
"""

import asyncio
import base64
import binascii
import hashlib
from dataclasses import replace

from a2a_lambda import io, strictjson
from a2a_lambda.errors import InvalidParams, ParseError, TaskNotFound
from a2a_lambda.head import Head, Scope
from a2a_lambda.model import Task
from a2a_lambda.operation import ListTasksRequest, ListTasksResponse
from a2a_lambda.store import Page, Store
from a2a_lambda.watch import current, shortened

PAGE_SIZE = 50


async def listed(store: Store, scope: Scope, request: ListTasksRequest) -> ListTasksResponse:
    """Raises InvalidParams for a page token that is not ours."""
    page = Page(
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
        found = await io.call(store.listed, scope, page)
    except ValueError:
        raise _foreign() from None
    if total is None:
        total = await io.call(store.count, scope, page) if found.behind else len(found.ids)
    tasks = await asyncio.gather(*(_task(store, scope, task_id, request) for task_id in found.ids))
    return ListTasksResponse(
        tasks=[task for task in tasks if task is not None],
        nextPageToken=_token(page, found.behind, total) if found.behind else "",
        pageSize=page.size,
        totalSize=total,
    )


async def _task(store: Store, scope: Scope, task_id: str, request: ListTasksRequest) -> Task | None:
    """A task as the list tells it; None where it no longer belongs there."""
    try:
        head = await current(store, scope, task_id)
    except TaskNotFound:
        return None
    if head.state != request.get("status", head.state):
        return None
    length = request.get("historyLength")
    artifacts = request.get("includeArtifacts", False)
    if length == 0 and not artifacts:
        return _bare(head)
    task, _ = await io.call(store.task, head)
    if not artifacts:
        task.pop("artifacts", None)
    return shortened(task, length)


def _bare(head: Head) -> Task:
    task = head.blank()
    task["status"] = head.status
    return task


def _token(page: Page, behind: str, total: int) -> str:
    whole = [behind, total, _mark(page, behind, total)]
    return base64.urlsafe_b64encode(strictjson.dumps(whole)).decode().rstrip("=")


def _mark(page: Page, behind: str, total: int) -> str:
    """Ties a token to the list it goes on in."""
    source = strictjson.dumps([page.state, page.context_id, page.since, behind, total])
    return hashlib.sha256(source).hexdigest()[:16]


def _opened(token: str, page: Page) -> tuple[str, int]:
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
