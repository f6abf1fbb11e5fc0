"""What is known of an issuer's keys, to the second."""

from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from a2a_lambda.access.issuer import Issuer
from a2a_lambda.access.tokens import issuer_keys
from a2a_lambda.access.tokens.issuer_keys import IssuerKeys
from a2a_lambda.errors import KeysUnavailable, StoreError, TokenRefused
from a2a_lambda.store.issuer_copies import IssuerCopy
from tests.access.tokens.door import Door, Open
from tests.access.tokens.identity_provider import IdentityProvider
from tests.helpers.clock import Clock


class Container:
    """One container. It counts its looks at the table, and its questions to the issuer."""

    def __init__(self, door: Door, provider: IdentityProvider) -> None:
        self.provider, self.issuer = provider, provider.issuer()
        self.jwks = [provider.publish(key) for key in provider.keys]
        self.kid, self.token = self.jwks[0]["kid"], provider.token()
        self.looks = self.fetches = 0
        self.is_silent = False
        self.keys = IssuerKeys(self, self.fetch, clock=door.clock, sleep=door.clock.sleep)  # type: ignore[arg-type]
        self._copies = door.copies

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._copies, operation)

    def read_copy(self, issuer: Issuer) -> IssuerCopy:
        self.looks += 1
        return self._copies.read_copy(issuer)

    def fetch(self, _: Issuer) -> list[Any]:
        self.fetches += 1
        if self.is_silent:
            raise KeysUnavailable("the issuer does not answer")
        return self.jwks

    def verify(self, token: str = "", kid: str = "") -> None:
        header = {"alg": "RS256", "kid": kid or self.kid}
        self.keys.verify(self.issuer, token or self.token, header)

    def reason(self, kid: str, token: str = "") -> str:
        """Why a token is refused."""
        with pytest.raises(TokenRefused) as error:
            self.verify(token, kid)
        return error.value.reason

    def has_key(self) -> bool:
        self.verify()
        return True


@pytest.fixture
def container(open_door: Open, provider: IdentityProvider, clock: Clock) -> Container:
    """It has asked the issuer now."""
    clock.now = 1_800_000_000.0
    container = Container(open_door(provider.issuer()), provider)
    assert container.has_key()
    return container


def test_the_table_is_looked_at_once_a_minute(container: Container, clock: Clock) -> None:
    looks = container.looks
    clock.now += issuer_keys.COPY_LOOK_SECONDS - 1
    assert container.has_key()
    assert container.looks == looks
    clock.now += 1
    assert container.has_key()
    assert container.looks == looks + 1


def test_a_copy_is_renewed_after_ten_minutes(container: Container, clock: Clock) -> None:
    clock.now += issuer_keys.RENEW_SECONDS - 1
    assert container.has_key()
    assert container.fetches == 1
    clock.now += issuer_keys.COPY_LOOK_SECONDS
    assert container.has_key()
    assert container.fetches == 2
    clock.now += issuer_keys.RENEW_SECONDS
    assert container.has_key()
    assert container.fetches == 3, "at ten minutes, not after them"


class UntilJoined:
    """A thread that runs only while someone waits for it."""

    def __init__(self, *, target: Any, args: Any, daemon: bool) -> None:
        self._run = partial(target, *args)

    def start(self) -> None:
        pass

    def join(self, _: float) -> None:
        self._run()


def test_a_request_waits_for_its_renewal(
    container: Container, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lambda freezes the process after the answer, so a renewal that no one waits for might never end."""
    monkeypatch.setattr(issuer_keys, "threading", SimpleNamespace(Thread=UntilJoined))
    clock.now += issuer_keys.RENEW_SECONDS
    assert container.has_key()
    assert container.read_copy(container.issuer).fetched_at == clock.now


def test_a_renewal_that_cannot_be_stored_changes_nothing(
    container: Container, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the thread would be in the log, although its caller comes in."""
    monkeypatch.setattr(issuer_keys, "threading", SimpleNamespace(Thread=UntilJoined))
    monkeypatch.setattr(container._copies, "finish_fetch", Mock(side_effect=StoreError("throttled")))
    clock.now += issuer_keys.RENEW_SECONDS
    assert container.has_key()
    assert container.fetches == 2


def test_keys_of_a_silent_issuer_are_used_for_a_day(container: Container, clock: Clock) -> None:
    container.is_silent = True
    clock.now += issuer_keys.STALE_JWKS_SECONDS - 1
    assert container.has_key()
    clock.now += 1
    with pytest.raises(KeysUnavailable):
        container.has_key()
    container.is_silent = False
    clock.now += issuer_keys.FETCH_COOLDOWN_SECONDS
    assert container.has_key(), "it answers again"


def test_an_unknown_kid_is_looked_for_again_after_five_seconds(container: Container, clock: Clock) -> None:
    clock.now += issuer_keys.FETCH_COOLDOWN_SECONDS
    assert container.reason("other") == "kid"
    looks, fetches = container.looks, container.fetches
    clock.now += issuer_keys.RELOOK_SECONDS - 1
    assert container.reason("other") == "kid"
    assert (container.looks, container.fetches) == (looks, fetches)
    clock.now += 1
    assert container.reason("other") == "kid"
    assert container.looks > looks
    assert container.fetches == fetches, "the issuer is asked less often"


def test_an_issuer_is_asked_again_after_half_a_minute(container: Container, clock: Clock) -> None:
    clock.now += issuer_keys.FETCH_COOLDOWN_SECONDS - 1
    assert container.reason("other") == "kid"
    assert container.fetches == 1
    clock.now += issuer_keys.RELOOK_SECONDS
    assert container.reason("other") == "kid"
    assert container.fetches == 2


@pytest.mark.parametrize("kid", ["known", "other"])
def test_a_flood_of_tokens_of_a_silent_issuer_asks_once_in_five_seconds(
    container: Container, clock: Clock, kid: str
) -> None:
    container.is_silent = True
    clock.now += issuer_keys.STALE_JWKS_SECONDS
    looks: list[int] = []
    for _ in range(100):
        with pytest.raises(KeysUnavailable):
            container.verify(kid="" if kid == "known" else kid)
        looks.append(container.looks)
    assert container.fetches == 2
    assert looks[-1] - looks[0] <= (100 if kid == "known" else 0)
    clock.now += issuer_keys.FETCH_COOLDOWN_SECONDS
    with pytest.raises(KeysUnavailable):
        container.verify()
    assert container.fetches == 3


def test_keys_that_another_container_has_renewed_are_used_at_once(
    container: Container, open_door: Open, clock: Clock
) -> None:
    other = Container(open_door(container.issuer), container.provider)
    assert other.has_key()
    clock.now += issuer_keys.STALE_JWKS_SECONDS
    fetch = container.begin_fetch(container.issuer, cooldown_seconds=issuer_keys.FETCH_COOLDOWN_SECONDS)
    slept: list[float] = []

    def finish(seconds: float) -> None:
        slept.append(seconds)
        container.finish_fetch(container.issuer, fetch, container.jwks)

    other.keys._sleep = finish
    assert other.has_key(), "it waits for the container that asks"
    assert slept == [issuer_keys.FETCH_POLL_SECONDS]
    assert container.has_key()
    assert (container.fetches, other.fetches) == (1, 0)


def test_forged_signatures_ask_the_issuer_once_in_half_a_minute(container: Container, clock: Clock) -> None:
    """It may have replaced the key under its id. A container looks at the table once in five seconds."""
    forged = container.token[:-6] + "AAAAAA"
    clock.now += issuer_keys.FETCH_COOLDOWN_SECONDS - 1
    looks = container.looks
    assert [container.reason(container.kid, forged) for _ in range(3)] == ["signature"] * 3
    assert (container.looks, container.fetches) == (looks + 1, 1)
    clock.now += issuer_keys.RELOOK_SECONDS
    assert [container.reason(container.kid, forged) for _ in range(3)] == ["signature"] * 3
    assert container.fetches == 2
    clock.now += issuer_keys.RELOOK_SECONDS
    assert container.reason(container.kid, forged) == "signature"
    assert container.fetches == 2
    assert container.has_key()


def test_after_a_day_the_issuer_is_waited_for(container: Container, clock: Clock) -> None:
    clock.now += issuer_keys.STALE_JWKS_SECONDS
    assert container.has_key()
    assert container.fetches == 2


def test_whether_a_check_waits_for_an_issuer(open_door: Open, provider: IdentityProvider) -> None:
    """A check that may wait must not delay the callers whose keys are known."""
    door = open_door(provider.issuer())
    token = provider.token()
    assert not door.tokens.asks_no_issuer(token), "its key was never asked for"
    door.tokens.check(token)
    assert door.tokens.asks_no_issuer(provider.token())
    assert door.tokens.asks_no_issuer("eyJ.x.y"), "it is no token, so no one is asked"
    assert not door.tokens.asks_no_issuer(provider.token({"kid": "new"}))
    assert not door.tokens.asks_no_issuer(provider.token(iss="https://other.example.com"))
    assert not door.tokens.asks_no_issuer("opaque")
    door.known.all = (provider.issuer(introspection="https://idp.example.com/introspect"),)
    assert not door.tokens.asks_no_issuer(token), "its issuer is asked about each token"
