"""Official clients of MCP, and the project's conformance kit, against a server of the kit."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conformance import mcp as conformance
from tests.conftest import ROOT
from tests.helpers.clock import PATIENCE_SECONDS, wait_until
from tests.interop.provider import NODE_MODULES, run_client
from tests.processes.servers import KEY, Server

pytestmark = [pytest.mark.slow(seconds=70), pytest.mark.interop]

TOOLS = ["ai-repeat", "ai-calculate", "ai-count", "ai-flash", "ai-coach"]


@pytest.fixture(scope="module")
def url(servers: Server) -> str:
    return servers(A2A_AGENT_NAMES="assistant,probe")


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_python_sdk(url: str, mode: str, version: str) -> None:
    """Its last call is one that it leaves. That cancels the call in the newest revision alone."""
    python, script = str(ROOT / ".venvs/mcp/bin/python"), str(ROOT / "tests/interop/mcp/client_mcp.py")
    earlier_ids = set(states_of_tasks(url))
    seconds = {"auto": 60, "legacy": 5}[mode]
    output = run_client(python, script, url, KEY, mode, str(seconds))
    assert (output["version"], output["tools"], output["sum"]) == (version, TOOLS, "40 plus 2 is 42.")
    if mode == "auto":
        assert output["asked"][1] == ["basketball", "football"]
        assert "Football, then." in output["coach"]
    else:
        assert "Which sport" in output["coach"]
        assert "task=" in output["coach"]
    assert output["pieces"] == output["progress"][: len("0 1 2 ")] == "0 1 2 "
    assert (output["boom"], output["left"]) == (True, True)
    assert "Tools: ai-repeat" in output["unknown"]
    left = "TASK_STATE_CANCELED" if mode == "auto" else "TASK_STATE_COMPLETED"
    ends = sorted(["TASK_STATE_COMPLETED", "TASK_STATE_FAILED", left])

    def has_ended() -> bool:
        return ends == sorted(
            state for name, state in states_of_tasks(url).items() if name not in earlier_ids
        )

    wait_until(has_ended, pause=0.2)


def states_of_tasks(url: str) -> dict[str, str]:
    """States of the tasks that clients made with the agent `probe`, by their ids."""
    headers = {"X-API-Key": KEY, "A2A-Version": "1.0"}
    tasks = httpx2.get(f"{url}/a2a/probe/tasks", headers=headers, timeout=PATIENCE_SECONDS).json()["tasks"]
    return {task["id"]: task["status"]["state"] for task in tasks}


def test_fastmcp(url: str) -> None:
    assert run_fastmcp(url, "assistant") == {
        **{"tools": TOOLS, "sum": "40 plus 2 is 42.", "coach": "Basketball, then. ", "unknown": True},
        "asked": ["Which sport should I coach: basketball or football?"],
    }
    assert run_fastmcp(url, "probe") == {
        **{"pieces": "0 1 2 ", "progress": "0 1 2 ", "boom": "ToolError", "left": "TimeoutError"},
    }


def run_fastmcp(url: str, agent: str) -> Any:
    python, script = str(ROOT / ".venvs/mcp/bin/python"), str(ROOT / "tests/interop/mcp/client_fastmcp.py")
    return run_client(python, script, url, KEY, agent)


@pytest.mark.skipif(not NODE_MODULES.exists(), reason="no npm on this machine")
def test_the_typescript_sdk(url: str, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    script = tmp_path / "client_mcp.mjs"
    script.write_text((ROOT / "tests/interop/mcp/client_mcp.mjs").read_text())
    output = run_client("node", str(script), url, KEY)
    assert (output["tools"], output["sum"]) == (TOOLS, "40 plus 2 is 42.")
    assert output["pieces"] == output["progress"] == "0 1 2 "
    assert (output["boom"], output["left"]) == (True, True)
    assert "unknown tool" in output["unknown"]
    assert output["coach"].startswith("Football, then.")


INSPECTOR = NODE_MODULES / ".bin" / "mcp-inspector"


@pytest.mark.skipif(not conformance.NODE.exists(), reason="no Node 22 on this machine")
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_inspector(url: str, era: str) -> None:
    def inspect(*options: str, key: str = KEY) -> tuple[int, str]:
        place = [f"{url}/mcp/assistant", "--transport", "http", "--protocol-era", era]
        result = subprocess.run(
            [str(INSPECTOR), "--cli", *place, "--header", f"X-API-Key: {key}", *options],
            env=os.environ | {"PATH": f"{conformance.NODE.parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return result.returncode, result.stdout + result.stderr

    status, output = inspect("--method", "tools/list", "--strict")
    assert status == 0, output
    assert [tool["name"] for tool in json.loads(output)["tools"]] == TOOLS
    call = ("--method", "tools/call", "--tool-name")
    assert "40 plus 2 is 42." in inspect(*call, "ai-calculate", "--tool-arg", "num1=40", "num2=2")[1]
    assert "To answer, call this tool again" in inspect(*call, "ai-coach")[1]
    assert inspect(*call, "nothing")[0] != 0
    assert inspect("--method", "tools/list", "--stored-auth-only", key="wrong")[0] != 0


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with conformance.serving(tmp_path_factory.mktemp("everything")) as url:
        yield url


def test_tasks_of_fastmcp(endpoint: str) -> None:
    assert run_fastmcp(endpoint, "") == {
        **{"done": "computed it", "failed": "ToolError: the job failed", "answered": "a: yes"},
        **{"asked": ["Delete a?"], "canceled": "cancelled"},
    }


@pytest.mark.skipif(not conformance.NODE.exists(), reason="no Node 22 on this machine")
@pytest.mark.parametrize(
    ("revision", "scenario"),
    [(revision, name) for revision, names in conformance.SCENARIOS.items() for name in names],
)
def test_the_conformance_kit(endpoint: str, revision: str, scenario: str) -> None:
    statuses = conformance.check(endpoint, revision, scenario)
    assert "SUCCESS" in statuses.values()
    assert not list(conformance.failures(statuses))
