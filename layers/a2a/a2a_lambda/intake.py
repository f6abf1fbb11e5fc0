"""Which turn a message begins, and the claim of it.

    taskId                        -> the next turn of that task
    contextId, where a task asked -> the next turn of that task
    else                          -> a new task, whose id derives from the request

The same request again begins nothing: it meets the task it made on the head, or, when only a
contextId led to it, on the context. A new task's id is the same for every retry, so of two at the
same moment one finds the other's head. After the window the next id derives from the last, so late
retries at the same moment still agree.
"""

import asyncio
import contextlib
import uuid
from dataclasses import dataclass, replace

from a2a_lambda import io
from a2a_lambda.claim import LEASE, Claim
from a2a_lambda.context import Context
from a2a_lambda.errors import InvalidParams, StoreError, UnsupportedOperation
from a2a_lambda.head import REMEMBERED, Head, Pending, Request, Scope, Seen
from a2a_lambda.log import apply
from a2a_lambda.model import INTERRUPTED, TERMINAL, Event, Message, Task, TaskState, status
from a2a_lambda.store import Store, Superseded
from a2a_lambda.turn import Turn
from a2a_lambda.watch import abandon, current


@dataclass(frozen=True, slots=True)
class Call:
    """Who asks, of which agent, and with which bytes.

    idempotent: the caller chose the request's identity itself (an Idempotency-Key).
    deadline: on `time.monotonic`, when an answer must be out; None = never.
    """

    scope: Scope
    request: Request
    idempotent: bool = False
    deadline: float | None = None


class Intake:
    """window: seconds in which the same bytes again are the same request."""

    def __init__(self, store: Store, *, window: float) -> None:
        self._store = store
        self._window = window

    async def begin(self, call: Call, message: Message) -> Claim | Head:
        """Claim the turn a message asks for; or the head of the task, where the same request has
        been made before.

        Raises TaskNotFound, UnsupportedOperation for a task that takes no message, InvalidParams
        for ids that do not belong together, StoreError.
        """
        context_id, task_id = message.get("contextId"), message.get("taskId")
        if task_id is not None:
            return await self._named(call, message, task_id)
        if context_id is None:
            return await self._create(call, message, str(uuid.uuid4()), Context())
        context = await io.call(self._store.context, call.scope, context_id)
        if (seen := context.seen(call.request)) and self._repeated(call, seen):
            return await current(self._store, call.scope, seen["task"])
        if context.waiting:
            # The message may have made a task of its own, before another one asked.
            waiting, own = await asyncio.gather(
                io.call(self._store.head, call.scope, context.waiting),
                io.call(self._store.head, call.scope, call.request.task_id()),
            )
            for head in (waiting, own):
                if head is not None and self._repeated(call, head.seen(call.request)):
                    return head
            if waiting is not None and waiting.state in INTERRUPTED:
                # Where another message answers the question first, this one is a new task.
                with contextlib.suppress(UnsupportedOperation):
                    return await self._continue(call, message, waiting, context)
        return await self._create(call, message, context_id, context)

    async def _named(self, call: Call, message: Message, task_id: str) -> Claim | Head:
        head = await current(self._store, call.scope, task_id, path="params.message.taskId")
        if message.get("contextId", head.context_id) != head.context_id:
            raise InvalidParams("the task belongs to another context", path="params.message.contextId")
        if self._repeated(call, head.seen(call.request)):
            return head
        context = await io.call(self._store.context, call.scope, head.context_id)
        return await self._continue(call, message, head, context)

    async def _create(self, call: Call, message: Message, context_id: str, context: Context) -> Claim | Head:
        first: Head | None = None
        task_id = call.request.task_id()
        while True:
            submitted = status(TaskState.SUBMITTED, self._store.clock())
            blank = self._store.new_head(call.scope, task_id, context_id, submitted)
            entered = _entered(blank, message)
            head, left = self._claimed(call, blank, [entered])
            try:
                await io.call(self._store.claim, head)
                break
            except Superseded as error:
                found = error.head or await io.call(self._store.head, call.scope, task_id)
            if found is None:  # it expired between the write and the answer
                continue
            if not found.resting or self._repeated(call, found.seen(call.request)):
                return found
            first = first or found
            task_id = found.successor or call.request.task_id(task_id)
        if first is not None and first.successor != task_id:
            with contextlib.suppress(StoreError):  # only a shortcut for the next repetition
                await io.call(self._store.replace, replace(first, successor=task_id))
        task = blank.blank()
        apply(task, entered)
        return await self._begun(call, head, task, left, context=context, pending=None)

    async def _continue(self, call: Call, message: Message, head: Head, context: Context) -> Claim | Head:
        while True:
            if head.state in TERMINAL:
                raise UnsupportedOperation("the task has ended and takes no message")
            if head.state not in INTERRUPTED:
                raise UnsupportedOperation("the task is still running and takes no message")
            task, _ = await io.call(self._store.task, head)
            entered = _entered(head, message)
            claimed, left = self._claimed(call, head.succeeded(), [head.closing(), entered])
            try:
                claimed = await io.call(self._store.replace, claimed)
                break
            except Superseded:
                head = await current(self._store, call.scope, head.task_id)
            if self._repeated(call, head.seen(call.request)):
                return head
        apply(task, entered)
        return await self._begun(call, claimed, task, left, context=context, pending=head.pending)

    def _claimed(self, call: Call, head: Head, events: list[Event]) -> tuple[Head, list[Event]]:
        """The head with this turn's claim, and the events that it cannot carry."""
        now = self._store.clock()
        request = Seen(key=call.request.key, body=call.request.body, task=head.task_id, at=now)
        claimed = replace(
            head,
            status=status(TaskState.WORKING, now),
            turn=str(uuid.uuid4()),
            holder=str(uuid.uuid4()),
            lease=now + LEASE,
            due=int(now + LEASE) // 60 + 1,
            requests=(*head.requests, request)[-REMEMBERED:],
            pending=None,
        )
        return claimed.settled(events)

    async def _begun(
        self,
        call: Call,
        head: Head,
        task: Task,
        left: list[Event],
        *,
        context: Context,
        pending: Pending | None,
    ) -> Claim | Head:
        sequence = head.sequence
        if left:
            try:
                sequence = await io.call(self._store.append, head, left, after=sequence)
            except Superseded:
                found = await current(self._store, call.scope, head.task_id)
                if found.owned_by(head):
                    await abandon(self._store, found)
                    raise
                return found
            except StoreError:
                await abandon(self._store, head)
                raise
        task["status"] = status(TaskState.SUBMITTED, self._store.clock())
        turn = Turn(
            message=task["history"][-1],
            owner=call.scope.owner,
            agent=call.scope.agent,
            task_id=head.task_id,
            context_id=head.context_id,
            context=context,
            pending=pending,
            id=head.turn,
            deadline=call.deadline,
        )
        return Claim(head, task, sequence, turn, head.requests[-1])

    def _repeated(self, call: Call, seen: Seen | None) -> bool:
        if seen is None or (not call.idempotent and self._store.clock() - seen["at"] >= self._window):
            return False
        if seen["body"] != call.request.body:
            raise InvalidParams("this Idempotency-Key was used with another request")
        return True


def _entered(head: Head, message: Message) -> Event:
    """The message, in its task."""
    entered = message.copy()
    entered["taskId"], entered["contextId"] = head.task_id, head.context_id
    return Event(message=entered)
