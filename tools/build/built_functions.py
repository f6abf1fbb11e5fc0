"""Starts built functions on this machine, as Lambda would: alone, or under AWS's Runtime Interface
Emulator, which aws-sam-cli includes.

Source: https://github.com/aws/aws-lambda-runtime-interface-emulator
"""

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import IO

from a2a_lambda.errors import ConfigurationError
from tools.builds import find_python
from tools.command import HOST
from tools.commands import LAMBDA_PYTHON

MACHINE_ARCHITECTURE = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), "")
"""Architecture of this machine, as Lambda names it."""

LAYERS = {
    "A2ALayer": "kit",
    "DependenciesLayer": "its dependencies",
    "TracingLayer": "tracing",
    "AgentsLayer": "your packages",
}
"""What each is, as make build says it."""

TRACING_LAYER = "TracingLayer"
"""Only a stack with an OtlpEndpoint has it."""

INVOKE = "/2015-03-31/functions/function/invocations"

START_SECONDS = 120.0


@cache
def interpreter() -> tuple[str, str]:
    """Lambda's interpreter and its version. This one if the machine does not have Lambda's."""
    if python := find_python(LAMBDA_PYTHON):
        return python, LAMBDA_PYTHON
    return sys.executable, f"{sys.version_info.major}.{sys.version_info.minor}"


class Built:
    """Functions in a folder of `sam build`.

    opt: an empty folder, which becomes Lambda's /opt. variables: environment variables of the functions.
    """

    def __init__(self, folder: Path, opt: Path, variables: dict[str, str]) -> None:
        self.folder = folder
        self.python, self.version = interpreter()
        self.opt = opt
        self._variables = variables
        (opt / "python").mkdir()
        for layer in LAYERS:
            if layer != TRACING_LAYER:  # as in a stack by its defaults
                _merge((folder / layer / "python").resolve(), opt / "python")
        shutil.copy2(folder / "A2ALayer" / "a2a-runtime", opt)  # a hard link cannot cross file systems

    @contextmanager
    def running(
        self,
        function: str,
        *,
        prefix: tuple[str, ...] = (),
        output: "IO[bytes] | int" = subprocess.DEVNULL,
        is_wrapped: bool | None = None,
        handler: str = "",
        variables: Mapping[str, str] = MappingProxyType({}),
        folder: str | None = None,
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """The process of a function, "api" or "rpc"; killed at the end.

        is_wrapped: use the layer's runtime. None = as in template.yaml.
        folder: its working directory; None = this process's.
        """
        is_wrapped = function == "rpc" if is_wrapped is None else is_wrapped
        process = subprocess.Popen(
            [*prefix, *self._command(handler or f"{function}.handler", is_wrapped)],
            env=self.environment(function, handler) | dict(variables),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=folder,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @contextmanager
    def emulate(
        self, function: str, rie: Path, *, output: "IO[bytes] | int" = subprocess.DEVNULL
    ) -> Iterator[str]:
        """URL at which the emulator takes events for a function."""
        runtime_api, front_address = f"{HOST}:{free_port()}", f"{HOST}:{free_port()}"
        prefix = (
            *(str(rie.absolute()), "--log-level", "error", "--runtime-api-address", runtime_api),
            *("--runtime-interface-emulator-address", front_address),
        )
        # The emulator makes a URL of its folder, and escapes neither # nor %.
        with self.running(function, prefix=prefix, output=output, folder="/") as process:
            _wait_for_port(front_address, process)
            yield f"http://{front_address}{INVOKE}"

    def _command(self, handler: str, is_wrapped: bool) -> list[str]:
        if is_wrapped:
            return [str(self.opt / "a2a-runtime"), self.python, "/var/runtime/bootstrap.py"]
        return [self.python, "-m", "awslambdaric", handler]

    def environment(self, function: str, handler: str = "") -> dict[str, str]:
        """Variables of a function's process, as Lambda sets them."""
        task_root = (self.folder / f"{function.capitalize()}Function").resolve()
        return {
            "PATH": os.environ["PATH"],
            "LAMBDA_TASK_ROOT": str(task_root),
            "PYTHONPATH": f"{task_root}:{self.opt / 'python'}",
            "_HANDLER": handler or f"{function}.handler",
            "AWS_EXECUTION_ENV": f"AWS_Lambda_python{LAMBDA_PYTHON}",
            "AWS_LAMBDA_FUNCTION_TIMEOUT": "900",
            "AWS_LAMBDA_LOG_FORMAT": "JSON",
            "AWS_LAMBDA_LOG_LEVEL": "DEBUG",
            "AWS_DEFAULT_REGION": "us-east-1",
            **self._variables,
        }


def _merge(layer: Path, target: Path) -> None:
    """Link a layer's files into /opt, as Lambda merges layers. Two may share the folder of a namespace. Of a
    file that both have, the later one counts."""
    for entry in layer.iterdir():
        place = target / entry.name
        if not entry.is_dir() or not place.exists():
            place.unlink(missing_ok=True)
            place.symlink_to(entry)
            continue
        if place.is_symlink():
            first = place.resolve()
            place.unlink()
            place.mkdir()
            _merge(first, place)
        _merge(entry, place)


def find_rie(environment: Path) -> Path:
    """Path of the emulator in an environment with aws-sam-cli. Raises ConfigurationError."""
    name = f"aws-lambda-rie-{MACHINE_ARCHITECTURE}"
    path = next(environment.glob(f"lib/python*/site-packages/samcli/local/rapid/{name}"), None)
    if path is None:
        raise ConfigurationError(f"{environment} does not have aws-sam-cli's {name}")
    return path


def free_port() -> int:
    """A loopback port that is free."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for_port(address: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait until the emulator answers. Raises ConfigurationError if it has ended, or does not answer."""
    host, port = address.split(":")
    deadline = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return
        if process.poll() is not None:
            raise ConfigurationError(
                f"the Runtime Interface Emulator ended with status {process.returncode}: see its log above"
            )
        if time.monotonic() > deadline:
            raise ConfigurationError(f"the Runtime Interface Emulator does not answer at {address}")
        time.sleep(0.05)
