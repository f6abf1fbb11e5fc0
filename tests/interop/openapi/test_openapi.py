"""OpenAPI documents of a server of the kit: a validator, and a client that is generated from one."""

import json
import subprocess
from pathlib import Path

import httpx2
import pytest

from tests.conftest import ROOT
from tests.helpers.clock import PATIENCE_SECONDS
from tests.interop.provider import run_client
from tests.processes.servers import KEY, Server

PROGRAMS = ROOT / ".venvs/openapi/bin"

pytestmark = [pytest.mark.slow(seconds=15), pytest.mark.interop]


@pytest.fixture(scope="module")
def url(servers: Server) -> str:
    return servers(A2A_AGENT_NAMES="assistant,plain,traveler")


@pytest.mark.parametrize("path", ["/openapi.json", "/a2a/plain/openapi.json", "/a2a/traveler/openapi.json"])
def test_a_document_is_valid(url: str, path: str, tmp_path: Path) -> None:
    document = tmp_path / "openapi.json"
    document.write_bytes(httpx2.get(url + path, timeout=PATIENCE_SECONDS).content)
    run(tmp_path, "openapi-spec-validator", str(document))


def test_a_generated_client_calls_the_agents(url: str, tmp_path: Path) -> None:
    document = tmp_path / "openapi.json"
    document.write_bytes(httpx2.get(f"{url}/openapi.json", timeout=PATIENCE_SECONDS).content)
    answer = run(
        tmp_path,
        "openapi-python-client",
        *(
            "generate",
            "--path",
            str(document),
            "--output-path",
            str(tmp_path / "generated"),
            "--meta",
            "none",
        ),
    )
    assert "WARNING" not in answer
    script = str(ROOT / "tests/interop/openapi/client_openapi.py")
    server = json.loads(document.read_text())["servers"][0]["url"]
    assert server == url
    assert run_client(str(PROGRAMS / "python"), script, str(tmp_path), server, KEY) == {
        "sum": "40 plus 2 is 42.",
        "listed": True,
        "other": "TASK_STATE_COMPLETED",
        "unknown": [True, "NOT_FOUND"],
        "refused": [401, "UNAUTHENTICATED"],
    }


def run(folder: Path, program: str, *arguments: str) -> str:
    result = subprocess.run(
        [str(PROGRAMS / program), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    output = result.stdout + result.stderr
    assert result.returncode == 0, output[-2000:]
    return output
