"""Calls of each version against the application, and what their records say."""

import io
import json
import shlex
from collections.abc import AsyncIterator

import httpx2
import pytest

from a2a_lambda.client import AgentError
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Json, Part, TaskState
from a2a_lambda.wire.shared.card_json import UPLOADS_EXTENSION
from tests.conftest import BASE_URL
from tests.helpers.rpc import intent
from tools.callers import a2a, uploads
from tools.callers.a2a import VERSIONS, A2aCaller
from tools.callers.records import Record

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def http(kit: Kit) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=create_app(kit))) as http_client:
        yield http_client


def message(text: str, skill: str = "", **slots: str) -> dict[str, Json]:
    message_fields: dict[str, Json] = {
        "messageId": text or "m",
        "role": "ROLE_USER",
        "parts": [{"text": text}],
    }
    return {"message": message_fields | ({"metadata": intent(skill, **slots)} if skill else {})}


def of_kind(records: list[Record], kind: str) -> list[Record]:
    return [record for record in records if record["kind"] == kind]


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_sends_streams_gets_and_cancels(
    http: httpx2.AsyncClient, key: str, version: str
) -> None:
    caller = A2aCaller(http, BASE_URL, VERSIONS[version], key=key, name="probe")
    [*_, last] = [record async for record in caller.read_card()]
    assert last["result"]["name"]
    send_records = [record async for record in caller.call("send", message("hello"))]
    [result] = of_kind(send_records, "result")
    outcome = result["result"]
    task = outcome.get("task", outcome)
    assert task["status"]["state"] == TaskState.COMPLETED
    assert task["artifacts"][0]["parts"][0]["text"] == "hello"
    stream_records = [record async for record in caller.call("stream", message("count", "pieces", count="2"))]
    chunks = [record["event"].get("artifactUpdate") for record in of_kind(stream_records, "event")]
    texts = [part["text"] for chunk in chunks if chunk for part in chunk["artifact"]["parts"]]
    assert "".join(texts) == "0 1 "
    assert of_kind(stream_records, "frame")
    events = [record async for record in caller.call("send", message("ask", "add", a="1"))]
    question = of_kind(events, "result")[0]["result"]
    identity = question.get("task", question)["id"]
    get_records = [record async for record in caller.call("get", {"id": identity})]
    assert of_kind(get_records, "result")[0]["result"]["status"]["state"] == TaskState.INPUT_REQUIRED
    cancel_records = [record async for record in caller.call("cancel", {"id": identity})]
    # Alibaba's suite does not know canceled.
    ends = {TaskState.CANCELED, TaskState.FAILED}
    assert of_kind(cancel_records, "result")[0]["result"]["status"]["state"] in ends


async def test_the_key_is_in_the_curl_only(http: httpx2.AsyncClient, key: str) -> None:
    caller = A2aCaller(http, BASE_URL, VERSIONS["1.0"], key=key, name="probe")
    records = [record async for record in caller.call("send", message("it's me"))]
    requests = of_kind(records, "request")
    assert key not in json.dumps([{**record, "curl": ""} for record in requests])
    words = shlex.split(requests[-1]["curl"])
    assert words[0] == "curl"
    assert any(key in word for word in words)
    assert json.loads(words[words.index("-d") + 1])["method"] == "SendMessage"


@pytest.mark.parametrize("version", ["1.0", "1.0-http", "0.3"])
async def test_what_is_refused_is_an_error(http: httpx2.AsyncClient, key: str, version: str) -> None:
    caller = A2aCaller(http, BASE_URL, VERSIONS[version], key=key, name="probe")
    [*_, error] = [record async for record in caller.call("get", {"id": "nothing"})]
    assert error["kind"] == "error"
    assert "no such task" in error["message"]
    stranger = A2aCaller(http, BASE_URL, VERSIONS[version], key="wrong", name="probe")
    [*_, refusal] = [record async for record in stranger.call("send", message("hello"))]
    assert (refusal["kind"], refusal["status"]) == ("error", 401)
    nowhere = A2aCaller(http, BASE_URL, VERSIONS[version], key=key, name="no-such-agent")
    [*_, absent] = [record async for record in nowhere.read_card()]
    assert (absent["kind"], absent["status"]) == ("error", 404)


async def test_a_resumed_stream_begins_after_the_last_event(http: httpx2.AsyncClient, key: str) -> None:
    caller = A2aCaller(http, BASE_URL, VERSIONS["0.3"], key=key, name="probe")
    stream_records = [record async for record in caller.call("stream", message("again", "pieces", count="2"))]
    events = of_kind(stream_records, "event")
    [first] = [record["event"]["task"]["id"] for record in events if "task" in record["event"]]
    later_records = [
        record async for record in caller.call("subscribe", {"id": first}, after=events[-1]["id"])
    ]
    assert of_kind(later_records, "request")[-1]["headers"]["last-event-id"] == events[-1]["id"]
    assert not [record for record in of_kind(later_records, "event") if "artifactUpdate" in record["event"]]


async def test_a_server_that_is_away_is_an_error() -> None:
    async with httpx2.AsyncClient() as http:
        caller = A2aCaller(http, "http://127.0.0.1:1", VERSIONS["1.0"])
        [*_, error] = [record async for record in caller.read_card()]
    assert "does not answer" in error["message"]


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://a.example/", "https://a.example/.well-known/agent-card.json"),
        ("https://a.example/x?tenant=1", "https://a.example/x/.well-known/agent-card.json?tenant=1"),
        ("https://a.example/x/agent-card.json", "https://a.example/x/agent-card.json"),
    ],
)
async def test_a_base_may_have_a_query_or_be_the_card(base: str, url: str) -> None:
    urls: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        urls.append(str(request.url))
        return httpx2.Response(404)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        async for _ in A2aCaller(http, base, VERSIONS["1.0"]).read_card():
            pass
    assert urls == [url]


def stranger(home: str, elsewhere: str) -> httpx2.MockTransport:
    """An agent whose card sends HTTP+JSON elsewhere. It fails the test if it is called there."""
    rpc = {"url": f"{home}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    rest = {"url": elsewhere, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}

    def answer(request: httpx2.Request) -> httpx2.Response:
        assert str(request.url).startswith(f"{home}/"), "the key left the origin"
        return httpx2.Response(200, json={"name": "S", "supportedInterfaces": ["junk", rpc, rest]})

    return httpx2.MockTransport(answer)


@pytest.mark.parametrize(
    "elsewhere", ["http://good.example/rest", "https://good.example:9999", "https://bad.example"]
)
async def test_the_key_stays_at_its_origin(elsewhere: str) -> None:
    home = "https://good.example"
    async with httpx2.AsyncClient(transport=stranger(home, elsewhere)) as http:
        caller = A2aCaller(http, home, VERSIONS["1.0-http"], key="secret")
        [*_, error] = [record async for record in caller.call("get", {"id": "t"})]
    assert error["kind"] == "error"
    assert "another origin" in error["message"]


def answering(card: Json, answer: httpx2.Response) -> httpx2.MockTransport:
    """An agent with a card, and one answer to all calls."""
    return httpx2.MockTransport(
        lambda request: httpx2.Response(200, json=card) if request.url.path.endswith(".json") else answer
    )


async def test_an_agent_may_have_http_json_alone() -> None:
    rest = {"url": "https://a.example/v1/", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
    card = {"name": "A", "supportedInterfaces": [rest]}
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
    async with httpx2.AsyncClient(transport=answering(card, httpx2.Response(200, json=task))) as http:
        caller = A2aCaller(http, "https://a.example", VERSIONS["1.0-http"])
        [*_, last] = [record async for record in caller.call("get", {"id": "t"})]
        assert last["result"]["id"] == "t"
        assert caller.agent is not None
        assert caller.agent.url == "https://a.example/v1/"
        [*_, error] = [
            record async for record in A2aCaller(http, "https://a.example", VERSIONS["1.0"]).read_card()
        ]
    assert error["message"].endswith("Choose A2A 1.0, HTTP+JSON (VERSION=1.0-http)")


async def test_a_stream_that_is_refused_is_an_error() -> None:
    rpc = {"url": "https://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    answer = httpx2.Response(401, headers={"Content-Type": "text/event-stream"})
    transport = answering({"name": "A", "supportedInterfaces": [rpc]}, answer)
    async with httpx2.AsyncClient(transport=transport) as http:
        caller = A2aCaller(http, "https://a.example", VERSIONS["1.0"])
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        [*_, error] = [record async for record in caller.call("stream", {"message": message})]
    assert error["kind"] == "error"
    assert "401" in error["message"]


async def test_a_card_may_be_for_those_with_a_token_only() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.headers.get("authorization") != "Bearer token":
            return httpx2.Response(401, json={"error": {"message": "sign in"}})
        rpc = {"url": "https://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return httpx2.Response(200, json={"name": "A", "supportedInterfaces": [rpc]})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        caller = A2aCaller(http, "https://a.example", VERSIONS["1.0"], key="token")
        [*_, last] = [record async for record in caller.read_card()]
    assert last["kind"] == "result"


async def test_a_card_of_another_host_says_how_to_call_it() -> None:
    rpc = {"url": "http://localhost:9999/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    card = {"name": "A", "supportedInterfaces": [rpc]}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json=card))
    async with httpx2.AsyncClient(transport=transport) as http:
        caller = A2aCaller(http, "http://127.0.0.1:9999", VERSIONS["1.0"])
        [*_, error] = [record async for record in caller.read_card()]
    assert error["message"].endswith("http://localhost:9999. To trust it, write that host into the URL")


async def test_a_key_that_no_header_can_have_is_not_shown() -> None:
    async with httpx2.AsyncClient() as http:
        caller = A2aCaller(http, "http://127.0.0.1:1", VERSIONS["1.0"], key="sk-secret\n")
        records = [record async for record in caller.read_card()]
    assert "a character that a header cannot carry" in records[-1]["message"]
    assert "sk-secret" not in str(records)


@pytest.mark.parametrize("params", [None, "x", {"url": 3}, {"url": ""}])
async def test_a_card_may_have_anything_under_uploads(params: Json) -> None:
    extension = {"uri": UPLOADS_EXTENSION, "params": params}
    card = {"capabilities": {"extensions": [None, extension]}}
    assert uploads.upload_url(card, "https://a.example/") == ""


@pytest.mark.parametrize(
    "answered", [[], {}, {"form": None}, {"form": {"url": 1}, "url": "u"}, {"form": {"url": "u"}}]
)
async def test_an_answer_that_names_no_place_for_a_file_is_an_error(answered: Json) -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json=answered))
    part = Part(filename="a.txt", mediaType="text/plain")
    async with httpx2.AsyncClient(transport=transport) as http:
        with pytest.raises(AgentError, match="does not say where to upload"):
            await uploads.upload(http, "https://a.example/u", io.BytesIO(b"a"), part, size=1, headers={})


async def test_a_form_whose_fields_are_not_texts_is_an_error() -> None:
    answered = {"url": "u", "form": {"url": "https://a.example/s3", "fields": {"policy": {}}}}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json=answered))
    part = Part(filename="a.txt", mediaType="text/plain")
    async with httpx2.AsyncClient(transport=transport) as http:
        with pytest.raises(AgentError, match="fields that are not strings"):
            await uploads.upload(http, "https://a.example/u", io.BytesIO(b"a"), part, size=1, headers={})


@pytest.mark.parametrize(
    "place", ["http://127.0.0.1:9000/admin", "http://127.1/", "http://10.0.0.1/", "ftp://a.example/"]
)
async def test_an_agent_elsewhere_cannot_send_a_file_to_this_machine(place: str) -> None:
    requests: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(str(request.url))
        return httpx2.Response(200, json={"url": "a2a-file:uploads/x", "form": {"url": place, "fields": {}}})

    part = Part(filename="a.txt", mediaType="text/plain")
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        with pytest.raises(AgentError, match="without https"):
            await uploads.upload(http, "https://a.example/u", io.BytesIO(b"a"), part, size=1, headers={})
    assert requests == ["https://a.example/u"]


async def test_an_id_is_no_path() -> None:
    paths: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        paths.append(request.url.raw_path.decode())
        rest = {"url": "https://a.example", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
        rpc = {**rest, "protocolBinding": "JSONRPC"}
        return httpx2.Response(200, json={"name": "A", "supportedInterfaces": [rpc, rest]})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        caller = A2aCaller(http, "https://a.example", VERSIONS["1.0-http"])
        [record async for record in caller.call("get", {"id": "../admin?x=1#"})]
    assert paths[-1] == "/tasks/..%2Fadmin%3Fx%3D1%23"


async def test_an_answer_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a, "MAX_BYTES", 1000)
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=b"x" * 5000))
    async with httpx2.AsyncClient(transport=transport) as http:
        [*_, error] = [record async for record in A2aCaller(http, "https://a", VERSIONS["1.0"]).read_card()]
    assert "more than 1000 bytes" in error["message"]
