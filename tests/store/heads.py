"""Heads of tasks."""

import uuid
from dataclasses import replace

from a2a_lambda.protocol.model import Event, Message, Part, Role, TaskState, make_status
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace

CREATED = 1_800_000_000.0


def head_with_configs(*ids: str) -> Head:
    """A working task with these push notification configs."""
    return Head(
        namespace=Namespace("o", "a"),
        task_id="t",
        context_id="c",
        generation="g",
        created=CREATED,
        expires=1_900_000_000,
        status=make_status(TaskState.WORKING, CREATED),
        push_config_ids=ids,
    )


def running(store: Store, namespace: Namespace, task_id: str) -> Head:
    event = Event(message=Message(messageId="m", role=Role.USER, parts=[Part(text="hello")]))
    blank = store.new_head(namespace, task_id, "context", make_status(TaskState.WORKING, store.clock()))
    lease = store.clock() + 30
    return replace(
        blank, inline=((1, event),), sequence=1, committed=1, holder=str(uuid.uuid4()), lease=lease
    )


def said(store: Store, head: Head) -> str:
    task, _ = store.get_task(head)
    return "".join(part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"])


def read(store: Store, head: Head) -> Head:
    stored_head = store.get_head(head.namespace, head.task_id)
    assert stored_head is not None
    return stored_head


def ended(head: Head, state: TaskState = TaskState.COMPLETED, sequence: int = 2) -> Head:
    return replace(head, status=make_status(state, 0), sequence=sequence, holder="", lease=0.0)
