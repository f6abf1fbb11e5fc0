"""An identity provider, and doors that accept its tokens."""

import hashlib
import time

import pytest
from pytest_httpserver import HTTPServer

from a2a_lambda.settings import Settings
from tests.access.tokens.door import Door, Open
from tests.access.tokens.identity_provider import IdentityProvider
from tests.helpers.clock import Clock


@pytest.fixture
def provider(httpserver: HTTPServer) -> IdentityProvider:
    return IdentityProvider(httpserver)


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.now = float(int(time.time()))  # so that a second less and one more are the same time again
    return clock


@pytest.fixture
def open_door(settings: Settings, clock: Clock, request: pytest.FixtureRequest) -> Open:
    path = f"/issuers/{hashlib.sha256(request.node.name.encode()).hexdigest()[:12]}"
    return lambda *issuers: Door(settings, path, clock, *issuers)


@pytest.fixture
def door(open_door: Open, provider: IdentityProvider) -> Door:
    return open_door(provider.issuer())
