"""Real processes: ministack, whose conditional writes hold under threads, and servers that share it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from a2a_lambda.aws import clients
from a2a_lambda.settings import Settings
from tests.conftest import AGENTS, ROOT
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rest import PLAIN_HTTP
from tools import template
from tools.build.built_functions import free_port
from tools.registers.keys import KeyRegister

MINISTACK = ROOT / ".venvs" / "ministack" / "bin" / "ministack"
KEYS_PATH = "/processes/keys"
KEY = "local-key"


LAMBDA_PATH = Path(__file__).parent / "lambda_path"
"""For PYTHONPATH of an emulator: its functions see only their layers."""


def answers(url: str) -> bool:
    try:
        return httpx2.get(url, verify=PLAIN_HTTP).status_code < 500
    except httpx2.TransportError:
        return False


@contextmanager
def process(command: list[str], url: str, **environment: str) -> Iterator[None]:
    """A process, once it answers at a url; killed at the end."""
    child = subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while not answers(url):
            assert child.poll() is None, f"{command[0]} ended with {child.returncode}"
            assert time.monotonic() < give_up_at, f"{url} does not answer"
            time.sleep(0.05)
        yield
    finally:
        child.kill()
        child.wait()


@contextmanager
def running_ministack(home: Path) -> Iterator[str]:
    """A ministack of its own; its url."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "HOME": str(home)}
    environment["TMPDIR"] = str(home)  # it leaves unpacked functions there
    environment["PYTHONPATH"] = str(LAMBDA_PATH)  # and nothing of this environment
    # It checks the signatures of urls, so it must know the key that the kit has for an emulator.
    environment |= {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}
    with process([str(MINISTACK)], f"{url}/_ministack/health", **environment):
        yield url


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings against a ministack with template.yaml's table and a key."""
    with running_ministack(tmp_path_factory.mktemp("ministack")) as url:
        settings = Settings(table="shared", keys_path=KEYS_PATH, local=True, emulator=url)
        template.create_table(
            clients.dynamodb(settings), settings.table, template.properties(ROOT / "template.yaml")
        )
        KeyRegister(clients.ssm(settings), KEYS_PATH).create("local", secret=KEY, local=True)
        yield settings


Server = Callable[..., str]


@pytest.fixture(scope="module")
def servers(ministack: Settings) -> Iterator[Server]:
    """Starts a server of the probe agent in a process of its own, with environment variables; returns its
    url."""
    with ExitStack() as stack:

        def start(**variables: str) -> str:
            port = free_port()
            url = f"http://127.0.0.1:{port}"
            app = "tools.dev.application:create"
            command = [sys.executable, "-m", "uvicorn", "--factory", app, "--port", str(port)]
            environment = {
                "A2A_TABLE": ministack.table,
                "A2A_KEYS_PATH": ministack.keys_path,
                "A2A_EMULATOR": ministack.emulator,
                "A2A_LOCAL": "1",
                "A2A_AGENTS": str(AGENTS),
                "A2A_AGENT_NAMES": "probe",
                "A2A_BASE_URL": url,
                **variables,
            }
            stack.enter_context(process(command, f"{url}/.well-known/agent.json", **environment))
            return url

        yield start
