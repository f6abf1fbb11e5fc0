"""Which server the commands of a checkout call."""

import json
import socket
from pathlib import Path

import pytest

from a2a_lambda.errors import ConfigurationError
from tools import state
from tools.access.parameters import find_parameters
from tools.erasure.main import erasure_of
from tools.state import emulator_of, key_for, state_file


def test_without_an_emulator_nothing_is_changed_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that was started with endpoints has none. Without these, the calls would go to AWS."""
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for command in (find_parameters, erasure_of):
            state_file(port).unlink(missing_ok=True)
            with pytest.raises(ConfigurationError, match="no development server with an emulator"):
                command({})
            state_file(port).write_text(json.dumps({"port": port, "emulator": ""}))
            with pytest.raises(ConfigurationError, match="no development server with an emulator"):
                command({})
        assert emulator_of({"AWS_ENDPOINT_URL_SSM": "http://127.0.0.1:1"}, "AWS_ENDPOINT_URL_SSM") == ""


def test_who_finds_no_server_hears_how_to_start_it_or_to_name_its_port() -> None:
    assert state.start_advice(8090).endswith("make run PORT=8090")
    assert state.start_advice(None).endswith("make run. If it has another port, add PORT=…")


def test_the_key_of_the_server_on_that_port_signs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOCAL_KEY", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        url = f"http://127.0.0.1:{port}/a2a/hello"
        assert key_for(url, {}) == "local-key"
        state_file(port).write_text(json.dumps({"port": port, "emulator": "", "key": "another"}))
        assert key_for(url, {}) == "another"
        assert key_for(url, {"KEY": "mine"}) == "mine"
        assert key_for(f"https://agents.example.com:{port}", {}) == ""
        monkeypatch.setenv("LOCAL_KEY", "chosen")
        assert key_for(url, {}) == "chosen"
        monkeypatch.delenv("LOCAL_KEY")
    assert key_for(url, {}) == "local-key", "a server that was killed has left its file"


def test_a_local_key_that_no_client_can_send_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_KEY", "\u00e4")
    with pytest.raises(ConfigurationError, match="LOCAL_KEY: the key begins or ends with white space, or"):
        state.local_key()
