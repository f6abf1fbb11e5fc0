"""The operations of A2A on tasks, knowing nothing of HTTP or of any protocol version.

send, stream ── intake ── a turn claimed ── run ── its events
                      └── the task a retry asks for again ── watch
get, cancel, subscribe ── the task, if it is the caller's ── watch
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from a2a_lambda import io
from a2a_lambda.agent import Agent
from a2a_lambda.claim import Claim
from a2a_lambda.errors import StoreError, TaskNotCancelable
from a2a_lambda.head import Head, Scope
from a2a_lambda.intake import Call, Intake
from a2a_lambda.log import apply, coalesce
from a2a_lambda.model import (
    INTERRUPTED,
    TERMINAL,
    Event,
    Published,
    SendMessageRequest,
    Task,
    TaskRequest,
    TaskState,
    status,
)
from a2a_lambda.run import Run
from a2a_lambda.store import Store, Superseded
from a2a_lambda.watch import current, followed, rested, shortened, watched

ATTEMPTS = 20
"""How often a cancel is tried against a task that changes meanwhile."""


class Service:
    """window: seconds in which the same bytes again are the same request."""

    def __init__(self, store: Store, agents: Mapping[str, Agent], *, window: float) -> None:
        self._store = store
        self._agents = agents
        self._intake = Intake(store, window=window)

    async def send(self, call: Call, request: SendMessageRequest) -> Task:
        """Run a turn to its end, or to the agent's question; returns the task. Raises as
        `Intake.begin`."""
        while True:
            begun = await self._intake.begin(call, request["message"])
            if isinstance(begun, Claim):
                run = self._run(begun)
                run.start()
                async with aclosing(run.events()) as published:
                    events = [event async for _, event in published]
                if not run.lost:
                    for event in coalesce(events):
                        apply(begun.task, event)
                    return shortened(begun.task, request["historyLength"])
                begun = await current(self._store, call.scope, begun.head.task_id)
            begun = await rested(self._store, begun, call.deadline)
            if not begun.lost:
                task, _ = await io.call(self._store.task, begun)
                return shortened(task, request["historyLength"])

    async def stream(self, call: Call, request: SendMessageRequest) -> AsyncGenerator[Published, None]:
        """The same turn as events: the task first, its closing status last. Raises as `send`."""
        begun = await self._intake.begin(call, request["message"])
        if isinstance(begun, Head):
            return watched(
                self._store, begun, history_length=request["historyLength"], deadline=call.deadline
            )
        run = self._run(begun)
        run.start()
        return self._streamed(call, begun, run, request["historyLength"])

    async def get(self, scope: Scope, request: TaskRequest) -> Task:
        """The task, its history cut to the length asked for. Raises TaskNotFound."""
        head = await current(self._store, scope, request["id"])
        task, _ = await io.call(self._store.task, head)
        return shortened(task, request["historyLength"])

    async def cancel(self, scope: Scope, request: TaskRequest) -> Task:
        """End a task as canceled, wherever it runs. Raises TaskNotFound, TaskNotCancelable."""
        for _ in range(ATTEMPTS):
            head = await current(self._store, scope, request["id"])
            if head.state in TERMINAL:
                raise TaskNotCancelable("the task has already ended", path="params.id")
            try:
                head = await self._canceled(head)
            except Superseded:
                continue
            task, _ = await io.call(self._store.task, head)
            return task
        raise StoreError("the task changes faster than it can be canceled")

    async def subscribe(
        self, scope: Scope, request: TaskRequest, *, after: int | None, deadline: float | None
    ) -> AsyncGenerator[Published, None]:
        """Events of a task: the task as it is and then each later one; with `after`, only those
        behind that sequence number. Raises TaskNotFound."""
        head = await current(self._store, scope, request["id"])
        return watched(self._store, head, after=after, deadline=deadline)

    def _run(self, claim: Claim) -> Run:
        return Run(self._store, self._agents[claim.head.scope.agent], claim)

    async def _streamed(
        self, call: Call, claim: Claim, run: Run, history_length: int | None
    ) -> AsyncGenerator[Published, None]:
        yield claim.sequence, Event(task=shortened(claim.task, history_length))
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
        settled, left = head.succeeded().settled([head.closing()])
        sequence = settled.sequence
        if left:
            sequence = await io.call(self._store.append, settled, left, after=sequence)
        return await io.call(self._store.replace, settled.closed(canceled, sequence))
