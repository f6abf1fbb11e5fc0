"""Callers who sign in at an identity provider: who they are, and who is not let in."""

import base64
import hmac
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from joserfc import jwk
from pytest_httpserver import HTTPServer

from a2a_lambda.access.tokens.tokens import KNOWN_SECONDS, MAX_TOKEN_BYTES
from a2a_lambda.errors import TokenRefused
from a2a_lambda.protocol.caller import Caller
from tests.access.tokens.door import Door, Open
from tests.access.tokens.identity_provider import AUDIENCE, IdentityProvider, part
from tests.helpers.clock import Clock


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
def test_owners(door: Door, provider: IdentityProvider, claims: Any, owner: str) -> None:
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
def test_scopes(door: Door, provider: IdentityProvider, claims: Any, scopes: tuple[str, ...]) -> None:
    assert door.tokens.check(provider.token(**claims)).caller.scopes == scopes


def test_a_deployment_may_require_scopes(open_door: Open, provider: IdentityProvider) -> None:
    door = open_door(provider.issuer(scopes=("agents.call", "admin")))
    with pytest.raises(TokenRefused) as error:
        door.tokens.check(provider.token())
    assert (error.value.reason, error.value.scopes) == ("scope", ("agents.call", "admin"))
    assert (error.value.issuer, error.value.client) == ("idp", "robot")
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
        header: Any, signature: str = "", **claims: Any
    ) -> Callable[[IdentityProvider], str]:
        return lambda idp: f"{part(header)}.{part(idp.claims(**claims))}.{signature}"

    def mac(key_of: Callable[[IdentityProvider], bytes]) -> Callable[[IdentityProvider], str]:
        def make(idp: IdentityProvider) -> str:
            text = f"{part({'alg': 'HS256', 'kid': idp.keys[-1].kid})}.{part(idp.claims())}"
            return f"{text}.{part(hmac.digest(key_of(idp), text.encode(), 'sha256'))}"

        return make

    def foreign(header: Any) -> Callable[[IdentityProvider], str]:
        """Signed by a key of the attacker's, which the header offers."""

        def make(idp: IdentityProvider) -> str:
            own = jwk.RSAKey.generate_key(2048, {"kid": idp.keys[-1].kid})
            full_header = {
                name: value(idp, own) if callable(value) else value for name, value in header.items()
            }
            return idp.token(full_header, own)

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
    yield add("Keycloak's logout token", "kind", lambda idp: idp.token({"typ": "JWT"}, typ="Logout"))
    yield add("logout token", "kind", lambda idp: idp.token({"typ": "JWT"}, events={"logout": {}}))
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
    """It causes no request but to the issuer, whose keys are known."""
    door.tokens.check(provider.token())
    fetches = list(provider.fetches)
    assert door.refusal(make(provider)) == reason
    assert provider.fetches == fetches


@pytest.mark.parametrize("white_space", [" ", "\n  ", "\t"])
def test_a_header_may_be_written_with_white_space(
    door: Door, provider: IdentityProvider, white_space: str
) -> None:
    header, claims, _ = provider.token().split(".")
    text = base64.urlsafe_b64decode(header + "==").decode().replace("{", "{" + white_space)
    payload = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    signature = provider.keys[-1].private_key.sign(
        f"{payload}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256()
    )
    assert door.tokens.check(f"{payload}.{claims}.{part(signature)}")


def test_claims_that_are_null_are_absent(door: Door, provider: IdentityProvider) -> None:
    claims = {**provider.claims(), "cnf": None, "nonce": None}
    header = {"alg": "RS256", "kid": provider.keys[-1].kid}
    assert door.tokens.check(provider.sign(header, json.dumps(claims).encode(), provider.keys[-1]))


@pytest.mark.parametrize(
    "extra",
    [{"jku": None}, {"jku": "x"}, {"x5u": 7}, {"x5c": "MIIB"}, {"jwk": "x"}, {"cty": 1}, {"typ": None}],
)
def test_what_a_token_says_about_its_key_is_ignored(
    door: Door, provider: IdentityProvider, extra: Any
) -> None:
    header = {"alg": "RS256", "kid": provider.keys[-1].kid, **extra}
    claims = json.dumps(provider.claims()).encode()
    assert door.tokens.check(provider.sign(header, claims, provider.keys[-1]))


def test_a_key_that_its_issuer_has_for_another_algorithm_verifies_nothing(
    door: Door, provider: IdentityProvider
) -> None:
    """RFC 8725 section 3.1."""
    provider.rotate("OKP")
    provider.publish = lambda key: {**key.as_dict(private=False), "kid": key.kid, "alg": "PS256"}  # type: ignore[method-assign]
    assert door.refusal(provider.token()) == "signature"


def test_a_token_of_one_issuer_is_none_of_another(open_door: Open, httpserver: HTTPServer) -> None:
    """Both issuers publish a key with this kid."""
    one, two = IdentityProvider(httpserver), IdentityProvider(httpserver)
    two.keys = [jwk.RSAKey.generate_key(2048, {"kid": one.keys[0].kid})]
    door = open_door(one.issuer(), two.issuer(name="other"))
    assert door.tokens.check(one.token())
    assert door.refusal(two.token(iss=one.url)) == "signature"


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
