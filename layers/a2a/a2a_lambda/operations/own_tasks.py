"""The tasks that one request has made. The id of each follows from the one before it, so every retry of the
request walks from one to the next, until it finds the task that answers it, or an id that is free."""

from collections.abc import Sequence

from a2a_lambda import threads
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import KnownRequest, RequestIdentity, Scope


class OwnTasks:
    """repeat_seconds: seconds for which the same bytes are the same request.

    Each method raises InvalidParams for an Idempotency-Key that came with another body.
    """

    def __init__(self, store: Store, repeat_seconds: float) -> None:
        self._store = store
        self._repeat_seconds = repeat_seconds

    def repeats(self, request: RequestIdentity, requests: Sequence[KnownRequest]) -> bool:
        """Whether a head or a context knows this request; see `RequestIdentity.repeats`."""
        return request.repeats(requests, since=self._store.clock() - self._repeat_seconds)

    def is_answer(self, head: Head, request: RequestIdentity) -> bool:
        """Whether a task of the request answers it: it has done so, or its turn runs."""
        return self.repeats(request, head.requests) or not head.is_stopped

    async def find_answer(
        self, scope: Scope, request: RequestIdentity, task_ids: Sequence[str] = ()
    ) -> Head | None:
        """Head of the task that answers a request, or None. task_ids: those of tasks that the request has not
        made, but may have continued."""
        if task_ids:
            heads = await threads.run(self._store.get_heads, scope, task_ids)
            for other_head in heads.values():
                if self.repeats(request, other_head.requests):
                    return other_head
        task_id = request.task_id()
        while (head := await threads.run(self._store.get_head, scope, task_id)) is not None:
            if self.is_answer(head, request):
                break
            task_id = next_task_id(head, request)
        return head


def next_task_id(head: Head, request: RequestIdentity) -> str:
    """Id of the request's next task, after one that ended long ago, or whose run died."""
    return head.successor or request.task_id(head.task_id)
