"""The operations of A2A, independent of protocol versions. Start reading here.

send, stream             ── intake ─┬─ a turn to run here ── Run ── its events
                                    ├─ a turn for the worker ── queue
                                    └─ the task of an earlier, equal request ── follow
get, list, cancel,       ── the head of the caller's task ── follow
subscribe
push notification configs ── push_configs
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace

from a2a_lambda import telemetry, threads
from a2a_lambda.agent.agents import Agents, agent_of
from a2a_lambda.aws.queue import Queue, QueuedTurn
from a2a_lambda.errors import (
    PushNotificationNotSupported,
    StoreError,
    StreamingNotSupported,
    TaskNotCancelable,
    TooManyStreams,
    Unavailable,
    UnsupportedOperation,
)
from a2a_lambda.operations import list_tasks
from a2a_lambda.operations.follow import follow, follow_from, truncate_history, wait_until_stopped
from a2a_lambda.operations.intake import Handover, Intake
from a2a_lambda.operations.push_configs import PushConfigs
from a2a_lambda.operations.stream_limit import StreamLimit
from a2a_lambda.protocol.model import (
    TERMINAL,
    Artifact,
    Event,
    Part,
    Published,
    Task,
    TaskState,
    status,
)
from a2a_lambda.protocol.requests import (
    ListTasksRequest,
    ListTasksResponse,
    Operation,
    SendMessageRequest,
    SendMessageResponse,
)
from a2a_lambda.push import webhook
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.call_context import CallContext
from a2a_lambda.tasks.event_log import apply
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Scope
from a2a_lambda.turns.claim import Claim
from a2a_lambda.turns.durable import DurableTurns
from a2a_lambda.turns.recovery import end_task, load_live_head
from a2a_lambda.turns.run import UNREAD_EVENTS, Run

logger = logging.getLogger(__name__)

ANSWER_WAIT_SECONDS = 60.0
"""Seconds for which a subscription to a task that waits for input stays open without a new event."""

IMPORT_WAIT_SECONDS = 2.0
"""Seconds for which a message waits for its agent's import, before its turn is claimed. If the import fails
by then, the message is refused and nothing has changed. After that the turn waits, and the client gets
keep-alives."""

SLOTLESS_SEND_SECONDS = 2.5
"""A send that takes longer, its agent's import included, holds a slot. It is half a second less than the time
to the first keep-alive, because a send can be refused with a status of HTTP only before its answer begins."""

TOO_MANY = "Too many calls of this owner run at once; send the message again later."

CANCEL_ATTEMPTS = 20
"""Number of times that a cancel is tried on a task that changes meanwhile."""


@dataclass(frozen=True, slots=True)
class FoundTask:
    """A task, and the name of the wire that it was made over."""

    task: Task
    wire_name: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """Events of a task, and the name of the wire that it was made over."""

    events: AsyncGenerator[Published, None]
    wire_name: str


class Service:
    """repeat_seconds: seconds for which the same bytes are the same request. queue: to the worker; None =
    every turn runs in its request. stream_limit: slots of sends that take long; None = no limit.
    durable: turns of durable skills; None = they are refused. durable_seconds: that one may take."""

    def __init__(
        self,
        store: Store,
        agents: Agents,
        *,
        repeat_seconds: float,
        queue: Queue | None = None,
        webhooks: webhook.WebhookPolicy = webhook.WebhookPolicy(),  # noqa: B008  # immutable
        stream_limit: StreamLimit | None = None,
        durable: DurableTurns | None = None,
        durable_seconds: int = 0,
    ) -> None:
        self._store = store
        self._queue = queue
        self._stream_limit = stream_limit
        self._durable = durable
        self._agents = agents
        self._intake = Intake(store, repeat_seconds=repeat_seconds, durable_seconds=durable_seconds)
        self._webhooks = webhooks
        self.configs = PushConfigs(store, webhooks)

    def check(self, scope: Scope, operation: Operation) -> None:
        """Raises StreamingNotSupported or PushNotificationNotSupported if the agent's card says so."""
        capabilities = self._agents[scope.agent].card.capabilities
        if operation in ("stream", "subscribe") and not capabilities.streaming:
            raise StreamingNotSupported("see capabilities.streaming in the agent's card")
        if operation.endswith("_push") and not capabilities.pushNotifications:
            raise PushNotificationNotSupported("see capabilities.pushNotifications in the agent's card")

    async def send(self, call: CallContext, request: SendMessageRequest) -> SendMessageResponse:
        """Run a turn until it ends or asks a question. Or give it to the worker, and answer at once.

        A send that takes long holds a slot of its owner, as a stream does. If there is none, its turn ends.
        Raises what `Intake.start` and `stream` raise, and TooManyStreams.
        """
        slotless_until = time.monotonic() + SLOTLESS_SEND_SECONDS
        await self._check_message(call, request)
        runs: list[Run] = []
        work = asyncio.ensure_future(self._send(call, request, runs))
        try:
            await asyncio.wait({work}, timeout=max(0.0, slotless_until - time.monotonic()))
            if not work.done() and self._stream_limit is not None:
                await self._hold_slot(self._stream_limit, call.scope.owner, work)
            return await work
        except TooManyStreams:
            if work.done():
                return work.result()
            for run in runs:
                run.stop(TOO_MANY)
            raise
        finally:
            work.cancel()

    async def _hold_slot(
        self, limit: StreamLimit, owner: str, work: "asyncio.Task[SendMessageResponse]"
    ) -> None:
        """Hold a slot until the work is done. Raises TooManyStreams."""
        with suppress(StoreError):  # a send without a slot is better than no send
            async with limit.hold_slot(owner) as slot:
                while not work.done():
                    await asyncio.wait({work}, timeout=SLOTLESS_SEND_SECONDS)
                    await slot.renew()

    async def _send(
        self, call: CallContext, request: SendMessageRequest, runs: list[Run]
    ) -> SendMessageResponse:
        """runs: output. The run of the turn is appended, if this process runs it."""
        options = request.get("configuration", {})
        length = options.get("historyLength")
        call = self._with_durability(call, request)
        in_background = call.is_durable or self._agents[call.scope.agent].card.background
        # If a request does not say whether it blocks, some versions block. In the others, the agent's card
        # decides.
        returns_at_once = options.get("returnImmediately", not call.blocking_by_default and in_background)
        call = replace(call, is_background=self._queue is not None and (returns_at_once or in_background))
        await self._check_agent(call)
        while True:
            started = await self._start(call, request)
            if isinstance(started, Claim):
                run = Run(self._store, self._agents.start(call.scope.agent), started)
                runs.append(run)
                run.start()
                async with aclosing(run.events()) as published:
                    events = [event async for _, event in published]
                if not run.has_diverged:
                    assert started.task is not None
                    apply(started.task, events)
                    return _response(run.head, truncate_history(started.task, length))
                head = await load_live_head(self._store, call.scope, started.head.task_id)
            else:
                head = started
                if returns_at_once and (call.is_background or call.is_durable):
                    return await self._stored_response(head, length)
            stopped = await wait_until_stopped(self._store, head, call.deadline)
            if not stopped.is_lost:
                return await self._stored_response(stopped, length)
            # The run died, so the request has no answer. It starts its turn again.

    async def _stored_response(self, head: Head, history_length: int | None) -> SendMessageResponse:
        task, _ = await threads.run(self._store.get_task, head)
        return _response(head, truncate_history(task, history_length))

    async def stream(self, call: CallContext, request: SendMessageRequest) -> AsyncGenerator[Published, None]:
        """Run a turn as `send` does, and stream it: the task first, its closing status last.

        Raises what `Intake.start` raises, and ContentTypeNotSupported, ExtensionSupportRequired and
        PushNotificationNotSupported if the agent's card says so.
        """
        await self._check_message(call, request)
        length = request.get("configuration", {}).get("historyLength")
        call = self._with_durability(call, request)
        in_background = self._agents[call.scope.agent].card.background and self._queue is not None
        call = replace(call, is_background=in_background)
        await self._check_agent(call)
        started = await self._start(call, request)
        if isinstance(started, Head):
            return follow(self._store, started, history_length=length, deadline=call.deadline)
        run = Run(self._store, self._agents.start(call.scope.agent), started)
        run.start(unread_limit=UNREAD_EVENTS)
        return self._stream(call, started, run, length)

    async def _stream(
        self, call: CallContext, claim: Claim, run: Run, history_length: int | None
    ) -> AsyncGenerator[Published, None]:
        assert claim.task is not None
        yield claim.sequence, Event(task=truncate_history(claim.task, history_length))
        async with aclosing(run.events()) as events:
            async for published in events:
                yield published
        if run.has_diverged or run.has_dropped_client:
            # What the client has is not what is stored, or not all of it.
            head = await load_live_head(self._store, call.scope, claim.head.task_id)
            task, sequence = await threads.run(self._store.get_task, head)
            yield sequence, Event(task=_empty_unstored(task, run.artifact_ids))
            async with aclosing(follow_from(self._store, head, sequence, call.deadline)) as events:
                async for published in events:
                    yield published

    async def get(self, scope: Scope, task_id: str) -> FoundTask:
        """The whole task. Raises TaskNotFound."""
        head = await self._load(scope, task_id)
        task, _ = await threads.run(self._store.get_task, head)
        return FoundTask(task, head.wire_name)

    async def list(self, scope: Scope, request: ListTasksRequest) -> ListTasksResponse:
        """A page of the caller's tasks with this agent. Raises InvalidParams for a page token that the kit
        did not make."""
        return await list_tasks.list_tasks(self._store, scope, request)

    async def cancel(self, scope: Scope, task_id: str) -> FoundTask:
        """End a task as canceled, wherever it runs. Raises TaskNotFound, TaskNotCancelable."""
        for _ in range(CANCEL_ATTEMPTS):
            head = await self._load(scope, task_id)
            if head.state in TERMINAL:
                raise TaskNotCancelable("the task has already ended", path="params.id")
            try:
                ended = await end_task(self._store, head, status(TaskState.CANCELED, self._store.clock()))
            except Conflict:
                continue
            if self._durable is not None:
                with suppress(StoreError):  # it ends by itself when it continues
                    await self._durable.stop(head)
            task, _ = await threads.run(self._store.get_task, ended)
            return FoundTask(task, ended.wire_name)
        raise StoreError("the task changes faster than it can be canceled")

    async def subscribe(
        self,
        scope: Scope,
        task_id: str,
        *,
        after: int | None,
        deadline: float | None,
        needs_running: bool = False,
    ) -> Subscription:
        """Events of a task: the task as it is, then each later event. With `after`: only the events after
        that sequence number.

        needs_running: as `Wire.subscribe_needs_running`. Raises TaskNotFound, UnsupportedOperation.
        """
        head = await self._load(scope, task_id)
        if needs_running and head.state in TERMINAL and after is None:
            raise UnsupportedOperation("the task has ended; get it instead", path="params.id")
        wait = ANSWER_WAIT_SECONDS if needs_running else 0.0
        events = follow(self._store, head, after=after, deadline=deadline, answer_wait=wait)
        return Subscription(events, head.wire_name)

    async def _check_message(self, call: CallContext, request: SendMessageRequest) -> None:
        """Raises if the agent's card, or the policy for webhooks, forbids a message."""
        agent = self._agents[call.scope.agent]
        agent.card.check_extensions(call.extensions)
        for index, part in enumerate(request["message"]["parts"]):
            also = ("application/json",) if "data" in part and agent.takes_arguments else ()
            agent.card.check_media_type(part.get("mediaType"), f"params.message.parts[{index}]", also)
        config = request.get("configuration", {}).get("taskPushNotificationConfig")
        if config is not None:
            self.check(call.scope, "set_push")
            await webhook.check(config, self._webhooks)

    def _with_durability(self, call: CallContext, request: SendMessageRequest) -> CallContext:
        """The call, which knows whether its turn is durable if it answers no question. Raises Unavailable if
        it is, and the deployment has no durable function."""
        profile = self._agents[call.scope.agent]

        def needs_execution(asker: str | None) -> bool:
            is_durable = profile.is_durable(request["message"], asker)
            if is_durable and self._durable is None:
                logger.error("agent %s is durable: set ExecutionTimeout in samconfig.toml", profile.name)
                raise Unavailable("this deployment does not run this agent's long tasks")
            return is_durable

        return replace(
            call,
            needs_execution=needs_execution,
            is_durable=needs_execution(None),
            may_rest=bool(profile.card.durable_skills),
        )

    async def _check_agent(self, call: CallContext) -> None:
        """Raises Unavailable if this process is to run the agent, and cannot import it."""
        if call.is_background or call.is_durable:
            return
        loading = self._agents.start(call.scope.agent)
        if not loading.done():
            await asyncio.wait({asyncio.wrap_future(loading)}, timeout=IMPORT_WAIT_SECONDS)
        if loading.done():
            agent_of(loading)

    async def _start(self, call: CallContext, request: SendMessageRequest) -> Claim | Head:
        """The turn to run here; or the head of a task that runs elsewhere, or has been answered."""
        started = await self._intake.start(call, request)
        head = started if isinstance(started, Head) else started.head
        telemetry.bind(task_id=head.task_id, context_id=head.context_id)
        if not isinstance(started, Handover):
            return started
        try:
            if head.execution is not None:
                if self._durable is not None:
                    await self._durable.dispatch(head)
            else:
                assert self._queue is not None
                await threads.run(self._queue.send, QueuedTurn.of(head))
        except StoreError:
            logger.exception("task %s waits for the sweep", head.task_id)
        return head

    async def _load(self, scope: Scope, task_id: str) -> Head:
        head = await load_live_head(self._store, scope, task_id)
        telemetry.bind(task_id=head.task_id, context_id=head.context_id)
        return head


def _empty_unstored(task: Task, shown: Sequence[str]) -> Task:
    """The task as stored. An artifact that the client has seen, but that was never stored, is in it,
    empty: so the client discards it."""
    artifacts = task.get("artifacts", [])
    known = {artifact["artifactId"] for artifact in artifacts}
    empty = [Artifact(artifactId=name, parts=[Part(text="")]) for name in shown if name not in known]
    if empty:
        task["artifacts"] = [*artifacts, *empty]
    return task


def _response(head: Head, task: Task) -> SendMessageResponse:
    if head.message_only and "message" in task["status"]:
        return SendMessageResponse(task=task, message=task["status"]["message"])
    return SendMessageResponse(task=task)
