"""The built function of durable turns, under AWS's runtime client."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from a2a_lambda.protocol.model import TaskState
from a2a_lambda.settings import Settings
from tests.background.durable_bench import DurableBench, texts
from tests.conftest import AGENTS
from tests.lambda_.runtime.runtime_api import RuntimeApi
from tools.build.built_functions import Built
from tools.dev import event_sources

VARIABLES = {"A2A_AGENTS": str(AGENTS), "A2A_AGENT_NAMES": "traveler"}


@pytest.fixture
def bench(built: Built, settings: Settings) -> Iterator[DurableBench]:
    """A deployment whose durable function is the built one."""
    api = RuntimeApi()
    with built.running("durable", variables={"AWS_LAMBDA_RUNTIME_API": api.address, **VARIABLES}):

        def run(event: Any, _: Any) -> Any:
            return json.loads(b"".join(body for _, body in api.invoke(event).chunks))

        event_sources.serve_runs(run, settings.emulator)
        yield DurableBench(settings.model_copy(update={"durable_function": "durable:live"}), serves=False)
    api.close()


def test_the_built_durable_function_pauses_and_continues(bench: DurableBench) -> None:
    task = bench.send(skill="nap")
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(result) == {"": "1 2 3 ", "end": "awake"}


@pytest.mark.parametrize("function", ["api", "rpc", "worker", "notifier"])
def test_no_other_function_imports_the_sdk(built: Built, function: str) -> None:
    """It takes 0.2 s of the processor."""
    code = f"import {function}, sys; print('aws_durable_execution_sdk_python' in sys.modules)"
    variables = {"A2A_DURABLE_FUNCTION": "durable:live", "A2A_QUEUE": "https://q", "A2A_NOTICES": "https://n"}
    result = subprocess.run(
        [built.python, "-c", code],
        env={**built.environment(function), **variables},
        capture_output=True,
        check=True,
        text=True,
    )
    assert result.stdout.split()[-1] == "False"
