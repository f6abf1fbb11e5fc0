"""Amazon Cognito, as moto has it: access tokens without an audience, and ID tokens with one."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import requests
from moto import mock_aws

from a2a_lambda.access.tokens.issuer import Issuer
from a2a_lambda.access.tokens.issuer_keys import IssuerKeys
from a2a_lambda.access.tokens.tokens import Tokens
from a2a_lambda.aws import clients
from a2a_lambda.errors import TokenRefused
from a2a_lambda.settings import Settings
from a2a_lambda.store.issuer_copies import IssuerCopies
from a2a_lambda.store.table import Table

Json = Any

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


def test_its_access_token_signs_in_and_its_id_token_does_not(pool: Json, settings: Settings) -> None:
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
