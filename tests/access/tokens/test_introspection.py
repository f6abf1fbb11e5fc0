"""Tokens that only their issuer can check: what the issuer says counts, for a minute."""

import base64
import json
import socket
import threading
from typing import Any

import pytest
from werkzeug import Request

from a2a_lambda.access.tokens import tokens
from a2a_lambda.access.tokens.documents import ISSUER_DOCUMENT_BYTES
from a2a_lambda.access.tokens.introspection import introspect
from a2a_lambda.access.tokens.tokens import KNOWN_SECONDS, MAX_TOKEN_BYTES, SILENT_SECONDS
from a2a_lambda.errors import ConfigurationError, IssuerUnreachable, KeysUnavailable
from tests.access.tokens.door import Open
from tests.access.tokens.identity_provider import AUDIENCE, IdentityProvider
from tests.helpers.clock import Clock

TOKEN = "ya29.opaque"


def claims(**changes: Any) -> Any:
    defaults = {"active": True, "aud": AUDIENCE, "sub": "alice", "client_id": "app", "scope": "agents.call"}
    return {name: value for name, value in {**defaults, **changes}.items() if value is not None}


def test_the_issuer_is_asked_once_a_minute(open_door: Open, provider: IdentityProvider, clock: Clock) -> None:
    requests: list[Request] = []

    def answer(request: Request) -> tuple[int, Any]:
        requests.append(request)
        return 200, claims(exp=int(clock.now) + 3600)

    url = provider.introspect(answer)
    door = open_door(provider.issuer(introspection=url, client="kit", secret="idp-client"))
    caller = door.tokens.check(TOKEN).caller
    assert (caller.owner, caller.client, caller.scopes) == ("idp|sub:alice", "app", ("agents.call",))
    assert dict(requests[0].form) == {"token": TOKEN, "token_type_hint": "access_token"}
    assert requests[0].headers["Authorization"] == "Basic " + base64.b64encode(b"kit:hush").decode()
    assert door.tokens.find_cached(TOKEN) is not None
    clock.now += KNOWN_SECONDS - 1
    assert door.tokens.find_cached(TOKEN) is not None
    clock.now += 1
    assert door.tokens.find_cached(TOKEN) is None
    door.tokens.check(TOKEN)
    assert provider.fetches == ["/introspect"] * 2, "and no metadata, no keys"


def test_a_token_is_not_asked_about_again_while_parameter_store_is_away(
    open_door: Open, provider: IdentityProvider, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copy is too old then to count as cached, and each request checks its token."""
    url = provider.introspect(lambda _: (200, claims(exp=int(clock.now) + 3600)))
    door = open_door(provider.issuer(introspection=url, client="kit", secret="idp-client"))
    monkeypatch.setattr(door.known, "find_cached_issuers", lambda: None)
    for _ in range(3):
        assert door.tokens.find_cached(TOKEN) is None
        assert door.tokens.check(TOKEN).caller.owner == "idp|sub:alice"
    assert len(provider.fetches) == 1
    clock.now += KNOWN_SECONDS
    door.tokens.check(TOKEN)
    assert len(provider.fetches) == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"active": False}, "inactive"),
        (claims(aud="other"), "audience"),
        (claims(aud=f"{AUDIENCE}x"), "audience"),
        (claims(aud=None, token_type="Bearer"), "audience"),
        (claims(aud=None, client_id=AUDIENCE, token_type="Bearer"), ""),
        (claims(aud=None, client_id=AUDIENCE), "kind"),
        (claims(aud=None, client_id=AUDIENCE, typ="Bearer"), ""),
        (claims(aud=None, client_id=AUDIENCE, token_use="access_token"), ""),
        (claims(iss="https://other.example.com"), "issuer"),
        (claims(exp=1), "expired"),
        (claims(exp="1"), "form"),
        (claims(exp="soon"), "form"),
        (claims(nbf=4_000_000_000), "early"),
        (claims(token_type="DPoP"), "kind"),
        (claims(token_type="refresh_token"), "kind"),
        (claims(token_type=["Bearer"]), "kind"),
        (claims(token_type="Bearer"), ""),
        (claims(token_use="id"), "kind"),
        (claims(token_use="refresh_token"), "kind"),
        (claims(token_usage="refresh_token"), "kind"),
        (claims(token_use=["id"]), "form"),
        (claims(typ=["ID"]), "form"),
        (claims(typ="Refresh"), "kind"),
        (claims(typ="Offline"), "kind"),
        (claims(cnf={"jkt": "x"}), "kind"),
        (claims(exp="9" * 5000), "form"),
        (claims(exp=None), ""),
        (claims(sub=None, client_id=None), "owner"),
        (claims(sub=None), "owner"),
        (claims(sub=17), "owner"),
        (claims(sub=""), "owner"),
        (
            {**claims(client_id=AUDIENCE, token_type="Bearer"), "aud": None, "iss": None, "cnf": None},
            "",
        ),
        (claims(client_id=AUDIENCE, aud=[], token_type="Bearer"), ""),
        (claims(client_id=AUDIENCE, aud="", token_type="Bearer"), ""),
        (claims(nonce=None), ""),
    ],
)
def test_what_the_issuer_says_is_checked(
    open_door: Open, provider: IdentityProvider, answer: Any, reason: str
) -> None:
    door = open_door(provider.issuer(introspection=provider.introspect(lambda request: (200, answer))))
    if not reason:
        door.tokens.check(TOKEN)
        return
    assert door.refusal(TOKEN) == reason
    assert door.refusal(TOKEN) == reason
    assert provider.fetches == ["/introspect"], "a refusal is remembered, too"


def test_a_refusal_ends_with_a_minute_or_with_the_operators_next_change(
    open_door: Open, provider: IdentityProvider, clock: Clock
) -> None:
    url = provider.introspect(lambda request: (200, claims(aud="other")))
    issuer = provider.issuer(introspection=url)
    door = open_door(issuer)
    door.refusal(TOKEN)
    clock.now += KNOWN_SECONDS - 1
    door.refusal(TOKEN)
    assert len(provider.fetches) == 1
    clock.now += 1
    door.refusal(TOKEN)
    assert len(provider.fetches) == 2
    door.known.all = (provider.issuer(introspection=url, audiences=("other",)),)
    assert door.tokens.check(TOKEN).caller.subject == "alice"


def test_a_missing_scope_is_told_each_time(open_door: Open, provider: IdentityProvider) -> None:
    url = provider.introspect(lambda request: (200, claims()))
    door = open_door(provider.issuer(introspection=url, scopes=("agents.admin",)))
    assert [door.refusal(TOKEN) for _ in range(2)] == ["scope", "scope"]


def test_where_an_issuer_is_asked_its_signature_counts_for_nothing(
    open_door: Open, provider: IdentityProvider
) -> None:
    """Google signs ID tokens for any audience that a program names."""
    url = provider.introspect(lambda request: (200, {"active": False}))
    door = open_door(provider.issuer(introspection=url))
    assert door.refusal(provider.token()) == "inactive"
    assert not door.tokens.asks_no_issuer(provider.token()), "it waits for the issuer"
    assert not door.tokens.asks_no_issuer(TOKEN)


def test_an_issuer_may_refuse_the_question(open_door: Open, provider: IdentityProvider) -> None:
    url = provider.introspect(lambda request: (400, {"error": "invalid_request", "active": True}))
    assert open_door(provider.issuer(introspection=url)).refusal(TOKEN) == "inactive"


def test_only_an_issuer_that_can_be_asked_is_asked(open_door: Open, provider: IdentityProvider) -> None:
    door = open_door(provider.issuer())
    assert door.refusal(TOKEN) == "inactive"
    assert door.refusal("x" * (MAX_TOKEN_BYTES + 1)) == "form"
    assert provider.fetches == []


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((401, {}), "check CLIENT and SECRET"),
        ((429, {}), "429"),
        ((502, claims()), "502"),
        ((503, {}), "503"),
    ],
)
def test_an_issuer_that_fails_opens_no_door_and_is_not_asked_again_soon(
    open_door: Open, provider: IdentityProvider, clock: Clock, said: tuple[int, Any], words: str
) -> None:
    door = open_door(provider.issuer(introspection=provider.introspect(lambda request: said)))
    with pytest.raises(KeysUnavailable, match=words):
        door.tokens.check(TOKEN)
    with pytest.raises(KeysUnavailable, match="a moment ago"):
        door.tokens.check(f"{TOKEN}2")
    assert len(provider.fetches) == 1
    clock.now += SILENT_SECONDS
    with pytest.raises(KeysUnavailable, match=words):
        door.tokens.check(TOKEN)
    assert len(provider.fetches) == 2, "it may answer again"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((403, {}), "check CLIENT and SECRET"),
        ((302, {}), "302"),
        ((413, {}), "413"),
        ((500, claims()), "500"),
        ((200, []), "no `active`"),
        ((200, {}), "no `active`"),
        ((200, {"active": "true"}), "no `active`"),
        ((200, claims(active=None)), "no `active`"),
        ((200, "x" * 300_000), "more than"),
    ],
)
def test_a_token_that_its_issuer_does_not_understand_keeps_out_no_other(
    open_door: Open, provider: IdentityProvider, clock: Clock, said: tuple[int, Any], words: str
) -> None:
    def answer(request: Request) -> tuple[int, Any]:
        return said if request.form["token"] == TOKEN else (200, claims())

    door = open_door(provider.issuer(introspection=provider.introspect(answer)))
    with pytest.raises(KeysUnavailable, match=words):
        door.tokens.check(TOKEN)
    assert door.tokens.check(f"{TOKEN}2").caller.subject
    with pytest.raises(KeysUnavailable, match="about it a moment ago"):
        door.tokens.check(TOKEN)
    assert len(provider.fetches) == 2
    clock.now += SILENT_SECONDS
    with pytest.raises(KeysUnavailable, match=words):
        door.tokens.check(TOKEN)
    assert len(provider.fetches) == 3, "it may answer now"


def test_on_lambda_the_endpoint_needs_https_and_a_public_address(provider: IdentityProvider) -> None:
    url = provider.introspect(lambda request: (200, claims()))
    with pytest.raises(KeysUnavailable, match="must begin with https://"):
        introspect(provider.issuer(introspection=url), TOKEN, str)
    with pytest.raises(IssuerUnreachable, match="its address is not public"):
        introspect(provider.issuer(introspection=url.replace("http://", "https://")), TOKEN, str)
    assert provider.fetches == []


def test_a_secret_that_is_not_set_says_how(provider: IdentityProvider) -> None:
    def find_secret(name: str) -> str:
        raise ConfigurationError(f"there is no secret {name!r}. Set it: make secret NAME={name}")

    issuer = provider.issuer(introspection="https://x", client="kit", secret="okta")
    with pytest.raises(KeysUnavailable, match="make secret NAME=okta"):
        introspect(issuer, TOKEN, find_secret)


def test_only_one_issuer_is_asked_about_opaque_tokens(open_door: Open, provider: IdentityProvider) -> None:
    """A second one would get tokens that are not its own, and could use them."""
    other: list[Request] = []

    def answer(request: Request) -> tuple[int, Any]:
        other.append(request)
        return 200, claims()

    first = provider.issuer(introspection=provider.introspect(lambda request: (200, {"active": False})))
    second = provider.issuer(name="b", url="https://b", introspection=provider.introspect(answer, "other"))
    assert open_door(provider.issuer(name="jwts"), first, second).refusal(TOKEN) == "inactive"
    assert not other


@pytest.mark.parametrize("token", ["a b", "a\x0bb", "a\nb", "ä", ""])
def test_what_no_token_has_is_refused_and_not_sent(
    open_door: Open, provider: IdentityProvider, token: str
) -> None:
    door = open_door(provider.issuer(introspection=provider.introspect(lambda request: (200, claims()))))
    assert door.refusal(token) == "form"
    assert provider.fetches == []


def test_the_client_that_asks_is_encoded(provider: IdentityProvider) -> None:
    """RFC 6749 section 2.3.1."""
    headers: list[str] = []

    def answer(request: Request) -> tuple[int, Any]:
        headers.append(base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode())
        return 200, claims()

    issuer = provider.issuer(introspection=provider.introspect(answer), client="a:b", secret="x")
    introspect(issuer, TOKEN, lambda name: "p%2+w", allow_loopback=True)
    assert headers == ["a%3Ab:p%252%2Bw"]


@pytest.mark.parametrize(("more", "is_asked_about"), [(0, True), (1, False)])
def test_a_token_has_a_longest_length(
    open_door: Open, provider: IdentityProvider, *, more: int, is_asked_about: bool
) -> None:
    door = open_door(provider.issuer(introspection=provider.introspect(lambda request: (400, {}))))
    reason = door.refusal("x" * (MAX_TOKEN_BYTES + more))
    assert reason == ("inactive" if is_asked_about else "form")
    assert bool(provider.fetches) == is_asked_about
    header = "eyJhbGciOiJSUzI1NiJ9"
    claims_of_no_issuer = "e30."
    signature = "x" * (MAX_TOKEN_BYTES + more - len(f"{header}.{claims_of_no_issuer}"))
    assert door.refusal(f"{header}.{claims_of_no_issuer}{signature}") == (
        "issuer" if is_asked_about else "form"
    )


def test_a_container_forgets_when_it_has_seen_very_many(
    open_door: Open, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "KNOWN_TOKENS", 2)
    url = provider.introspect(lambda request: (200, claims(active="bad" not in request.form["token"])))
    door = open_door(provider.issuer(introspection=url))
    for token, fetches in (("a", 1), ("b", 2), ("a", 2), ("c", 3)):
        if door.tokens.find_cached(token) is None:
            door.tokens.check(token)
        assert len(provider.fetches) == fetches, token
    assert door.tokens.find_cached("a") is None
    assert door.tokens.find_cached("c") is not None
    provider.fetches.clear()
    for token, fetches in (("bad 1", 1), ("bad 2", 2), ("bad 1", 2), ("bad 3", 3), ("bad 1", 4)):
        assert door.refusal(token.replace(" ", "")) == "inactive"
        assert len(provider.fetches) == fetches, token


@pytest.mark.parametrize(("more", "is_read"), [(0, True), (1, False)])
def test_an_answer_has_a_largest_size(
    open_door: Open, provider: IdentityProvider, *, more: int, is_read: bool
) -> None:
    size = ISSUER_DOCUMENT_BYTES - len(json.dumps({"active": False, "pad": ""}))
    answer = {"active": False, "pad": "x" * (size + more)}
    door = open_door(provider.issuer(introspection=provider.introspect(lambda request: (200, answer))))
    if is_read:
        assert door.refusal(TOKEN) == "inactive"
        return
    with pytest.raises(KeysUnavailable, match="more than"):
        door.tokens.check(TOKEN)


@pytest.mark.parametrize("first_lines", ["HTTP/1.1 200 OK\r\nX-Form %s", "%s", "HTTP/1.1 20%s OK"])
def test_an_error_quotes_no_answer_that_has_the_token(
    open_door: Open, provider: IdentityProvider, first_lines: str
) -> None:
    """A broken proxy sends such an answer. A log has the text of this error."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def respond() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(f"{first_lines % TOKEN}\r\n\r\n".encode())

        thread = threading.Thread(target=respond)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        door = open_door(provider.issuer(introspection=url))
        with pytest.raises(KeysUnavailable, match=r"^issuer idp: it cannot be called: RemoteProtocolError$"):
            door.tokens.check(TOKEN)
        thread.join()
