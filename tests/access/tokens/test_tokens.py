"""Callers who sign in at an identity provider: who they are, and who is not let in."""

import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from joserfc import jwk
from pytest_httpserver import HTTPServer

from a2a_lambda.access.tokens import issuer_keys
from a2a_lambda.access.tokens.discovery import fetch_keys
from a2a_lambda.access.tokens.issuer import Issuer
from a2a_lambda.access.tokens.tokens import KNOWN_SECONDS, MAX_TOKEN_BYTES
from a2a_lambda.errors import KeysUnavailable, TokenRefused
from a2a_lambda.store import items
from a2a_lambda.tasks.identity import Caller
from tests.access.tokens.door import Door, Open
from tests.access.tokens.identity_provider import AUDIENCE, IdentityProvider, part
from tests.helpers.clock import Clock

Json = Any


@pytest.fixture
def door(open_door: Open, provider: IdentityProvider) -> Door:
    return open_door(provider.issuer())


@pytest.mark.parametrize("kind", ["RSA", "EC", "OKP"])
def test_a_program_signs_in(door: Door, provider: IdentityProvider, kind: str) -> None:
    provider.rotate(kind)
    token = provider.token()
    grant = door.tokens.check(token)
    assert grant.caller == Caller(
        owner="idp|client:robot",
        kind="token",
        issuer="idp",
        subject="robot",
        client="robot",
        scopes=("agents.call", "agents.read"),
    )
    assert door.tokens.find_cached(token) is grant


def test_ps256(door: Door, provider: IdentityProvider) -> None:
    assert door.tokens.check(provider.token({"alg": "PS256"})).caller.client == "robot"


@pytest.mark.parametrize(
    ("claims", "owner"),
    [
        ({"sub": "alice", "client_id": "app"}, "idp|sub:alice"),
        ({"sub": "app@clients", "azp": "app", "client_id": None}, "idp|client:app"),
        ({"sub": "app", "client_id": None, "appid": "app"}, "idp|client:app"),
        ({"sub": "auth0|7/8#9%", "client_id": "app"}, "idp|sub:auth0%7C7%2F8%239%25"),
        ({"sub": "client:robot", "client_id": "app"}, "idp|sub:client%3Arobot"),
    ],
)
def test_owners(door: Door, provider: IdentityProvider, claims: Json, owner: str) -> None:
    assert door.tokens.check(provider.token(**claims)).caller.owner == owner


def test_an_owner_by_a_claim_of_the_operators(open_door: Open, provider: IdentityProvider) -> None:
    door = open_door(provider.issuer(owner_claim="oid", claims=("tid", "absent")))
    caller = door.tokens.check(provider.token(oid="o-1", tid="t-1", name="Ann")).caller
    assert (caller.owner, caller.claims) == ("idp|oid:o-1", {"tid": "t-1"})
    for wrong in (None, "", 7, ["o"], "x" * 600, "é" * 100):
        assert door.refusal(provider.token(oid=wrong)) == "owner"


def test_two_issuers_with_one_subject_are_two_owners(open_door: Open, httpserver: HTTPServer) -> None:
    one, two = IdentityProvider(httpserver), IdentityProvider(httpserver)
    door = open_door(one.issuer(), two.issuer(name="other"))
    owners = {door.tokens.check(each.token(sub="a", client_id="x")).caller.owner for each in (one, two)}
    assert owners == {"idp|sub:a", "other|sub:a"}


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "a b  a"}, ("a", "b")),
        ({"scope": None, "scp": ["a", 7, "b"]}, ("a", "b")),
        ({"scope": None, "scp": "a", "roles": ["r"], "permissions": ["p"]}, ("a", "r", "p")),
        ({"scope": None}, ()),
        ({"scope": {"a": 1}}, ()),
    ],
)
def test_scopes(door: Door, provider: IdentityProvider, claims: Json, scopes: tuple[str, ...]) -> None:
    assert door.tokens.check(provider.token(**claims)).caller.scopes == scopes


def test_a_deployment_may_require_scopes(open_door: Open, provider: IdentityProvider) -> None:
    door = open_door(provider.issuer(scopes=("agents.call", "admin")))
    with pytest.raises(TokenRefused) as refused:
        door.tokens.check(provider.token())
    assert (refused.value.reason, refused.value.scopes) == ("scope", ("agents.call", "admin"))
    assert (refused.value.issuer, refused.value.client) == ("idp", "robot")
    assert door.tokens.check(provider.token(scope="admin agents.call"))


def test_cognitos_client_stands_in_for_the_audience(open_door: Open, provider: IdentityProvider) -> None:
    door = open_door(provider.issuer(audiences=("3abc",)))
    fields: dict[str, Any] = {"aud": None, "client_id": "3abc", "sub": "3abc"}
    assert door.tokens.check(provider.token(token_use="access", **fields)).caller.owner == "idp|client:3abc"
    assert door.refusal(provider.token(token_use="id", **fields)) == "kind"
    assert door.refusal(provider.token(**fields)) == "audience"
    assert door.refusal(provider.token(token_use="access", aud=None, client_id="other")) == "audience"


def hostile() -> Iterator[Any]:
    """Tokens by name: how each is made, and the reason for which it is refused."""
    now = int(time.time())

    def add(name: str, reason: str, make: Callable[[IdentityProvider], str]) -> Any:
        return pytest.param(make, reason, id=name)

    def without_signature(
        header: Json, signature: str = "", **claims: Json
    ) -> Callable[[IdentityProvider], str]:
        return lambda idp: f"{part(header)}.{part(idp.claims(**claims))}.{signature}"

    def mac(key_of: Callable[[IdentityProvider], bytes]) -> Callable[[IdentityProvider], str]:
        def make(idp: IdentityProvider) -> str:
            text = f"{part({'alg': 'HS256', 'kid': idp.keys[-1].kid})}.{part(idp.claims())}"
            return f"{text}.{part(hmac.digest(key_of(idp), text.encode(), 'sha256'))}"

        return make

    def foreign(header: Json) -> Callable[[IdentityProvider], str]:
        """Signed by a key of the attacker's, which the header offers."""

        def make(idp: IdentityProvider) -> str:
            own = jwk.RSAKey.generate_key(2048, {"kid": idp.keys[-1].kid})
            offered = {name: value(idp, own) if callable(value) else value for name, value in header.items()}
            return idp.token(offered, own)

        return make

    attacker = "https://attacker.example/keys"
    yield add("alg none", "algorithm", without_signature({"alg": "none"}))
    yield add("alg None", "algorithm", without_signature({"alg": "None"}))
    yield add("alg absent", "algorithm", without_signature({"typ": "JWT"}))
    yield add("alg a list", "algorithm", without_signature({"alg": ["RS256"]}))
    yield add(
        "alg HS256 with the public key as PEM",
        "algorithm",
        mac(lambda idp: idp.keys[-1].as_pem(private=False)),
    )
    yield add(
        "alg HS256 with the public key as JSON",
        "algorithm",
        mac(lambda idp: json.dumps(idp.publish(idp.keys[-1])).encode()),
    )
    yield add("alg HS256 without a key", "algorithm", mac(lambda idp: b""))
    yield add("alg RS512", "algorithm", without_signature({"alg": "RS512"}, "AAAA"))
    yield add("alg ES256K", "algorithm", without_signature({"alg": "ES256K"}, "AAAA"))
    yield add(
        "alg of another key",
        "signature",
        lambda idp: without_signature({"alg": "ES256", "kid": idp.keys[-1].kid}, "AAAA")(idp),
    )
    yield add("no signature", "signature", lambda idp: idp.token().rpartition(".")[0] + ".")
    yield add(
        "signature of other claims",
        "signature",
        lambda idp: ".".join([*idp.token(sub="a").split(".")[:2], idp.token(sub="b").split(".")[2]]),
    )
    yield add(
        "claims changed",
        "signature",
        lambda idp: (
            idp.token().split(".")[0] + f".{part(idp.claims(sub='root'))}." + idp.token().split(".")[2]
        ),
    )
    yield add("signed by another key with this kid", "signature", foreign({}))
    yield add("jku", "signature", foreign({"jku": attacker}))
    yield add("x5u", "signature", foreign({"x5u": attacker}))
    yield add("jwk in the header", "signature", foreign({"jwk": lambda idp, own: own.as_dict(private=False)}))
    yield add("x5c in the header", "signature", foreign({"x5c": ["MIIB"]}))
    yield add("unknown kid", "kid", lambda idp: idp.token({"kid": "another"}))
    yield add("kid a path", "kid", lambda idp: idp.token({"kid": "../../keys"}))
    yield add("kid a number", "form", without_signature({"alg": "RS256", "kid": 7}, "AAAA"))
    yield add("crit", "form", without_signature({"alg": "RS256", "crit": ["exp"]}, "AAAA"))
    yield add("b64", "form", without_signature({"alg": "RS256", "b64": False}, "AAAA"))
    yield add("other issuer", "issuer", lambda idp: idp.token(iss="https://login.example.com"))
    yield add("issuer with a slash at its end", "issuer", lambda idp: idp.token(iss=f"{idp.url}/"))
    yield add("issuer in capitals", "issuer", lambda idp: idp.token(iss=idp.url.upper()))
    yield add("issuer a list", "issuer", lambda idp: idp.token(iss=[idp.url]))
    yield add("issuer absent", "issuer", lambda idp: idp.token(iss=None))
    yield add("audience of others", "audience", lambda idp: idp.token(aud="api://other"))
    yield add("audience of which ours is a part", "audience", lambda idp: idp.token(aud=f"{AUDIENCE}/x"))
    yield add("audience that is a part of ours", "audience", lambda idp: idp.token(aud=AUDIENCE[:-1]))
    yield add("audience list without ours", "audience", lambda idp: idp.token(aud=["a", "b"]))
    yield add("audience list in a list", "audience", lambda idp: idp.token(aud=[[AUDIENCE]]))
    yield add("audience empty", "audience", lambda idp: idp.token(aud=""))
    yield add("audience absent", "audience", lambda idp: idp.token(aud=None))
    yield add("audience an object", "audience", lambda idp: idp.token(aud={AUDIENCE: True}))
    yield add("expired", "expired", lambda idp: idp.token(exp=now - 3600))
    yield add("no exp", "expired", lambda idp: idp.token(exp=None))
    yield add("exp a text", "form", lambda idp: idp.token(exp=str(now + 600)))
    yield add("exp endless", "form", lambda idp: idp.token(exp=10**400))
    yield add("claim typ of Keycloak's ID tokens", "kind", lambda idp: idp.token({"typ": "JWT"}, typ="ID"))
    yield add("exp true", "form", lambda idp: idp.token(exp=True))
    yield add("not yet valid", "early", lambda idp: idp.token(nbf=now + 3600))
    yield add("nbf a text", "form", lambda idp: idp.token(nbf="soon"))
    yield add("typ of an ID token", "kind", lambda idp: idp.token({"typ": "id_token+jwt"}))
    yield add("typ of a logout token", "kind", lambda idp: idp.token({"typ": "logout+jwt"}))
    yield add("typ of a DPoP proof", "kind", lambda idp: idp.token({"typ": "dpop+jwt"}))
    yield add("ID token with a nonce", "kind", lambda idp: idp.token({"typ": "JWT"}, nonce="n"))
    yield add("refresh token", "kind", lambda idp: idp.token(typ="Refresh"))
    yield add("token of another use", "kind", lambda idp: idp.token(token_use="refresh_token"))
    yield add("token that is bound to a key", "kind", lambda idp: idp.token(cnf={"jkt": "x"}))
    yield add("ID token with at_hash", "kind", lambda idp: idp.token({"typ": "JWT"}, at_hash="h"))
    yield add("huge", "form", lambda idp: idp.token(padding="x" * MAX_TOKEN_BYTES))
    yield add(
        "nested",
        "form",
        lambda idp: idp.sign(
            {"alg": "RS256", "kid": idp.keys[-1].kid, "cty": "JWT"}, idp.token().encode(), idp.keys[-1]
        ),
    )
    yield add(
        "deep",
        "form",
        lambda idp: idp.sign({"alg": "RS256"}, b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}", idp.keys[-1]),
    )
    yield add(
        "duplicate claims",
        "form",
        lambda idp: idp.sign(
            {"alg": "RS256", "kid": idp.keys[-1].kid},
            json.dumps(idp.claims())[:-1].encode() + b',"sub":"root"}',
            idp.keys[-1],
        ),
    )
    yield add("claims NaN", "form", lambda idp: idp.sign({"alg": "RS256"}, b'{"exp":NaN}', idp.keys[-1]))
    yield add("claims a list", "form", lambda idp: idp.sign({"alg": "RS256"}, b"[]", idp.keys[-1]))
    yield add("not base64", "form", lambda idp: "eyJ!.e30.AAAA")
    yield add("not base64 within", "form", lambda idp: idp.token().replace(".", ".!", 1))
    yield add("padded", "form", lambda idp: "eyJhbGciOjF9Cg==.e30.AAAA")


@pytest.mark.parametrize(("make", "reason"), list(hostile()))
def test_a_hostile_token_is_refused(
    door: Door, provider: IdentityProvider, make: Callable[[IdentityProvider], str], reason: str
) -> None:
    """And causes no request but to the issuer, whose keys are known."""
    door.tokens.check(provider.token())
    asked = list(provider.fetches)
    assert door.refusal(make(provider)) == reason
    assert provider.fetches == asked


def test_a_token_of_one_issuer_is_none_of_another(open_door: Open, httpserver: HTTPServer) -> None:
    """Although both publish a key with this kid."""
    one, two = IdentityProvider(httpserver), IdentityProvider(httpserver)
    two.keys = [jwk.RSAKey.generate_key(2048, {"kid": one.keys[0].kid})]
    door = open_door(one.issuer(), two.issuer(name="other"))
    assert door.tokens.check(one.token())
    assert door.refusal(two.token(iss=one.url)) == "signature"


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


@pytest.mark.parametrize("kid", ["shared", None])
def test_several_keys_may_have_one_id(door: Door, provider: IdentityProvider, kid: str | None) -> None:
    """RFC 7517 section 4.5. A token without an id may be of any key."""
    options: Any = {"kid": "shared"}
    provider.keys = [jwk.RSAKey.generate_key(2048, options), jwk.ECKey.generate_key("P-256", options)]
    other = jwk.RSAKey.generate_key(2048, options)

    def publish(key: Any) -> Json:
        fields = {**key.as_dict(private=False), "kid": "shared"}
        return {**fields, "alg": "RSA-OAEP"} if key is other else fields

    provider.publish = publish  # type: ignore[method-assign]
    signing = list(provider.keys)
    provider.keys.append(other)
    for key in signing:
        assert door.tokens.check(provider.token({"kid": kid}, key=key))
    assert door.refusal(provider.token({"kid": kid}, key=other)) == "signature"


def test_the_skew_of_clocks_is_a_minute(door: Door, provider: IdentityProvider, clock: Clock) -> None:
    now = int(clock.now)
    clock.now = float(now)
    assert door.tokens.check(provider.token(exp=now - 59, nbf=now + 60))
    assert door.refusal(provider.token(exp=now - 60)) == "expired"
    assert door.refusal(provider.token(nbf=now + 61)) == "early"


def test_a_known_token_ends_and_goes_with_its_issuer(
    door: Door, provider: IdentityProvider, clock: Clock
) -> None:
    token = provider.token()
    door.tokens.check(token)
    clock.now += KNOWN_SECONDS - 1
    assert door.tokens.find_cached(token)
    clock.now += 1
    assert door.tokens.find_cached(token) is None
    door.tokens.check(token)
    door.known.all = (provider.issuer(agents=("weather",)),)
    assert door.tokens.find_cached(token) is None, "the issuer was changed"
    assert door.tokens.check(token).agents == ("weather",)
    door.known.all = ()
    assert door.refusal(token) == "issuer"


def test_a_new_key_is_used_and_a_withdrawn_one_ends(
    door: Door, provider: IdentityProvider, clock: Clock
) -> None:
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
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and "_renew" in thread.name:
            thread.join()
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
    door: Door, provider: IdentityProvider, clock: Clock
) -> None:
    def token(**changes: Json) -> str:
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
        ({"jwks_uri": "http://10.0.0.1/keys"}, "cannot be called"),
        ({"jwks_uri": "ftp://x/keys"}, "no jwks_uri"),
        ({"jwks_uri": 7}, "no jwks_uri"),
        ({"jwks_uri": "http://169.254.169.254/latest"}, "cannot be called"),
    ],
)
def test_metadata_is_not_believed(provider: IdentityProvider, metadata: Json, words: str) -> None:
    provider.metadata |= metadata
    with pytest.raises(KeysUnavailable, match=words):
        fetch_keys(provider.issuer(), allow_loopback=True)


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
        with pytest.raises(KeysUnavailable, match="not public"):
            fetch_keys(provider.issuer(url=url))


def test_a_copy_is_of_one_url(door: Door, provider: IdentityProvider) -> None:
    """An issuer that is replaced under its name brings keys of its own."""
    door.tokens.check(provider.token())
    other = Issuer("idp", "https://another.example", (AUDIENCE,))
    assert door.copies.read_copy(other).jwks == []
    item = door.table.get(items.keys_key(door.path, "jwks#idp"))
    assert item is not None


def test_a_container_that_was_frozen_replaces_no_newer_keys(door: Door, provider: IdentityProvider) -> None:
    """Nor does it free the issuer for a third one to ask."""
    slow = door.copies.begin_fetch(provider.issuer(), rest=30)
    assert slow is not None
    door.clock.now += 31
    fast = door.copies.begin_fetch(provider.issuer(), rest=30)
    assert fast is not None
    door.copies.finish_fetch(provider.issuer(), fast, ["new"])
    door.copies.finish_fetch(provider.issuer(), slow, ["old"])
    assert door.copies.read_copy(provider.issuer()).jwks == ["new"]
    assert door.copies.begin_fetch(provider.issuer(), rest=30) is None


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
    door: Door, provider: IdentityProvider, changes: Json
) -> None:
    """RFC 7515 section 4."""
    assert door.tokens.check(provider.token(changes))


def test_keys_that_are_damaged_are_left_out(door: Door, provider: IdentityProvider) -> None:
    good = provider.publish(provider.keys[0])
    for damaged in ({**good, "key_ops": 7}, {**good, "n": 7}, {"kty": "RSA"}, {"kty": ["RSA"]}, None):
        provider.publish = lambda key, damaged=damaged: damaged  # type: ignore[method-assign,misc]
        door.clock.now += 1000
        assert door.refusal(provider.token(exp=int(door.clock.now) + 600)) == "kid"
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
