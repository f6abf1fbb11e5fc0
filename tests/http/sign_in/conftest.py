"""A deployment with agents of which each says who calls it."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from starlette.testclient import TestClient

from a2a_lambda.access.issuer import Issuer
from a2a_lambda.aws import hot_path
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from tests.access.tokens.identity_provider import IdentityProvider
from tests.conftest import BASE_URL, forget
from tests.http.sign_in.calls import Accept
from tools.registers.issuers import IssuerRegister

AGENT = """
import dataclasses
from a2a_lambda import Turn, skill

@skill
def who(turn: Turn):
    return dataclasses.asdict(turn.caller)
"""


CARD = "name: {name}\ndescription: D.\nversion: 0.1.0\nskills: [{{ id: who, name: Who, description: W. }}]\n"


@pytest.fixture
def provider(httpserver: HTTPServer) -> IdentityProvider:
    return IdentityProvider(httpserver)


@pytest.fixture
def kit(settings: Settings, tmp_path: Path) -> Kit:
    """A deployment with keys and issuers of its own. Agent `strict` needs a scope; `hidden` has no public
    card."""
    for name, more in (
        ("who", "default: true\ncapabilities: { streaming: true, pushNotifications: true }\n"),
        ("strict", "scopes: [agents.admin]\n"),
        ("hidden", "public: false\n"),
    ):
        folder = tmp_path / "agents" / name
        folder.mkdir(parents=True)
        (folder / "agent.py").write_text(AGENT)
        (folder / "card.yaml").write_text(CARD.format(name=name) + more)
    path = f"/{uuid.uuid4().hex}/keys"
    return Kit(settings.model_copy(update={"agents": tmp_path / "agents", "keys_path": path}))


@pytest.fixture
def client(kit: Kit) -> Iterator[TestClient]:
    with TestClient(create_app(kit), base_url=BASE_URL) as test_client:
        yield test_client


@pytest.fixture
def accept(kit: Kit) -> Accept:
    def accept(issuer: Issuer) -> None:
        IssuerRegister(hot_path.ssm(kit.settings), kit.settings.keys_path).add(issuer)
        forget(kit)

    return accept
