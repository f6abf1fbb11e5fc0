import uuid
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from a2a_lambda.aws import clients
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.push import delivery
from a2a_lambda.settings import Settings
from tests.conftest import BASE_URL, new_key
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rest import Rest
from tests.push.courier import Courier, Webhook
from tools.dev import event_sources


@pytest.fixture(autouse=True)
def deliver_patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a notice that failed would come again while others are delivered, and a delivery
    would leave its rest to the next one."""
    monkeypatch.setattr(delivery, "NOTICE_POSTPONE_SECONDS", 600)
    monkeypatch.setattr(delivery, "DELIVERY_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    receiver = Webhook()
    yield receiver
    receiver.close()


@pytest.fixture
def posting(settings: Settings) -> Kit:
    """The probe, with queues and webhooks in one's own network."""
    queues = event_sources.create_queues(clients.sqs(settings), f"notices-{uuid.uuid4().hex[:8]}")
    return Kit(settings.model_copy(update={"notices": queues.notices, "loopback_webhooks": True}))


@pytest.fixture
def rest(posting: Kit) -> Rest:
    return Rest(TestClient(create_app(posting), base_url=BASE_URL), new_key(posting))


@pytest.fixture
def courier(posting: Kit) -> Courier:
    return Courier(posting)
