"""The operations of A2A on tasks, independent of protocol versions. `messages` has the others.

get, list, cancel, subscribe  ── the head of the caller's task ── follow
push notification configs     ── push_configs
"""

from collections.abc import AsyncGenerator, Collection
from contextlib import suppress
from dataclasses import dataclass

from a2a_lambda import telemetry, threads
from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.errors import StoreError, TaskNotCancelable, UnsupportedOperation
from a2a_lambda.files.files import Files
from a2a_lambda.operations import list_tasks
from a2a_lambda.operations.follow import follow
from a2a_lambda.operations.push_configs import PushConfigs
from a2a_lambda.protocol.model import TERMINAL, Published, Task, TaskState, make_status
from a2a_lambda.protocol.requests import ListTasksRequest, ListTasksResponse
from a2a_lambda.push import webhook
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import KnownRequest, Namespace
from a2a_lambda.turns.recovery import end_task, load_live_head

ANSWER_WAIT_SECONDS = 60.0
"""Seconds for which a subscription to a task that waits for input stays open without a new event."""

CANCEL_ATTEMPTS = 20
"""Number of times that a cancel is tried on a task that changes meanwhile."""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task, the name of the wire that it was made over, and when it was created and expires, in Unix
    seconds. requests: the last ones that it knows. open_question: see `Head`."""

    task: Task
    wire_name: str
    created: float
    expires: int
    requests: tuple[KnownRequest, ...]
    open_question: str

    @classmethod
    def of(cls, task: Task, head: Head) -> "TaskRecord":
        return cls(task, head.wire_name, head.created, head.expires, head.requests, head.open_question)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Events of a task, and the name of the wire that it was made over."""

    events: AsyncGenerator[Published, None]
    wire_name: str


class Service:
    """Operations on tasks that exist. Each raises StoreError if the table does not answer."""

    def __init__(
        self,
        store: Store,
        *,
        dispatcher: Dispatcher = Dispatcher(),  # noqa: B008  # immutable
        webhooks: webhook.WebhookPolicy = webhook.WebhookPolicy(),  # noqa: B008  # immutable
        files: Files,
    ) -> None:
        self._store = store
        self._links = files.links
        self._dispatcher = dispatcher
        self.configs = PushConfigs(store, webhooks)

    async def get(self, namespace: Namespace, task_id: str, modes: Collection[str] = ()) -> TaskRecord:
        """The whole task. modes: see `Links`. Raises TaskNotFound."""
        return await self._read(await self._load(namespace, task_id), modes)

    async def list(self, namespace: Namespace, request: ListTasksRequest) -> ListTasksResponse:
        """A page of the caller's tasks with this agent. Raises InvalidParams for a page token that the kit
        did not make."""
        page = await list_tasks.list_tasks(self._store, namespace, request)
        return {**page, "tasks": [await self._links.show(namespace, task) for task in page["tasks"]]}

    async def cancel(self, namespace: Namespace, task_id: str, question: str = "") -> TaskRecord:
        """End a task as canceled, wherever it runs. question: only while this one is open; "" = at any time.
        Raises TaskNotFound, TaskNotCancelable."""
        for _ in range(CANCEL_ATTEMPTS):
            head = await self._load(namespace, task_id)
            if head.state in TERMINAL:
                raise TaskNotCancelable("the task has already ended", path="params.id")
            if question and head.open_question != question:
                raise TaskNotCancelable("the question is closed", path="params.id")
            try:
                new_head = await end_task(
                    self._store, head, make_status(TaskState.CANCELED, self._store.clock())
                )
            except Conflict:
                continue
            with suppress(StoreError):  # an execution ends by itself when it continues
                await self._dispatcher.stop(head)
            return await self._read(new_head)
        raise StoreError("the task changes faster than it can be canceled: try again")

    async def subscribe(
        self,
        namespace: Namespace,
        task_id: str,
        *,
        after: int | None,
        deadline: float | None,
        needs_running: bool = False,
    ) -> Subscription:
        """Events of a task: the task as it is, then each later event. With `after`: only the events after
        that sequence number.

        needs_running: see `Wire.subscribe_needs_running`. A task that has ended is refused, unless `after`
            is given, and one that waits for input is followed for ANSWER_WAIT_SECONDS. Raises TaskNotFound,
            UnsupportedOperation.
        """
        head = await self._load(namespace, task_id)
        if needs_running and head.state in TERMINAL and after is None:
            raise UnsupportedOperation("the task has ended; get it instead", path="params.id")
        wait_seconds = ANSWER_WAIT_SECONDS if needs_running else 0.0
        events = follow(self._store, head, after=after, deadline=deadline, answer_wait_seconds=wait_seconds)
        return Subscription(self._links.show_events(namespace, events), head.wire_name)

    async def _read(self, head: Head, modes: Collection[str] = ()) -> TaskRecord:
        task, _ = await threads.run(self._store.get_task, head)
        return TaskRecord.of(await self._links.show(head.namespace, task, modes), head)

    async def _load(self, namespace: Namespace, task_id: str) -> Head:
        head = await load_live_head(self._store, namespace, task_id)
        telemetry.bind(task_id=head.task_id, context_id=head.context_id)
        return head
