"""A container that needs an unknown key waits for another one, which asks the issuer already."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from a2a_lambda.access.tokens import issuer_keys
from a2a_lambda.errors import KeysUnavailable
from a2a_lambda.store.issuer_copies import Fetch, FetchState
from tests.access.tokens.door import Door
from tests.access.tokens.identity_provider import IdentityProvider
from tests.helpers.clock import Clock


class EventfulClock(Clock):
    """events: what happens during each sleep, in order."""

    def __init__(self) -> None:
        self.now = time.time()
        self.events: list[Callable[[], object]] = []
        self.slept_seconds = 0.0

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.slept_seconds += seconds
        if self.events:
            self.events.pop(0)()


@pytest.fixture
def clock() -> EventfulClock:
    return EventfulClock()


@pytest.fixture
def fetch(door: Door, provider: IdentityProvider) -> Fetch:
    """Another container's."""
    fetch = door.copies.begin_fetch(provider.issuer(), cooldown_seconds=issuer_keys.FETCH_COOLDOWN_SECONDS)
    assert fetch is not None
    return fetch


def published_keys(provider: IdentityProvider) -> list[Any]:
    return [provider.publish(key) for key in provider.keys]


def test_a_container_uses_what_another_has_read(
    door: Door, provider: IdentityProvider, clock: EventfulClock, fetch: Fetch
) -> None:
    clock.events = [
        lambda: None,
        lambda: door.copies.finish_fetch(provider.issuer(), fetch, published_keys(provider)),
    ]
    assert door.tokens.check(provider.token()).caller.client == "robot"
    assert clock.slept_seconds == pytest.approx(2 * issuer_keys.FETCH_POLL_SECONDS)
    assert not provider.fetches


def test_a_key_that_the_other_one_did_not_find_is_refused(
    door: Door, provider: IdentityProvider, clock: EventfulClock, fetch: Fetch
) -> None:
    clock.events = [lambda: door.copies.finish_fetch(provider.issuer(), fetch, published_keys(provider))]
    assert door.refusal(provider.token({"kid": "unknown"})) == "kid"
    assert clock.slept_seconds == pytest.approx(issuer_keys.FETCH_POLL_SECONDS)


def test_a_container_that_asked_in_vain_waits_for_no_other(
    door: Door, provider: IdentityProvider, clock: EventfulClock
) -> None:
    provider.answers = False
    with pytest.raises(KeysUnavailable, match="idp does not answer"):
        door.tokens.check(provider.token())
    assert not clock.slept_seconds
    assert door.copies.read_fetch_state(provider.issuer()) == FetchState.FAILED


def test_a_waiting_container_hears_at_once_that_the_issuer_is_silent(
    door: Door, provider: IdentityProvider, clock: EventfulClock, fetch: Fetch
) -> None:
    clock.events = [lambda: door.copies.end_fetch(provider.issuer(), fetch, FetchState.FAILED)]
    with pytest.raises(KeysUnavailable, match="idp does not answer"):
        door.tokens.check(provider.token())
    assert clock.slept_seconds == pytest.approx(issuer_keys.FETCH_POLL_SECONDS)
    assert not provider.fetches


@pytest.mark.usefixtures("fetch")
def test_a_waiting_container_gives_up_after_a_while(
    door: Door, provider: IdentityProvider, clock: EventfulClock
) -> None:
    with pytest.raises(KeysUnavailable, match="idp does not answer"):
        door.tokens.check(provider.token())
    assert clock.slept_seconds == pytest.approx(
        issuer_keys.FETCH_WAIT_SECONDS, abs=issuer_keys.FETCH_POLL_SECONDS
    )
    assert not provider.fetches
