"""Google's access tokens, which only its tokeninfo endpoint can check."""

from typing import Any

import pytest
from werkzeug import Request

from a2a_lambda.access.tokens import introspection
from a2a_lambda.access.tokens.issuer import Issuer
from a2a_lambda.errors import KeysUnavailable
from tests.access.tokens.door import Open
from tests.access.tokens.identity_provider import IdentityProvider

Json = Any

TOKEN = "ya29.opaque"

CLAIMS = {"azp": "client", "aud": "client", "sub": "117", "scope": "openid", "exp": "4000000000"}


@pytest.fixture
def google(provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> "Google":
    return Google(provider, monkeypatch)


class Google:
    """requests: what it was asked, in order. answer: status and body of what it says."""

    def __init__(self, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[Request] = []
        self.answer: tuple[int, Json] = (200, CLAIMS)
        self._provider = provider
        self._url = provider.introspect(self._respond, "tokeninfo")
        monkeypatch.setattr(introspection, "GOOGLE", self._url)

    def _respond(self, request: Request) -> tuple[int, Json]:
        self.requests.append(request)
        return self.answer

    def issuer(self, **fields: Any) -> Issuer:
        return self._provider.issuer(introspection=self._url, audiences=("client",), **fields)


def without(name: str) -> Json:
    return {claim: value for claim, value in CLAIMS.items() if claim != name}


def test_an_access_token_opens_the_door(open_door: Open, google: Google) -> None:
    """Times are texts there, and nothing says `active`."""
    assert open_door(google.issuer()).tokens.check(TOKEN).caller.owner == "idp|sub:117"
    (request,) = google.requests
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert not request.form


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((400, {"error": "invalid_token"}), "inactive"),
        ((401, CLAIMS), "inactive"),
        ((200, {**CLAIMS, "active": False}), "inactive"),
        ((200, {**CLAIMS, "aud": "other"}), "audience"),
        ((200, {**CLAIMS, "exp": "1"}), "expired"),
        ((200, {**CLAIMS, "exp": "9" * 5000}), "form"),
        # An ID token must not pass: Google signs one for any audience that a program names.
        ((200, {**CLAIMS, "iss": "https://accounts.google.com"}), "kind"),
        ((200, {**CLAIMS, "alg": "RS256"}), "kind"),
        ((200, {**CLAIMS, "kid": "k"}), "kind"),
        ((200, without("scope")), "kind"),
        ((200, without("sub")), "owner"),
    ],
)
def test_what_is_no_access_token_does_not(
    open_door: Open, google: Google, answer: tuple[int, Json], reason: str
) -> None:
    google.answer = answer
    assert open_door(google.issuer()).refusal(TOKEN) == reason


def test_another_claim_may_be_the_owner(open_door: Open, google: Google) -> None:
    """A token without the scope openid has no `sub`."""
    google.answer = (200, without("sub"))
    assert open_door(google.issuer(owner_claim="azp")).tokens.check(TOKEN).caller.owner == "idp|azp:client"


@pytest.mark.parametrize("answer", [(500, CLAIMS), (200, []), (200, "text")])
def test_an_answer_of_another_form_opens_no_door(
    open_door: Open, google: Google, answer: tuple[int, Json]
) -> None:
    google.answer = answer
    with pytest.raises(KeysUnavailable, match="is not a JSON object"):
        open_door(google.issuer()).tokens.check(TOKEN)
