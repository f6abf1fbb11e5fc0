"""Slots, which limit how many streams an owner has."""

import uuid

import pytest

from a2a_lambda.settings import Settings
from a2a_lambda.store import items
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import ConditionFailed, Table
from a2a_lambda.tasks.identity import Namespace
from tests.helpers.clock import Clock
from tests.store.calls import Calls


def test_slots_belong_to_their_holders(store: Store, clock: Clock) -> None:
    owner, until = f"owner-{uuid.uuid4()}", int(clock.now) + 60
    assert store.slots.take(owner, 1, "me", until)
    assert not store.slots.take(owner, 1, "you", until)
    assert store.slots.list(owner) == {1}
    store.slots.free(owner, 1, "you")
    store.slots.renew(owner, 1, "you", until + 600)
    clock.now = until + 1
    assert store.slots.list(owner) == set()
    assert store.slots.take(owner, 1, "you", until + 60)
    store.slots.renew(owner, 1, "you", until + 120)
    clock.now = until + 90
    assert store.slots.list(owner) == {1}
    store.slots.free(owner, 1, "you")
    assert store.slots.list(owner) == set()


def test_a_slot_has_one_holder_until_its_time_ends(
    settings: Settings, calls: Calls, clock: Clock, namespace: Namespace
) -> None:
    store = Store(Table(calls, settings.table, clock=clock), ttl=1000)  # type: ignore[arg-type]
    owner, now = namespace.owner, int(clock.now)
    assert store.slots.take(owner, 3, "one", now + 10)
    assert not store.slots.take(owner, 3, "two", now + 10)
    assert store.slots.take(owner, 4, "two", now + 10)
    assert store.slots.list(owner) == {3, 4}
    store.slots.renew(owner, 3, "one", now + 20)
    store.slots.renew(owner, 4, "one", now + 20)
    clock.now += 10
    assert store.slots.list(owner) == {3}, "the other one's time is over, and its holder alone may keep it"
    store.slots.free(owner, 3, "two")
    assert store.slots.list(owner) == {3}
    store.slots.free(owner, 3, "one")
    assert store.slots.list(owner) == set()
    assert store.slots.take(owner, 4, "three", now + 30)


def test_an_item_is_held_until_its_time(store: Store) -> None:
    take = store._table.take
    times = {"until": {"N": "20"}, "expires": {"N": "9999999999"}}
    item = {**items.keys_key(f"/{uuid.uuid4()}", "load"), **times}
    assert take(item, 10.0) is None
    assert take(item, 10.0) is None, "the answer was lost, and the client meets its own item"
    with pytest.raises(ConditionFailed):
        take({**item, "until": {"N": "21"}}, 19.9)
    assert take({**item, "until": {"N": "40"}}, 20.0) == item
