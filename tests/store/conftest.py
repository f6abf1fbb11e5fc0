"""A store over a table, by either client of AWS, and a task in it."""

import uuid

import pytest

from a2a_lambda.aws import hot_path
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace
from tests.helpers.clock import Clock
from tests.store.calls import Calls
from tests.store.heads import running


@pytest.fixture(params=[False, True], ids=["lean", "botocore"])
def calls(settings: Settings, request: pytest.FixtureRequest) -> Calls:
    """Calls of either client: A2A_BOTOCORE=true changes nothing."""
    return Calls(hot_path.dynamodb(settings.model_copy(update={"botocore": request.param})))


@pytest.fixture
def store(settings: Settings, calls: Calls, clock: Clock) -> Store:
    return Store(Table(calls, settings.table, clock=clock), ttl=1000)  # type: ignore[arg-type]


@pytest.fixture
def head(store: Store, namespace: Namespace) -> Head:
    """A task as claimed."""
    new_head = running(store, namespace, str(uuid.uuid4()))
    store.create_head(new_head)
    return new_head
