"""A run's hold on its task: what takes it, and what does not."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from a2a_lambda.errors import StoreError
from a2a_lambda.protocol.model import TaskState
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.head import LEASE_SECONDS, Head
from a2a_lambda.turns import lease
from a2a_lambda.turns.lease import LEASE_LOOK_SECONDS, Lease
from a2a_lambda.turns.recovery import load_live_head
from tests.conftest import replace_in
from tests.helpers.clock import PATIENCE_SECONDS, Clock


def get(store: Store, head: Head) -> Head:
    stored_head = store.get_head(head.namespace, head.task_id)
    assert stored_head is not None
    return stored_head


def with_trace(head: Head) -> Head:
    return replace(head, trace="changed")


@pytest.mark.parametrize("how", ["update", "update_after"])
def test_a_change_that_leaves_the_run_its_task_is_kept(store: Store, head: Head, how: str) -> None:
    """A client sets a push config meanwhile."""
    run_lease = Lease(store, head)
    store.update_head(replace(head, push_config_ids=("a",)))
    calls: list[str] = []

    async def go() -> None:
        if how == "update":
            await run_lease.update(with_trace)
        else:
            await run_lease.update_after(lambda: calls.append("called"), with_trace)

    asyncio.run(go())
    stored_head = get(store, head)
    assert (stored_head.push_config_ids, stored_head.trace) == (("a",), "changed")
    assert run_lease.head == stored_head
    assert calls == ["called"] * (how == "update_after")


@pytest.mark.parametrize("how", ["update", "update_after"])
def test_a_run_that_lost_its_task_changes_nothing(store: Store, head: Head, how: str) -> None:
    run_lease = Lease(store, head)
    other = store.update_head(replace(head, holder="another"))

    async def go() -> None:
        await (
            run_lease.update(with_trace)
            if how == "update"
            else run_lease.update_after(lambda: None, with_trace)
        )

    with pytest.raises(Conflict):
        asyncio.run(go())
    assert get(store, head) == other
    assert run_lease.head == head


def test_the_end_is_stored_and_known(store: Store, head: Head) -> None:
    run_lease = Lease(store, head)
    asyncio.run(run_lease.update_after(lambda: None, with_trace))
    assert run_lease.head == get(store, head)
    assert run_lease.head.trace == "changed"


def test_a_renewal_during_an_update_stays_known(
    store: Store, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has the update, but its answer is still on its way."""
    run_lease, update_head = Lease(store, head), store.update_head
    is_stored, is_renewed = threading.Event(), threading.Event()

    def answer_late(new_head: Head) -> Head:
        stored_head = update_head(new_head)
        if not is_stored.is_set():
            is_stored.set()
            assert is_renewed.wait(PATIENCE_SECONDS)
        return stored_head

    async def go() -> None:
        update = asyncio.create_task(run_lease.update_after(lambda: None, with_trace))
        assert await asyncio.to_thread(is_stored.wait, PATIENCE_SECONDS)
        await run_lease.update(lambda head: replace(head, lease=head.lease + 1))
        is_renewed.set()
        await update

    monkeypatch.setattr(store, "update_head", answer_late)
    asyncio.run(go())
    assert run_lease.head == get(store, head)
    assert (run_lease.head.trace, run_lease.head.lease) == ("changed", head.lease + 1)


def test_a_call_that_fails_stores_no_end(store: Store, head: Head) -> None:
    def fail() -> None:
        raise StoreError("no answer")

    run_lease = Lease(store, head)
    with pytest.raises(StoreError):
        asyncio.run(run_lease.update_after(fail, with_trace))
    assert get(store, head).trace == ""


def test_a_look_at_the_head_is_recent_enough_for_a_second(store: Store, head: Head, clock: Clock) -> None:
    run_lease = Lease(store, head)
    store.update_head(replace(head, holder="another"))
    clock.now += LEASE_LOOK_SECONDS
    asyncio.run(run_lease.check_held())
    clock.now += 0.1
    with pytest.raises(Conflict):
        asyncio.run(run_lease.check_held())


class Done(Exception):
    """The test has run its last step."""


class Beats:
    """Sleeps of the renewal. In each, a step of the test runs."""

    def __init__(self, clock: Clock, seconds: float, *steps: Callable[[], object]) -> None:
        self._clock, self._seconds, self._steps = clock, seconds, list(steps)

    async def sleep(self, seconds: float) -> None:
        assert seconds == lease.CANCEL_POLL_SECONDS
        if not self._steps:
            raise Done
        self._clock.now += self._seconds
        self._steps.pop(0)()


def renew(held: Lease, monkeypatch: pytest.MonkeyPatch, beats: Beats) -> None:
    replace_in(lease, asyncio, monkeypatch, sleep=beats.sleep)
    with suppress(Done):
        asyncio.run(held.renew_until_lost())


def test_a_lease_is_renewed_in_time(
    store: Store, head: Head, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_lease, seconds_left = Lease(store, head), list[float]()
    look = lambda: seconds_left.append(get(store, head).lease - clock.now)  # noqa: E731
    renew(run_lease, monkeypatch, Beats(clock, lease.LEASE_RENEWAL_SECONDS / 2, look, look, look, look, look))
    half = lease.LEASE_RENEWAL_SECONDS / 2
    assert seconds_left == [
        LEASE_SECONDS - half,
        LEASE_SECONDS - 2 * half,
        LEASE_SECONDS - half,
        LEASE_SECONDS - 2 * half,
        LEASE_SECONDS - half,
    ]


def test_a_renewal_ends_when_another_process_ends_the_task(
    store: Store, head: Head, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_lease = Lease(store, head)
    beats = Beats(clock, 1, lambda: store.update_head(replace(head, holder="")))
    replace_in(lease, asyncio, monkeypatch, sleep=beats.sleep)
    asyncio.run(run_lease.renew_until_lost())
    assert get(store, head).holder == "", "the renewal has not taken the task back"


def test_a_table_that_does_not_answer_ends_no_renewal(
    store: Store, head: Head, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run_lease, get_head, fails = Lease(store, head), store.get_head, [True]

    def fail_once(*arguments: object) -> object:
        if fails:
            fails.pop()
            raise StoreError("no answer")
        return get_head(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "get_head", fail_once)
    renew(run_lease, monkeypatch, Beats(clock, 1, lambda: None, lambda: store.update_head(with_trace(head))))
    assert "not renewed yet" in caplog.text
    assert run_lease.head.trace == "changed"


def test_a_renewal_that_failed_is_made_again_at_the_next_look(
    store: Store, head: Head, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_lease, update_head, fails = Lease(store, head), store.update_head, [True]

    def fail_once(new_head: Head) -> Head:
        if fails:
            fails.pop()
            raise StoreError("no answer")
        return update_head(new_head)

    monkeypatch.setattr(store, "update_head", fail_once)
    renew(run_lease, monkeypatch, Beats(clock, lease.LEASE_RENEWAL_SECONDS, *[lambda: None] * 2))
    assert get(store, head).lease == clock.now + LEASE_SECONDS


def test_who_looks_at_a_lost_task_at_the_same_moment_sees_one_end(
    store: Store, head: Head, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.now += LEASE_SECONDS + 1
    update_head, first = store.update_head, list[Head]()

    def update(newer: Head) -> Head:
        if not first:
            monkeypatch.setattr(store, "update_head", update_head)
            first.append(asyncio.run(load_live_head(store, head.namespace, head.task_id)))
        return update_head(newer)

    monkeypatch.setattr(store, "update_head", update)
    head_seen = asyncio.run(load_live_head(store, head.namespace, head.task_id))
    assert head_seen.state == TaskState.FAILED
    assert head_seen.status == first[0].status == get(store, head).status


def test_a_lease_that_has_run_out_is_not_renewed(store: Store, head: Head, clock: Clock) -> None:
    """The process was frozen meanwhile."""
    run_lease = Lease(store, head)
    clock.now = head.lease
    asyncio.run(asyncio.wait_for(run_lease.renew_until_lost(), 60))
    assert get(store, head) == head
