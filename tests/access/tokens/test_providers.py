"""Tokens of two providers that differ from others: Amazon Cognito's access tokens have no audience, and only
Google's tokeninfo endpoint can check Google's."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import requests
from moto import mock_aws
from werkzeug import Request

from a2a_lambda.access import issuer
from a2a_lambda.access.issuer import SUBJECT_OR_CLIENT, Issuer
from a2a_lambda.access.tokens.issuer_keys import IssuerKeys
from a2a_lambda.access.tokens.tokens import Tokens
from a2a_lambda.aws import clients
from a2a_lambda.errors import KeysUnavailable, TokenRefused
from a2a_lambda.settings import Settings
from a2a_lambda.store.issuer_copies import IssuerCopies
from a2a_lambda.store.table import Table
from tests.access.tokens.door import Open
from tests.access.tokens.identity_provider import IdentityProvider

PASSWORD = "Passw0rd!x"


@pytest.fixture
def pool() -> Iterator[dict[str, str]]:
    """What a person who has signed in gets, and of whom."""
    credentials: Any = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "eu-west-1"}
    with mock_aws():
        cognito: Any = boto3.client("cognito-idp", **credentials)
        pool = cognito.create_user_pool(PoolName="agents")["UserPool"]["Id"]
        client = cognito.create_user_pool_client(UserPoolId=pool, ClientName="app")["UserPoolClient"][
            "ClientId"
        ]
        cognito.admin_create_user(UserPoolId=pool, Username="alice")
        cognito.admin_set_user_password(UserPoolId=pool, Username="alice", Password=PASSWORD, Permanent=True)
        answer = cognito.admin_initiate_auth(
            UserPoolId=pool,
            ClientId=client,
            AuthFlow="ADMIN_USER_PASSWORD_AUTH",
            AuthParameters={"USERNAME": "alice", "PASSWORD": PASSWORD},
        )
        tokens = answer["AuthenticationResult"]
        url = f"https://cognito-idp.eu-west-1.amazonaws.com/{pool}"
        keys = requests.get(f"{url}/.well-known/jwks.json", timeout=30).json()["keys"]
        yield {"url": url, "client": client, "keys": keys, **tokens}


def test_cognitos_access_token_signs_in_and_its_id_token_does_not(pool: Any, settings: Settings) -> None:
    class Issuers:
        def find_issuers(self) -> list[Issuer]:
            return [Issuer("cognito", pool["url"], (pool["client"],))]

    copies = IssuerCopies(Table(clients.dynamodb(settings), settings.table), "/cognito")
    keys = IssuerKeys(copies, lambda issuer: pool["keys"])
    tokens = Tokens(Issuers(), keys, lambda issuer, token: pytest.fail("its keys verify"))  # type: ignore[arg-type]
    caller = tokens.check(pool["AccessToken"]).caller
    assert caller.owner == f"cognito|sub:{caller.subject}"
    assert (caller.client, caller.scopes) == (pool["client"], ("aws.cognito.signin.user.admin",))
    with pytest.raises(TokenRefused, match="ID token"):
        tokens.check(pool["IdToken"])


GOOGLE_TOKEN = "ya29.opaque"

GOOGLE_CLAIMS = {"azp": "client", "aud": "client", "sub": "117", "scope": "openid", "exp": "4000000000"}


@pytest.fixture
def google(provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> "Google":
    return Google(provider, monkeypatch)


class Google:
    """requests: what it was asked, in order. answer: status and body of what it says."""

    def __init__(self, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[Request] = []
        self.answer: tuple[int, Any] = (200, GOOGLE_CLAIMS)
        self._provider = provider
        self._url = provider.introspect(self._respond, "tokeninfo")
        monkeypatch.setattr(issuer, "TOKENINFO", self._url)

    def _respond(self, request: Request) -> tuple[int, Any]:
        self.requests.append(request)
        return self.answer

    def issuer(self, **fields: Any) -> Issuer:
        return self._provider.issuer(introspection=self._url, audiences=("client",), **fields)


def google_claims_without(name: str) -> Any:
    return {claim: value for claim, value in GOOGLE_CLAIMS.items() if claim != name}


def test_googles_access_token_opens_the_door(open_door: Open, google: Google) -> None:
    """Its times are texts, and nothing says `active`."""
    assert open_door(google.issuer()).tokens.check(GOOGLE_TOKEN).caller.owner == "idp|sub:117"
    (request,) = google.requests
    assert request.headers["Authorization"] == f"Bearer {GOOGLE_TOKEN}"
    assert not request.form


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((400, {"error": "invalid_token"}), "inactive"),
        ((401, GOOGLE_CLAIMS), "inactive"),
        ((200, {**GOOGLE_CLAIMS, "active": False}), "inactive"),
        ((200, {**GOOGLE_CLAIMS, "aud": "other"}), "audience"),
        ((200, {**GOOGLE_CLAIMS, "exp": "1"}), "expired"),
        ((200, {**GOOGLE_CLAIMS, "exp": "9" * 5000}), "form"),
        # An ID token must not pass: Google signs one for any audience that a program names.
        ((200, {**GOOGLE_CLAIMS, "iss": "https://accounts.google.com"}), "kind"),
        ((200, {**GOOGLE_CLAIMS, "alg": "RS256"}), "kind"),
        ((200, {**GOOGLE_CLAIMS, "kid": "k"}), "kind"),
        ((200, google_claims_without("scope")), "kind"),
        ((200, google_claims_without("sub")), "owner"),
    ],
)
def test_another_token_of_google_does_not(
    open_door: Open, google: Google, answer: tuple[int, Any], reason: str
) -> None:
    google.answer = answer
    for owner_claim in ("", SUBJECT_OR_CLIENT):
        assert open_door(google.issuer(owner_claim=owner_claim)).refusal(GOOGLE_TOKEN) == reason


def test_another_claim_of_googles_token_may_be_the_owner(open_door: Open, google: Google) -> None:
    """A token without the scope openid has no `sub`."""
    google.answer = (200, google_claims_without("sub"))
    door = open_door(google.issuer(owner_claim="azp"))
    assert door.tokens.check(GOOGLE_TOKEN).caller.owner == "idp|azp:client"


@pytest.mark.parametrize("answer", [(500, GOOGLE_CLAIMS), (200, []), (200, "text")])
def test_an_answer_of_google_in_another_form_opens_no_door(
    open_door: Open, google: Google, answer: tuple[int, Any]
) -> None:
    google.answer = answer
    with pytest.raises(KeysUnavailable, match="is not a JSON object"):
        open_door(google.issuer()).tokens.check(GOOGLE_TOKEN)
