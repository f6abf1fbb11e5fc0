"""A container of a deployment, as a caller with a token meets it."""

from collections.abc import Callable
from typing import Any

import pytest

from a2a_lambda.access.issuer import Issuer
from a2a_lambda.access.tokens.discovery import fetch_keys
from a2a_lambda.access.tokens.introspection import introspect
from a2a_lambda.access.tokens.issuer_keys import IssuerKeys
from a2a_lambda.access.tokens.tokens import Tokens
from a2a_lambda.aws import clients
from a2a_lambda.errors import TokenRefused
from a2a_lambda.settings import Settings
from a2a_lambda.store.issuer_copies import IssuerCopies
from a2a_lambda.store.table import Table
from tests.helpers.clock import Clock


class KnownIssuers:
    """What `Keys` knows of issuers, without Parameter Store."""

    def __init__(self, *issuers: Issuer) -> None:
        self.all = issuers

    def find_issuers(self) -> tuple[Issuer, ...]:
        return self.all

    def find_cached_issuers(self) -> tuple[Issuer, ...]:
        return self.all


class Door:
    """One container of a deployment."""

    def __init__(self, settings: Settings, path: str, clock: Clock, *issuers: Issuer) -> None:
        self.table = Table(clients.dynamodb(settings), settings.table, clock=clock)
        self.path = path
        self.known = KnownIssuers(*issuers)
        self.clock = clock
        self.copies = IssuerCopies(self.table, path)
        self.keys = IssuerKeys(self.copies, self.fetch, clock=clock, sleep=clock.sleep)
        self.tokens = Tokens(self.known, self.keys, self.ask, clock=clock)  # type: ignore[arg-type]

    def fetch(self, issuer: Issuer) -> list[Any]:
        return fetch_keys(issuer, allow_loopback=True)

    def ask(self, issuer: Issuer, token: str) -> Any:
        return introspect(issuer, token, {"idp-client": "hush"}.__getitem__, allow_loopback=True)

    def refusal(self, token: str) -> str:
        with pytest.raises(TokenRefused) as error:
            self.tokens.check(token)
        assert self.tokens.find_cached(token) is None
        return error.value.reason


Open = Callable[..., Door]
