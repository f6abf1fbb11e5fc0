"""The bars on speed, of the built functions. `make bench` measures the rest.

A bar is what a busy machine does not change: the order of things, or a count.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.helpers.clock import PATIENCE_SECONDS
from tests.lambda_.runtime.clock.clock import CHUNKS
from tests.lambda_.runtime.runtime_api import RuntimeApi
from tools.build.built_functions import Built

pytestmark = pytest.mark.slow


COLD_START_MODULES = 5
"""Modules that the streaming runtime imports beside what the same code imports under AWS's own."""

MAX_MODULES = {"rpc": 510, "api": 448}
"""Modules that a function imports. For comparison with a2a-sdk: docs/performance.md."""


@contextmanager
def clock(built: Built) -> Iterator[RuntimeApi]:
    """The Runtime API of a function that runs tests/lambda_/runtime/clock."""
    api = RuntimeApi()
    folder = str(ROOT / "tests" / "lambda_" / "runtime" / "clock")
    variables = {
        "AWS_LAMBDA_RUNTIME_API": api.address,
        "LAMBDA_TASK_ROOT": folder,
        "_HANDLER": "clock.handler",
        "PYTHONPATH": f"{built.opt / 'python'}:{folder}",
    }
    with built.running("rpc", handler="clock.handler", variables=variables):
        yield api
    api.close()


def event(**headers: str) -> dict[str, Any]:
    return {"resource": "/", "path": "/", "httpMethod": "GET", "headers": headers, "requestContext": {}}


def test_a_byte_leaves_when_it_is_sent(built: Built, tmp_path: Path) -> None:
    """The application sends a chunk only once the one before it has arrived: one that waited for company
    would wait for ever."""
    path = tmp_path / "arrived"
    path.write_text("0")
    with clock(built) as api:
        running = api.start(event(arrived=str(path)))
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while not running.done.wait(0.002):
            assert time.monotonic() < give_up_at, f"{len(running.chunks)} chunks have arrived"
            whole = tmp_path / "next"
            whole.write_text(str(len(running.chunks) - 1))  # without the prelude
            whole.rename(path)
    assert len(running.chunks) == 1 + CHUNKS


def test_a_cold_start_imports_little_more(built: Built, tmp_path: Path) -> None:
    """A count is the same on every machine."""
    modules = {
        is_wrapped: imported(built, tmp_path / str(is_wrapped), is_wrapped=is_wrapped)
        for is_wrapped in (True, False)
    }
    print(f"\ncold start: {len(modules[True])} modules streaming, {len(modules[False])} buffered")
    more = modules[True] - modules[False]
    assert len(more) <= COLD_START_MODULES, sorted(more)


def imported(built: Built, log: Path, *, is_wrapped: bool) -> set[str]:
    """Names of the modules that a function imports until its first poll."""
    api = RuntimeApi()
    variables = {"AWS_LAMBDA_RUNTIME_API": api.address, "PYTHONPROFILEIMPORTTIME": "1"}
    with (
        log.open("wb") as output,
        built.running("rpc", is_wrapped=is_wrapped, variables=variables, output=output),
    ):
        assert api.polled.wait(PATIENCE_SECONDS)
    api.close()
    lines = log.read_text("utf-8", "replace").splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


@pytest.mark.parametrize("function", MAX_MODULES)
def test_a_function_imports_few_modules(built: Built, function: str) -> None:
    """A count is the same on every machine. Time follows it."""
    code = f"import {function}, sys; print(len(sys.modules))"
    result = subprocess.run(
        [built.python, "-c", code], env=built.environment(function), capture_output=True, check=True
    )
    print(f"\n{function}: {int(result.stdout)} modules")
    assert int(result.stdout) <= MAX_MODULES[function]
