"""The copy of the keys that containers share, and the one load at a time that makes it."""

import uuid
from typing import Any

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.settings import Settings
from a2a_lambda.store import items
from a2a_lambda.store.key_copies import (
    COPY_KEPT_SECONDS,
    ISSUERS_PART,
    KEYS_PART,
    KeyCopies,
    KeyCopy,
    KeyLoad,
)
from a2a_lambda.store.table import Table
from tests.helpers.clock import Clock

ROWS: list[Any] = [["label", "0" * 64, "owner", None, [], False]]


@pytest.fixture
def table(settings: Settings, clock: Clock) -> Table:
    return Table(clients.dynamodb(settings), settings.table, clock=clock)


@pytest.fixture
def copies(table: Table) -> KeyCopies:
    return KeyCopies(table, f"/path/{uuid.uuid4()}")


def load_all(copies: KeyCopies) -> float:
    """Load the keys; returns when the load began."""
    load = copies.begin_load(seconds=10, resume=30)
    assert load is not None
    load.rows, load.pages = [*ROWS], 1
    copies.finish_load(load)
    return load.started_at


def item_of(table: Table, copies: KeyCopies, what: str) -> dict[str, Any]:
    item = table.get(items.keys_key(copies._path, what))
    assert item is not None
    return dict(item)


def test_what_was_loaded_is_shared(copies: KeyCopies, table: Table, clock: Clock) -> None:
    assert copies.read_copy() is None
    load = KeyLoad(clock.now, pages=2, rows=[*ROWS], is_of_card=True)
    assert load.as_copy() == KeyCopy(clock.now, 2, ROWS, clock.now, is_of_card=True), (
        "what its own container uses"
    )
    began = load_all(copies)
    assert copies.read_copy() == KeyCopy(began, 1, ROWS, began)
    assert int(item_of(table, copies, "copy")["expires"]["N"]) == int(clock.now) + COPY_KEPT_SECONDS
    clock.now += COPY_KEPT_SECONDS + 1
    assert copies.read_copy() is None


def test_one_container_loads_at_a_time(copies: KeyCopies, table: Table, clock: Clock) -> None:
    load = copies.begin_load(seconds=10, resume=30)
    assert load is not None
    assert int(item_of(table, copies, "load")["expires"]["N"]) == int(clock.now) + COPY_KEPT_SECONDS
    clock.now += 9
    assert copies.begin_load(seconds=10, resume=30) is None
    clock.now += 1
    other = copies.begin_load(seconds=10, resume=30)
    assert other is not None
    assert other.holder != load.holder
    copies.stop_load(load, cooldown_seconds=0)
    assert copies.begin_load(seconds=10, resume=30) is None, "the first one has lost it"
    copies.finish_load(other)
    assert copies.begin_load(seconds=10, resume=30) is not None


@pytest.mark.parametrize("resume", [29, 30])
def test_a_load_that_was_stopped_is_continued_for_a_while(
    copies: KeyCopies, clock: Clock, resume: int
) -> None:
    load = copies.begin_load(seconds=10, resume=30)
    assert load is not None
    load.page_token, load.pages, load.rows, load.part = "next", 2, [*ROWS], ISSUERS_PART
    copies.stop_load(load, cooldown_seconds=5)
    clock.now += 4
    assert copies.begin_load(seconds=10, resume=30) is None, "it rests"
    clock.now += 26
    next_load = copies.begin_load(seconds=10, resume=resume)
    assert next_load is not None
    expected = (load.started_at, 2, "next", ROWS) if resume == 30 else (clock.now, 0, "", [])
    assert (next_load.started_at, next_load.pages, next_load.page_token, next_load.rows) == expected
    assert next_load.part == (ISSUERS_PART if resume == 30 else KEYS_PART)


def test_a_load_that_was_stopped_before_its_first_page_begins_again(copies: KeyCopies, clock: Clock) -> None:
    load = copies.begin_load(seconds=10, resume=30)
    assert load is not None
    copies.stop_load(load, cooldown_seconds=1)
    clock.now += 1
    again = copies.begin_load(seconds=10, resume=30)
    assert again is not None
    assert (again.started_at, again.page_token) == (clock.now, "")


def test_an_older_load_replaces_no_newer_copy(copies: KeyCopies, clock: Clock) -> None:
    """Its container was frozen for longer than its load may take."""
    slow = copies.begin_load(seconds=10, resume=30)
    assert slow is not None
    clock.now += 11
    began = load_all(copies)
    slow.pages = 7
    copies.finish_load(slow)
    copy = copies.read_copy()
    assert copy == KeyCopy(began, 1, ROWS, began)


def test_a_load_without_issuers_says_how_old_they_are(copies: KeyCopies, clock: Clock) -> None:
    load = copies.begin_load(seconds=10, resume=30)
    assert load is not None
    load.issuers_loaded_at = clock.now - 120
    copies.finish_load(load)
    copy = copies.read_copy()
    assert copy is not None
    assert (copy.loaded_at, copy.issuers_loaded_at) == (clock.now, clock.now - 120)


def test_a_copy_from_the_future_is_replaced(copies: KeyCopies, clock: Clock) -> None:
    """A container's clock was wrong."""
    clock.now += 1_000
    load_all(copies)
    clock.now -= 1_000
    began = load_all(copies)
    copy = copies.read_copy()
    assert copy is not None
    assert copy.loaded_at == began


@pytest.mark.parametrize(
    "damage", [{"rows": {"B": b"no zlib"}}, {"version": {"N": "2"}}, {"loaded": {"S": "x"}}]
)
def test_a_copy_that_this_release_cannot_read_is_made_again(
    copies: KeyCopies, table: Table, damage: dict[str, Any]
) -> None:
    load_all(copies)
    table.put({**item_of(table, copies, "copy"), **damage}, "attribute_exists(pk)")
    assert copies.read_copy() is None


def test_a_load_that_this_release_cannot_read_begins_again(
    copies: KeyCopies, table: Table, clock: Clock
) -> None:
    load = copies.begin_load(seconds=10, resume=30)
    assert load is not None
    load.page_token, load.rows = "next", [*ROWS]
    copies.stop_load(load, cooldown_seconds=0)
    table.put({**item_of(table, copies, "load"), "version": {"N": "3"}}, "attribute_exists(pk)")
    again = copies.begin_load(seconds=10, resume=30)
    assert again is not None
    assert again.page_token == ""


def test_a_copy_of_the_first_releases_has_no_version_and_no_issuers(copies: KeyCopies, table: Table) -> None:
    load_all(copies)
    item = item_of(table, copies, "copy")
    del item["version"]
    table.put(item, "attribute_exists(pk)")
    assert copies.read_copy() is None
