"""Which turn a message starts, and the claim of that turn.

    taskId                         the next turn of that task, or the reply to a wait of its durable turn.
                                   A2A 0.1: also the first turn of a new task, whose id its clients choose
    contextId, if a task of that   the next turn of that task
    context waits for an answer
    else                           a new task, whose id derives from the request

A repeated request starts nothing. It finds the task that it made, or continued: see `request_tasks`.
"""

import asyncio
import contextlib
import time
import uuid
from dataclasses import replace

from a2a_lambda import threads, tracing
from a2a_lambda.agent.turn import make_turn
from a2a_lambda.background.placement import Placement
from a2a_lambda.background.replies import store_reply
from a2a_lambda.errors import InvalidParams, StoreError, TaskNotFound, UnsupportedOperation
from a2a_lambda.operations.follow import wait_until_stopped
from a2a_lambda.operations.push_configs import with_push_config
from a2a_lambda.operations.request_tasks import RequestTasks, next_task_id
from a2a_lambda.protocol.model import TERMINAL, Event, Task, TaskState, make_status
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.store.indexes import TaskQuery
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.event_log import apply
from a2a_lambda.tasks.execution import StoredWait
from a2a_lambda.tasks.head import LEASE_SECONDS, Head, Place, sweep_minute
from a2a_lambda.tasks.identity import context_of_task
from a2a_lambda.tasks.message_call import MessageCall, QuestionClosed
from a2a_lambda.tasks.suspension import new_execution
from a2a_lambda.turns.claim import Claim, Handover, Repeat, TurnStart
from a2a_lambda.turns.recovery import load_live_head, wait_for_claim

LISTED_TASKS = 5
"""Working tasks of a context that are looked at, if a client can name none."""

TURN_WAIT_SECONDS = 10.0
"""Seconds for which a message waits until a turn that runs elsewhere ends or asks."""


class Intake:
    """Starts the turns of messages.

    repeat_seconds: seconds for which the same bytes are the same request.
    """

    def __init__(self, store: Store, placement: Placement, *, repeat_seconds: float) -> None:
        self._store = store
        self._placement = placement
        self.request_tasks = RequestTasks(store, repeat_seconds)

    async def start(self, call: MessageCall, request: SendMessageRequest) -> TurnStart:
        """Claim the turn that a message starts, or store it for another process. A request that was sent
        before starts nothing: it is a Repeat.

        Raises TaskNotFound, UnsupportedOperation for a task that takes no message, InvalidParams for ids
        that do not belong together, Unavailable if the turn cannot run in its place, StoreError.
        """
        message = request["message"]
        context_id, task_id = message.get("contextId"), message.get("taskId")
        if task_id is not None and request.get("creates_task"):
            with contextlib.suppress(TaskNotFound):
                return await self._start_in_task(call, request, task_id)
            context_id = context_id or context_of_task(task_id)
            context = await threads.run(self._store.get_context, call.namespace, context_id)
            return await self._create_task(call, request, context_id, context, chosen_id=task_id)
        if task_id is not None:
            return await self._start_in_task(call, request, task_id)
        if context_id is None:
            return await self._create_task(call, request, str(uuid.uuid4()), Context())
        return await self._start_in_context(call, request, context_id)

    async def _start_in_context(
        self, call: MessageCall, request: SendMessageRequest, context_id: str
    ) -> TurnStart:
        """A turn of the task with the open question, or of a new task."""
        context = await threads.run(self._store.get_context, call.namespace, context_id)
        if task_id := await self.request_tasks.find_continued_task(call, context):
            with contextlib.suppress(TaskNotFound):  # a context is kept for longer than its tasks
                head = await load_live_head(self._store, call.namespace, task_id)
                if not head.has_lost(call.identity):
                    return Repeat(head)
            context = await threads.run(self._store.get_context, call.namespace, context_id)  # it asks again
        if (asking_id := context.asking_task_id) and call.answers_in_context:
            # The message may have made a task of its own, before another task asked.
            waiting_head, answer = await asyncio.gather(
                threads.run(self._store.get_head, call.namespace, asking_id),
                self.request_tasks.find_answer(call.namespace, call.identity),
            )
            if waiting_head is not None and waiting_head.has_died(self._store.clock()):
                waiting_head = await load_live_head(self._store, call.namespace, asking_id)
            if waiting_head is not None and self.request_tasks.is_repeat(waiting_head, call.identity):
                answer = waiting_head
            if answer is not None:
                return Repeat(answer)
            if waiting_head is not None and waiting_head.open_question:
                try:
                    return await self._continue_task(call, request, waiting_head, context)
                except UnsupportedOperation:
                    # Unless the question is still open, this message, which may have waited, makes a task.
                    waiting_head = await threads.run(self._store.get_head, call.namespace, asking_id)
                    if waiting_head is not None and waiting_head.open_question:
                        raise
                    context = await threads.run(self._store.get_context, call.namespace, context_id)
        if (working_head := await self._find_working_task(call, context_id)) is not None:
            if self.request_tasks.is_repeat(working_head, call.identity):
                return Repeat(working_head)
            return await self._continue_task(call, request, working_head, context)
        return await self._create_task(call, request, context_id, context)

    async def _find_working_task(self, call: MessageCall, context_id: str) -> Head | None:
        """The task that a message of a client without task ids is for. Raises UnsupportedOperation."""
        if call.names_tasks or not self._placement.may_suspend(call.namespace.agent):
            return None
        query = TaskQuery(size=LISTED_TASKS, state=TaskState.WORKING, context_id=context_id)
        page = await threads.run(self._store.indexes.list_tasks, call.namespace, query)
        ids = [task_id for task_id, _ in page.tasks]
        heads_by_id = await threads.run(self._store.get_heads, call.namespace, ids)
        heads = [heads_by_id[task_id] for task_id in ids if task_id in heads_by_id]
        paused_heads = [head for head in heads if head.is_suspended and not head.is_stopped]
        candidates = [head for head in heads if self.request_tasks.is_repeat(head, call.identity)]
        candidates += [head for head in paused_heads if head.message_wait is not None or head.is_woken]
        if paused_heads and not candidates:
            raise UnsupportedOperation(
                "a task in this conversation is paused: send the message when it asks or has ended, or leave"
                " contextId out"
            )
        return candidates[0] if candidates else None

    async def _start_in_task(self, call: MessageCall, request: SendMessageRequest, task_id: str) -> TurnStart:
        """The next turn of the task that the message names."""
        head = await load_live_head(self._store, call.namespace, task_id, path="params.message.taskId")
        # A client of 0.1 may name a new session with each message: the task stays in its own.
        is_elsewhere = request["message"].get("contextId", head.context_id) != head.context_id
        if is_elsewhere and not request.get("creates_task"):
            reason = "the task belongs to another context: leave contextId out"
            raise InvalidParams(reason, path="params.message.contextId")
        if self.request_tasks.is_repeat(head, call.identity):
            return Repeat(head)
        context = await threads.run(self._store.get_context, call.namespace, head.context_id)
        return await self._continue_task(call, request, head, context)

    async def _create_task(
        self,
        call: MessageCall,
        request: SendMessageRequest,
        context_id: str,
        context: Context,
        *,
        chosen_id: str | None = None,
    ) -> TurnStart:
        """The first turn of a new task; or a Repeat, if a task of the request answers it: `request_tasks`.
        chosen_id: the id that the client chose for it; None = it chose none."""
        place = await self._placement.choose(call, request, None)
        first_head: Head | None = None
        last_head: Head | None = None
        task_id = chosen_id or call.identity.task_id()
        while True:
            base = self._store.new_head(
                call.namespace,
                task_id,
                context_id,
                make_status(TaskState.SUBMITTED, self._store.clock()),
                call.wire_name,
                may_suspend=self._placement.may_suspend(call.namespace.agent),
            )
            turn_id, seen_context = await self._choose_turn(call, context, last_head)
            message = call.message_event(request, base, turn_id, place)
            head, overflow = self._with_claim(call, request, base, turn_id, [message], place=place)
            try:
                if overflow:
                    # A retry must not store its large message again before it finds the first try's head.
                    if old_head := await threads.run(self._store.get_head, call.namespace, task_id):
                        raise Conflict(old_head)
                    head = await threads.run(self._store.write_ahead, head, overflow)
                await threads.run(self._store.create_head, head)
                break
            except Conflict as conflict:
                last_head = conflict.head or await threads.run(self._store.get_head, call.namespace, task_id)
            if last_head is None:  # it expired between the write and the answer
                continue
            if chosen_id is not None:
                return await self._start_in_task(call, request, chosen_id)
            if self.request_tasks.is_answer(last_head, call.identity):
                return Repeat(last_head)
            # The first of the request's tasks remembers where the walk ended, so that the next repetition
            # need not walk again.
            first_head = first_head or last_head
            task_id = next_task_id(last_head, call.identity)
        if first_head is not None and first_head.successor != task_id:
            with contextlib.suppress(StoreError):  # only a shortcut for the next repetition
                await threads.run(self._store.update_head, replace(first_head, successor=task_id))
        task = base.empty_task()
        apply(task, [message])
        return self._claim_or_handover(call, request, head, task, context=seen_context)

    async def _continue_task(
        self, call: MessageCall, request: SendMessageRequest, head: Head, context: Context
    ) -> TurnStart:
        """The next turn of a stopped task."""
        question, wait_end = request.get("question", ""), time.monotonic() + TURN_WAIT_SECONDS
        while True:
            if self.request_tasks.is_repeat(head, call.identity):
                return Repeat(head)
            # A2A 0.1 can continue only by a send to the same task, which therefore opens again, even after
            # its first turn was lost or stopped.
            reopens = request.get("creates_task") and (head.state == TaskState.COMPLETED or head.is_lost)
            if head.state in TERMINAL and not reopens:
                refusal = QuestionClosed if question else UnsupportedOperation
                raise refusal("the task has ended and accepts no messages: start another one without its id")
            # What was an answer to one question must not become the answer to the next one.
            if question and head.open_question != question:
                raise QuestionClosed(
                    "the question is closed: it was answered, or its time is up. Get the task to see what it"
                    " asks now"
                )
            question = head.open_question
            wait = head.message_wait
            if head.is_asleep and wait is None:
                raise UnsupportedOperation(
                    "the task is paused or waiting for another system, and accepts no messages until it asks"
                )
            # A client cannot know when a turn that runs elsewhere asks: it gets some seconds to do so.
            if head.place is not Place.REQUEST and not head.is_stopped and wait is None:
                deadline = wait_end if call.deadline is None else min(call.deadline, wait_end)
                head = await wait_until_stopped(self._store, head, deadline, or_suspended=True)
                context = await threads.run(self._store.get_context, call.namespace, head.context_id)
                if head.is_stopped or head.is_asleep:
                    continue
            if wait is None and not head.is_stopped:
                raise UnsupportedOperation("the task is still running and accepts no messages until it asks")
            try:
                if wait is not None:
                    return await self._reply(call, request, head, wait)
                return await self._start_next_turn(call, request, head, context)
            except Conflict:
                old_head, head = head, await load_live_head(self._store, call.namespace, head.task_id)
            # A message that another process wrote ahead is in the way of this one, but not of a reply.
            if wait is None and head.version == old_head.version:
                head = await wait_for_claim(self._store, head, call.deadline)
            context = await threads.run(self._store.get_context, call.namespace, head.context_id)

    async def _start_next_turn(
        self, call: MessageCall, request: SendMessageRequest, head: Head, context: Context
    ) -> Claim | Handover:
        """The next turn of a stopped task. Raises Conflict."""
        asker = head.pending["skill"] if head.pending else None
        place = await self._placement.choose(call, request, asker)
        task, _ = await threads.run(self._store.get_task, head)
        turn_id, seen_context = await self._choose_turn(call, context, head=head)
        message = call.message_event(request, head, turn_id, place)
        # A turn that was lost begins its artifacts anew, and its message replaces the lost one.
        if is_again := turn_id == head.turn_id:
            message["again"] = True
        # A new epoch, so that nothing which an earlier run may still write counts. The closing status before
        # this turn, usually a question, becomes an event of the log.
        count = head.artifact_count if is_again else len(task.get("artifacts", []))
        base = replace(head.with_new_epoch(), artifact_count=count)
        base = replace(base, reopened_at=base.committed + 1)
        events = [head.closing_event(), message]
        new_head, overflow = self._with_claim(call, request, base, turn_id, events, place=place)
        if overflow:
            new_head = await threads.run(self._store.write_ahead, new_head, overflow)
        new_head = await threads.run(self._store.update_head, new_head)
        apply(task, [message])
        return self._claim_or_handover(call, request, new_head, task, context=seen_context, old_head=head)

    async def _reply(
        self, call: MessageCall, request: SendMessageRequest, head: Head, wait: StoredWait
    ) -> Handover:
        """Store the reply to a wait of a durable turn. Raises Conflict, and Unavailable if nothing could wake
        the turn."""
        self._placement.check_executions(call.namespace.agent)
        reply = call.message_event(request, head, head.turn_id, head.place)
        reply["options"]["answers"] = wait.key

        def change(head: Head) -> Head:
            return with_push_config(call, head, request).with_request(call.identity, self._store.clock())

        new_head = await store_reply(self._store, head, wait, reply, change)
        return Handover(new_head)

    async def _choose_turn(
        self, call: MessageCall, context: Context, own_head: Head | None = None, *, head: Head | None = None
    ) -> tuple[str, Context]:
        """Id of the turn that a request starts, and the context as that turn sees it.

        If the request's last run was lost, its turn continues under the same id. What that run left in the
        context counts once, and the turn does not see it. own_head: head of the newest task that this
        request created. head: head of the task that the request continues.
        """
        answered_at, task_id = (own_head.created, own_head.task_id) if own_head is not None else (0.0, "")
        known_request = call.identity.find(context.requests)
        if known_request is not None and call.identity.is_idempotent:
            call.identity.check_body(known_request)
        # Both the newest task and the context may know an answer to this request. The later one counts,
        # because the id of the next turn derives from it, and all retries must derive it from the same one.
        if known_request is not None and known_request["at"] > answered_at:
            if known_request["task"] != task_id:
                with contextlib.suppress(TaskNotFound):
                    own_head = await load_live_head(self._store, call.namespace, known_request["task"])
            answered_at, task_id = known_request["at"], known_request["task"]
        if own_head is not None and own_head.task_id == task_id and own_head.has_lost(call.identity):
            head = own_head
        if head and call.identity.has_started(head.turn_id) and call.identity.find(head.requests) is None:
            return head.turn_id, context.before(head.turn_id, head.task_id)
        if task_id:
            return call.identity.turn_id(f"{task_id}@{answered_at}"), context
        return call.identity.turn_id(head.position if head is not None else ""), context

    def _with_claim(
        self,
        call: MessageCall,
        request: SendMessageRequest,
        head: Head,
        turn_id: str,
        events: list[Event],
        *,
        place: Place,
    ) -> tuple[Head, list[Event]]:
        """The head with the claim of a turn, and the events that it cannot hold. Raises InvalidParams."""
        now = self._store.clock()
        new_head = replace(
            with_push_config(call, head, request).with_request(call.identity, now),
            turn_id=turn_id,
            place=place,
            attempts=0,
            execution=new_execution(call.base_url) if place is Place.EXECUTION else None,
            trace=tracing.headers().get("traceparent", ""),
        )
        if place is Place.REQUEST:
            new_head = new_head.with_holder(now)
        else:  # no run holds it yet
            submitted_status, due = make_status(TaskState.SUBMITTED, now), sweep_minute(now + LEASE_SECONDS)
            new_head = replace(new_head, status=submitted_status, holder="", lease=0.0, due=due)
        return new_head.with_events(events)

    def _claim_or_handover(
        self,
        call: MessageCall,
        request: SendMessageRequest,
        head: Head,
        task: Task,
        *,
        context: Context,
        old_head: Head | None = None,
    ) -> Claim | Handover:
        """A turn that is stored, with its message. task: the task with the message in it. context: the
        context as the turn sees it. old_head: head of the task before this turn; None = the first turn."""
        if head.place is not Place.REQUEST:
            return Handover(head)
        task["status"] = make_status(TaskState.SUBMITTED, self._store.clock())
        turn = make_turn(
            head,
            task["history"][-1],
            call.options(request, head.turn_id),
            context=context,
            pending=old_head.pending if old_head is not None else None,
            deadline=call.deadline,
        )
        old_status = old_head.status if old_head is not None and not old_head.is_lost else None
        stale_ids = [artifact["artifactId"] for artifact in task.get("artifacts", [])[head.artifact_count :]]
        return Claim(head, head.sequence, turn, task, call.takes_message, old_status, stale_ids)
