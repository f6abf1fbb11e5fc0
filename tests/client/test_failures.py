"""What a client makes of a call that fails, and what it says about that."""

import asyncio

import httpx2
import pytest

from a2a_lambda.client import AgentError, Client, Refused, sse
from a2a_lambda.client.answers import read_whole
from a2a_lambda.protocol.model import Event, Json, TaskState
from tests.client.served import Answering, collect
from tests.conftest import BASE_URL

STREAMING_CARD: Json = {
    "name": "Other",
    "capabilities": {"streaming": True},
    "supportedInterfaces": [{"url": BASE_URL, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
}


def stream_of(response: httpx2.Response, card: Json = STREAMING_CARD) -> list[Event]:
    """Events of a stream that another agent answers so."""

    def respond(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json=card) if request.method == "GET" else response

    async def go() -> list[Event]:
        async with Client(BASE_URL, transport=Answering(respond)) as agent:
            return await collect(agent.stream("hi"))

    return asyncio.run(go())


@pytest.mark.parametrize("body", [b"", b'data: {"error":{"code":-32603,"message":"no"}}\n\n'])
def test_a_refusal_may_be_a_stream(body: bytes) -> None:
    headers = {"Content-Type": "text/event-stream"}
    with pytest.raises(AgentError) as error:
        stream_of(httpx2.Response(503, headers=headers, content=body))
    assert (error.value.status, error.value.is_temporary) == (503, True)


@pytest.mark.parametrize("version", ["0.1", "0.3", "1.0"])
def test_an_answer_may_come_instead_of_a_stream(version: str) -> None:
    status: Json = {"state": "completed"} if version != "1.0" else {"state": "TASK_STATE_COMPLETED"}
    part = {"text": "done"} if version == "1.0" else {"kind": "text", "type": "text", "text": "done"}
    artifact = {"artifactId": "a", "name": "a", "index": 0, "parts": [part]}
    task = {"id": "t", "contextId": "c", "sessionId": "c", "status": status, "artifacts": [artifact]}
    result: Json = {"task": task} if version == "1.0" else {**task, "kind": "task"}
    card = {**STREAMING_CARD, "supportedInterfaces": []} if version != "1.0" else STREAMING_CARD
    card = {**card, "url": BASE_URL, **({"protocolVersion": "0.3.0"} if version == "0.3" else {})}
    response = httpx2.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": result})
    [event] = stream_of(response, card)
    assert event["task"]["status"]["state"] == TaskState.COMPLETED
    assert [part["text"] for part in event["task"]["artifacts"][0]["parts"]] == ["done"]


def test_an_error_without_a_message_names_its_code() -> None:
    with pytest.raises(AgentError, match="answered with error -32602, without a text"):
        stream_of(httpx2.Response(400, json={"error": {"code": -32602}}))


@pytest.mark.parametrize(
    "url", ["http://user:hush@127.0.0.1:1/?code=hush", "http://127.0.0.1:1/card.json?hush#hush"]
)
def test_an_error_names_no_secret_of_the_url(url: str) -> None:
    async def go() -> None:
        async with Client(url, private=True) as agent:
            await agent.send("hi")

    with pytest.raises(AgentError, match=r"http://127\.0\.0\.1:1/") as error:
        asyncio.run(go())
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "user:hush@agents.example.com",
        "ftp://user:hush@agents.example.com",
        "https://user:hu/sh@agents.example.com",
    ],
)
def test_a_url_that_is_wrong_stays_wrong_and_is_not_repeated(url: str) -> None:
    async def go() -> None:
        async with Client(url, private=True) as agent:
            await agent.send("hi")

    with pytest.raises(AgentError) as error:
        asyncio.run(go())
    assert not error.value.is_temporary
    assert "hu" not in str(error.value)
    assert "write a URL that begins with https://" in str(error.value)


def test_an_impossible_port_is_refused() -> None:
    async def go() -> None:
        async with Client("http://127.0.0.1:99999", private=True) as agent:
            await agent.send("hi")

    with pytest.raises(Refused, match="there is no port 99999"):
        asyncio.run(go())


def test_an_answer_has_a_largest_size() -> None:
    answer = httpx2.Response(200, content=b"abc")
    assert asyncio.run(read_whole(answer, limit=3)) == b"abc"
    with pytest.raises(sse.TooLarge, match="more than 2 bytes"):
        asyncio.run(read_whole(answer, limit=2))
