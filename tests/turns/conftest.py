"""A task that a run holds, in a table, and a bench for runs."""

import uuid

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import TaskState, make_status
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.turns import ending, lease
from tests.helpers.clock import Clock
from tests.turns.run_bench import RunBench


@pytest.fixture
def store(settings: Settings, clock: Clock) -> Store:
    return Store(Table(clients.dynamodb(settings), settings.table, clock=clock), ttl=86_400)


@pytest.fixture
def head(store: Store, namespace: Namespace) -> Head:
    status = make_status(TaskState.SUBMITTED, store.clock())
    new_head = store.new_head(namespace, str(uuid.uuid4()), "c", status).with_holder(store.clock())
    store.create_head(new_head)
    return new_head


@pytest.fixture
def bench(kit: Kit, settings: Settings) -> RunBench:
    return RunBench(kit, settings)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases and looks at the head twenty times as fast."""
    for module, name in (
        (lease, "LEASE_RENEWAL_SECONDS"),
        (lease, "CANCEL_POLL_SECONDS"),
        (ending, "END_RETRY_SECONDS"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name) / 20)
