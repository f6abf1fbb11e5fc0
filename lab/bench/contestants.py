"""What make bench measures: the kit as `make build` makes it, and its peers, each in an environment of its
own."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2a_lambda.errors import ConfigurationError
from lab.bench.probe import PATH
from tools import environments
from tools.build import sam
from tools.build.built_functions import MACHINE_ARCHITECTURE, Built, free_port, interpreter

FOLDER = Path(__file__).parent

ROOT = FOLDER.parents[1]

PEERS = ("bench-sdk", "bench-fasta2a", "bench-fastapi")
"""Environments of what the kit is compared with, on Lambda's version of Python."""

WORK = Path(".aws-sam/bench")

START_SECONDS = 120.0

QUEUES = {
    "A2A_QUEUE": "https://sqs.example.com/turns",
    "A2A_NOTICES": "https://sqs.example.com/notices",
}


@dataclass(frozen=True)
class Measured:
    """What a probe found, and the milliseconds of the processor that its process took."""

    found: Any
    total: float


@dataclass(frozen=True)
class Contestant:
    """module: a module with a Lambda handler. variables: environment variables of its process."""

    name: str
    module: str
    python: str
    variables: dict[str, str]
    options: dict[str, Any] = field(default_factory=dict)

    def measure(self, what: str, **options: Any) -> Measured:
        """Run the probe. Raises ConfigurationError if it fails."""
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result"
            command = [self.python, str(FOLDER / "probe.py"), str(result), self.module, what]
            output = Path(folder) / "output"
            with output.open("wb") as file:
                process = subprocess.Popen(
                    [*command, json.dumps(self.options | options)],
                    env={"PATH": os.environ["PATH"], **self.variables},
                    stdout=file,
                    stderr=file,
                )
                _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise ConfigurationError(f"{self.name}: {output.read_text('utf-8', 'replace')[-2000:]}")
            return Measured(json.loads(result.read_text()), (usage.ru_utime + usage.ru_stime) * 1000)


def build_kit() -> tuple[Path, Path]:
    """Build the kit for this machine. Returns the folders of the functions, with the measured agent instead
    of the fork's, and of the layers. Raises ConfigurationError."""
    shutil.rmtree(WORK, ignore_errors=True)
    python, version = interpreter()
    if sam.build(WORK / "build", MACHINE_ARCHITECTURE, version):
        raise ConfigurationError("make bench measures what make build makes, and that failed")
    (WORK / "opt").mkdir(parents=True)
    layers = Built(WORK / "build", (WORK / "opt").absolute(), {}).opt / "python"
    functions = (WORK / "functions").absolute()
    shutil.copytree(WORK / "build" / "RpcFunction", functions, ignore=shutil.ignore_patterns("agents"))
    shutil.copytree(FOLDER / "agents", functions / "agents", ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import sys, pathlib\n"
        "from a2a_lambda.catalog.agents import load_profiles\n"
        "from a2a_lambda.catalog.manifest import encode_manifest\n"
        "from a2a_lambda.kit import MANIFEST\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "(folder / MANIFEST).write_bytes(encode_manifest(load_profiles(folder / 'agents')))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(functions)], check=True)
    shutil.rmtree(functions / "agents" / "__pycache__", ignore_errors=True)
    subprocess.run([python, "-m", "compileall", "-q", str(functions)], check=True)
    return functions, layers


def kit(functions: Path, layers: Sequence[Path], python: str) -> dict[str, Contestant]:
    """The kit's functions as on AWS, and the streamed one with a table in memory."""
    variables = {
        "LAMBDA_TASK_ROOT": str(functions),
        "PYTHONPATH": os.pathsep.join(map(str, (functions, *layers, ROOT, FOLDER / "peers"))),
        "A2A_TABLE": "bench",
        "A2A_KEYS_PATH": PATH,
        "A2A_BASE_URL": "https://bench.example.com",
        "AWS_LAMBDA_FUNCTION_NAME": "bench",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
    }
    local = variables | {"A2A_LOCAL": "1"}
    return {
        "rpc": Contestant("rpc", "rpc", python, variables),
        "api": Contestant("api", "api", python, variables),
        **{name: Contestant(name, name, python, variables | QUEUES) for name in ("worker", "notifier")},
        "memory": Contestant("memory", "rpc", python, local, {"memory": True, "streams": True}),
        "sse": Contestant("sse", "sse", python, variables, {"streams": True, "peer": True}),
    }


def with_database(rpc: Contestant, url: str) -> Contestant:
    """The streaming function with DynamoDB, Parameter Store, SQS and a webhook at a URL."""
    local = {
        "A2A_LOCAL": "1",
        "A2A_EMULATOR": url,
        "A2A_LOOPBACK_WEBHOOKS": "1",
        **QUEUES,
    }
    options = {"streams": True, "has_tls": True, "webhook": url}
    return Contestant("database", "rpc", rpc.python, rpc.variables | local, options)


def peers() -> dict[str, Contestant]:
    """What the kit is compared with."""
    variables = {"PYTHONPATH": str(FOLDER / "peers")}
    contestants = {}
    sdk, fasta2a, fastapi = PEERS
    for name, module, environment in (
        ("a2a-sdk", "sdk", sdk),
        ("fasta2a", "fasta2a_hello", fasta2a),
        ("fastapi", "fastapi_hello", fastapi),
        ("bare", "bare", fastapi),
    ):
        python = environments.program_path(environment, "python")
        contestants[name] = Contestant(name, module, str(python.absolute()), variables)
    return contestants


class Uvicorn:
    """FastAPI under uvicorn: a server, which no Lambda runs."""

    def __init__(self, python: str, variables: dict[str, str]) -> None:
        self._port = free_port()
        self._process = subprocess.Popen(
            [python, "-m", "uvicorn", "fastapi_hello:app", "--port", str(self._port), "--no-access-log"],
            env={"PATH": os.environ["PATH"], **variables},
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_SECONDS
        while True:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port)
            try:
                self.send()
            except ConnectionRefusedError:
                if time.monotonic() >= deadline:
                    raise ConfigurationError("uvicorn does not start") from None
                time.sleep(0.01)
            else:
                break

    def send(self) -> None:
        self._connection.request("POST", "/", b'{"id": 1}', {"Content-Type": "application/json"})
        self._connection.getresponse().read()

    def measure(self, times: int) -> float:
        """Milliseconds of the processor that a send takes: the best of three, as of the others."""
        for _ in range(50):
            self.send()
        costs = []
        for _ in range(3):
            start = self.cost
            for _ in range(times):
                self.send()
            costs.append((self.cost - start) / times)
        return min(costs)

    @property
    def cost(self) -> float:
        """Milliseconds of the processor so far."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e6

    @property
    def memory(self) -> float:
        """Peak memory so far, in megabytes."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        [peak] = (line.split()[1] for line in lines if line.startswith("VmHWM"))
        return int(peak) / 1024

    def close(self) -> None:
        self._connection.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()
