"""The operations of A2A on tasks, knowing nothing of HTTP or of any protocol version.

send, stream ── intake ── a turn claimed ── run ── its events
                      └── the task a retry asks for again ── watch
get, cancel, subscribe ── the task, if it is the caller's ── watch
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace

from a2a_lambda import io
from a2a_lambda.agent import Agent
from a2a_lambda.claim import Claim
from a2a_lambda.errors import TaskNotCancelable
from a2a_lambda.head import Head, Scope
from a2a_lambda.intake import Call, Intake, settled
from a2a_lambda.log import apply
from a2a_lambda.model import (
    INTERRUPTED,
    TERMINAL,
    Event,
    Published,
    SendMessageRequest,
    Task,
    TaskRequest,
    TaskState,
    latest,
    status,
)
from a2a_lambda.run import Run
from a2a_lambda.store import Store, Superseded
from a2a_lambda.watch import current, followed, rested, watched


class Service:
    """window: seconds in which the same bytes again are the same request."""

    def __init__(self, store: Store, agents: Mapping[str, Agent], *, window: float) -> None:
        self._store = store
        self._agents = agents
        self._intake = Intake(store, window=window)

    async def send(self, call: Call, request: SendMessageRequest) -> Task:
        """Run a turn to its end, or to the agent's question; returns the task. Raises as
        `Intake.begin`."""
        begun = await self._intake.begin(call, request["message"])
        if isinstance(begun, Claim):
            run = self._run(begun)
            async with aclosing(run.events()) as events:
                async for _, event in events:
                    apply(begun.task, event)
            if not run.lost:
                return _shortened(begun.task, request["historyLength"])
            begun = await current(self._store, call.scope, begun.head.task_id)
        return _shortened(await rested(self._store, begun, call.deadline), request["historyLength"])

    async def stream(self, call: Call, request: SendMessageRequest) -> AsyncGenerator[Published, None]:
        """The same turn as events: the task first, its closing status last. Raises as `send`."""
        begun = await self._intake.begin(call, request["message"])
        if isinstance(begun, Head):
            return watched(self._store, begun, None, call.deadline)
        return self._streamed(call, begun, request["historyLength"])

    async def get(self, scope: Scope, request: TaskRequest) -> Task:
        """The task, its history cut to the length asked for. Raises TaskNotFound."""
        head = await current(self._store, scope, request["id"])
        task, _ = await io.call(self._store.task, head)
        return _shortened(task, request["historyLength"])

    async def cancel(self, scope: Scope, request: TaskRequest) -> Task:
        """End a task as canceled, wherever it runs. Raises TaskNotFound, TaskNotCancelable."""
        while True:
            head = await current(self._store, scope, request["id"])
            if head.state in TERMINAL:
                raise TaskNotCancelable("the task has already ended", path="params.id")
            try:
                head = await self._canceled(head)
            except Superseded:
                continue
            task, _ = await io.call(self._store.task, head)
            return task

    async def subscribe(
        self, scope: Scope, request: TaskRequest, *, after: int | None, deadline: float | None
    ) -> AsyncGenerator[Published, None]:
        """Events of a task: the task as it is and then each later one; with `after`, only those
        behind that sequence number. Raises TaskNotFound."""
        return watched(self._store, await current(self._store, scope, request["id"]), after, deadline)

    def _run(self, claim: Claim) -> Run:
        return Run(self._store, self._agents[claim.head.scope.agent], claim)

    async def _streamed(
        self, call: Call, claim: Claim, history_length: int | None
    ) -> AsyncGenerator[Published, None]:
        run = self._run(claim)
        yield run.sequence, Event(task=_shortened(claim.task, history_length))
        async with aclosing(run.events()) as events:
            async for published in events:
                yield published
        if run.lost:
            head = await current(self._store, call.scope, claim.head.task_id)
            async with aclosing(followed(self._store, head, run.sequence, call.deadline)) as events:
                async for published in events:
                    yield published

    async def _canceled(self, head: Head) -> Head:
        canceled = status(TaskState.CANCELED, self._store.clock())
        if head.state not in INTERRUPTED:
            return await io.call(self._store.seal, head, canceled)
        closed, left = settled(head, [head.closing()])
        sequence = closed.sequence
        if left:
            sequence = await io.call(self._store.append, closed, left, after=sequence)
        closed = replace(closed, status=canceled, sequence=sequence + 1, pending=None)
        return await io.call(self._store.replace, closed)


def _shortened(task: Task, length: int | None) -> Task:
    """The task with the `length` most recent messages; none at all = no history."""
    history = latest(task.get("history", []), length)
    if history:
        task["history"] = history
    else:
        task.pop("history", None)
    return task
