"""The official clients, each in its own environment, at their default timeouts of five seconds."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.processes.servers import KEY, Server

pytestmark = pytest.mark.slow


CLIENTS = [
    ("a2a-0-2", "client_0_2.py"),
    ("a2a-0-3", "client_0_3.py", "JSONRPC"),
    ("a2a-0-3", "client_0_3.py", "HTTP+JSON"),
    ("a2a-1", "client_1.py", "JSONRPC"),
    ("a2a-1", "client_1.py", "HTTP+JSON"),
]
"""Environment, script, and the binding it takes."""

EXPECTED = {
    "send": "waiting done",
    "blocked": "waiting done",
    "stream": "waiting done",
    "ends": ["completed", "completed"],
    "quick": "0 1 2 3 4 ",
    "get": "input-required",
    "cancel": "canceled",
    "push": "https://example.com/hook",
    "resubscribe": "0 1 2 3 4 ",  # to a task that has ended
}

ONLY_1_0 = {"pushes": [1, 0], "list": [2, 2, True, True], "resubscribe": "waiting done"}
"""The clients of 1.0 subscribe to a task that runs."""


def ask(url: str, environment: str, name: str, *binding: str) -> "subprocess.CompletedProcess[str]":
    python = ROOT / ".venvs" / environment / "bin" / "python"
    script = ROOT / "tests" / "interop" / name
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(python), str(script), url, KEY, *binding],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.interop
def test_every_client_lives_through_silence(servers: Server) -> None:
    """12 s without a word, streamed and blocking, and the other operations; all clients at once."""
    url = servers()
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda client: ask(url, *client), CLIENTS))
    for client, answer in zip(CLIENTS, answers, strict=True):
        assert answer.returncode == 0, f"{client}: {answer.stderr[-2000:]}"
        outcomes: dict[str, Any] = json.loads(answer.stdout)
        outcomes.setdefault("resubscribe", EXPECTED["resubscribe"])  # not every client can
        assert outcomes == EXPECTED | (ONLY_1_0 if client[0] == "a2a-1" else {}), client
