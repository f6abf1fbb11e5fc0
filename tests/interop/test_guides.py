"""The programs of docs/connecting.md, as they are there, against `make run`."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.dev_server import DevServer
from tests.helpers.project import copy_kit
from tests.processes.servers import answers

pytestmark = [pytest.mark.slow, pytest.mark.interop]

GUIDES = {
    "a2a-sdk 1.x": "a2a-1",
    "a2a-sdk 0.3": "a2a-0-3",
    "Agent Development Kit (ADK)": "clients",
    "Strands": "strands",
    "Microsoft Agent Framework": "clients",
}
"""Headings of the page, and the environment of each program."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    dev_server = DevServer(copy_kit(tmp_path_factory.mktemp("guides")))
    dev_server.until(lambda: answers(f"{dev_server.url}/.well-known/agent.json"))
    yield dev_server
    dev_server.interrupt()


def program(heading: str, language: str) -> str:
    text = (ROOT / "docs" / "connecting.md").read_text("utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    [code] = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    return str(code)


PATHS = ["", "/a2a/assistant"]
"""Of the agent: the only one, and one of several."""


def run(command: list[str], url: str, folder: Path) -> str:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        command,
        cwd=folder,
        env={**variables, "A2A_URL": url, "A2A_KEY": "local-key"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("heading", GUIDES)
def test_a_python_program_works(server: DevServer, heading: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program(heading, "python"))
    python = ROOT / ".venvs" / GUIDES[heading] / "bin" / "python"
    output = run([str(python), "program.py"], server.url + path, tmp_path)
    assert "Basketball, then." in output
    assert "Move your feet." in output, "the whole reply, not only its beginning"


@pytest.mark.skipif(not (ROOT / ".venvs/js/node_modules").exists(), reason="no npm on this machine")
@pytest.mark.parametrize("path", PATHS)
def test_the_javascript_program_works(server: DevServer, path: str, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(ROOT / ".venvs/js/node_modules")
    (tmp_path / "program.mjs").write_text(program("JavaScript SDK", "js"))
    node = shutil.which("node")
    assert node
    assert "Basketball, then." in run([node, "program.mjs"], server.url + path, tmp_path)


def test_every_program_is_run() -> None:
    text = (ROOT / "docs" / "connecting.md").read_text("utf-8")
    assert len(re.findall(r"```(?:python|js)\n", text)) == len(GUIDES) + 1


def test_the_program_for_mcp_works(server: DevServer, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "mcp.md").read_text("utf-8")
    [code] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "program.py").write_text(code)
    output = run([str(ROOT / ".venvs/mcp/bin/python"), "program.py"], server.url, tmp_path)
    assert "ai-calculate - Calculates" in output
    assert "40 plus 2 is 42." in output
