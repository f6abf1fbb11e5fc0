"""The official clients, each in its own environment, at their default timeouts of five seconds."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.processes.servers import KEY, Server

CLIENTS = {"a2a-0-2": "client_0_2.py", "a2a-0-3": "client_0_3.py", "a2a-1": "client_1.py"}

EXPECTED = {
    "send": "waiting done",
    "blocked": "waiting done",
    "stream": "waiting done",
    "ends": ["completed", "completed"],
    "quick": "0 1 2 3 4 ",
    "get": "input-required",
    "cancel": "canceled",
}


def ask(environment: str, url: str) -> "subprocess.CompletedProcess[str]":
    python = ROOT / ".venvs" / environment / "bin" / "python"
    script = ROOT / "tests" / "interop" / CLIENTS[environment]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(python), str(script), url, KEY], env=variables, capture_output=True, text=True, check=False
    )


@pytest.mark.interop
def test_every_client_lives_through_silence(servers: Server) -> None:
    """12 s without a word, streamed and blocking, and the other operations; all clients at once."""
    url = servers()
    with ThreadPoolExecutor() as pool:
        answers = dict(zip(CLIENTS, pool.map(lambda name: ask(name, url), CLIENTS), strict=True))
    for name, answer in answers.items():
        assert answer.returncode == 0, f"{name}: {answer.stderr[-2000:]}"
        found: dict[str, Any] = json.loads(answer.stdout)
        assert found.pop("resubscribe", "0 1 2 3 4 ") == "0 1 2 3 4 ", name
        assert found == EXPECTED, name
