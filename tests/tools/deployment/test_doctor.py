"""make doctor: a table a person can read, of what a live agent's clients would meet."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pytest_httpserver import HTTPServer
from starlette.testclient import TestClient

from a2a_lambda.errors import ConfigurationError
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from tests.conftest import BASE_URL
from tools.callers import records
from tools.deployment import doctor
from tools.state import state_file

Examine = Callable[..., int]


@pytest.fixture
def examine(kit: Kit, key: str) -> Examine:
    """Runs it against the application, whose answers may be changed on their way."""

    def examine(
        change: Callable[[httpx2.Request], httpx2.Response | None] = lambda _: None, text: str = "hello"
    ) -> int:
        class Changed(httpx2.AsyncBaseTransport):
            def __init__(self) -> None:
                self._inner = httpx2.ASGITransport(create_app(kit))

            async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
                return change(request) or await self._inner.handle_async_request(request)

        return asyncio.run(doctor.examine(BASE_URL, key, text, Changed())).failed

    return examine


def test_a_healthy_agent(examine: Examine, capsys: pytest.CaptureFixture[str]) -> None:
    assert examine() == 0
    output = capsys.readouterr().out
    for name in ("Alibaba Model Studio", "A2A 0.3", "A2A 1.0", "MCP"):
        assert name in output
    assert "FAIL" not in output
    assert output.count("a stream") == 3


@pytest.mark.parametrize(
    ("state", "texts"),
    [
        (
            "working",
            [
                "note  a plain call",
                "working: the task continues without the call",
                "note  a stream",
                "after 0.5 s it had not ended: its task still runs",
            ],
        ),
        (
            "input-required",
            ["pass  a stream", "after 0.5 s it had not ended, as it need not after a question"],
        ),
    ],
)
def test_an_agent_whose_streams_stay_open(
    kit: Kit, key: str, monkeypatch: pytest.MonkeyPatch, state: str, texts: list[str]
) -> None:
    """Streams of durable agents, and of agents that ask, do so: they are left, and nothing has failed."""
    monkeypatch.setattr(doctor, "STREAM_SECONDS", 0.5)
    task: Any = {"id": "t", "contextId": "c", "status": {"state": state}}

    class Waiting(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            result = {"kind": "task", **task}
            yield b"data: " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode() + b"\n\n"
            await asyncio.sleep(60)

    class Durable(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            body = json.loads(request.content) if request.method == "POST" else {}
            answer = {"jsonrpc": "2.0", "id": body.get("id"), "result": {"kind": "task", **task}}
            match body.get("method"):
                case "message/send" | "tasks/get" if "X-API-Key" in request.headers:
                    return httpx2.Response(200, json=answer)
                case "message/stream" if "X-API-Key" in request.headers:
                    headers = {"Content-Type": "text/event-stream"}
                    return httpx2.Response(200, headers=headers, stream=Waiting())
            return await httpx2.ASGITransport(create_app(kit)).handle_async_request(request)

    visit = doctor.Visit(httpx2.AsyncClient(transport=Durable()), key, "hello")
    asyncio.run(visit.visit_v0_3(BASE_URL))
    assert visit.report.failed == 0, visit.report.table()
    for text in texts:
        assert text in visit.report.table()


def test_an_agent_that_answers_a_stream_with_the_whole_task(kit: Kit, key: str) -> None:
    task: Any = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}}

    class Whole(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            body = json.loads(request.content) if request.method == "POST" else {}
            if "method" in body and "X-API-Key" in request.headers:
                return httpx2.Response(200, json={"jsonrpc": "2.0", "id": body["id"], "result": task})
            return await httpx2.ASGITransport(create_app(kit)).handle_async_request(request)

    visit = doctor.Visit(httpx2.AsyncClient(transport=Whole()), key, "hello")
    asyncio.run(visit.visit_v0_3(BASE_URL))
    assert "the answer is the whole task, and not a stream" in visit.report.table()
    assert visit.report.failed == 1


def test_an_agent_that_fails_each_call(
    examine: Examine, kit: Kit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent whose model refuses its credentials answers, but is not well."""
    monkeypatch.setattr(kit.agents.load("assistant"), "_route", lambda turn: 1 / 0)
    assert examine() == 0
    output = capsys.readouterr().out
    assert output.count("note  a plain call") == output.count("note  a stream") == 3
    assert "failed: The agent could not finish this request. The agent's log says more" in output


def test_an_agent_without_a_card(examine: Examine, capsys: pytest.CaptureFixture[str]) -> None:
    missing = httpx2.Response(404)
    assert examine(lambda request: missing if request.method == "GET" else None) == 3
    assert "status 404" in capsys.readouterr().out


def test_a_card_that_never_ends_is_a_row(
    examine: Examine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_BYTES", 100_000)
    sent_bytes = [0]

    async def endless() -> AsyncIterator[bytes]:
        while sent_bytes[0] < 10_000_000:
            sent_bytes[0] += 10_000
            yield b" " * 10_000

    examine(lambda request: httpx2.Response(200, content=endless()) if request.method == "GET" else None)
    assert "FAIL  the card" in (output := capsys.readouterr().out)
    assert "more than 100000 bytes" in output
    assert sent_bytes[0] < 10_000_000


def test_the_reason_why_a_card_is_not_there_is_shown(
    examine: Examine, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = httpx2.Response(503, json={"error": {"code": 503, "message": "one card.yaml must say"}})
    examine(lambda request: answer if request.method == "GET" else None)
    assert "status 503: one card.yaml must say" in capsys.readouterr().out


def test_an_agent_that_lets_everybody_in(examine: Examine, capsys: pytest.CaptureFixture[str]) -> None:
    def open_door(request: httpx2.Request) -> httpx2.Response | None:
        keyless = not {"x-api-key", "authorization"} & request.headers.keys()
        return httpx2.Response(200, json={}) if request.method == "POST" and keyless else None

    assert examine(open_door) == 4
    assert "FAIL  refuses a call without a key" in capsys.readouterr().out


def test_an_agent_that_answers_nonsense(examine: Examine, capsys: pytest.CaptureFixture[str]) -> None:
    nonsense = httpx2.Response(200, content=b"<html>")
    assert examine(lambda request: nonsense if request.method == "POST" else None) > 3
    assert "FAIL  a plain call" in capsys.readouterr().out


def test_an_agent_whose_card_and_answers_are_hostile(
    examine: Examine, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(request: httpx2.Request) -> httpx2.Response | None:
        if request.url.path.endswith((".json",)):
            card = {
                "name": "x",
                "url": BASE_URL,
                "protocolVersion": "0.3.0",
                "capabilities": "x",
                "skills": [],
            }
            return httpx2.Response(200, json=card)
        return httpx2.Response(500, content=b"[" * 100_000)

    assert examine(change) > 3
    assert "FAIL  a plain call" in capsys.readouterr().out


def test_an_agent_that_is_not_there() -> None:
    with pytest.raises(
        ConfigurationError, match=r"http://127\.0\.0\.1:9 cannot be reached: .* make run PORT=9$"
    ):
        asyncio.run(doctor.examine("http://127.0.0.1:9", "", "hello"))


def test_an_agent_whose_host_has_no_address(examine: Examine) -> None:
    def find_no_address(request: httpx2.Request) -> None:
        raise httpx2.ConnectError("Name or service not known")

    with pytest.raises(ConfigurationError, match=r"cannot be reached: Name or service not known$"):
        examine(find_no_address)


def test_an_agent_behind_a_proxy(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a company's network, no other way may lead to a deployment."""
    url = "http://agents.example.com"
    monkeypatch.setenv("HTTP_PROXY", httpserver.url_for(""))
    card = {"name": "x", "url": url, "protocolVersion": "0.2.5"}
    httpserver.expect_request("/.well-known/agent-card.json").respond_with_json(card)
    assert asyncio.run(doctor.examine(url, "", "hello")).failed
    assert {request.host for request, _ in httpserver.log} == {"agents.example.com"}
    assert ("POST", "/") in {(request.method, request.path) for request, _ in httpserver.log}


def test_an_agent_whose_skill_has_no_tag(
    examine: Examine, kit: Kit, capsys: pytest.CaptureFixture[str]
) -> None:
    card = TestClient(create_app(kit), base_url=BASE_URL).get("/.well-known/agent-card.json").json()
    card["skills"][0]["tags"] = []

    def answer(request: httpx2.Request) -> httpx2.Response | None:
        return httpx2.Response(200, json=card) if "agent-card" in request.url.path else None

    assert examine(answer) > 0
    assert f"{card['skills'][0]['id']}.tags" in capsys.readouterr().out


def test_an_agent_whose_card_names_another_host(
    examine: Examine, kit: Kit, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its callers, and their keys, do not go there."""
    hosts: list[str] = []
    card = {
        "name": "x",
        "url": "https://evil.example/rpc",
        "protocolVersion": "0.2.5",
        "supportedInterfaces": [
            {"url": "http://169.254.169.254/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
    }

    def answer(request: httpx2.Request) -> httpx2.Response:
        hosts.append(request.url.host)
        return httpx2.Response(200, json=card)

    assert examine(answer) == 4
    assert set(hosts) == {"agents.example.com"}
    assert "another origin, https://evil.example" in capsys.readouterr().out


def test_the_one_of_make_run_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []

    async def examine(url: str, key: str, text: str) -> doctor.Report:
        calls.append((url, key))
        return doctor.Report()

    monkeypatch.setattr(doctor, "examine", examine)
    monkeypatch.chdir(tmp_path)
    for name in ("URL", "AGENT", "STACK", "PORT", "KEY", "TOKEN", "TOKEN_COMMAND", "LOCAL_KEY"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        state_file(port).write_text(json.dumps({"port": port, "emulator": ""}))
        assert doctor.main() == 0
        monkeypatch.setenv("AGENT", "hello")
        assert doctor.main() == 0
    url = f"http://127.0.0.1:{port}"
    assert calls == [(url, "local-key"), (f"{url}/a2a/hello", "local-key")]


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"AGENT": ""}, "AGENT is empty"),
        ({"AGENT": "hello", "URL": "https://agents.example.com/a2a/hello"}, "leave out AGENT"),
        ({"AGENT": "hello", "URL": "https://agents.example.com?a=b"}, "example.com names an agent, or has"),
    ],
)
def test_an_agent_is_named_once(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: dict[str, str],
    problem: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert doctor.main() == 1
    assert problem in capsys.readouterr().err
