"""POST /callbacks/<token>: what another system gets for its reply."""

import asyncio
import base64
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda import telemetry
from a2a_lambda.http import callbacks
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.operations import waits
from a2a_lambda.protocol.model import Json, TaskState, make_status
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.callback_token import CallbackToken, callback_token
from a2a_lambda.tasks.execution import StoredWait
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.tasks.suspension import new_execution
from tests.conftest import BASE_URL


class NoExecutions:
    """Lambda, which is told what to wake."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.stopped: list[str] = []

    def wake(self, callback: str) -> None:
        self.woken.append(callback)

    def stop(self, arn: str) -> None:
        self.stopped.append(arn)


@pytest.fixture
def durable_kit(settings: Settings) -> Kit:
    kit = Kit(settings.model_copy(update={"durable_function": "durable:live"}))
    executions: Any = NoExecutions()
    kit.executions = executions
    return kit


@pytest.fixture
def http(durable_kit: Kit) -> Iterator[TestClient]:
    with TestClient(create_app(durable_kit), base_url=BASE_URL) as client:
        yield client


@pytest.fixture
def head(store: Store, namespace: Namespace) -> Head:
    """Of a turn that waits for a payment."""
    wait = StoredWait(key="payment", callback="callback-1")
    execution = replace(new_execution(BASE_URL), arn="arn", is_suspended=True, waits=(wait,))
    working = make_status(TaskState.WORKING, store.clock())
    new_head = store.new_head(namespace, "task-of-a-callback", "context", working)
    new_head = replace(new_head, turn_id="turn", place=Place.EXECUTION, execution=execution)
    store.create_head(new_head)
    stored_head = store.get_head(namespace, new_head.task_id)
    assert stored_head is not None
    return stored_head


def post(http: TestClient, head: Head, key: str = "payment", **options: Json) -> Json:
    return http.post(f"/callbacks/{callback_token(head, key)}", **options)


def test_a_reply_is_stored_and_wakes_the_turn(
    http: TestClient, durable_kit: Kit, head: Head, store: Store
) -> None:
    telemetry.begin()
    answer = post(http, head, json={"amount": 12})
    assert (answer.status_code, answer.json()) == (200, {})
    assert telemetry.ids().items() >= {"task_id": head.task_id, "agent": head.namespace.agent}.items()
    stored_head = store.get_head(head.namespace, head.task_id)
    assert stored_head is not None
    assert stored_head.message_wait is None
    [(_, event)] = store.get_events(stored_head)
    assert event["callback"] == {"turn": "turn", "key": "payment", "data": {"amount": 12}}
    executions: Any = durable_kit.executions
    assert executions.woken == ["callback-1"]
    assert post(http, head, json={"amount": 13}).status_code == 410
    assert [event for _, event in store.get_events(stored_head)] == [event]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"content": b"{"}, 400),
        ({"content": b'{"a": NaN}'}, 400),
        ({"content": b"a=1", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}, 400),
        ({"content": b'"' + b"x" * callbacks.MAX_REPLY_BYTES + b'"'}, 413),
    ],
)
def test_what_is_no_reply_changes_nothing(
    http: TestClient, head: Head, store: Store, options: Json, code: int
) -> None:
    answer = post(http, head, **options)
    assert answer.status_code == code
    assert answer.json()["error"]["message"]
    assert store.get_head(head.namespace, head.task_id) == head
    assert post(http, head).status_code == 200, "without a body it is a reply, too"


def test_a_url_that_no_turn_has_given_out_is_unknown(http: TestClient, head: Head) -> None:
    assert http.post("/callbacks/nonsense").status_code == 404
    assert http.post("/callbacks/").status_code == 404
    token = callback_token(head, "payment")
    assert http.post(f"/callbacks/{token[:-2]}xx", json={}).status_code == 404
    refusal = http.get(f"/callbacks/{token}")
    assert (refusal.status_code, refusal.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("character", ["x", "é", "会", "😀"])
def test_the_longest_id_of_a_client_fits_in_a_url(head: Head, character: str) -> None:
    """An id has at most 512 bytes."""
    long_head = replace(head, task_id=character * (512 // len(character.encode())))
    token = callback_token(long_head, "payment")
    assert CallbackToken.read(token).task_id == long_head.task_id
    assert CallbackToken.read(token).is_genuine(long_head)


@pytest.mark.parametrize(
    "place",
    [
        '["o", "a", "\\ud800", "k"]',
        '["\\udfff", "a", "t", "k"]',
        '["o", "a", "t", 1]',
        "[" * 500,
        '{"a": NaN}',
    ],
)
def test_a_token_that_no_one_can_have_made_is_unknown(http: TestClient, place: str) -> None:
    token = base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")
    assert http.post(f"/callbacks/{token}.signature", json={}).status_code == 404
    assert http.post(f"/callbacks/{token}.signature", content=b"{").status_code == 404, "before the body"


def test_a_turn_that_does_not_wait_says_when_to_come_again(
    http: TestClient, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "EARLY_REPLY_SECONDS", 0.0)
    answer = post(http, head, "another")
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "60")


def test_a_reply_that_came_early_costs_few_reads(
    http: TestClient, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "EARLY_REPLY_SECONDS", 2 * waits.WAIT_POLL_SECONDS)
    reads: list[str] = []
    get_head = Store.get_head

    def read(store: Store, namespace: Namespace, task_id: str) -> Head | None:
        reads.append(task_id)
        return get_head(store, namespace, task_id)

    monkeypatch.setattr(Store, "get_head", read)
    assert post(http, head, "another").status_code == 409
    assert len(reads) <= 4, "there is a pause between two looks"


def test_what_lambda_does_not_take_now_the_sweep_delivers(
    http: TestClient, durable_kit: Kit, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    from a2a_lambda.errors import StoreError

    def fail(_: str) -> None:
        raise StoreError("Lambda does not answer")

    monkeypatch.setattr(durable_kit.executions, "wake", fail)
    assert post(http, head, json={}).status_code == 200
    stored_head = durable_kit.store.get_head(head.namespace, head.task_id)
    assert stored_head is not None
    assert stored_head.execution is not None
    assert stored_head.execution.wakes == ("callback-1",)


def test_a_task_that_is_canceled_stops_its_execution(durable_kit: Kit, head: Head) -> None:
    record = asyncio.run(durable_kit.service.cancel(head.namespace, head.task_id))
    assert record.task["status"]["state"] == "TASK_STATE_CANCELED"
    executions: Any = durable_kit.executions
    assert executions.stopped == ["arn"]
