"""An agent that cannot be imported, beside one that can."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.background import placement
from a2a_lambda.catalog.agents import load_profiles
from a2a_lambda.catalog.manifest import encode_manifest
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import MANIFEST, Kit
from a2a_lambda.settings import Settings
from a2a_lambda.turns.run import Run
from tests.agent.folders import CARD, write
from tests.conftest import BASE_URL, new_key
from tests.helpers.rpc import Rpc, events, message, request, texts

GOOD = "@skill\ndef hello(turn): return f'Hello, {turn.text}!'"

Deploy = Callable[..., TestClient]


@pytest.fixture
def deploy(settings: Settings, tmp_path: Path) -> Deploy:
    """Serves what was built, after which the agent `bad` became the code given here."""

    def deploy(code: str, **options: object) -> TestClient:
        folder = tmp_path / "agents"
        folder.mkdir()
        write(folder, GOOD, CARD + "default: true\n", name="good")
        bad = write(folder, GOOD, name="bad")
        (tmp_path / MANIFEST).write_bytes(encode_manifest(load_profiles(folder)))
        (bad / "agent.py").write_text(code)
        kit = Kit(settings.model_copy(update={"agents": folder, **options}))
        return TestClient(create_app(kit), base_url=BASE_URL)

    return deploy


def rpc(client: TestClient, agent: str) -> Rpc:
    kit: Kit = client.app.state.kit  # type: ignore[attr-defined]
    return Rpc(client, new_key(kit), f"/a2a/{agent}")


@pytest.mark.parametrize("method", ["message/send", "message/stream"])
def test_a_message_to_it_is_refused_and_leaves_no_task(
    deploy: Deploy, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = deploy("raise RuntimeError('no such service')")
    bad = rpc(client, "bad")
    refusal = bad.post(request(method, {"message": message(contextId="c")}))
    assert refusal.status_code == 503
    assert refusal.headers["retry-after"] == "1"
    assert "'bad' cannot be loaded" in refusal.json()["error"]["message"]
    assert "no such service" not in refusal.text, "the reason is for the operator"
    assert "no such service" in caplog.text
    page = client.get("/a2a/bad/tasks", headers={"X-API-Key": bad.key, "A2A-Version": "1.0"}).json()
    assert page["tasks"] == []


def test_cards_and_the_other_agent_are_served(deploy: Deploy) -> None:
    client = deploy("import nowhere")
    for name in ("good", "bad"):
        assert client.get(f"/a2a/{name}/.well-known/agent.json").json()["name"] == name
    assert texts(rpc(client, "good").send("Ann")) == "Hello, Ann!"
    assert rpc(client, "bad").error("tasks/get", {"id": "x"})["code"] == -32001


def test_without_a_clear_default_only_calls_that_name_no_agent_are_refused(
    settings: Settings, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        write(tmp_path, GOOD, name=name)
    kit = Kit(settings.model_copy(update={"agents": tmp_path, "local": True}))
    client = TestClient(create_app(kit), base_url=BASE_URL)
    assert texts(rpc(client, "two").send("Ann")) == "Hello, Ann!"
    assert client.get("/a2a/one/.well-known/agent-card.json").json()["name"] == "one"
    for path in ("/.well-known/agent-card.json", "/openapi.json"):
        assert "must say `default: true`: one/card.yaml, two/card.yaml" in client.get(path).text
    key = {"X-API-Key": new_key(kit)}
    for path in ("/", "/mcp"):
        answer = client.post(path, json=request("message/send", {"message": message()}), headers=key)
        assert answer.status_code == 503, path
        assert "one/card.yaml, two/card.yaml" in answer.text


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Imports that wait for it end after a turn has been claimed."""
    opened = threading.Event()
    start = Run.start

    def open_and_start(run: Run, **options: Any) -> None:
        opened.set()
        start(run, **options)

    monkeypatch.setattr(Run, "start", open_and_start)
    monkeypatch.setattr(placement, "IMPORT_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(threading, "gate", opened, raising=False)
    return opened


WAITS = "import threading\nthreading.gate.wait(60)\n"


def test_an_import_that_fails_late_fails_the_turn(
    deploy: Deploy, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    """The client has its task by then. The worker's turns wait in the same way."""
    bad = rpc(deploy(f"{WAITS}raise RuntimeError('too late')"), "bad")
    [*_, last] = events(bad.post(request("message/stream", {"message": message()})).text)
    assert last["status"]["state"] == "failed"
    assert "the agent 'bad' cannot be loaded" in str(last)
    assert "too late" not in str(last)
    assert "too late" in caplog.text
    assert "skill  failed" not in caplog.text


def test_a_slow_import_is_waited_for(deploy: Deploy, gate: threading.Event) -> None:
    client = deploy(f"{WAITS}from a2a_lambda import *\n{GOOD}")
    assert texts(rpc(client, "bad").send("Ann")) == "Hello, Ann!"
