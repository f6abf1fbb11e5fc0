"""Keys of issuers: what is believed, how often an issuer is asked, and what if it does not answer."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from joserfc import jwk
from werkzeug import Response

from a2a_lambda.access.issuer import Issuer
from a2a_lambda.access.tokens import documents, issuer_keys
from a2a_lambda.access.tokens.discovery import fetch_keys
from a2a_lambda.errors import IssuerUnreachable, KeysUnavailable
from a2a_lambda.store import items
from a2a_lambda.store.issuer_copies import IssuerCopy
from tests.access.tokens.door import Door, Open
from tests.access.tokens.identity_provider import AUDIENCE, IdentityProvider
from tests.helpers.clock import PATIENCE_SECONDS, Clock


def test_a_key_of_another_use_or_a_secret_one_verifies_nothing(
    door: Door, provider: IdentityProvider
) -> None:
    signing = provider.keys[0]
    public = signing.as_dict(private=False)
    for published in (
        {**public, "use": "enc"},
        {**public, "key_ops": ["encrypt"]},
        signing.as_dict(private=True),
        {**public, "kty": "oct", "k": "AAAA"},
        {**public, "n": "AQAB"},
        "key",
    ):
        provider.publish = lambda key, published=published: published  # type: ignore[method-assign,misc]
        door.clock.now += 1000
        assert door.refusal(provider.token(exp=int(door.clock.now) + 600)) == "kid"
        assert issuer_keys.count_usable(Issuer("a", provider.url, ()), [published, public]) == 1


@pytest.mark.parametrize("kid", ["shared", None])
def test_several_keys_may_have_one_id(door: Door, provider: IdentityProvider, kid: str | None) -> None:
    """RFC 7517 section 4.5. A token without an id may be of any key."""
    options: Any = {"kid": "shared"}
    provider.keys = [jwk.RSAKey.generate_key(2048, options), jwk.ECKey.generate_key("P-256", options)]
    other = jwk.RSAKey.generate_key(2048, options)

    def publish(key: Any) -> Any:
        fields = {**key.as_dict(private=False), "kid": "shared"}
        return {**fields, "alg": "RSA-OAEP"} if key is other else fields

    provider.publish = publish  # type: ignore[method-assign]
    signing = list(provider.keys)
    provider.keys.append(other)
    for key in signing:
        assert door.tokens.check(provider.token({"kid": kid}, key=key))
    assert door.refusal(provider.token({"kid": kid}, key=other)) == "signature"


def test_an_issuer_that_sends_its_keys_too_slowly_is_given_up(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece comes in time, but all of them together would not."""
    monkeypatch.setattr(documents, "DOCUMENTS_SECONDS", 0.5)
    over = threading.Event()

    def pieces() -> Iterator[bytes]:
        for _ in range(int(PATIENCE_SECONDS / 0.1)):
            if over.wait(0.1):
                return
            yield b" "

    provider.server.expect_request(f"{provider.path}/slow").respond_with_handler(lambda _: Response(pieces()))
    provider.metadata["jwks_uri"] = f"{provider.url}/slow"
    try:
        with pytest.raises(IssuerUnreachable):
            fetch_keys(provider.issuer(), allow_loopback=True)
    finally:
        over.set()


@pytest.mark.parametrize(("kid", "kind"), [("same", "RSA"), (None, "RSA"), ("same", "EC")])
def test_a_key_that_the_issuer_replaces_without_a_new_id_is_used_at_once(
    open_door: Open, provider: IdentityProvider, clock: Clock, kid: str | None, kind: str
) -> None:
    def publish(key: Any) -> Any:
        return {**key.as_dict(private=False), "kid": kid}

    provider.publish = publish  # type: ignore[method-assign]
    first, second = (open_door(provider.issuer()) for _ in range(2))
    for door in (first, second):
        door.tokens.check(provider.token({"kid": kid}))
    provider.rotate(kind)
    old = provider.keys.pop(0)
    clock.now += issuer_keys.FETCH_COOLDOWN_SECONDS
    token = provider.token({"kid": kid}, exp=int(clock.now) + 600)
    assert first.tokens.check(token)
    assert second.tokens.check(token), "it looks at what the first one has read"
    assert provider.fetches.count("/keys") == 2
    assert first.refusal(provider.token({"kid": kid}, key=old, exp=int(clock.now) + 600)) == "signature"


def test_the_shared_keys_are_read_once_in_a_period(
    door: Door, provider: IdentityProvider, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each read is a call to the table."""
    door.tokens.check(provider.token())
    reads: list[Issuer] = []
    read_copy = door.copies.read_copy

    def read(issuer: Issuer) -> IssuerCopy:
        reads.append(issuer)
        return read_copy(issuer)

    monkeypatch.setattr(door.copies, "read_copy", read)
    clock.now += issuer_keys.COPY_LOOK_SECONDS
    for seconds in (600, 601, 602):  # three tokens
        door.tokens.check(provider.token(exp=int(clock.now) + seconds))
    assert len(reads) == 1


@pytest.mark.parametrize(("alg", "name"), [("EdDSA", "Ed25519"), ("Ed25519", "EdDSA"), (None, "Ed25519")])
def test_both_names_of_eddsa_are_one_algorithm(
    door: Door, provider: IdentityProvider, alg: str | None, name: str
) -> None:
    """RFC 9864. An issuer may use one in its keys, and the other in its tokens."""
    provider.keys.clear()
    provider.rotate("OKP")
    provider.publish = lambda key: {**key.as_dict(private=False), "kid": key.kid, "alg": alg}  # type: ignore[method-assign]
    assert door.tokens.check(provider.token({"alg": name}))


@pytest.mark.parametrize("extra", [{"use": None}, {"d": None, "x5c": []}, {"key_ops": []}, {"alg": None}])
def test_what_an_issuer_does_not_say_of_a_key_may_be_null_or_empty(
    door: Door, provider: IdentityProvider, extra: Any
) -> None:
    """.NET's JsonWebKey writes it so."""
    provider.publish = lambda key: {**key.as_dict(private=False), "kid": key.kid, **extra}  # type: ignore[method-assign]
    assert door.tokens.check(provider.token())


@pytest.mark.parametrize("is_cold", [False, True])
def test_a_withdrawn_key_ends_when_the_issuer_is_asked_in_time(
    open_door: Open,
    provider: IdentityProvider,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_cold: bool,
) -> None:
    """It ends, too, in a container that has not seen a token yet."""
    monkeypatch.setattr(issuer_keys, "RENEW_WAIT_SECONDS", PATIENCE_SECONDS)
    door = open_door(provider.issuer())
    door.tokens.check(provider.token())
    provider.rotate()
    withdrawn = provider.keys.pop(0)
    clock.now += issuer_keys.RENEW_SECONDS
    if is_cold:
        door = open_door(provider.issuer())
    assert door.refusal(provider.token(key=withdrawn, exp=int(clock.now) + 600)) == "kid"


def test_a_new_key_is_used_and_a_withdrawn_one_ends(
    door: Door, provider: IdentityProvider, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewals: list[Callable[[], None]] = []

    def slow_thread(*, target: Any, args: Any, **_: Any) -> SimpleNamespace:
        """It takes longer than a caller waits."""
        return SimpleNamespace(start=lambda: renewals.append(partial(target, *args)), join=lambda _: None)

    monkeypatch.setattr(issuer_keys, "threading", SimpleNamespace(Thread=slow_thread))

    def token() -> str:
        return provider.token(exp=int(clock.now) + 600)

    door.tokens.check(token())
    clock.now += 31
    provider.rotate()
    assert door.tokens.check(token())
    old = provider.keys.pop(0)
    clock.now += issuer_keys.RENEW_SECONDS
    of_old = provider.token(key=old, exp=int(clock.now) + 600)
    door.tokens.check(of_old)  # it is known, so no one waits: the copy is renewed meanwhile
    for renew in renewals:
        renew()
    clock.now += 61
    assert door.refusal(provider.token(key=old, exp=int(clock.now) + 600)) == "kid"


def test_one_container_asks_for_all(open_door: Open, provider: IdentityProvider) -> None:
    doors = [open_door(provider.issuer()) for _ in range(5)]
    for door in doors:
        assert door.tokens.check(provider.token())
    assert provider.fetches == ["/.well-known/openid-configuration", "/keys"]


def test_a_flood_of_unknown_kids_asks_twice_a_minute(
    open_door: Open, provider: IdentityProvider, clock: Clock
) -> None:
    """20 a second, over five containers, for a minute."""
    doors = [open_door(provider.issuer()) for _ in range(5)]
    doors[0].tokens.check(provider.token())
    clock.now += 31
    provider.fetches.clear()
    for second in range(60):
        for number in range(20):
            door = doors[number % 5]
            assert (
                door.refusal(provider.token({"kid": f"k{second}-{number}"}, exp=int(clock.now) + 600))
                == "kid"
            )
        clock.now += 1
    assert provider.fetches.count("/keys") <= 2


def test_an_issuer_that_does_not_answer_keeps_its_callers_and_opens_no_door(
    door: Door, provider: IdentityProvider, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def token(**changes: Any) -> str:
        return provider.token(exp=int(clock.now) + 600, **changes)

    door.tokens.check(token())
    provider.answers = False
    for _ in range(3):
        clock.now += issuer_keys.RENEW_SECONDS
        assert door.tokens.check(token())
    with pytest.raises(KeysUnavailable):  # it may be a key of today
        door.tokens.check(token(header={"kid": "new"}))
    clock.now += issuer_keys.STALE_JWKS_SECONDS
    with pytest.raises(KeysUnavailable):
        door.tokens.check(token())
    assert "its keys that were read before still work" in caplog.text


def test_an_issuer_that_never_answered(door: Door, provider: IdentityProvider) -> None:
    provider.answers = False
    for _ in range(2):
        with pytest.raises(KeysUnavailable):
            door.tokens.check(provider.token())


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"issuer": "https://other.example"}, "names the issuer 'https://other.example'"),
        ({"issuer": "x" * 2000}, f"names the issuer '{'x' * 1000}'"),
        ({"issuer": "https://login.example/{tenantid}/v2.0"}, "write your tenant's URL"),
        ({"issuer": None}, "names no issuer"),
        ({"jwks_uri": "http://10.0.0.1/keys"}, "cannot be called"),
        ({"jwks_uri": "ftp://x/keys"}, "no jwks_uri"),
        ({"jwks_uri": 7}, "no jwks_uri"),
        ({"jwks_uri": "http://169.254.169.254/latest"}, "cannot be called"),
    ],
)
def test_metadata_is_not_believed(provider: IdentityProvider, metadata: Any, words: str) -> None:
    provider.metadata |= metadata
    with pytest.raises(KeysUnavailable, match=words):
        fetch_keys(provider.issuer(), allow_loopback=True)


def test_an_issuer_may_have_metadata_of_oauth_alone(provider: IdentityProvider) -> None:
    """RFC 8414. Its gateway answers 500 where it has nothing."""
    issuer = provider.issuer(url=provider.server.url_for("/oauth"))
    provider.server.expect_request("/oauth/.well-known/openid-configuration").respond_with_data("", 500)
    with pytest.raises(KeysUnavailable, match="has the status 500"):
        fetch_keys(issuer, allow_loopback=True)
    provider.server.expect_request("/.well-known/oauth-authorization-server/oauth").respond_with_json(
        {"issuer": issuer.url, "jwks_uri": f"{provider.url}/keys"}
    )
    assert len(fetch_keys(issuer, allow_loopback=True)) == 1


def test_redirects_are_not_followed_and_answers_are_limited(provider: IdentityProvider) -> None:
    path = f"{provider.path}/moved"
    provider.server.expect_request(path).respond_with_data("", 302, {"Location": f"{provider.url}/keys"})
    provider.metadata["jwks_uri"] = provider.server.url_for(path)
    with pytest.raises(KeysUnavailable, match="no JSON Web Key Set"):
        fetch_keys(provider.issuer(), allow_loopback=True)
    provider.metadata["padding"] = "x" * 600_000
    with pytest.raises(KeysUnavailable, match="more than 256000 bytes"):
        fetch_keys(provider.issuer(), allow_loopback=True)


def test_on_lambda_an_issuer_needs_https_and_a_public_address(provider: IdentityProvider) -> None:
    with pytest.raises(KeysUnavailable, match="must begin with https://"):
        fetch_keys(provider.issuer(private=True))
    for url in ("https://127.0.0.1:9", "https://169.254.169.254"):
        with pytest.raises(KeysUnavailable, match=r"not public.*PRIVATE=1"):
            fetch_keys(provider.issuer(url=url))


def test_a_copy_is_of_one_url(door: Door, provider: IdentityProvider) -> None:
    """An issuer that is replaced under its name brings keys of its own."""
    door.tokens.check(provider.token())
    other = Issuer("idp", "https://another.example", (AUDIENCE,))
    assert door.copies.read_copy(other).jwks == []
    item = door.table.get(items.keys_key(door.path, "jwks#idp"))
    assert item is not None


def test_a_container_that_was_frozen_replaces_no_newer_keys(door: Door, provider: IdentityProvider) -> None:
    """It does not free the issuer for a third container to ask, either."""
    slow = door.copies.begin_fetch(provider.issuer(), cooldown_seconds=30)
    assert slow is not None
    door.clock.now += 31
    fast = door.copies.begin_fetch(provider.issuer(), cooldown_seconds=30)
    assert fast is not None
    door.copies.finish_fetch(provider.issuer(), fast, ["new"])
    door.copies.finish_fetch(provider.issuer(), slow, ["old"])
    assert door.copies.read_copy(provider.issuer()).jwks == ["new"]
    assert door.copies.begin_fetch(provider.issuer(), cooldown_seconds=30) is None


def test_an_issuer_that_moves_its_keys_is_believed(
    door: Door, provider: IdentityProvider, clock: Clock
) -> None:
    """Where they were once is not asked again: others may have that place now."""
    door.tokens.check(provider.token())
    provider.server.expect_request(f"{provider.path}/moved").respond_with_handler(
        lambda request: provider._answer(request, {"keys": [provider.publish(provider.keys[-1])]})
    )
    provider.metadata["jwks_uri"] = f"{provider.url}/moved"
    provider.rotate()
    clock.now += 61
    assert door.tokens.check(provider.token(exp=int(clock.now) + 600))
    assert provider.fetches[-1] == "/moved"


@pytest.mark.parametrize(
    "changes",
    [{"typ": "JWT", "x-of-the-provider": "y" * 600}, {"typ": "application/at+jwt"}, {"typ": None}],
)
def test_fields_that_the_kit_does_not_know_are_ignored(
    door: Door, provider: IdentityProvider, changes: Any
) -> None:
    """RFC 7515 section 4."""
    assert door.tokens.check(provider.token(changes))


def test_keys_that_are_damaged_are_left_out(
    door: Door, provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the issuer, and no key."""
    good = provider.publish(provider.keys[0])
    for damaged in ({**good, "key_ops": 7}, {**good, "n": 7}, {"kty": "RSA"}, {"kty": ["RSA"]}, None):
        provider.publish = lambda key, damaged=damaged: damaged  # type: ignore[method-assign,misc]
        door.clock.now += 1000
        assert door.refusal(provider.token(exp=int(door.clock.now) + 600)) == "kid"
    [*warnings] = [line for line in caplog.messages if "cannot be used" in line]
    assert warnings
    assert all(line.startswith("a key of issuer idp cannot be used: ") for line in warnings)
    assert good["n"] not in caplog.text
    provider.publish = lambda key: {**good, "key_ops": None}  # type: ignore[method-assign]
    door.clock.now += 1000
    assert door.tokens.check(provider.token(exp=int(door.clock.now) + 600))


def test_many_callers_of_a_new_key_at_once(open_door: Open, provider: IdentityProvider) -> None:
    """Each gets in, and the issuer is asked once."""
    door = open_door(provider.issuer())
    tokens = [provider.token(sub=f"s{number}", client_id="x") for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(door.tokens.check, tokens))) == 8
    assert provider.fetches == ["/.well-known/openid-configuration", "/keys"]
