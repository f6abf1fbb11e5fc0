"""What a client gets of a call before its result."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.http import sse
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.wire.mcp.revisions import SUPPORTED
from tests.conftest import BASE_URL
from tests.http.mcp.client import Mcp, messages_of


@pytest.mark.parametrize("revision", SUPPORTED)
def test_a_progress_text_and_the_pieces_of_an_answer_are_told(
    client: TestClient, key: str, revision: str
) -> None:
    mcp = Mcp(client, key, revision=revision)
    for accept in ("application/json, text/event-stream", "Application/JSON, Text/Event-Stream", "*/*"):
        *notifications, _ = messages_of(mcp.post(call_of(mcp), Accept=accept))
        texts = [notification["params"]["message"] for notification in notifications]
        assert texts[:2] == ["thinking", "text"]


@pytest.mark.parametrize("is_on_lambda", [False, True])
def test_a_fault_in_a_stream_is_in_the_stream_and_lambda_knows_it(
    kit: Kit, key: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_on_lambda: bool
) -> None:
    """The log has it once."""
    caplog.set_level("INFO", logger="a2a_lambda.http")
    inner = create_app(kit)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await inner({**scope, "aws.streamed": True} if is_on_lambda else scope, receive, send)

    async def fail(items: Any, silence: float) -> AsyncIterator[Any]:
        raise RuntimeError("a private word")
        yield  # it makes this a generator

    monkeypatch.setattr(sse, "with_silences", fail)

    def ask(*, sees_faults: bool) -> Any:
        with TestClient(app, base_url=BASE_URL, raise_server_exceptions=sees_faults) as client:
            mcp = Mcp(client, key)
            return mcp.post(call_of(mcp))

    [message] = messages_of(ask(sees_faults=False))
    assert message["error"]["code"] == -32603
    assert "a private word" not in str(message)
    assert [record.message for record in caplog.records if record.name.startswith("a2a_lambda.http")] == [
        "a request failed"
    ]
    with pytest.raises(RuntimeError, match="a private word") if is_on_lambda else nullcontext():
        ask(sees_faults=True)


def call_of(mcp: Mcp) -> Any:
    """A call whose client asks for progress."""
    params = {"name": "everything", "arguments": {"message": "hi"}}
    return mcp.body("tools/call", params, meta={"progressToken": 1})
