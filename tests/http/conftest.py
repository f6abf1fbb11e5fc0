"""Clients of the probe, of the two bindings."""

import pytest
from starlette.testclient import TestClient

from tests.helpers.rest import Rest
from tests.helpers.rpc import Rpc


@pytest.fixture
def rest(client: TestClient, key: str) -> Rest:
    return Rest(client, key)


@pytest.fixture
def rpc(client: TestClient, key: str) -> Rpc:
    return Rpc(client, key, "/a2a/probe")
