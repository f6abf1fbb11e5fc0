"""Replies of other systems to durable turns, at the url that the turn has given them."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.errors import NotWaiting, ProtocolError, StoreError, WaitIsOver
from a2a_lambda.http.app import create_app
from a2a_lambda.http.callbacks import MAX_REPLY_BYTES
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import encode_base64url
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.callback_token import CallbackToken
from a2a_lambda.tasks.identity import Namespace
from tests.conftest import BASE_URL


class FakeWaits:
    """Takes what is sent to TOKEN. error: what the end of the wait raises."""

    def __init__(self) -> None:
        self.replies: list[Any] = []
        self.error: ProtocolError | StoreError | None = None

    async def end(self, token: CallbackToken, data: Any) -> None:
        assert token == CallbackToken(Namespace("owner", "agent"), "task", "key", "signature")
        if self.error is not None:
            raise self.error
        self.replies.append(data)


@pytest.fixture
def waits() -> FakeWaits:
    return FakeWaits()


@pytest.fixture
def caller(settings: Settings, waits: FakeWaits) -> TestClient:
    kit = Kit(settings)
    kit.waits = waits  # type: ignore[assignment]
    return TestClient(create_app(kit), base_url=BASE_URL)


JSON = {"Content-Type": "application/json"}

TOKEN = encode_base64url(b'["owner","agent","task","key"]') + ".signature"


def test_a_reply_needs_no_key(caller: TestClient, waits: FakeWaits) -> None:
    """The token is the credential."""
    answer = caller.post(f"/callbacks/{TOKEN}", json={"amount": 12})
    assert (answer.status_code, answer.json()) == (200, {})
    assert caller.post(f"/callbacks/{TOKEN}", content=b" ", headers=JSON).status_code == 200
    assert waits.replies == [{"amount": 12}, None]


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (NotWaiting("not yet"), 409, "ABORTED"),
        (WaitIsOver("it is over"), 410, "FAILED_PRECONDITION"),
        (StoreError("no answer"), 503, "UNAVAILABLE"),
        (RuntimeError("a mistake of the kit"), 500, "INTERNAL"),
    ],
)
def test_a_reply_that_the_turn_does_not_take(
    caller: TestClient, waits: FakeWaits, error: Any, status: int, name: str
) -> None:
    waits.error = error
    answer = caller.post(f"/callbacks/{TOKEN}", json={})
    assert answer.status_code == status
    answer_error = answer.json()["error"]
    assert (answer_error["code"], answer_error["status"]) == (status, name)
    assert "mistake" not in answer_error["message"]
    assert ("retry-after" in answer.headers) == (status in {409, 503})


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"no json", JSON, 400),
        (b"NaN", JSON, 400),
        (b'"' + b"x" * MAX_REPLY_BYTES + b'"', JSON, 413),
        (b"{}", {"Content-Type": "text/xml"}, 400),
    ],
)
def test_what_is_no_reply(
    caller: TestClient, waits: FakeWaits, content: bytes, headers: dict[str, str], status: int
) -> None:
    assert caller.post(f"/callbacks/{TOKEN}", content=content, headers=headers).status_code == status
    assert waits.replies == []


def test_a_url_that_no_turn_made(caller: TestClient, client: TestClient) -> None:
    assert caller.post("/callbacks/other", json={}).status_code == 404
    assert client.post("/callbacks/other", json={}).status_code == 404
    refusal = caller.get(f"/callbacks/{TOKEN}")
    assert (refusal.status_code, refusal.headers["allow"]) == (405, "POST")


def test_a_release_without_durable_turns_asks_for_the_reply_later(client: TestClient) -> None:
    """It may be live for a while only, after a rollback."""
    answer = client.post(f"/callbacks/{TOKEN}", json={})
    assert answer.status_code == 503
    assert "retry-after" in answer.headers
