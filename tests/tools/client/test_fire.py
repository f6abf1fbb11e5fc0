"""make fire, where no make run answers."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda.errors import ConfigurationError
from tools.client.fire import ask_server, main
from tools.state import server_port, state_file


@pytest.mark.parametrize(("status", "body"), [(200, "hello"), (404, "{}"), (200, ""), (200, "[]")])
def test_another_server_at_the_port_is_a_mistake(httpserver: Any, status: int, body: str) -> None:
    httpserver.expect_request("/playground/schedules").respond_with_data(body, status=status)
    with pytest.raises(ConfigurationError, match=f"port {httpserver.port} does not answer as make run does"):
        ask_server(httpserver.port, {})


def test_the_running_server_is_found_without_its_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert server_port({}) == 8080
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        state_file(port).write_text(json.dumps({"port": port, "emulator": ""}))
        assert server_port({}) == port
        assert server_port({"PORT": "9000"}) == 9000


def test_a_started_task_is_followed_in_the_logs_of_its_stack(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    selections: list[Any] = []

    def answer(stack: str, event: dict[str, Any]) -> dict[str, Any]:
        selections.append((stack, event["schedules"]["agent"], event["schedules"]["id"]))
        return {"task": "t-1"}

    monkeypatch.setattr("tools.client.fire.ask_worker", answer)
    for name, value in {"AGENT": "reports", "SCHEDULE": "nightly", "STACK": "kit"}.items():
        monkeypatch.setenv(name, value)
    assert main() == 0
    assert selections == [("kit", "reports", "nightly")]
    assert "make logs STACK=kit TASK=t-1" in capsys.readouterr().out
