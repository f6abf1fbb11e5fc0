"""How the built streaming function starts: by Lambda's own bootstrap, by other wrappers, from a snapshot."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.rpc import intent, message, request
from tests.lambda_.runtime.runtime_api import PROBE, RuntimeApi, event
from tools.build.built_functions import Built

pytestmark = pytest.mark.slow(seconds=60)


@pytest.fixture
def own() -> Iterator[RuntimeApi]:
    """A Runtime API for a function that a test starts itself."""
    api = RuntimeApi()
    yield api
    api.close()


def test_the_wrapper_finds_what_lambdas_bootstrap_finds(
    built: Built, own: RuntimeApi, tmp_path: Path
) -> None:
    """Modules in either folder of a layer, and those a .pth file points at."""
    layers = built.opt / "python"
    packages = layers / "lib" / f"python{built.version}" / "site-packages"
    packages.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (packages / "in_site_packages.py").write_text("WHERE = 'site-packages'\n")
    (packages / "points.pth").write_text(f"{elsewhere}\n")
    (elsewhere / "pointed_at.py").write_text("WHERE = 'elsewhere'\n")
    (layers / "probe_handler.py").write_text(
        "import in_site_packages, pointed_at\n"
        "def handler(event, context):\n"
        "    return [in_site_packages.WHERE, pointed_at.WHERE]\n"
    )
    variables = {"AWS_LAMBDA_RUNTIME_API": own.address}
    with built.running("rpc", handler="probe_handler.handler", variables=variables):
        assert json.loads(own.invoke({}).content) == ["site-packages", "elsewhere"]


def test_another_wrapper_can_be_chained(built: Built, own: RuntimeApi, tmp_path: Path) -> None:
    """A tracing layer's wrapper changes the environment, the handler, and the search path."""
    wrapper = tmp_path / "wrapper"
    (tmp_path / "wrapped.py").write_text(
        "import os\nfrom rpc import handler as inner\n"
        "def handler(event, context):\n    return [os.environ['TRACED'], callable(inner)]\n"
    )
    wrapper.write_text(
        f'#!/bin/sh\nexport TRACED=yes _HANDLER=wrapped.handler PYTHONPATH="{tmp_path}:$PYTHONPATH"\n'
        'exec "$@"\n'
    )
    wrapper.chmod(0o755)
    variables = {"AWS_LAMBDA_RUNTIME_API": own.address, "A2A_NEXT_WRAPPER": str(wrapper)}
    with built.running("rpc", variables=variables):
        assert json.loads(own.invoke({}).content) == ["yes", True]


def test_several_invocations_at_once_are_refused_at_the_start(built: Built, own: RuntimeApi) -> None:
    variables = {"AWS_LAMBDA_RUNTIME_API": own.address, "AWS_LAMBDA_MAX_CONCURRENCY": "8"}
    with built.running("rpc", variables=variables) as process:
        assert process.wait(60) != 0
    assert "one at a time" in own.init_error["errorMessage"]


def test_snapstart(built: Built, own: RuntimeApi) -> None:
    """Before the snapshot nothing is asked of AWS; after it, requests are served, and stream."""
    variables = {
        "AWS_LAMBDA_RUNTIME_API": own.address,
        "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start",
        **PROBE,
    }
    with built.running("rpc", variables=variables) as process:
        assert own.snapshot.wait(60)
        assert own.polls == 0
        assert tcp_connections(process.pid) == 1, "to the Runtime API alone"
        own.restore.set()
        body = request("message/stream", {"message": message("hello", metadata=intent("echo"))})
        invocation = own.invoke(event(body))
        assert invocation.streamed
        assert "hello" in invocation.body.decode()


def tcp_connections(process: int) -> int:
    """Connections of a process, as Linux lists them."""
    links = [str(link.readlink()) for link in Path(f"/proc/{process}/fd").iterdir()]
    lines = Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]
    inodes = [line.split()[9] for line in lines if line.split()[3] == "01"]
    return sum(f"socket:[{inode}]" in links for inode in inodes)


def test_restored_containers_do_not_draw_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    import random

    import snapshot_restore_py

    from a2a_lambda.lambda_.observability import prepare
    from tests.lambda_.conftest import logging_kept

    hooks: list[Any] = []
    monkeypatch.setattr(snapshot_restore_py, "register_after_restore", hooks.append)
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "snap-start")
    with logging_kept():
        prepare()
    numbers = set()
    for _ in range(3):
        random.seed("one snapshot")
        for hook in hooks:
            hook()
        numbers.add(random.random())
    assert len(numbers) == 3
