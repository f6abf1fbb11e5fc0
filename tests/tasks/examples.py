"""Heads and events for tests of the pure room."""

from typing import Any

from a2a_lambda.protocol.model import (
    Artifact,
    Event,
    Part,
    TaskArtifactUpdateEvent,
    TaskState,
    make_status,
    text_message,
)
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace

SCOPE = Namespace("owner", "agent")

NOW = 1_800_000_000.0


def head(state: TaskState = TaskState.WORKING, says: str = "", **fields: Any) -> Head:
    """says: text of the message of its status."""
    message = text_message("task", "context", says) if says else None
    return Head(
        namespace=SCOPE,
        task_id="task",
        context_id="context",
        generation="g",
        created=NOW - 100,
        expires=int(NOW) + 1000,
        status=make_status(state, NOW - 50, message),
        **fields,
    )


def chunk(text: str, name: str = "a", *, append: bool = True, last: bool = False, **artifact: Any) -> Event:
    """A chunk of the artifact with an id."""
    content = Artifact(artifactId=name, parts=[Part(text=text)])
    content |= artifact  # type: ignore[typeddict-item]
    return Event(
        artifactUpdate=TaskArtifactUpdateEvent(
            taskId="task", contextId="context", artifact=content, append=append, lastChunk=last
        )
    )


def status_event(state: TaskState, says: str = "") -> Event:
    return head(state, says).closing_event()
