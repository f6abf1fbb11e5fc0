"""Which turn a message begins, and the claim of it.

    taskId                        -> the next turn of that task; where the client names its tasks itself
                                     (A2A 0.1), also a new one of that id
    contextId, where a task asked -> the next turn of that task
    else                          -> a new task, whose id derives from the request

The same request again begins nothing: it meets the task it made on the head, or, when only a
contextId led to it, on the context. A new task's id is the same for every retry, so of two at the
same moment one finds the other's head. After the window the next id derives from the last, so late
retries at the same moment still agree.
"""

import asyncio
import contextlib
import time
import uuid
from dataclasses import dataclass, replace

from a2a_lambda import threads
from a2a_lambda.errors import InvalidParams, StoreError, TaskNotFound, UnsupportedOperation
from a2a_lambda.operations.follow import wait_until_stopped
from a2a_lambda.operations.push_configs import completed
from a2a_lambda.protocol.model import INTERRUPTED, TERMINAL, Event, Task, TaskState, status
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.call import Call
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.event_log import apply
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import KEPT_REQUESTS, AnsweredRequest
from a2a_lambda.turns.claim import LEASE_SECONDS, Claim, minute_after
from a2a_lambda.turns.recovery import abandon, load_head

QUEUED_TURN_WAIT_SECONDS = 10.0
"""Seconds a message waits for a task that the worker has to come to rest."""


@dataclass(frozen=True, slots=True)
class Queued:
    """A turn stored for the worker, which has to be told of it."""

    head: Head


Begun = Claim | Queued | Head


class Intake:
    """window: seconds in which the same bytes again are the same request."""

    def __init__(self, store: Store, *, window: float) -> None:
        self._store = store
        self._window = window

    async def begin(self, call: Call, asked: SendMessageRequest) -> Begun:
        """Claim the turn a message asks for, or store it for the worker; or the head of the task, where
        the same request has been made before.

        Raises TaskNotFound, UnsupportedOperation for a task that takes no message, InvalidParams
        for ids that do not belong together, StoreError.
        """
        begun = await self._entered(call, asked)
        config = asked.get("configuration", {}).get("taskPushNotificationConfig")
        if config is not None:
            head = begun if isinstance(begun, Head) else begun.head
            # Behind the head's write, which says whether this request counts; a retry whose first try
            # died in between makes up for it, and overwrites nothing.
            whole, _ = completed(head, config, _config_id(call, head))
            if whole["id"] in head.push:
                absent = isinstance(begun, Head)
                await threads.run(self._store.put_push_config, head, whole, call.dialect, absent=absent)
        return begun

    async def _entered(self, call: Call, asked: SendMessageRequest) -> Begun:
        message = asked["message"]
        context_id, task_id = message.get("contextId"), message.get("taskId")
        if task_id is not None:
            enter = self._opened if asked.get("creates_task") else self._named
            return await enter(call, asked, task_id)
        if context_id is None:
            return await self._create(call, asked, str(uuid.uuid4()), Context())
        return await self._within(call, asked, context_id)

    async def _within(self, call: Call, asked: SendMessageRequest, context_id: str) -> Begun:
        """A turn in a context: of the task that asked last, or of a new one."""
        context = await threads.run(self._store.get_context, call.scope, context_id)
        if (seen := context.find_answer(call.request)) and self._repeats(call, seen):
            answered = await load_head(self._store, call.scope, seen["task"])
            if not answered.is_lost:
                return answered
        if context.waiting:
            # The message may have made a task of its own, before another one asked.
            waiting, own = await asyncio.gather(
                threads.run(self._store.get_head, call.scope, context.waiting),
                threads.run(self._store.get_head, call.scope, call.request.task_id()),
            )
            for head in (waiting, own):
                if head is not None and self._repeats(call, head.find_answer(call.request)):
                    return head
            if waiting is not None and waiting.state in INTERRUPTED:
                # Where another message answers the question first, this one is a new task.
                with contextlib.suppress(UnsupportedOperation):
                    return await self._continue(call, asked, waiting, context)
        return await self._create(call, asked, context_id, context)

    async def _opened(self, call: Call, asked: SendMessageRequest, task_id: str) -> Begun:
        """A turn of the task the client named, which need not be there yet."""
        with contextlib.suppress(TaskNotFound):
            return await self._named(call, asked, task_id)
        context_id = asked["message"].get("contextId")
        context = Context()
        if context_id is not None:
            context = await threads.run(self._store.get_context, call.scope, context_id)
        return await self._create(call, asked, context_id or str(uuid.uuid4()), context, named=task_id)

    async def _named(self, call: Call, asked: SendMessageRequest, task_id: str) -> Begun:
        message = asked["message"]
        head = await load_head(self._store, call.scope, task_id, path="params.message.taskId")
        if message.get("contextId", head.context_id) != head.context_id:
            raise InvalidParams("the task belongs to another context", path="params.message.contextId")
        if self._repeats(call, head.find_answer(call.request)):
            return head
        context = await threads.run(self._store.get_context, call.scope, head.context_id)
        return await self._continue(call, asked, head, context)

    async def _create(
        self,
        call: Call,
        asked: SendMessageRequest,
        context_id: str,
        context: Context,
        *,
        named: str | None = None,
    ) -> Begun:
        first: Head | None = None
        found: Head | None = None
        task_id = named or call.request.task_id()
        while True:
            submitted = status(TaskState.SUBMITTED, self._store.clock())
            blank = self._store.new_head(call.scope, task_id, context_id, submitted, call.dialect)
            blank = _named(call, blank, asked)
            turn, seen_by_turn = await self._turn(call, context, found)
            entered = call.entered(blank, asked, turn)
            head, left = self._claimed(call, blank, turn, [entered])
            try:
                await threads.run(self._store.claim, head)
                break
            except Conflict as error:
                found = error.head or await threads.run(self._store.get_head, call.scope, task_id)
            if found is None:  # it expired between the write and the answer
                continue
            if named is not None:
                return await self._named(call, asked, named)
            # First, since it refuses an Idempotency-Key that came with other bytes.
            if self._repeats(call, found.find_answer(call.request)) or not found.is_stopped:
                return found
            first = first or found
            task_id = found.successor or call.request.task_id(task_id)
        if first is not None and first.successor != task_id:
            with contextlib.suppress(StoreError):  # only a shortcut for the next repetition
                await threads.run(self._store.replace, replace(first, successor=task_id))
        task = blank.empty_task()
        apply(task, [entered])
        return await self._begun(call, asked, head, task, left, context=seen_by_turn)

    async def _continue(self, call: Call, asked: SendMessageRequest, head: Head, context: Context) -> Begun:
        while True:
            reopened = bool(asked.get("creates_task")) and head.state == TaskState.COMPLETED
            if head.state in TERMINAL and not reopened:
                raise UnsupportedOperation("the task has ended and takes no message")
            if head.is_queued and not head.is_stopped:
                head = await wait_until_stopped(
                    self._store, head, _soonest(call.deadline, QUEUED_TURN_WAIT_SECONDS)
                )
                if head.is_stopped:
                    continue
            if not head.is_stopped:
                raise UnsupportedOperation("the task is still running and takes no message")
            task, _ = await threads.run(self._store.get_task, head)
            turn, seen_by_turn = await self._turn(call, context)
            entered = call.entered(head, asked, turn)
            before = replace(_named(call, head, asked).next_epoch(), artifacts=len(task.get("artifacts", [])))
            claimed, left = self._claimed(call, before, turn, [head.closing_event(), entered])
            try:
                claimed = await threads.run(self._store.replace, claimed)
                break
            except Conflict:
                head = await load_head(self._store, call.scope, head.task_id)
            if self._repeats(call, head.find_answer(call.request)):
                return head
        apply(task, [entered])
        return await self._begun(call, asked, claimed, task, left, context=seen_by_turn, resumed=head)

    async def _turn(self, call: Call, context: Context, last: Head | None = None) -> tuple[str, Context]:
        """Id of the turn a request begins, and the context as that turn sees it.

        If the last run of the request was lost, its turn continues under the same id: what that run left in
        the context counts once, and is not seen. last: the last task of its own that the request made.
        """
        at = last.created if last is not None else 0.0
        name = last.task_id if last is not None else ""
        seen = context.find_answer(call.request)
        if seen is not None and call.idempotent:
            call.check_body(seen)
        if seen is not None and seen["at"] > at:
            if seen["task"] != name:
                with contextlib.suppress(TaskNotFound):
                    last = await load_head(self._store, call.scope, seen["task"])
            at, name = seen["at"], seen["task"]
        if last is not None and last.task_id == name and last.is_lost and call.request.began(last.turn):
            return last.turn, context.before(last.turn, last.task_id)
        return call.request.turn_id(f"{name}@{at}" if name else ""), context

    def _claimed(self, call: Call, head: Head, turn: str, events: list[Event]) -> tuple[Head, list[Event]]:
        """The head with this turn's claim, and the events that it cannot carry.

        One for the worker is nobody's yet, and keeps what the task waits with.
        """
        now = self._store.clock()
        queued = call.background
        request = AnsweredRequest(key=call.request.key, body=call.request.body, task=head.task_id, at=now)
        claimed = replace(
            head,
            status=status(TaskState.SUBMITTED if queued else TaskState.WORKING, now),
            turn=turn,
            holder="" if queued else str(uuid.uuid4()),
            lease=0.0 if queued else now + LEASE_SECONDS,
            due=minute_after(now + LEASE_SECONDS),
            is_queued=queued,
            attempts=0,
            requests=(*head.requests, request)[-KEPT_REQUESTS:],
            pending=head.pending if queued else None,
        )
        return claimed.with_events(events)

    async def _begun(
        self,
        call: Call,
        asked: SendMessageRequest,
        head: Head,
        task: Task,
        left: list[Event],
        *,
        context: Context,
        resumed: Head | None = None,
    ) -> Begun:
        """resumed: the head of the task before this turn, if it is not its first."""
        sequence = head.sequence
        if left:
            try:
                sequence = await threads.run(self._store.append, head, left, after=sequence)
            except Conflict:
                found = await load_head(self._store, call.scope, head.task_id)
                if found.is_held_by(head):
                    await abandon(self._store, found)
                    raise
                return found
            except StoreError:
                await abandon(self._store, head)
                raise
        if call.background:
            return Queued(head)
        task["status"] = status(TaskState.SUBMITTED, self._store.clock())
        return Claim.of(
            head,
            task,
            sequence,
            task["history"][-1],
            call.asked(asked, head.turn),
            context=context,
            pending=resumed.pending if resumed is not None else None,
            deadline=call.deadline,
            resumes=resumed.status if resumed is not None and resumed.state in INTERRUPTED else None,
        )

    def _repeats(self, call: Call, seen: AnsweredRequest | None) -> bool:
        return call.repeats(seen, since=self._store.clock() - self._window)


def _named(call: Call, head: Head, asked: SendMessageRequest) -> Head:
    """The head that names the push notification config a request brings. Raises InvalidParams."""
    config = asked.get("configuration", {}).get("taskPushNotificationConfig")
    return head if config is None else completed(head, config, _config_id(call, head))[1]


def _config_id(call: Call, head: Head) -> str:
    return call.config_id or call.request.config_id(head.task_id)


def _soonest(deadline: float | None, seconds: float) -> float:
    """The earlier of a deadline and some seconds from now, on `time.monotonic`."""
    until = time.monotonic() + seconds
    return until if deadline is None else min(deadline, until)
