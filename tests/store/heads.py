"""Heads of tasks, for tests that store none."""

from a2a_lambda.protocol.model import TaskState, status
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Scope

CREATED = 1_800_000_000.0


def head_with_configs(*ids: str) -> Head:
    """A working task with these push notification configs."""
    return Head(
        scope=Scope("o", "a"),
        task_id="t",
        context_id="c",
        generation="g",
        created=CREATED,
        expires=1_900_000_000,
        status=status(TaskState.WORKING, CREATED),
        push_config_ids=ids,
    )
