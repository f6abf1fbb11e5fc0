"""One agent calls another, whatever version that one speaks."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx2
import pytest

from a2a_lambda.client import AgentError, Client, Refused, discovery
from a2a_lambda.client.client import rpc_body
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Event, Json, TaskState
from a2a_lambda.wire import v0_1, v0_3
from a2a_lambda.wire.interface import Wire
from tests.client.served import CARDS, STREAMING, Answering, Served, collect
from tests.conftest import BASE_URL
from tests.helpers.rpc import intent

Talk = Callable[[Callable[[Client], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture(params=CARDS)
def version(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def talk(kit: Kit, key: str, version: str) -> Talk:
    server = Served(kit, CARDS[version])

    def talk(go: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
        async def run() -> Any:
            async with Client(BASE_URL, key=key, transport=server) as agent:
                return await go(agent)

        return asyncio.run(run())

    return talk


def test_send_get_and_cancel(talk: Talk) -> None:
    async def go(agent: Client) -> None:
        result: Any = await agent.send("hi", metadata=intent("everything"))
        assert result["status"]["state"] == TaskState.COMPLETED
        assert result["artifacts"][0]["parts"][1] == {"data": {"number": 9007199254740993}}
        again = await agent.get(result["id"], history_length=1)
        assert again["artifacts"] == result["artifacts"]
        assert len(again["history"]) == 1
        question: Any = await agent.send("hi", metadata=intent("question"))
        assert question["status"]["state"] == TaskState.INPUT_REQUIRED
        answer: Any = await agent.send(
            "yes", taskId=question["id"], contextId=question["contextId"], metadata=intent("question")
        )
        assert answer["status"]["state"] == TaskState.COMPLETED
        waiting: Any = await agent.send("hi", metadata=intent("question"))
        assert (await agent.cancel(waiting["id"]))["status"]["state"] == TaskState.CANCELED
        with pytest.raises(AgentError) as error:
            await agent.cancel(waiting["id"])
        assert error.value.code == -32002

    talk(go)


def test_stream(talk: Talk) -> None:
    async def go(agent: Client) -> None:
        events = await collect(agent.stream("hi", metadata=intent("pieces", count="3")))
        texts = [
            part["text"]
            for event in events
            if "artifactUpdate" in event
            for part in event["artifactUpdate"]["artifact"]["parts"]
        ]
        assert "".join(texts) == "0 1 2 "
        assert events[-1]["statusUpdate"]["status"]["state"] == TaskState.COMPLETED

    talk(go)


@pytest.mark.parametrize("capabilities", [{}, {"streaming": False}])
@pytest.mark.parametrize("skill", ["echo", "question"])
def test_an_agent_that_does_not_stream_answers_in_one_event(
    kit: Kit, key: str, skill: str, capabilities: Json
) -> None:
    card = {**CARDS["1.0"], "capabilities": capabilities}

    async def go() -> list[Event]:
        async with Client(BASE_URL, key=key, transport=Served(kit, card)) as agent:
            return await collect(agent.stream("hi", metadata=intent(skill)))

    [event] = asyncio.run(go())
    state = TaskState.COMPLETED if skill == "echo" else TaskState.INPUT_REQUIRED
    assert event["task"]["status"]["state"] == state


def test_a_misspelled_field_of_a_message_is_refused() -> None:
    """It would be ignored, and begin a new conversation."""

    async def go() -> None:
        async with Client(BASE_URL) as agent:
            await agent.send("hi", contextID="c")

    with pytest.raises(TypeError, match="no field 'contextID'; did you mean contextId"):
        asyncio.run(go())


def test_a_stream_of_a_task_that_cannot_be(talk: Talk, version: str) -> None:
    async def go(agent: Client) -> None:
        skill = intent("question")
        question: Any = await agent.send("hi", metadata=skill)
        await agent.cancel(question["id"])
        with pytest.raises(AgentError) as error:
            await collect(agent.stream("again", taskId=question["id"]))
        assert error.value.code == -32004

    talk(go)


def test_a_message_is_an_answer_too(kit: Kit, key: str) -> None:
    async def go() -> None:
        async with Client(BASE_URL, key=key, transport=Served(kit, CARDS["1.0"])) as agent:
            refusal: Any = await agent.send("hi", metadata=intent("words"))
            assert refusal["parts"] == [{"text": "Just words."}]

    asyncio.run(go())


def test_our_own_cards(kit: Kit, key: str) -> None:
    async def go() -> None:
        for url in (BASE_URL, f"{BASE_URL}/a2a/probe", f"{BASE_URL}/.well-known/agent.json"):
            async with Client(url, key=key, transport=Served(kit, None)) as agent:
                assert (await agent.card())["name"]
                task: Any = await agent.send("hi")
                assert task["status"]["state"] == TaskState.COMPLETED

    asyncio.run(go())


def test_an_agent_of_this_machine_must_be_allowed() -> None:
    async def go() -> None:
        async with Client("http://127.0.0.1:1/") as agent:
            await agent.send("hi")

    with pytest.raises(Refused, match=r"if you trust it, write Client\(…, private=True\)"):
        asyncio.run(go())


def test_a_host_without_an_address_is_an_error_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise socket.gaierror("Name or service not known")

    async def go() -> None:
        async with Client("https://agents.example.com") as agent:
            await agent.send("hi")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(AgentError, match=r"agents\.example\.com"):
        asyncio.run(go())


@pytest.mark.parametrize("key", ["sk-secret\n", " sk-secret", "sk\nsecret", "sk-secré"])
def test_a_key_that_no_header_can_have_is_refused_without_its_text(key: str) -> None:
    with pytest.raises(ConfigurationError, match="a character that a header cannot carry") as error:
        Client("https://agents.example.com", key=key)
    assert "secr" not in str(error.value)
    Client("https://agents.example.com", key="two words")


def test_a_card_of_another_host_must_be_trusted() -> None:
    url = "https://elsewhere.example.com/"
    rpc = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    card = {"name": "A", "supportedInterfaces": [rpc]}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json=card))

    async def go(*hosts: str) -> str:
        async with Client("https://a.example.com", transport=transport, hosts=hosts) as agent:
            return (await agent.discover()).url

    with pytest.raises(Refused, match=r"another origin, https://elsewhere\.example\.com: name its host"):
        asyncio.run(go())
    assert asyncio.run(go("elsewhere.example.com")) == url


def test_the_tenant_is_said_in_every_request(kit: Kit, key: str) -> None:
    card = {
        "supportedInterfaces": [
            {"url": f"{BASE_URL}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "probe"}
        ]
    }

    async def go() -> None:
        async with Client(BASE_URL, key=key, transport=Served(kit, card)) as agent:
            task: Any = await agent.send("hi", metadata=intent("everything"))
            assert (await agent.get(task["id"]))["artifacts"][1]["name"] == "report"

    asyncio.run(go())


def test_a_site_may_have_a_page_for_each_path() -> None:
    """Its card may begin with a byte order mark."""
    card = json.dumps(CARDS["0.2.5"]).encode()

    async def discover(older: bytes) -> discovery.DiscoveredAgent:
        def respond(request: httpx2.Request) -> httpx2.Response:
            is_older = request.url.path.endswith("/agent.json")
            return httpx2.Response(200, content=older if is_older else b"<!doctype html>")

        async with Client(BASE_URL, transport=Answering(respond)) as agent:
            return await agent.discover()

    assert asyncio.run(discover(b"\xef\xbb\xbf" + card)).url == f"{BASE_URL}/a2a/probe"
    with pytest.raises(AgentError, match=r"agent-card\.json: the card is not JSON"):
        asyncio.run(discover(b"<!doctype html>"))


@pytest.mark.parametrize("status", [401, 403, 405, 410])
def test_a_card_may_be_at_the_older_path_behind_a_gateway(status: int) -> None:
    """API Gateway answers 403 at a path without a route."""

    async def discover(older: int) -> discovery.DiscoveredAgent:
        def respond(request: httpx2.Request) -> httpx2.Response:
            is_older = request.url.path.endswith("/agent.json")
            return httpx2.Response(older if is_older else status, json=CARDS["0.2.5"])

        async with Client(BASE_URL, transport=Answering(respond)) as agent:
            return await agent.discover()

    assert asyncio.run(discover(200)).url == f"{BASE_URL}/a2a/probe"
    with pytest.raises(AgentError, match=f"agent-card.json: the card has the status {status}"):
        asyncio.run(discover(404))


@pytest.mark.parametrize(
    ("state", "is_last"), [("completed", True), ("input-required", False), ("working", False)]
)
def test_a_stream_ends_with_its_task(state: str, *, is_last: bool) -> None:
    """The server keeps the connection open."""
    card = {"url": f"{BASE_URL}/", "protocolVersion": "0.3.0", **STREAMING}
    ids = {"taskId": "t", "contextId": "c"}
    asking = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "input-required"}}
    events: list[Json] = [
        asking,
        {"kind": "status-update", **ids, "status": {"state": state}, "final": is_last},
    ]

    async def body() -> AsyncIterator[bytes]:
        for event in events:
            yield b"data: " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": event}).encode() + b"\n\n"
        raise httpx2.ReadTimeout("it does not end")

    def respond(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(200, json=card)
        return httpx2.Response(200, content=body(), headers={"Content-Type": "text/event-stream"})

    async def go() -> list[Any]:
        async with Client(BASE_URL, transport=Answering(respond)) as agent:
            return await collect(agent.stream("hi"))

    if is_last:
        assert len(asyncio.run(go())) == 2
    else:
        with pytest.raises(AgentError, match="it does not end"):
            asyncio.run(go())


def test_a_stream_by_whatever_spelling_of_its_type() -> None:
    """RFC 9110 sections 5.6.6 and 8.3.1."""
    card = {"url": f"{BASE_URL}/", "protocolVersion": "0.3.0", **STREAMING}
    message = {
        "kind": "message",
        "messageId": "m",
        "role": "agent",
        "parts": [{"kind": "text", "text": "hi"}],
    }
    event = b"data: " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": message}).encode() + b"\n\n"

    def respond(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(200, json=card)
        return httpx2.Response(
            200, content=event, headers={"Content-Type": "Text/Event-Stream ; charset=utf-8"}
        )

    async def go() -> list[Any]:
        async with Client(BASE_URL, transport=Answering(respond)) as agent:
            return await collect(agent.stream("hi"))

    assert len(asyncio.run(go())) == 1


@pytest.mark.parametrize("wire", [v0_3.WIRE, v0_1.WIRE])
def test_an_operation_that_a_version_does_not_have_is_an_error(wire: Wire) -> None:
    with pytest.raises(AgentError, match=f"A2A {wire.name} has no operation list: use 1.0"):
        rpc_body(wire, "list", {})
