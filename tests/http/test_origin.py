"""A deployment that answers its CDN alone."""

import hashlib
import logging
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from tests.conftest import BASE_URL, new_key
from tests.helpers.rpc import request


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@pytest.fixture
def guarded(settings: Settings) -> Kit:
    digests = f"{digest('old secret')},{digest('new secret')}"
    values = {**settings.model_dump(), "origin_digests": digests}
    return Kit(Settings.model_validate(values))


@pytest.mark.parametrize("secret", [None, "", "wrong", digest("new secret"), "ü"])
def test_requests_past_the_cdn_are_refused(
    guarded: Kit, caplog: pytest.LogCaptureFixture, secret: str | None
) -> None:
    """Cards, too; whatever key they show. The log has each, for an operator who changes the secret."""
    caplog.set_level(logging.INFO, logger="a2a_lambda")
    headers: dict[str, Any] = {"X-API-Key": new_key(guarded)}
    if secret is not None:
        headers["X-Origin-Secret"] = secret.encode("latin-1")
    with TestClient(create_app(guarded), base_url=BASE_URL) as client:
        for answer in (
            client.get("/.well-known/agent-card.json", headers=headers),
            client.post("/", json=request("tasks/get", {"id": "x"}), headers=headers),
        ):
            assert answer.status_code == 403
            assert "public address" in answer.json()["error"]["message"]
    assert caplog.messages.count("refused: -32600 NotFromOrigin") == 2


@pytest.mark.parametrize("secret", ["old secret", "new secret"])
def test_the_cdns_requests_are_served(guarded: Kit, secret: str) -> None:
    headers = {"X-Origin-Secret": secret, "X-API-Key": new_key(guarded)}
    with TestClient(create_app(guarded), base_url=BASE_URL) as client:
        assert client.get("/.well-known/agent-card.json", headers=headers).status_code == 200
        response = client.post("/", json=request("tasks/get", {"id": "x"}), headers=headers)
        assert response.json()["error"]["code"] == -32001
