"""A task that a run holds, in a table."""

import uuid

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.protocol.model import TaskState, status
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Scope
from tests.helpers.clock import Clock


@pytest.fixture
def store(settings: Settings, clock: Clock) -> Store:
    return Store(clients.dynamodb(settings), settings.table, ttl=86_400, clock=clock)


@pytest.fixture
def head(store: Store, scope: Scope) -> Head:
    submitted = status(TaskState.SUBMITTED, store.clock())
    new_head = store.new_head(scope, str(uuid.uuid4()), "c", submitted).with_holder(store.clock())
    store.create_head(new_head)
    return new_head
