"""The tasks that one request has made. The id of each follows from the one before it, so every retry of the
request walks from one to the next, until it finds the task that answers it, or an id that is free."""

from a2a_lambda import threads
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import RequestIdentity, Scope


def is_answer(head: Head, request: RequestIdentity, since: float) -> bool:
    """Whether a task of the request answers it: it has done so, or its turn runs.

    since: see `RequestIdentity.repeats`. Raises InvalidParams for an Idempotency-Key that came with another
    body.
    """
    return request.repeats(head.requests, since=since) or not head.is_stopped


def next_task_id(head: Head, request: RequestIdentity) -> str:
    """Id of the request's next task, after one that ended long ago, or whose run died."""
    return head.successor or request.task_id(head.task_id)


async def find_answer(store: Store, scope: Scope, request: RequestIdentity, since: float) -> Head | None:
    """Head of the request's task that answers it, or None. `is_answer` explains since, and what it raises."""
    task_id = request.task_id()
    while (head := await threads.run(store.get_head, scope, task_id)) is not None:
        if is_answer(head, request, since):
            break
        task_id = next_task_id(head, request)
    return head
