"""The operations of A2A on tasks, knowing nothing of HTTP or of any protocol version.

send, stream ── intake ── a turn claimed ── run ── its events
                      └── the task a retry asks for again ── watch
get, list, cancel, subscribe ── the task, if it is the caller's ── watch
push notification configs ── push
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace

from a2a_lambda import telemetry, threads
from a2a_lambda.agent.agent import Agent
from a2a_lambda.aws.queue import Queue, QueuedTurn
from a2a_lambda.errors import (
    PushNotificationNotSupported,
    StoreError,
    StreamingNotSupported,
    TaskNotCancelable,
    TooManyStreams,
    UnsupportedOperation,
)
from a2a_lambda.operations import list_tasks
from a2a_lambda.operations.follow import follow, follow_from, truncate_history, wait_until_stopped
from a2a_lambda.operations.intake import Intake, Queued
from a2a_lambda.operations.push_configs import PushConfigs
from a2a_lambda.operations.stream_limit import StreamLimit
from a2a_lambda.protocol.model import (
    INTERRUPTED,
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
from a2a_lambda.tasks.call import Call
from a2a_lambda.tasks.event_log import apply
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Scope
from a2a_lambda.turns.claim import Claim
from a2a_lambda.turns.recovery import end_task, load_head
from a2a_lambda.turns.run import UNREAD_EVENTS, Run

logger = logging.getLogger(__name__)

ANSWER_WAIT_SECONDS = 60.0
"""Seconds a subscription to a task that waits for input stays open without news."""

SLOTLESS_SEND_SECONDS = 3.5
"""A send that takes longer holds a slot: before the first keep-alive, so that it still can be refused."""

TOO_MANY = "Too many calls of this owner run at once; send the message again later."

CANCEL_ATTEMPTS = 20
"""How often a cancel is tried against a task that changes meanwhile."""


@dataclass(frozen=True, slots=True)
class Found:
    """A task, and the name of the wire it was made over."""

    task: Task
    dialect: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """Events of a task, and the name of the wire it was made over."""

    events: AsyncGenerator[Published, None]
    dialect: str


class Service:
    """window: seconds in which the same bytes again are the same request. queue: to the worker, where
    there is one. webhooks: what they may be. stream_limit: slots of sends that last; None = no limit."""

    def __init__(
        self,
        store: Store,
        agents: Mapping[str, Agent],
        *,
        window: float,
        queue: Queue | None = None,
        webhooks: webhook.WebhookPolicy = webhook.WebhookPolicy(),  # noqa: B008  # immutable
        stream_limit: StreamLimit | None = None,
    ) -> None:
        self._store = store
        self._queue = queue
        self._stream_limit = stream_limit
        self._agents = agents
        self._intake = Intake(store, window=window)
        self._webhooks = webhooks
        self.configs = PushConfigs(store, webhooks)

    def check(self, scope: Scope, operation: Operation) -> None:
        """Raises UnsupportedOperation or PushNotificationNotSupported for what the agent's card rules
        out."""
        capabilities = self._agents[scope.agent].card.capabilities
        if operation in ("stream", "subscribe") and not capabilities.streaming:
            raise StreamingNotSupported("see capabilities.streaming in the agent's card")
        if operation.endswith("_push") and not capabilities.pushNotifications:
            raise PushNotificationNotSupported("see capabilities.pushNotifications in the agent's card")

    async def send(self, call: Call, request: SendMessageRequest) -> SendMessageResponse:
        """Run a turn to its end, or to the agent's question; or have it run, and answer at once.

        One that lasts takes a slot of its owner, as a stream does; if there is none, its turn is ended.
        Raises as `Intake.begin` and `stream`, and TooManyStreams.
        """
        await self._admit(call, request)
        runs: list[Run] = []
        work = asyncio.ensure_future(self._send(call, request, runs))
        try:
            await asyncio.wait({work}, timeout=SLOTLESS_SEND_SECONDS)
            if not work.done() and self._stream_limit is not None:
                await self._hold_slot(call.scope.owner, work)
            return await work
        except TooManyStreams:
            if work.done():
                return work.result()
            for run in runs:  # it would hold its Lambda for as long as it takes
                run.stop(TOO_MANY)
            raise
        finally:
            work.cancel()

    async def _hold_slot(self, owner: str, work: "asyncio.Task[SendMessageResponse]") -> None:
        """Hold a slot until the work is done. Raises TooManyStreams."""
        assert self._stream_limit is not None
        with suppress(StoreError):  # without a slot, rather than not at all
            async with self._stream_limit.slot(owner) as slot:
                while not work.done():
                    await asyncio.wait({work}, timeout=SLOTLESS_SEND_SECONDS)
                    await slot.keep()

    async def _send(self, call: Call, request: SendMessageRequest, runs: list[Run]) -> SendMessageResponse:
        """runs: takes the turn this process runs, if it does."""
        length = _history_length(request)
        immediately = self._queue is not None and self._immediately(call, request)
        call = self._placed(call, background=immediately)
        while True:
            begun = await self._begun(call, request)
            if isinstance(begun, Head) and immediately:
                task, _ = await threads.run(self._store.get_task, begun)
                return _outcome(begun, truncate_history(task, length))
            if isinstance(begun, Claim):
                run = self._run(begun)
                runs.append(run)
                run.start()
                async with aclosing(run.events()) as published:
                    events = [event async for _, event in published]
                if not run.lost:
                    apply(begun.task, events)
                    return _outcome(run.head, truncate_history(begun.task, length))
                begun = await load_head(self._store, call.scope, begun.head.task_id)
            begun = await wait_until_stopped(self._store, begun, call.deadline)
            if not begun.is_lost:
                task, _ = await threads.run(self._store.get_task, begun)
                return _outcome(begun, truncate_history(task, length))

    async def stream(self, call: Call, request: SendMessageRequest) -> AsyncGenerator[Published, None]:
        """The same turn as events: the task first, its closing status last.

        Raises as `Intake.begin`, and ContentTypeNotSupported, ExtensionSupportRequired and
        PushNotificationNotSupported for what the agent's card rules out.
        """
        await self._admit(call, request)
        length = _history_length(request)
        begun = await self._begun(self._placed(call), request)
        if isinstance(begun, Head):
            return follow(self._store, begun, history_length=length, deadline=call.deadline)
        run = self._run(begun)
        run.start(unread_limit=UNREAD_EVENTS)
        return self._streamed(call, begun, run, length)

    async def get(self, scope: Scope, task_id: str) -> Found:
        """The task, whole. Raises TaskNotFound."""
        head = await load_head(self._store, scope, task_id)
        _bind(head)
        task, _ = await threads.run(self._store.get_task, head)
        return Found(task, head.dialect)

    async def list(self, scope: Scope, request: ListTasksRequest) -> ListTasksResponse:
        """A page of the caller's tasks with this agent. Raises InvalidParams for a token that is not
        ours."""
        return await list_tasks.listed(self._store, scope, request)

    async def cancel(self, scope: Scope, task_id: str) -> Found:
        """End a task as canceled, wherever it runs. Raises TaskNotFound, TaskNotCancelable."""
        for _ in range(CANCEL_ATTEMPTS):
            head = await load_head(self._store, scope, task_id)
            _bind(head)
            if head.state in TERMINAL:
                raise TaskNotCancelable("the task has already ended", path="params.id")
            try:
                head = await self._canceled(head)
            except Conflict:
                continue
            task, _ = await threads.run(self._store.get_task, head)
            return Found(task, head.dialect)
        raise StoreError("the task changes faster than it can be canceled")

    async def subscribe(
        self, scope: Scope, task_id: str, *, after: int | None, deadline: float | None, live: bool = False
    ) -> Subscription:
        """Events of a task: the task as it is and then each later one; with `after`, only those
        behind that sequence number.

        live: as `Wire.subscribe_needs_running`. Raises TaskNotFound, UnsupportedOperation.
        """
        head = await load_head(self._store, scope, task_id)
        _bind(head)
        if live and head.state in TERMINAL and after is None:
            raise UnsupportedOperation("the task has ended: get it instead", path="params.id")
        waiting = ANSWER_WAIT_SECONDS if live else 0.0
        events = follow(self._store, head, after=after, deadline=deadline, waiting=waiting)
        return Subscription(events, head.dialect)

    async def _admit(self, call: Call, request: SendMessageRequest) -> None:
        agent = self._agents[call.scope.agent]
        agent.card.check_extensions(call.extensions)
        for index, part in enumerate(request["message"]["parts"]):
            also = ("application/json",) if "data" in part and agent.takes_arguments else ()
            agent.card.check_media_type(part.get("mediaType"), f"params.message.parts[{index}]", also)
        config = request.get("configuration", {}).get("taskPushNotificationConfig")
        if config is not None:
            self.check(call.scope, "set_push")
            await webhook.check(config, self._webhooks)

    def _immediately(self, call: Call, request: SendMessageRequest) -> bool:
        """Whether to answer before the turn ends: as the request says; else, where its version lets the
        server choose, as the agent is."""
        said = request.get("configuration", {}).get("returnImmediately")
        if said is None:
            return not call.waits and self._agents[call.scope.agent].card.background
        return said

    def _placed(self, call: Call, *, background: bool = False) -> Call:
        """The call, for the worker where the turn is to run there."""
        background = background or self._agents[call.scope.agent].card.background
        return replace(call, background=background and self._queue is not None)

    async def _begun(self, call: Call, request: SendMessageRequest) -> Claim | Head:
        """The turn begun; one for the worker is on its way there."""
        begun = await self._intake.begin(call, request)
        _bind(begun if isinstance(begun, Head) else begun.head)
        if not isinstance(begun, Queued):
            return begun
        assert self._queue is not None
        try:
            await threads.run(self._queue.send, QueuedTurn.of(begun.head))
        except StoreError:
            logger.exception("task %s waits for the sweep", begun.head.task_id)
        return begun.head

    def _run(self, claim: Claim) -> Run:
        return Run(self._store, self._agents[claim.head.scope.agent], claim)

    async def _streamed(
        self, call: Call, claim: Claim, run: Run, history_length: int | None
    ) -> AsyncGenerator[Published, None]:
        yield claim.sequence, Event(task=truncate_history(claim.task, history_length))
        async with aclosing(run.events()) as events:
            async for published in events:
                yield published
        if run.lost or run.left_behind:
            head = await load_head(self._store, call.scope, claim.head.task_id)
            task, sequence = await threads.run(self._store.get_task, head)
            yield sequence, Event(task=_with_emptied(task, run.artifact_ids))
            async with aclosing(follow_from(self._store, head, sequence, call.deadline)) as events:
                async for published in events:
                    yield published

    async def _canceled(self, head: Head) -> Head:
        canceled = status(TaskState.CANCELED, self._store.clock())
        if head.state not in INTERRUPTED:
            return await end_task(self._store, head, canceled)
        settled, left = head.next_epoch().with_events([head.closing_event()])
        sequence = settled.sequence
        if left:
            sequence = await threads.run(self._store.append, settled, left, after=sequence)
        return await threads.run(self._store.replace, settled.with_closing_status(canceled, sequence))


def _bind(head: Head) -> None:
    telemetry.bind(task_id=head.task_id, context_id=head.context_id)


def _history_length(request: SendMessageRequest) -> int | None:
    return request.get("configuration", {}).get("historyLength")


def _with_emptied(task: Task, shown: Sequence[str]) -> Task:
    """The task as it is stored, and each artifact that a client was shown and that was never stored, empty:
    so the client forgets what it has of it."""
    artifacts = task.get("artifacts", [])
    known = {artifact["artifactId"] for artifact in artifacts}
    empty = [Artifact(artifactId=name, parts=[Part(text="")]) for name in shown if name not in known]
    if empty:
        task["artifacts"] = [*artifacts, *empty]
    return task


def _outcome(head: Head, task: Task) -> SendMessageResponse:
    if head.message_only and "message" in task["status"]:
        return SendMessageResponse(task=task, message=task["status"]["message"])
    return SendMessageResponse(task=task)
