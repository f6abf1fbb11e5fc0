"""How many requests an owner may make."""

import asyncio
import random
import threading
import uuid
from typing import Any

import pytest

from a2a_lambda.access import rate_limit
from a2a_lambda.access.rate_limit import RateLimit
from a2a_lambda.aws import clients
from a2a_lambda.errors import StoreError, TooManyRequests
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from tests.helpers.clock import Clock


@pytest.fixture
def store(settings: Settings, clock: Clock) -> Store:
    clock.now -= clock.now % rate_limit.WINDOW_SECONDS
    return Store(Table(clients.dynamodb(settings), settings.table, clock=clock), ttl=3600)


@pytest.fixture
def owner() -> str:
    return f"owner-{uuid.uuid4()}"


async def admitted(containers: list[RateLimit], owner: str, requests: int) -> int:
    """How many of so many requests, over so many containers, are let in."""
    count = 0
    for number in range(requests):
        try:
            await containers[number % len(containers)].admit(owner)
        except TooManyRequests:
            continue
        count += 1
    return count


def test_the_limit_holds_over_all_containers(store: Store, owner: str) -> None:
    limit, containers = 20, [RateLimit(store, 20) for _ in range(5)]
    most = limit * rate_limit.WINDOW_SECONDS
    admitted_count = asyncio.run(admitted(containers, owner, 3 * most))
    assert (
        most - rate_limit.SHARE_STEP_REQUESTS
        <= admitted_count
        <= most + rate_limit.SHARE_STEP_REQUESTS * len(containers)
    )


def test_as_many_requests_as_the_limit_are_let_in(store: Store, owner: str) -> None:
    most = rate_limit.SHARE_STEP_REQUESTS * rate_limit.WINDOW_SECONDS
    container = RateLimit(store, rate_limit.SHARE_STEP_REQUESTS)
    assert asyncio.run(admitted([container], owner, most)) == most


def test_the_limit_holds_over_many_containers_with_slow_calls(store: Store, owner: str) -> None:
    """240 containers, each of which gets eight requests in a window: 200 calls a second, of more than a
    second each. Few of a container, but many of all."""
    containers = [RateLimit(store, 50) for _ in range(240)]
    most = 50 * rate_limit.WINDOW_SECONDS
    admitted_count = asyncio.run(admitted(containers, owner, 8 * 240))
    assert most <= admitted_count <= most + 2 * 240


def test_a_high_limit_is_split_over_several_items(
    store: Store, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may meet the limit of an item a little before that of the owner."""
    monkeypatch.setattr(rate_limit, "ITEM_LIMIT", 10)
    random.seed(1)
    containers = [RateLimit(store, 40) for _ in range(20)]
    most = 40 * rate_limit.WINDOW_SECONDS
    admitted_count = asyncio.run(admitted(containers, owner, 3 * most))
    assert 0.7 * most <= admitted_count <= 1.1 * most + rate_limit.SHARE_STEP_REQUESTS * len(containers)
    counts = [store.count_requests(owner, int(store.clock() // 10), item, 1, until=0) for item in range(5)]
    assert min(counts) > 1


def test_another_owner_is_not_slowed_down(store: Store, owner: str) -> None:
    container = RateLimit(store, 1)
    assert asyncio.run(admitted([container], owner, 100)) < 100
    assert asyncio.run(admitted([container], f"{owner}-other", 10)) == 10


def test_the_next_window_is_a_new_one(store: Store, owner: str, clock: Clock) -> None:
    container = RateLimit(store, 1)
    assert asyncio.run(admitted([container], owner, 100)) < 100
    clock.now += rate_limit.WINDOW_SECONDS - 3
    with pytest.raises(TooManyRequests) as error:
        asyncio.run(container.admit(owner))
    assert error.value.headers["Retry-After"] == "3"
    clock.now += 3
    assert asyncio.run(admitted([container], owner, 10)) == 10


def test_few_requests_cost_nothing(store: Store, owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []

    def counted(*given: Any, **_: Any) -> int:
        written.append(given)
        return 1

    monkeypatch.setattr(store, "count_requests", counted)
    asyncio.run(admitted([RateLimit(store, 50)], owner, 1))
    assert written == []
    asyncio.run(admitted([RateLimit(store, 50)], owner, 3 * rate_limit.SHARE_STEP_REQUESTS))
    assert [requests for *_, requests in written] == [2, 2, 4, 8, 8]


def test_without_a_count_all_are_let_in(store: Store, owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> int:
        raise StoreError("no table")

    monkeypatch.setattr(store, "count_requests", broken)
    assert asyncio.run(admitted([RateLimit(store, 1)], owner, 100)) == 100


def test_a_refusal_is_of_its_window(store: Store, owner: str, clock: Clock) -> None:
    """The next one begins while the count of a request is shared."""
    limit = RateLimit(store, 1)
    count_requests, is_counting, may_end = store.count_requests, threading.Event(), threading.Event()

    def count_late(*arguments: Any, **options: Any) -> int:
        is_counting.set()
        may_end.wait(60)
        return count_requests(*arguments, **options) + rate_limit.WINDOW_SECONDS

    async def run() -> None:
        for _ in range(rate_limit.FIRST_SHARES[0] - 1):
            await limit.admit(owner)
        store.count_requests = count_late  # type: ignore[method-assign]
        request = asyncio.create_task(limit.admit(owner))
        assert await asyncio.to_thread(is_counting.wait, 60)
        store.count_requests = count_requests  # type: ignore[method-assign]
        clock.now += rate_limit.WINDOW_SECONDS
        await limit.admit(owner)
        may_end.set()
        with pytest.raises(TooManyRequests):
            await request
        await limit.admit(owner)

    asyncio.run(run())
