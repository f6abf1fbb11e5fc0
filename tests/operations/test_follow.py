"""How often a follower looks at a task."""

import asyncio
import uuid
from dataclasses import replace
from types import SimpleNamespace

import pytest

from a2a_lambda.operations import follow
from a2a_lambda.operations.follow import POLL_SECONDS, SILENT_POLL_SECONDS, follow_from
from a2a_lambda.protocol.model import (
    Artifact,
    Event,
    Part,
    TaskArtifactUpdateEvent,
    TaskState,
    status,
)
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.identity import Scope


def test_looks_at_a_silent_task_become_rarer(
    store: Store, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is silent for twelve looks, says something, is silent for one, and ends."""
    working = status(TaskState.WORKING, store.clock())
    blank = store.new_head(scope, str(uuid.uuid4()), "context", working)
    head = replace(blank, holder="a run", lease=store.clock() + 600)
    store.create_head(head)
    artifact = Artifact(artifactId="a", parts=[Part(text="said")])
    update = TaskArtifactUpdateEvent(
        taskId=head.task_id, contextId="context", artifact=artifact, append=False, lastChunk=True
    )
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 12:
            store.append(head, [Event(artifactUpdate=update)], after=0)
        if len(pauses) == 14:
            store.update_head(head.with_closing_status(status(TaskState.COMPLETED, store.clock()), 1))

    async def followed() -> list[Event]:
        return [event async for _, event in follow_from(store, head, 0, None)]

    # Not the module `asyncio` itself: loops of other tests sleep, too.
    monkeypatch.setattr(follow, "asyncio", SimpleNamespace(sleep=sleep))
    said, ended = asyncio.run(followed())
    assert "artifactUpdate" in said
    assert ended["statusUpdate"]["status"]["state"] == TaskState.COMPLETED
    silent, after = pauses[:12], pauses[12:]
    assert silent == sorted(silent)
    assert (silent[-1], len(set(silent[:4]))) == (SILENT_POLL_SECONDS, 4)
    assert after == [POLL_SECONDS, pytest.approx(1.2 * POLL_SECONDS)]
