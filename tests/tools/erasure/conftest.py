"""Two owners, and an erasure of one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from a2a_lambda.aws import clients
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from tests.tools.erasure.owner import Owner
from tools.erasure.erasure import Erasure


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the cursor of an interrupted erasure is."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def erasure(settings: Settings) -> Erasure:
    return Erasure(
        clients.dynamodb(settings), settings.table, clients.s3(settings), settings.files_bucket, None
    )


@pytest.fixture
def alice(client: TestClient, kit: Kit, settings: Settings) -> Owner:
    return Owner(client, kit, settings)


@pytest.fixture
def bob(client: TestClient, kit: Kit, settings: Settings) -> Iterator[Owner]:
    """Someone whose data stays."""
    owner = Owner(client, kit, settings)
    owner.talk(contextId="shared-name")
    before = owner.rows(), owner.objects()
    yield owner
    assert (owner.rows(), owner.objects()) == before
