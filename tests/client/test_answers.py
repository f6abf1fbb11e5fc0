"""What a client reads of the answers of other agents, and what it refuses."""

import asyncio
import gzip
import json
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from a2a_lambda.client import AgentError, Client, client
from a2a_lambda.errors import InvalidParams
from a2a_lambda.kit import Kit
from a2a_lambda.net.addresses import Unresolved
from a2a_lambda.protocol.model import Json, Part
from a2a_lambda.protocol.requests import SendMessageConfiguration
from a2a_lambda.wire import v0_3, v1_0
from tests.client.served import Answering, Served, collect
from tests.conftest import BASE_URL
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rpc import intent


def test_ids_that_another_agent_leaves_out_are_empty() -> None:
    status: Json = {"state": "TASK_STATE_COMPLETED"}
    assert v1_0.WIRE.decode_event({"task": {"id": "t", "status": status}})["task"]["contextId"] == ""
    update = v1_0.WIRE.decode_event({"statusUpdate": {"status": status}})["statusUpdate"]
    assert (update["taskId"], update["contextId"]) == ("", "")
    old_update: Json = {"kind": "status-update", "status": {"state": "completed"}}
    update = v0_3.WIRE.decode_event(old_update)["statusUpdate"]
    assert (update["taskId"], update["contextId"]) == ("", "")
    with pytest.raises(InvalidParams, match=r"result\.taskId"):
        v0_3.WIRE.decode_event({**old_update, "taskId": 5})
    artifact: Json = {"artifactId": "a", "parts": []}
    chunk = v0_3.WIRE.decode_event({"kind": "artifact-update", "artifact": artifact})["artifactUpdate"]
    assert (chunk["taskId"], chunk["contextId"]) == ("", "")


@pytest.mark.parametrize(
    "response",
    [
        httpx2.Response(302, headers={"Location": "http://169.254.169.254/"}),
        httpx2.Response(500, content=b"oops"),
        httpx2.Response(200, content=b"<html>"),
    ],
)
def test_what_is_no_card(response: httpx2.Response) -> None:
    async def go() -> None:
        async with Client(BASE_URL, transport=Answering(lambda _: response)) as agent:
            with pytest.raises(AgentError):
                await agent.send("hi")

    asyncio.run(go())


def test_what_a_gateway_says_is_told() -> None:
    """AWS names the permission that is missing."""
    reason = "User … is not authorized to perform: bedrock-agentcore:GetAgentCard"
    response = httpx2.Response(403, json={"Message": reason})

    async def go() -> None:
        async with Client(BASE_URL, transport=Answering(lambda _: response)) as agent:
            await agent.send("hi")

    with pytest.raises(AgentError, match="the card has the status 403: User … is not authorized"):
        asyncio.run(go())


def test_what_a_gateway_says_instead_of_an_answer_is_told() -> None:
    interface = {"url": BASE_URL, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}

    def respond(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(200, json={"name": "Other", "supportedInterfaces": [interface]})
        return httpx2.Response(429, json={"message": "Too Many Requests"})

    async def go() -> None:
        async with Client(BASE_URL, transport=Answering(respond)) as agent:
            await agent.send("hi")

    with pytest.raises(AgentError, match="with status 429, is not a JSON-RPC response: Too Many Requests"):
        asyncio.run(go())


@pytest.mark.parametrize("encoding", ["none", "Identity", "", "utf-8"])
def test_an_encoding_that_is_no_compression_is_passed_over(encoding: str) -> None:
    """Servers of streams send some of these so that no proxy compresses them."""
    interface = {"url": BASE_URL, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    card = {"name": "Other", "supportedInterfaces": [interface]}
    response = httpx2.Response(200, json=card, headers={"Content-Encoding": encoding})

    async def go() -> Json:
        async with Client(BASE_URL, transport=Answering(lambda _: response)) as agent:
            return (await agent.card())["name"]

    assert asyncio.run(go()) == "Other"


def test_a_compressed_answer_is_refused() -> None:
    """A few bytes may unpack to very many, and what follows them would never be counted."""
    accepted_encodings: list[str] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        accepted_encodings.append(request.headers["accept-encoding"])
        return httpx2.Response(200, content=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})

    async def go() -> None:
        async with Client(BASE_URL, transport=Answering(respond)) as agent:
            await agent.send("hi")

    with pytest.raises(AgentError, match=r"is compressed \(gzip\), which the request does not allow"):
        asyncio.run(go())
    assert accepted_encodings == ["identity"]


def test_what_is_no_answer() -> None:
    card = {"url": f"{BASE_URL}/", "protocolVersion": "0.3.0"}
    answers = [
        b"",
        b"[]",
        b'{"result":{}}',
        b'{"result":{"kind":"status-update","status":{"state":"working"}}}',
        b'{"error":{"code":-1,"message":"no"}}',
        b"x" * 21_000_000,
    ]

    async def go(answer: bytes) -> None:
        def respond(request: httpx2.Request) -> httpx2.Response:
            content = json.dumps(card).encode() if request.method == "GET" else answer
            return httpx2.Response(200, content=content)

        async with Client(BASE_URL, transport=Answering(respond)) as agent:
            with pytest.raises(AgentError):
                await agent.send("hi")
            with pytest.raises(AgentError):
                await collect(agent.stream("hi"))

    for answer in answers:
        asyncio.run(go(answer))


@pytest.mark.parametrize("version", ["0.1", "0.3", "1.0"])
@pytest.mark.parametrize(
    ("time", "read"),
    [
        ("2025-04-08T12:00:00.123456", "2025-04-08T12:00:00.123Z"),
        ("2025-04-08T12:00:00", "2025-04-08T12:00:00.000Z"),
        ("2025-04-08T12:00:00+02:00", "2025-04-08T10:00:00.000Z"),
        ("yesterday", None),
        ("", None),
    ],
)
def test_the_time_of_another_agent_may_lack_its_offset(version: str, time: str, read: str | None) -> None:
    """Google's first samples and fasta2a write it so."""
    state = "TASK_STATE_COMPLETED" if version == "1.0" else "completed"
    task = {"id": "t", "contextId": "s", "sessionId": "s", "status": {"state": state, "timestamp": time}}
    results = {"0.1": task, "0.3": {"kind": "task", **task}, "1.0": {"task": task}}
    answer: Json = asyncio.run(answer_to_hi(version, results[version]))
    assert answer["status"].get("timestamp") == read


async def answer_to_hi(version: str, result: Json) -> Json:
    """What a client reads of an agent's answer to a message."""
    interface = {"url": f"{BASE_URL}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    card: Json = {"url": f"{BASE_URL}/"} if version != "1.0" else {"supportedInterfaces": [interface]}
    card |= {"protocolVersion": "0.3.0"} if version == "0.3" else {}

    def respond(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(200, json=card)
        return httpx2.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": result})

    async with Client(BASE_URL, transport=Answering(respond)) as agent:
        return await agent.send("hi")


@pytest.mark.parametrize("parts", [{}, {"parts": None}, {"parts": []}])
@pytest.mark.parametrize("version", ["0.1", "0.3", "1.0"])
def test_another_agents_answer_may_have_no_parts(version: str, parts: Json) -> None:
    """ProtoJSON leaves out what is empty, such as the parts of a chunk that only closes its artifact."""
    is_new = version == "1.0"
    message = {"messageId": "m", "role": "ROLE_AGENT" if is_new else "agent", **parts}
    status = {"state": "TASK_STATE_COMPLETED" if is_new else "completed", "message": message}
    task = {"id": "t", "contextId": "s", "status": status, "history": [message]}
    task["artifacts"] = [{"artifactId": "a", **parts}]
    answer: Json = asyncio.run(answer_to_hi(version, {"task": task} if is_new else task))
    assert answer["artifacts"] == [{"artifactId": "a", "parts": []}]
    assert [answer["history"][0]["parts"], answer["status"]["message"]["parts"]] == [[], []]


@pytest.mark.parametrize("kind", ["task", "message", "status-update", "artifact-update"])
def test_the_fields_of_an_event_show_its_kind(kind: str) -> None:
    ids = {"taskId": "t", "contextId": "c"}
    events: dict[str, Json] = {
        "task": {"id": "t", "contextId": "c", "status": {"state": "working"}},
        "message": {"messageId": "m", "role": "agent"},
        "status-update": {**ids, "status": {"state": "working"}, "final": False},
        "artifact-update": {**ids, "artifact": {"artifactId": "a"}, "lastChunk": True},
    }
    assert v0_3.WIRE.decode_event(events[kind]) == v0_3.WIRE.decode_event({**events[kind], "kind": kind})


COMPLETED, ASKING = "TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED"


def task_of(state: str, *texts: str, says: str = "") -> Json:
    status: Json = {"state": state}
    if says:
        status["message"] = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": says}]}
    artifacts = [{"artifactId": text, "parts": [{"text": text}]} for text in texts]
    return {"task": {"id": "t", "contextId": "c", "status": status, "artifacts": artifacts}}


CARD = {
    "supportedInterfaces": [{"url": f"{BASE_URL}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]
}

IN_PIECES = task_of(COMPLETED, "The cap")
IN_PIECES["task"]["artifacts"][0]["parts"] += [{"text": "ital is"}, {"data": 1}, {"text": " Paris."}]


IN_ARTIFACTS = task_of(COMPLETED, "The weather is sunny today, ", "no rain.")
IN_ARTIFACTS["task"]["artifacts"][1]["artifactId"] = IN_ARTIFACTS["task"]["artifacts"][0]["artifactId"]
"""As in the example of Alibaba's page."""


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (task_of(COMPLETED, "one", "two"), "one\ntwo"),
        (IN_ARTIFACTS, "The weather is sunny today, no rain."),
        (IN_PIECES, "The capital is Paris."),
        (task_of(COMPLETED, says="done"), "done"),
        ({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}, "hi"),
        (task_of(ASKING, "half", says="Which?"), "the agent's task is input-required: Which?"),
        (task_of(ASKING, "half", "Which?"), "the agent's task is input-required: Which?"),
        (task_of("TASK_STATE_FAILED"), "the agent's task is failed"),
    ],
)
def test_what_an_agent_is_asked_has_a_text_or_its_words(result: Json, text: str) -> None:
    def respond(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json=CARD if request.method == "GET" else {"result": result})

    async def ask() -> str:
        async with Client(BASE_URL, transport=Answering(respond)) as agent:
            try:
                return await agent.ask("hi")
            except AgentError as error:
                return str(error) if error.task == v1_0.WIRE.decode_event(result)["task"] else "no task"

    assert asyncio.run(ask()) == text


def test_an_answer_may_be_deeper_than_the_request(kit: Kit, key: str) -> None:
    """What was sent is some levels deeper in the task's history."""
    data: Json = {}
    for _ in range(57):
        data = [data]

    async def send() -> Any:
        async with Client(f"{BASE_URL}/a2a/probe", key=key, transport=Served(kit, None)) as agent:
            return await agent.send([Part(data=data)], metadata=intent("echo"))

    assert asyncio.run(send())["history"][0]["parts"] == [{"data": data}]


@pytest.mark.parametrize("how", ["ask", "stream"])
@pytest.mark.parametrize(
    "states",
    [
        ["SUBMITTED", "WORKING", "COMPLETED"],
        *(["SUBMITTED", loss, "COMPLETED"] for loss in ("429", "502", "503", "504", "cut off", "no name")),
        ["SUBMITTED"],
        ["WORKING", "500"],
        ["WORKING", "429"],
    ],
)
def test_an_agent_that_answers_at_once_is_asked_until_its_task_stops(
    states: list[str], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "TASK_POLL_SECONDS", 0.0)
    bodies: list[Json] = []
    # The client gives up after four looks, however busy this machine is.
    clock = SimpleNamespace(monotonic=lambda: len(bodies) * PATIENCE_SECONDS / 4)
    monkeypatch.setattr(client, "time", clock)

    def respond(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(200, json=CARD)
        bodies.append(json.loads(request.content))
        state = states[min(len(bodies), len(states)) - 1]
        if state in ("cut off", "no name"):
            raise httpx2.ReadError("cut off") if state == "cut off" else Unresolved("no name")
        if state.isdecimal():
            return httpx2.Response(int(state))
        outcome = task_of(f"TASK_STATE_{state}", "done")
        return httpx2.Response(200, json={"result": outcome if len(bodies) == 1 else outcome["task"]})

    async def call() -> str:
        async with Client(BASE_URL, transport=Answering(respond), timeout=PATIENCE_SECONDS) as agent:
            options = SendMessageConfiguration(acceptedOutputModes=["text/plain"])
            if how == "ask":
                return await agent.ask("hi", configuration=options)
            [event] = await collect(agent.stream("hi", configuration=options))
            return str(event["task"]["status"]["state"].removeprefix("TASK_STATE_"))

    if states[-1] == "COMPLETED":
        assert asyncio.run(call()) == ("done" if how == "ask" else "COMPLETED")
        assert [body["method"] for body in bodies] == ["SendMessage", "GetTask", "GetTask"]
    elif states[-1].isdecimal() or how == "ask":
        words = states[-1] if states[-1].isdecimal() else "the agent's task is submitted"
        with pytest.raises(AgentError, match=words) as refusal:
            asyncio.run(call())
        assert refusal.value.task is not None
        assert refusal.value.task["id"] == "t"
    else:
        assert asyncio.run(call()) == "SUBMITTED"
    options = {"acceptedOutputModes": ["text/plain"], "returnImmediately": False}
    assert bodies[0]["params"]["configuration"] == options
