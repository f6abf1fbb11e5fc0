"""A client of a test's kit, and a client of MCP for the agent with tools."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from tests.conftest import BASE_URL, new_key
from tests.http.mcp.client import Mcp
from tests.http.mcp.tool_agent import CARD, kit_of


@pytest.fixture
def client(kit: Kit) -> Iterator[TestClient]:
    """Of the kit that the test's module has."""
    with TestClient(create_app(kit), base_url=BASE_URL) as test_client:
        yield test_client


@pytest.fixture
def mcp(settings: Settings, tmp_path: Path) -> Iterator[Mcp]:
    kit = kit_of(settings, tmp_path, CARD)
    with TestClient(create_app(kit), base_url=BASE_URL) as client:
        yield Mcp(client, new_key(kit), "/mcp")
