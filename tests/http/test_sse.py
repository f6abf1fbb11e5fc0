"""Server-sent events as real readers read them."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.errors import TaskNotFound
from a2a_lambda.http import sse
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Event, Task, TaskState
from a2a_lambda.strictjson import dumps
from a2a_lambda.tasks.event_log import apply
from tests.conftest import BASE_URL
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc, message, request
from tests.tasks.examples import chunk, head, status_event


def test_a_comment_is_one_line_and_no_blank_one() -> None:
    """After a blank line, httpx-sse gives an empty event, which a2a-sdk 0.2 and 0.3 fail on."""
    assert sse.COMMENT == b": \n"


def test_json_with_unicode_line_ends_stays_one_line() -> None:
    text = "a\u2028b\u2029c\u0085d\r\ne"
    event = sse.encode(dumps({"text": text}), 7)
    identity, data, *rest = event.decode().splitlines()
    assert (identity, rest) == ("id: 7", [""])
    assert json.loads(data.removeprefix("data: ")) == {"text": text}


def test_silence_is_filled_and_nothing_is_lost() -> None:
    async def go() -> list[int | None]:
        is_heard = asyncio.Event()

        async def items() -> AsyncGenerator[int, None]:
            yield 0
            await is_heard.wait()
            yield 1
            yield 2

        stream_items: list[int | None] = []
        async for item in sse.with_silences(items(), 0.01):
            stream_items.append(item)
            if stream_items.count(None) == 2:
                is_heard.set()
        return stream_items

    stream_items = asyncio.run(go())
    assert stream_items[:3] == [0, None, None]
    assert [item for item in stream_items if item is not None] == [0, 1, 2]


def test_leaving_closes_what_is_read() -> None:
    closed: list[bool] = []

    async def endless() -> AsyncGenerator[int, None]:
        try:
            yield 1
            await asyncio.sleep(60)
        finally:
            closed.append(True)

    async def go() -> None:
        items = sse.with_silences(endless(), 0.05)
        assert await anext(items) == 1
        assert await anext(items) is None
        await items.aclose()

    asyncio.run(go())
    assert closed == [True]


def test_leaving_between_two_items_closes_what_is_read() -> None:
    closed: list[bool] = []

    async def two() -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    async def go() -> bool:
        source = two()
        items = sse.with_silences(source, 60)
        assert await anext(items) == 1
        await items.aclose()
        return bool(closed)

    assert asyncio.run(go())


def test_white_space_is_sent_until_the_json_is_there() -> None:
    async def go() -> list[bytes]:
        late: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        pieces: list[bytes] = []
        async for piece in sse.with_spaces(late, 0.01):
            pieces.append(piece)
            if len(pieces) == 2:
                late.set_result(b"{}")
        return pieces

    pieces = asyncio.run(go())
    assert pieces[:2] == [b" ", b" "]
    assert json.loads(b"".join(pieces)) == {}


def test_who_leaves_leaves_nothing_waiting() -> None:
    async def go() -> bool:
        endless: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        pieces = sse.with_spaces(endless, 0.01)
        assert await anext(pieces) == b" "
        await pieces.aclose()
        return endless.cancelled()

    assert asyncio.run(go())


def test_a_line_reader_reads_a_stream(client: TestClient, key: str, kit: Kit) -> None:
    text = "one\u2028two\u0085three"
    body = request("message/stream", {"message": message(text)})
    answer = Rpc(client, key, "/a2a/probe").post(body)
    records = [json.loads(line[5:]) for line in answer.iter_lines() if line.startswith("data:")]
    assert records[1]["result"]["artifact"]["parts"][0]["text"] == text


@pytest.mark.parametrize("is_on_lambda", [False, True])
def test_a_fault_in_a_stream_is_in_the_stream_and_lambda_knows_it(
    kit: Kit, key: str, monkeypatch: pytest.MonkeyPatch, is_on_lambda: bool
) -> None:
    """An error of the client, such as a task that it lost, is no fault of the function."""
    inner = create_app(kit)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await inner({**scope, "aws.streamed": True} if is_on_lambda else scope, receive, send)

    async def fail(items: Any, silence: float) -> AsyncIterator[Any]:
        raise cause
        yield  # it makes this a generator

    cause: Exception = TaskNotFound("gone")
    monkeypatch.setattr(sse, "with_silences", fail)
    with TestClient(app, base_url=BASE_URL, raise_server_exceptions=False) as client:
        rest = Rest(client, key)
        for cause in (TaskNotFound("gone"), RuntimeError("a private word")):
            answer = rest.ask("POST", "message:stream", {"message": message_1_0()})
            assert answer.status_code == 200
            assert "a private word" not in answer.text
            assert ("gone" in answer.text) == isinstance(cause, TaskNotFound)
    cause = RuntimeError("a fault")
    with TestClient(app, base_url=BASE_URL) as client:
        if is_on_lambda:
            with pytest.raises(RuntimeError, match="a fault"):
                Rest(client, key).ask("POST", "message:stream", {"message": message_1_0()})
        else:
            assert (
                Rest(client, key).ask("POST", "message:stream", {"message": message_1_0()}).status_code == 200
            )


def task_of(*events: Event) -> Task:
    task = head().empty_task()
    apply(task, events)
    return task


@pytest.mark.parametrize("begins", ["with the task", "with a chunk"])
@pytest.mark.parametrize("replaces", [True, False])
def test_a_turn_that_runs_again_has_ids_only_for_clients_that_replace(begins: str, replaces: bool) -> None:
    view = sse.StreamView(replaces=replaces)
    first = chunk("one ", append=False)
    events = [Event(task=task_of(first)) if begins == "with the task" else first, chunk("two ")]
    for event in (*events, chunk("x", "b", append=False)):
        assert view.take(event) == [event]
    assert not view.is_stale
    for event in (chunk("one ", append=False), chunk("two ")):
        assert view.take(event) == [event]
        assert view.is_stale is not replaces


def test_a_client_gets_one_task_a_stream() -> None:
    """Of an artifact that it cannot replace, it gets no more; one that it does not have, it gets whole."""
    tasks = [
        Event(task=task_of(*chunks)) for chunks in ([chunk("one ")], [chunk("one two "), chunk("x", "b")])
    ]
    artifacts = [chunk("one two ", append=False, last=True), chunk("x", "b", append=False, last=True)]
    later = [chunk("three "), chunk("y", "b"), status_event(TaskState.COMPLETED)]
    for replaces, shown_artifacts in ((True, artifacts), (False, artifacts[1:])):
        view = sse.StreamView(replaces=replaces)
        assert [view.take(event) for event in tasks] == [tasks[:1], shown_artifacts]
        assert view.is_stale is not replaces
        updates = [update for event in later for update in view.take(event)]
        assert updates == (later if replaces else later[1:])
