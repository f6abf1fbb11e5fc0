"""How often a follower looks at a task."""

import asyncio
import itertools
import time
import uuid
from dataclasses import dataclass, replace

import pytest

from a2a_lambda.operations import follow
from a2a_lambda.operations.follow import FOLLOW_POLL_SECONDS, SILENT_POLL_SECONDS, follow_from
from a2a_lambda.protocol.model import (
    Artifact,
    Event,
    Part,
    TaskArtifactUpdateEvent,
    TaskState,
    make_status,
)
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.execution import StoredWait
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.tasks.suspension import new_execution
from tests.conftest import replace_in


def artifact_of(head: Head) -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifactId="a", parts=[Part(text="said")])
    return TaskArtifactUpdateEvent(
        taskId=head.task_id, contextId=head.context_id, artifact=artifact, append=False, lastChunk=True
    )


def create_asking(store: Store, namespace: Namespace) -> Head:
    """Head of a new task whose only event is its question."""
    question = make_status(TaskState.INPUT_REQUIRED, store.clock())
    head = replace(store.new_head(namespace, str(uuid.uuid4()), "c", question), sequence=1)
    store.create_head(head)
    return head


def test_looks_at_a_silent_task_become_rarer(
    store: Store, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is silent for twelve looks, says something, is silent for one, and ends."""
    working = make_status(TaskState.WORKING, store.clock())
    blank = store.new_head(namespace, str(uuid.uuid4()), "context", working)
    head = replace(blank, holder="a run", lease=store.clock() + 600)
    store.create_head(head)
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 12:
            store.append(head, [Event(artifactUpdate=artifact_of(head))], after=0)
        if len(pauses) == 14:
            store.update_head(head.with_closing_status(make_status(TaskState.COMPLETED, store.clock()), 1))

    async def followed() -> list[Event]:
        return [event async for _, event in follow_from(store, head, 0, None)]

    replace_in(follow, asyncio, monkeypatch, sleep=sleep)
    texts, ended = asyncio.run(followed())
    assert "artifactUpdate" in texts
    assert ended["statusUpdate"]["status"]["state"] == TaskState.COMPLETED
    silent, after = pauses[:12], pauses[12:]
    assert silent == sorted(silent)
    assert (silent[-1], len(set(silent[:4]))) == (SILENT_POLL_SECONDS, 4)
    assert after == [FOLLOW_POLL_SECONDS, pytest.approx(1.2 * FOLLOW_POLL_SECONDS)]


@dataclass(frozen=True)
class Case:
    """A suspended turn, a call, and whether the call follows it after a minute. timer: seconds. deadline:
    seconds, or None."""

    timer: float
    deadline: float | None
    is_followed: bool
    is_waiting: bool = False
    is_woken: bool = False


@pytest.mark.parametrize(
    "case",
    [
        Case(30, 100, True),
        Case(100, 50, False),
        Case(100, None, True),
        Case(30, 100, False, is_waiting=True),
        Case(30, 100, True, is_waiting=True, is_woken=True),
    ],
    ids=["a short pause", "a long pause", "no deadline", "a person", "a reply is on its way"],
)
def test_a_call_follows_a_suspended_turn_that_continues_in_time(
    store: Store, namespace: Namespace, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    """After a minute of silence, it no longer does. Before that, each turn is followed."""
    now = store.clock()
    monkeypatch.setattr(store, "clock", lambda: now)
    wait = StoredWait("approval", "callback", False, False)
    execution = replace(
        new_execution("https://x"),
        is_suspended=True,
        until=now + case.timer,
        waits=(wait,) if case.is_waiting else (),
        wakes=("callback",) if case.is_woken else (),
    )
    head = store.new_head(namespace, str(uuid.uuid4()), "c", make_status(TaskState.WORKING, now))
    head = replace(head, place=Place.EXECUTION, execution=execution)

    class Looked(Exception):
        pass

    async def sleep(seconds: float) -> None:
        raise Looked

    replace_in(follow, asyncio, monkeypatch, sleep=sleep)
    deadline = None if case.deadline is None else time.monotonic() + case.deadline

    def is_looked_at(silence: float) -> bool:
        suspended = replace(head, status=make_status(TaskState.WORKING, now - silence))
        try:
            asyncio.run(follow.wait_until_stopped(store, suspended, deadline))
        except Looked:
            return True
        return False

    assert is_looked_at(61) == case.is_followed
    assert is_looked_at(59)


@pytest.mark.parametrize(
    ("seconds", "looks"), [(0.5 * FOLLOW_POLL_SECONDS, 0), (1.5 * FOLLOW_POLL_SECONDS, 1)]
)
def test_a_call_that_must_end_before_the_next_look_makes_none(
    store: Store, namespace: Namespace, monkeypatch: pytest.MonkeyPatch, seconds: float, looks: int
) -> None:
    head = store.new_head(namespace, str(uuid.uuid4()), "c", make_status(TaskState.WORKING, store.clock()))
    head = replace(head, holder="a run", lease=store.clock() + 600)
    store.create_head(head)
    now, pauses = 1_000.0, list[float]()

    async def sleep(pause: float) -> None:
        nonlocal now
        now += pause
        pauses.append(pause)

    replace_in(follow, asyncio, monkeypatch, sleep=sleep)
    replace_in(follow, time, monkeypatch, monotonic=lambda: now)
    asyncio.run(follow.wait_until_stopped(store, head, now + seconds))
    assert len(pauses) == looks


def test_an_answer_whose_turn_has_ended_by_the_next_look_ends_the_wait(
    store: Store, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is stopped at both looks, but not with the same event."""
    head = create_asking(store, namespace)
    now, pauses = 1_000.0, list[float]()

    async def sleep(pause: float) -> None:
        nonlocal now
        now += pause
        pauses.append(pause)
        if len(pauses) == 1:
            store.update_head(head.with_closing_status(make_status(TaskState.COMPLETED, store.clock()), 2))

    async def read() -> list[Event]:
        return [event async for _, event in follow.follow(store, head, answer_wait_seconds=60)]

    replace_in(follow, asyncio, monkeypatch, sleep=sleep)
    replace_in(follow, time, monkeypatch, monotonic=lambda: now)
    end = asyncio.run(read())[-1]
    assert end["statusUpdate"]["status"]["state"] == TaskState.COMPLETED
    assert len(pauses) == 1


def test_nobody_waits_for_an_answer_past_the_deadline(
    store: Store, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, seconds = create_asking(store, namespace), itertools.count(1_000)

    async def sleep(_: float) -> None:
        next(seconds)

    async def read() -> list[Event]:
        return [
            event async for _, event in follow.follow(store, head, answer_wait_seconds=600, deadline=1_020.0)
        ]

    replace_in(follow, asyncio, monkeypatch, sleep=sleep)
    replace_in(follow, time, monkeypatch, monotonic=lambda: next(seconds))
    assert len(asyncio.run(read())) == 1, "the task alone"
    assert next(seconds) < 1_100


def test_a_question_whose_turn_a_timer_has_woken_is_followed(
    store: Store, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No one has answered, so the question is still the last event of the log."""
    asking = create_asking(store, namespace)
    working = make_status(TaskState.WORKING, store.clock())
    running = replace(asking.with_events_after(asking.log_end, [asking.closing_event()]), status=working)
    running = replace(running, holder="a run", lease=store.clock() + 600)
    assert running.sequence == asking.sequence
    pauses: list[float] = []

    async def sleep(pause: float) -> None:
        nonlocal running
        pauses.append(pause)
        if len(pauses) == 1:
            running = store.update_head(running)
        if len(pauses) == 2:
            store.append(running, [Event(artifactUpdate=artifact_of(running))], after=1)
        if len(pauses) == 6:
            store.update_head(running.with_closing_status(make_status(TaskState.COMPLETED, store.clock()), 2))

    async def read_looks() -> list[int]:
        return [
            len(pauses)
            async for _, event in follow.follow(store, asking, answer_wait_seconds=60)
            if "artifactUpdate" in event
        ]

    replace_in(follow, asyncio, monkeypatch, sleep=sleep)
    assert asyncio.run(read_looks()) == [2], "while the turn runs"
