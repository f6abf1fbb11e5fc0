"""make playground STACK=…, as far as it needs no stack."""

import asyncio
from typing import Any

import httpx2
import pytest
import uvicorn

from a2a_lambda.protocol.card import Card, CardSkill
from tools.client import logs
from tools.command import listen
from tools.playground import serve
from tools.playground.app import Playground

SKILL = CardSkill(id="s", name="S", description="D")


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "outputs_of", lambda _: {"BaseUrl": "https://agents.example.com"})
    monkeypatch.setattr(serve, "agents_of", lambda _: ["one"])


def test_the_agents_of_a_stack_begin_with_the_one_that_answers_at_its_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cards = {
        name: Card(name=name, description="", version="1", skills=[SKILL])
        for name in ("hello", "news", "weather")
    }
    monkeypatch.setattr(serve, "read_cards", lambda _: (cards, {}))
    monkeypatch.setattr(serve, "parameters_of", lambda _: {"AgentNames": "weather,hello"})
    assert serve.agents_of("a2a-dev") == ["weather", "hello"]


class Lines:
    """A log. failures: how often its stack cannot be described."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures

    def log_of(self, _: str) -> "Lines":
        if self.failures:
            self.failures -= 1
            raise PermissionError("the credentials have expired")
        return self

    def read(self) -> list[Any]:
        return [{"message": "hello"}]


@pytest.mark.usefixtures("stack")
def test_a_log_that_cannot_be_read_says_so_and_is_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "log_of", Lines(failures=1).log_of)
    monkeypatch.setattr(serve, "FAILED_PAUSE_SECONDS", 0.01)

    async def read() -> list[str]:
        stopping = asyncio.Event()
        target = serve.target_of_stack("a", "", stopping)
        assert target.log is not None
        messages = []
        async for entry in target.log():
            if entry is not None:
                messages.append(entry["message"])
            if len(messages) == 2:
                stopping.set()
        return messages

    assert asyncio.run(read()) == ["the log cannot be read: the credentials have expired", "hello"]


@pytest.mark.usefixtures("stack")
def test_a_page_that_follows_the_log_does_not_keep_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "log_of", Lines().log_of)
    monkeypatch.setattr(logs, "PAUSE_SECONDS", 600)

    async def serve_and_stop() -> None:
        stopping = asyncio.Event()
        app = Playground(serve.target_of_stack("a", "", stopping))
        with listen(0, "make playground") as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            # Without an end of the log, the open answer would have ten minutes.
            config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=600)
            server = serve.Server(config, stopping)
            async with httpx2.AsyncClient(trust_env=False) as http, asyncio.timeout(60):
                work = asyncio.create_task(server.serve(sockets=[listener]))
                while not server.started:
                    await asyncio.sleep(0.01)
                async with http.stream("GET", f"{url}/playground/log") as answer:
                    lines = answer.aiter_lines()
                    while "hello" not in await anext(lines):
                        pass
                    server.should_exit = True
                    assert not [line async for line in lines if "hello" in line]
                await work

    asyncio.run(serve_and_stop())
