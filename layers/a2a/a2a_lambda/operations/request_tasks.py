"""The tasks that one request has made, or continued.

The id of each that it has made follows from the one before it, so every retry of the request walks from one
to the next, until it finds the task that answers it, or an id that is free.
"""

from collections.abc import Sequence

from a2a_lambda import threads
from a2a_lambda.protocol.model import TERMINAL
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import KnownRequest, Namespace, RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall
from a2a_lambda.turns.recovery import load_live_head


class RequestTasks:
    """Finds the tasks of a request.

    repeat_seconds: seconds for which the same bytes are the same request, if they have an id of their own.

    Each method raises InvalidParams for an Idempotency-Key that came with another body.
    """

    def __init__(self, store: Store, repeat_seconds: float) -> None:
        self._store = store
        self._repeat_seconds = repeat_seconds

    def is_repeat(self, head: Head, identity: RequestIdentity) -> bool:
        """Whether a task has had the request before: its turn has ended recently, or still runs."""
        if self._repeats(identity, head.requests):
            return True
        # The request has begun the turn, or is the reply with which it continues.
        is_of_turn = identity.has_started(head.turn_id) or identity.find(head.requests[-1:]) is not None
        return is_of_turn and not head.is_stopped and not head.is_asleep

    def is_answer(self, head: Head, identity: RequestIdentity) -> bool:
        """Whether a task that the request has made answers it: it has done so, or a turn of it runs."""
        return self._repeats(identity, head.requests) or not head.is_stopped

    async def needs_files(self, call: MessageCall, request: SendMessageRequest) -> bool:
        """Whether the files of a request must be stored. A repeated request needs none, because the turn of
        its first try answers it, and its uploads may be gone by now; nor does one to a task that has ended.

        Raises TaskNotFound for a task that does not exist, so that nothing is written for it.
        """
        message = request["message"]
        head: Head | None
        if "taskId" in message and not request.get("creates_task"):
            head = await load_live_head(
                self._store, call.namespace, message["taskId"], path="params.message.taskId"
            )
            if head.state in TERMINAL:
                return False
        else:
            task_id = message.get("taskId", call.identity.task_id())
            head = await threads.run(self._store.get_head, call.namespace, task_id)
        is_answered = (
            head is not None
            and self.is_repeat(head, call.identity)
            and not head.has_lost(call.identity)
            and not head.has_died(self._store.clock())
        )
        return not is_answered

    async def find_continued_task(self, call: MessageCall, context: Context) -> str | None:
        """Id of the task that a call's request has continued, or None. The context knows the requests of
        turns that have ended, and which tasks have asked in it."""
        known_request = call.identity.find(context.requests)
        if known_request is not None and self._repeats(call.identity, context.requests):
            return known_request["task"]
        if not call.answers_in_context or not context.earlier_asking_tasks:
            return None
        heads = await threads.run(self._store.get_heads, call.namespace, context.earlier_asking_tasks)
        return next((id_ for id_, head in heads.items() if self.is_repeat(head, call.identity)), None)

    async def find_answer(self, namespace: Namespace, identity: RequestIdentity) -> Head | None:
        """Head of the request's task that answers it, or None."""
        task_id = identity.task_id()
        while (head := await threads.run(self._store.get_head, namespace, task_id)) is not None:
            if self.is_answer(head, identity):
                break
            task_id = next_task_id(head, identity)
        return head

    def _repeats(self, identity: RequestIdentity, requests: Sequence[KnownRequest]) -> bool:
        """Whether a request is one of those that a head or a context knows; see `RequestIdentity.repeats`."""
        return identity.repeats(requests, since=self._store.clock() - self._repeat_seconds)


def next_task_id(head: Head, identity: RequestIdentity) -> str:
    """Id of the request's next task, after one that ended long ago, or whose run died."""
    return head.successor or identity.task_id(head.task_id)
