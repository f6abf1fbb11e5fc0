"""`make run`, in a copy of the kit."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2

from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rest import PLAIN_HTTP
from tests.helpers.rpc import Rpc, message, request
from tools.build.built_functions import free_port


class DevServer:
    """A server started in a folder, and what it printed. port: 0 = a free one."""

    def __init__(self, folder: Path, port: int = 0, **environment: str) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **{
                name: value for name, value in os.environ.items() if not name.startswith(("A2A_", "NO_COLOR"))
            },
            "PYTHONPATH": os.pathsep.join(
                [str(folder / "layers/a2a"), str(folder / "functions"), str(folder)]
            ),
            "PORT": str(self.port),
            **environment,
        }
        self.output = folder / f"output-{self.port}"
        self.process = self.run("tools.dev.server", stdout=self.output.open("w"))

    def run(self, module: str, **options: Any) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=self.folder,
            env=self.environment,
            start_new_session=True,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )

    def key(self, **variables: str) -> str:
        """What `make key` prints."""
        self.environment |= {**dict.fromkeys(("NAME", "OWNER", "AGENTS", "DAYS", "REVOKE"), ""), **variables}
        return self.run("tools.access.key", stdout=subprocess.PIPE).communicate()[0]

    def rpc(self, key: str = "local-key") -> Rpc:
        return Rpc(httpx2.Client(base_url=self.url, timeout=PATIENCE_SECONDS, verify=PLAIN_HTTP), key)  # type: ignore[arg-type]

    def until(self, what: Callable[[], bool]) -> None:
        """Wait until something is so. A restart of the server may cut a request: it is asked again."""
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while True:
            with suppress(httpx2.TransportError):
                if what():
                    return
            assert time.monotonic() < give_up_at, self.output.read_text()
            time.sleep(0.1)

    def serves(self, agent: str = "") -> bool:
        """Whether it answers with the card of an agent; "" = the default one."""
        path = f"/a2a/{agent}" if agent else ""
        card = httpx2.get(f"{self.url}{path}/.well-known/agent.json", verify=PLAIN_HTTP)
        return card.status_code == 200

    def interrupt(self) -> int:
        """Ctrl-C, which reaches the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(PATIENCE_SECONDS)


def refusal(rpc: Rpc) -> str:
    """Why a message gets 503, "none" if it does not."""
    response = rpc.post(request("message/send", {"message": message("hi")}))
    return response.json()["error"]["message"] if response.status_code == 503 else "none"
