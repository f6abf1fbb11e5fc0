"""Official clients send a large file, and get one, against `make run`."""

import base64
import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator

import pytest

from tests.agents.probe.drawings import drawing
from tests.conftest import ROOT
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.dev_server import DevServer
from tests.helpers.project import copy_kit
from tests.processes.servers import answers

pytestmark = [pytest.mark.slow, pytest.mark.interop]

PLACE = ROOT / "tests" / "interop" / "files"

CARD = """\
name: Mirror
description: Sends a file back, the other way round.
version: 0.1.0
defaultInputModes: ["*/*"]
skills: [{ id: mirror, name: Mirror, description: Sends a file back. }]
"""

AGENT = """\
from a2a_lambda import File, Turn, skill


@skill
def mirror(turn: Turn) -> tuple[str, File]:
    content = turn.files[0].read()
    return f"{len(content)} bytes", File("mirror.png", content[::-1], media_type="image/png")
"""

CLIENTS = [
    ("a2a-0-3", "client_0_3.py", "JSONRPC"),
    ("a2a-0-3", "client_0_3.py", "HTTP+JSON"),
    ("a2a-1", "client_1.py", "JSONRPC"),
    ("a2a-1", "client_1.py", "HTTP+JSON"),
    ("clients", "client_adk.py"),
    ("js", "client_js.mjs"),
]
"""Environment, script, and the binding it takes."""

TWICE = ("a2a-0-3", "client_0_3.py", "HTTP+JSON")
"""a2a-sdk 0.3 encodes a file twice over this binding, and decodes one twice: only its own server notices."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    folder = copy_kit(tmp_path_factory.mktemp("files"))
    agent = folder / "functions" / "agents" / "mirror"
    agent.mkdir()
    (agent / "card.yaml").write_text(CARD)
    (agent / "agent.py").write_text(AGENT)
    dev_server = DevServer(folder)
    dev_server.until(lambda: answers(f"{dev_server.url}/a2a/mirror/.well-known/agent.json"))
    yield dev_server
    dev_server.interrupt()


@pytest.mark.parametrize("client", CLIENTS, ids=" ".join)
def test_a_client_sends_and_gets_a_file(server: DevServer, client: tuple[str, ...], tmp_path: str) -> None:
    environment, script, *binding = client
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program = str(ROOT / ".venvs" / environment / "bin" / "python")
    path = PLACE / script
    if environment == "js":
        modules = ROOT / ".venvs" / "js" / "node_modules"
        if not modules.exists():
            pytest.skip("no npm on this machine")
        program = shutil.which("node") or "node"
        folder = server.folder / "js"
        folder.mkdir()
        (folder / "node_modules").symlink_to(modules)
        path = folder / script
        shutil.copy(PLACE / script, path)
    content = drawing(300_000)
    result = subprocess.run(
        [program, str(path), f"{server.url}/a2a/mirror", "local-key", *binding],
        input=content,
        env=variables,
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert result.returncode == 0, result.stderr.decode()[-2000:]
    values = json.loads(result.stdout)
    if client == TWICE:
        content = base64.b64encode(content)
    assert values["text"] == f"{len(content)} bytes"
    assert values["files"]
    for name, media_type, url in values["files"]:
        assert (name, media_type) == ("mirror.png", "image/png")
        assert read(url) == content[::-1]
    if "sent" in values:  # ADK shows no history
        assert read(values["sent"]) == content


def read(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:
        content: bytes = answer.read()
        return content
