"""The store's promises, each against a real conditional write."""

import base64
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from a2a_lambda import telemetry
from a2a_lambda.aws import clients
from a2a_lambda.errors import StoreError
from a2a_lambda.protocol.model import (
    Part,
    TaskPushNotificationConfig,
    TaskState,
    make_status,
    unix_time,
)
from a2a_lambda.settings import Settings
from a2a_lambda.store import items
from a2a_lambda.store import store as store_module
from a2a_lambda.store import table as store_table
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.context import CONVERSATION_BYTES, Context, Put, TurnRecord
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import KnownRequest, Namespace
from a2a_lambda.tasks.push_registration import Cursor, PushRegistration
from tests.conftest import replace_in
from tests.helpers.clock import Clock
from tests.store.calls import Calls
from tests.store.heads import ended, head_with_configs, read, running, said
from tests.tasks.examples import chunk


def test_every_read_is_of_what_was_written_last(store: Store, calls: Calls, head: Head) -> None:
    reads = []

    def note(operation: str, arguments: dict[str, Any]) -> None:
        if operation in ("query", "get_item") and "IndexName" not in arguments:
            reads.append(arguments.get("ConsistentRead"))

    calls.before = note
    store.get_task(head)
    store.get_head(head.namespace, head.task_id)
    store.get_context(head.namespace, head.context_id)
    assert len(reads) >= 3
    assert set(reads) == {True}


def test_every_call_is_counted(store: Store, head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that DynamoDB refuses is counted, too."""
    counts: list[dict[str, int]] = []
    monkeypatch.setattr(telemetry, "measure", lambda values, **_: counts.append(values))
    store.get_head(head.namespace, head.task_id)
    with pytest.raises(Conflict):
        store.create_head(running(store, head.namespace, head.task_id))
    assert counts == [{"DynamoDBCalls": 1}] * 2


def test_a_head_is_read_back_as_it_was_stored(store: Store, head: Head) -> None:
    assert read(store, head) == head


def test_a_second_claim_meets_the_first(store: Store, head: Head) -> None:
    with pytest.raises(Conflict) as error:
        store.create_head(running(store, head.namespace, head.task_id))
    assert error.value.head == head


def test_another_owner_or_agent_has_no_such_task(store: Store, head: Head) -> None:
    assert store.get_head(Namespace("another-owner", head.namespace.agent), head.task_id) is None
    assert store.get_head(Namespace(head.namespace.owner, "another"), head.task_id) is None


def test_an_expired_task_is_absent_and_its_id_starts_anew(store: Store, head: Head, clock: Clock) -> None:
    store.append(head, [chunk("old")], after=1)
    clock.now = head.expires
    assert store.get_head(head.namespace, head.task_id) is None
    again = running(store, head.namespace, head.task_id)
    store.create_head(again)
    assert said(store, again) == ""


def test_each_update_is_the_next_version(store: Store, head: Head) -> None:
    assert store.update_head(head).version == head.version + 1
    assert read(store, head).version == head.version + 1


def test_a_context_outlives_its_longest_turn(
    settings: Settings, namespace: Namespace, calls: Calls, clock: Clock
) -> None:
    """A count of requests outlives its window, by less than two seconds."""
    store = Store(Table(calls, settings.table, clock=clock), ttl=1000, execution_seconds=500)  # type: ignore[arg-type]
    expiries: list[int] = []

    def note(operation: str, arguments: dict[str, Any]) -> None:
        values: Any = arguments.get("Item") or arguments["ExpressionAttributeValues"]
        expiries.append(int((values.get("expires") or values[":expires"])["N"]))

    calls.before = note
    store.update_context(namespace, "c", Context(), lambda context: replace(context, memory={"a": 1}))
    assert expiries == [int(clock.now) + 1500]
    store.count_requests(namespace.owner, 1, 1, 1, until=clock.now + 7)
    assert clock.now + 7 < expiries[1] < clock.now + 9


def test_a_context_is_stored_with_all_that_it_has(store: Store, namespace: Namespace) -> None:
    record = TurnRecord(
        turn_id="b",
        task_id="t",
        message=[Part(text="x" * (CONVERSATION_BYTES + 1))],
        reply=[],
        changes=[Put("a", 1)],
        answered=[KnownRequest(key="k", body="b", task="t", at=1.0)],
    )
    failure = replace(record, turn_id="a", message=[Part(text="hi")], was_ended_by_skill=False)
    context = replace(Context().after(failure).after(record), asking_task_id="t")
    assert all([context.memory, context.conversation])
    assert all([context.turns, context.failed_turns, context.omitted_turns])
    store.update_context(namespace, "c", Context(), lambda _: context)
    assert store.get_context(namespace, "c") == replace(context, revision=1)


def test_expiry_is_fixed_at_creation(store: Store, head: Head, clock: Clock) -> None:
    clock.now += 500
    assert store.update_head(head).expires == head.expires


def test_a_stale_version_changes_nothing(store: Store, head: Head) -> None:
    newer = store.update_head(ended(head))
    with pytest.raises(Conflict) as error:
        store.update_head(head)
    assert error.value.head == newer
    assert read(store, head) == newer


def test_heads_are_read_together(store: Store, namespace: Namespace, calls: Calls, clock: Clock) -> None:
    """DynamoDB takes a hundred keys at once, and may leave some out."""
    heads = {str(number): running(store, namespace, str(number)) for number in range(103)}
    for head in heads.values():
        store.create_head(head)
    calls.during()
    assert store.get_heads(namespace, [*heads, "absent"]) == heads
    assert calls.during() == {"batch_get_item": 2}
    assert store.get_heads(namespace, []) == {}
    clock.now = heads["0"].expires
    assert store.get_heads(namespace, ["0"]) == {}


class Hesitant:
    """A client whose reads return one item at a time, or none while it is throttled."""

    def __init__(self, client: Any, throttled: int) -> None:
        self._client = client
        self._throttled = throttled

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._client, operation)

    def batch_get_item(self, *, RequestItems: Any) -> Any:
        [(table, wanted)] = RequestItems.items()
        if self._throttled:
            self._throttled -= 1
            return {"Responses": {}, "UnprocessedKeys": RequestItems}
        first, *others = wanted["Keys"]
        answer = self._client.batch_get_item(RequestItems={table: {**wanted, "Keys": [first]}})
        return {**answer, **({"UnprocessedKeys": {table: {**wanted, "Keys": others}}} if others else {})}


@pytest.mark.parametrize("throttled", [0, 3, 1_000])
def test_heads_that_were_left_out_are_asked_for_again(
    settings: Settings, namespace: Namespace, clock: Clock, monkeypatch: pytest.MonkeyPatch, throttled: int
) -> None:
    pauses: list[float] = []
    replace_in(store_table, time, monkeypatch, sleep=pauses.append)
    monkeypatch.setattr("random.uniform", lambda _, most: most)
    client: Any = Hesitant(clients.dynamodb(settings), throttled)
    store = Store(Table(client, settings.table, clock=clock), ttl=1_000)
    heads = {name: running(store, namespace, name) for name in "abc"}
    for head in heads.values():
        store.create_head(head)
    if throttled < 10:
        assert store.get_heads(namespace, [*heads]) == heads
        assert len(pauses) == throttled
    else:
        with pytest.raises(StoreError, match="throttled"):
            store.get_heads(namespace, [*heads])
        assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6])


@pytest.mark.parametrize("answer", ["lost", "never made"])
def test_a_write_whose_answer_is_lost_is_made_once(
    store: Store, head: Head, calls: Calls, answer: str
) -> None:
    """botocore retries it: a write that meets its own token has been made."""
    retries: list[str] = []

    def lose(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and not retries:
            retries.append(operation)
            if answer == "lost":
                calls.put_item(**arguments)  # what botocore's second attempt would send

    calls.before = lose
    head_at_end = store.update_head(ended(head))
    assert read(store, head) == head_at_end


@pytest.mark.parametrize(
    "fault",
    [
        ClientError({"Error": {"Code": "ProvisionedThroughputExceededException"}}, "PutItem"),
        ReadTimeoutError(endpoint_url="x"),
    ],
)
def test_foreign_errors_stay_outside(store: Store, head: Head, calls: Calls, fault: Exception) -> None:
    def fail(operation: str, arguments: dict[str, Any]) -> None:
        raise fault

    calls.before = fail
    for operation in (
        lambda: store.get_head(head.namespace, head.task_id),
        lambda: store.update_head(head),
        lambda: store.append(head, [chunk("a")], after=1),
        lambda: store.get_events(head),
        lambda: store.get_context(head.namespace, "context"),
    ):
        with pytest.raises(StoreError) as error:
            operation()
        assert not isinstance(error.value, Conflict)


def test_the_sweeps_index_holds_running_tasks_only(
    store: Store, head: Head, settings: Settings, clock: Clock
) -> None:
    def records() -> list[Any]:
        answer = clients.dynamodb(settings).scan(TableName=settings.table, IndexName="by-due")
        return [item["pk"]["S"] for item in answer["Items"] if head.task_id in item["pk"]["S"]]

    assert len(records()) == 1
    store.update_head(ended(head))
    assert records() == []


def test_contexts_written_at_once_are_merged(store: Store, namespace: Namespace) -> None:
    def adding(name: str) -> Any:
        def change(context: Context) -> Context:
            total = context.memory.get("total", 0) + 1
            return replace(context, memory={**context.memory, name: True, "total": total})

        return change

    empty = Context()
    for name in "abc":
        store.update_context(namespace, "c", empty, adding(name))
    assert store.get_context(namespace, "c").memory == {"a": True, "b": True, "c": True, "total": 3}


def test_turns_that_end_together_wait_longer_after_each_try(
    store: Store, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try writes the whole context, and only one of them wins."""
    pauses: list[float] = []
    monkeypatch.setattr(store_module, "random", SimpleNamespace(uniform=lambda least, most: most))
    replace_in(store_module, time, monkeypatch, sleep=pauses.append)
    others = iter(range(9))

    def change(context: Context) -> Context:
        if (other := next(others, None)) is not None:  # another turn is first
            newest, task = store.get_context(namespace, "c"), f"task {other}"
            store.update_context(namespace, "c", newest, lambda _: replace(newest, asking_task_id=task))
        return replace(context, memory={"a": 1})

    store.update_context(namespace, "c", Context(), change)
    assert store.get_context(namespace, "c").memory == {"a": 1}
    assert pauses[:3] == [pauses[0], 2 * pauses[0], 4 * pauses[0]]
    assert len(pauses) == 9
    assert max(pauses) == pauses[-1] <= 0.5


@pytest.mark.parametrize(
    ("value", "digits"),
    [(7, "7"), (10, "10"), (0, "0"), (7.0, "7"), (1.5, "1.5"), (1_700_000_000.1239, "1700000000.124")],
)
def test_a_number_is_written_as_dynamodb_returns_it(value: float, digits: str) -> None:
    """To the millisecond, and without zeros at the end."""
    assert items.number(value) == {"N": digits}


def test_a_change_of_status_is_told_and_no_other() -> None:
    """From a record of the table's stream, whose binary values are base64 in Lambda's events."""
    new = items.from_head(head_with_configs("a"), 1)
    assert not new["document"]["B"].startswith(b"{"), "it is compressed"
    now = unix_time(head_with_configs("a").status["timestamp"])
    stream_image = {**new, "document": {"B": base64.b64encode(new["document"]["B"]).decode()}}
    for record in (new, stream_image):
        assert items.status_change(record, None, now) == (1, ("a",))
    assert items.status_change(new, new, now) is None, "the lease was renewed"
    other = {**new, "state": {"S": "TASK_STATE_SUBMITTED"}}
    assert items.status_change(new, other, now) == (1, ("a",))
    assert items.status_change({**new, "sk": {"S": "context"}}, None, now) is None
    assert items.status_change(new, None, now + items.RESTORED_AGE_SECONDS + 1) is None, "it was restored"
    assert items.status_change(new, other, now + items.RESTORED_AGE_SECONDS + 1) is not None


def test_requests_are_counted_by_window_and_item(store: Store, namespace: Namespace) -> None:
    def count(window: int, item: int, requests: int) -> int:
        return store.count_requests(namespace.owner, window, item, requests, until=store.clock() + 60)

    assert [count(1, 0, 2), count(1, 0, 3), count(2, 0, 1), count(1, 1, 4), count(1, 2, 7)] == [2, 5, 1, 4, 7]


def test_many_heads_are_read_in_several_calls(store: Store, namespace: Namespace, calls: Calls) -> None:
    """DynamoDB reads a hundred items at once."""
    ids = [f"task-{number:03}" for number in range(101)]
    for task_id in ids:
        store.create_head(
            store.new_head(namespace, task_id, "c", make_status(TaskState.COMPLETED, store.clock()))
        )
    calls.during()
    heads = store.get_heads(namespace, [*ids, "absent"])
    assert sorted(heads) == ids
    assert calls.during() == {"batch_get_item": 2}


def test_each_context_that_is_stored_is_the_next_revision(store: Store, namespace: Namespace) -> None:
    for number in range(3):
        context = store.get_context(namespace, "revised")
        assert context.revision == number
        store.update_context(
            namespace, "revised", context, lambda old: replace(old, asking_task_id=f"task {old.revision}")
        )


def config(name: str) -> TaskPushNotificationConfig:
    return TaskPushNotificationConfig(id=name, url="https://example.com/")


def test_a_config_keeps_how_far_its_webhook_is(store: Store, head: Head) -> None:
    namespace, task_id = head.namespace, head.task_id
    start = Cursor(1, 0, TaskState.SUBMITTED)
    store.put_push_config(head, PushRegistration(config("a"), "1.0", start))
    later = Cursor(3, 2, TaskState.WORKING)
    store.advance_push(namespace, task_id, "a", later)
    assert store.get_push_config(namespace, task_id, "a") == PushRegistration(config("a"), "1.0", later)
    for earlier in (Cursor(3, 1, TaskState.WORKING), Cursor(2, 9, TaskState.WORKING)):
        store.advance_push(namespace, task_id, "a", earlier)
    registration = store.get_push_config(namespace, task_id, "a")
    assert registration is not None
    assert registration.cursor == later, "it never goes back"
    new_config = TaskPushNotificationConfig(id="a", url="https://example.com/moved")
    store.put_push_config(head, PushRegistration(new_config, "0.3", Cursor(9, 0, TaskState.WORKING)))
    assert store.get_push_config(namespace, task_id, "a") == PushRegistration(new_config, "0.3", later)
    store.put_push_config(head, PushRegistration(config("a"), "1.0", None))
    assert store.get_push_config(namespace, task_id, "a") == PushRegistration(new_config, "0.3", later)


def test_configs_are_listed_and_deleted(store: Store, head: Head) -> None:
    namespace, task_id = head.namespace, head.task_id
    for name in ("b", "a"):
        store.put_push_config(head, PushRegistration(config(name), "1.0", None))
    assert store.list_push_configs(namespace, task_id) == [config("a"), config("b")]
    store.delete_push_config(namespace, task_id, "a")
    store.advance_push(namespace, task_id, "a", Cursor(3, 0, TaskState.WORKING))
    assert store.get_push_config(namespace, task_id, "a") is None
    assert store.list_push_configs(namespace, task_id) == [config("b")]
