"""Lists of tasks in the index: in shards, and of owners with very many tasks."""

from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.protocol.model import TaskState, make_status, timestamp
from a2a_lambda.settings import Settings
from a2a_lambda.store import indexes, items
from a2a_lambda.store.indexes import TaskQuery
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Namespace
from tests.helpers.clock import Clock
from tests.store.heads import head_with_configs

TASKS = 40


def store_with(settings: Settings, namespace: Namespace, list_shards: int) -> tuple[Store, list[str]]:
    """A store, and the ids of its tasks, newest first. Every fifth is in a context of its own."""
    store = Store(Table(clients.dynamodb(settings), settings.table), ttl=1_000, list_shards=list_shards)
    now = store.clock()
    ids = [f"task-{number}" for number in range(TASKS)]
    for number, task_id in enumerate(ids):
        status = make_status(TaskState.COMPLETED, now - number)
        store.create_head(store.new_head(namespace, task_id, "rare" if number % 5 == 4 else "usual", status))
    return store, ids


def walk(store: Store, namespace: Namespace, query: TaskQuery) -> tuple[list[str], int]:
    """Ids on all pages of a list, and the number of pages."""
    task_ids: list[str] = []
    for pages in range(1, 10 * TASKS):
        page = store.indexes.list_tasks(namespace, query)
        assert len(page.tasks) <= query.size
        task_ids += [task_id for task_id, _ in page.tasks]
        if not page.after:
            return task_ids, pages
        query = replace(query, after=page.after)
    raise AssertionError("the list does not end")


@pytest.mark.parametrize("list_shards", [1, 3])
def test_pages_have_every_task_once_and_in_order(
    settings: Settings, namespace: Namespace, list_shards: int
) -> None:
    store, ids = store_with(settings, namespace, list_shards)
    for size in (1, 7, 39, 40, 41):
        assert walk(store, namespace, TaskQuery(size=size))[0] == ids
        assert walk(store, namespace, TaskQuery(size=size, context_id="rare"))[0] == ids[4::5]
    since = store.get_head(namespace, ids[9])
    assert since is not None
    query = TaskQuery(size=4, since=since.status["timestamp"])
    assert walk(store, namespace, query)[0] == ids[:10]
    assert store.indexes.count_tasks(namespace, query) == 10


@pytest.mark.parametrize("list_shards", [1, 3])
def test_a_page_reads_only_so_many_tasks(
    settings: Settings, namespace: Namespace, list_shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page ends early, and the next one continues."""
    monkeypatch.setattr(indexes, "READ_LIMIT", 9)
    monkeypatch.setattr(indexes, "QUERY_LIMIT", 4)
    read: list[int] = []
    page = Table.query_page

    def counting(table: Table, query: Any) -> Any:
        answer = page(table, query)
        read.append(answer["ScannedCount"])
        return answer

    monkeypatch.setattr(Table, "query_page", counting)
    store, ids = store_with(settings, namespace, list_shards)
    first = store.indexes.list_tasks(namespace, TaskQuery(size=30, context_id="rare"))
    assert len(first.tasks) < len(ids[4::5])
    assert first.after
    assert sum(read) <= 9
    ids_listed, pages = walk(store, namespace, TaskQuery(size=30, context_id="rare"))
    assert ids_listed == ids[4::5]
    assert pages > 3
    assert walk(store, namespace, TaskQuery(size=30, context_id="absent"))[0] == []
    read.clear()
    assert store.indexes.count_tasks(namespace, TaskQuery(size=30)) == sum(read) == 9


@pytest.mark.parametrize(("query", "count"), [(TaskQuery(size=5), 6), (TaskQuery(5, context_id="rare"), 30)])
def test_a_list_of_everything_reads_one_task_more_than_a_page(
    settings: Settings, namespace: Namespace, monkeypatch: pytest.MonkeyPatch, query: TaskQuery, count: int
) -> None:
    """One of a context reads on, because few of its tasks may match."""
    monkeypatch.setattr(indexes, "QUERY_LIMIT", 30)
    limits: list[int] = []
    page = Table.query_page

    def note(table: Table, query: Any) -> Any:
        limits.append(query["Limit"])
        return page(table, query)

    monkeypatch.setattr(Table, "query_page", note)
    store, _ = store_with(settings, namespace, 1)
    store.indexes.list_tasks(namespace, query)
    assert limits[0] == count


@pytest.mark.parametrize("list_shards", [1, 3])
def test_a_page_is_full_if_there_are_enough_tasks(
    settings: Settings, namespace: Namespace, list_shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is full however few of those that are read match."""
    monkeypatch.setattr(indexes, "QUERY_LIMIT", 3)
    store, ids = store_with(settings, namespace, list_shards)
    for size in range(1, len(ids[4::5])):
        assert len(store.indexes.list_tasks(namespace, TaskQuery(size=size, context_id="rare")).tasks) == size
    for context, count in (("rare", len(ids[4::5])), ("usual", len(ids) - len(ids[4::5]))):
        last = store.indexes.list_tasks(namespace, TaskQuery(size=count, context_id=context))
        assert (len(last.tasks), last.after) == (count, ""), "no other page follows"


def test_a_task_that_the_index_has_twice_is_listed_once(
    settings: Settings, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is eventually consistent, and a change of status moves an entry."""
    store, ids = store_with(settings, namespace, 1)
    page = Table.query_page

    def late(table: Table, query: Any) -> Any:
        answer = page(table, query)
        records = answer["Items"]
        moved_record = {
            **records[-1],
            "changed": {"S": records[0]["changed"]["S"].partition("#")[0] + f"#{ids[2]}"},
        }
        return {**answer, "Items": [moved_record, *records]}

    monkeypatch.setattr(Table, "query_page", late)
    listing = store.indexes.list_tasks(namespace, TaskQuery(size=6))
    ids_listed = [task_id for task_id, _ in listing.tasks]
    assert len(ids_listed) == len(set(ids_listed)) == 6
    assert store.get_heads(namespace, [*ids_listed, ids_listed[0]]).keys() == set(ids_listed)


def test_a_list_may_get_more_shards(settings: Settings, namespace: Namespace) -> None:
    """A task of before stays in its list, also after its next change."""
    _, ids = store_with(settings, namespace, 1)
    store = Store(Table(clients.dynamodb(settings), settings.table), ttl=1_000, list_shards=4)
    for task_id in ids[::4]:
        head = store.get_head(namespace, task_id)
        assert head is not None
        store.update_head(head)
    assert walk(store, namespace, TaskQuery(size=7))[0] == ids


def test_a_place_that_is_none_is_refused(settings: Settings, namespace: Namespace) -> None:
    """A page token of a client may say anything."""
    store, ids = store_with(settings, namespace, 1)
    head = store.get_head(namespace, ids[9])
    assert head is not None
    time = head.status["timestamp"]
    for place in ("x", "x#", f"{time}#" + "x" * 2_000):
        with pytest.raises(ValueError, match="not a position in a list"):
            store.indexes.list_tasks(namespace, TaskQuery(size=5, after=place))
    with pytest.raises(ValueError, match="after the end"):
        store.indexes.list_tasks(
            namespace, TaskQuery(size=5, since=time, after="2000-01-01T00:00:00.000Z#task")
        )


def test_a_list_of_a_state_has_no_other_tasks(settings: Settings, namespace: Namespace) -> None:
    store, ids = store_with(settings, namespace, 1)
    working = store.new_head(
        namespace, "working", "usual", make_status(TaskState.WORKING, store.clock() - 5.5)
    )
    store.create_head(working)
    for state, expected in ((TaskState.WORKING, ["working"]), (TaskState.COMPLETED, ids)):
        assert walk(store, namespace, TaskQuery(size=50, state=state))[0] == expected
        assert store.indexes.count_tasks(namespace, TaskQuery(size=50, state=state)) == len(expected)


def test_a_task_that_has_expired_is_not_listed(settings: Settings, namespace: Namespace) -> None:
    """DynamoDB deletes it days later."""
    clock = Clock()
    store = Store(Table(clients.dynamodb(settings), settings.table, clock=clock), ttl=10)
    store.create_head(store.new_head(namespace, "task", "c", make_status(TaskState.COMPLETED, clock())))
    assert store.indexes.count_tasks(namespace, TaskQuery(size=5)) == 1
    clock.now += 10
    assert store.indexes.list_tasks(namespace, TaskQuery(size=5)).tasks == []
    assert store.indexes.count_tasks(namespace, TaskQuery(size=5)) == 0


def test_the_sweep_finds_what_is_due_in_every_shard(store: Store, namespace: Namespace) -> None:
    minute = int(store.clock() // 60)
    due = {f"due-{number}": minute - number % 3 for number in range(40)} | {"later": minute + 1}
    for task_id, when in due.items():
        head = store.new_head(namespace, task_id, "c", make_status(TaskState.SUBMITTED, store.clock()))
        store.create_head(replace(head, due=when))
    ids = [task_id for task_scope, task_id in store.indexes.list_due(minute) if task_scope == namespace]
    assert sorted(ids) == sorted(due.keys() - {"later"})


def test_an_agent_may_be_called_task(store: Store, namespace: Namespace) -> None:
    namespace = Namespace(namespace.owner, "task")
    minute = int(store.clock() // 60)
    head = store.new_head(namespace, "task#1", "c", make_status(TaskState.SUBMITTED, store.clock()))
    store.create_head(replace(head, due=minute))
    stored_head = store.get_head(namespace, "task#1")
    assert stored_head is not None
    assert (stored_head.namespace, stored_head.task_id) == (namespace, "task#1")
    assert (namespace, "task#1") in list(store.indexes.list_due(minute))
    assert [task_id for task_id, _ in store.indexes.list_tasks(namespace, TaskQuery(size=5)).tasks] == [
        "task#1"
    ]


def test_a_time_is_written_alike_before_and_after_the_table() -> None:
    """Otherwise, a task could be changed before it was created."""
    for seconds in (1.0004, 1.0005, 1.0006, 1_700_000_000.1606, 1_700_000_000.9996):
        assert timestamp(float(items.number(seconds)["N"])) == timestamp(seconds)


@pytest.mark.parametrize("ids", [(), ("a",), ("a", "b")])
def test_only_a_task_with_webhooks_is_for_the_notifier(ids: tuple[str, ...]) -> None:
    """The filters of template.yaml ask for `pushes`, so that no other change calls a function."""
    item = items.from_head(head_with_configs(*ids), list_shards=1)
    assert item.get("pushes") == ({"N": str(len(ids))} if ids else None)
