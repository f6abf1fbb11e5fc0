"""The Makefiles of the layers, which sam build calls: with make build's uv, or with nothing of ours."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

LAYERS = {
    "build-DependenciesLayer": "dependencies",
    "build-TracingLayer": "dependencies",
    "build-AgentsLayer": "agents",
}


@pytest.mark.parametrize("target", LAYERS)
@pytest.mark.parametrize(("architecture", "machine"), [("arm64", "aarch64"), ("x86_64", "x86_64")])
@pytest.mark.parametrize("has_uv", [True, False])
def test_wheels_are_lambdas_with_uv_or_without(
    target: str, architecture: str, machine: str, has_uv: bool, tmp_path: Path
) -> None:
    uv = tmp_path / "uv"
    if has_uv:
        uv.write_text("#!/bin/sh\n")
        uv.chmod(0o755)
    said = subprocess.run(
        ["make", "--dry-run", target, "ARTIFACTS_DIR=out", f"ARCH={architecture}", f"UV={uv}"],
        cwd=ROOT / "layers" / LAYERS[target],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.replace("\\\n", "")
    assert "--only-binary :all: --no-deps --require-hashes" in said
    assert "--python-version 3.13" in said
    if has_uv:
        assert f'"{uv}" pip install' in said
        assert f"--python-platform {machine}-manylinux_2_34" in said
    else:
        assert "python3 -m pip install" in said
        assert f"--platform manylinux2014_{machine}" in said
        assert str(uv) not in said


@pytest.mark.parametrize(
    ("marker", "python", "is_refused"),
    [
        ("python_full_version >= '3.13'", "3.13", True),
        ("sys_platform == 'linux'", "3.13", True),
        ("sys_platform == 'linux'", "{}.{}".format(*sys.version_info), sys.platform != "linux"),
        ("extra == 'x'", "3.13", False),
    ],
)
def test_without_uv_a_lock_that_pip_would_read_wrongly_is_refused(
    marker: str, python: str, is_refused: bool, tmp_path: Path
) -> None:
    """By pip's rules for the machine on which it runs, whatever it is to install for."""
    shutil.copy(ROOT / "layers" / "agents" / "Makefile", tmp_path)
    (tmp_path / "requirements.txt").write_text(
        f"legacy-cgi==2.6.4 ; {marker}\n"
    )  # no hash: nothing to install
    build = subprocess.run(
        ["make", "build-AgentsLayer", "ARTIFACTS_DIR=out", "UV=no-uv", f"LAMBDA_PYTHON={python}"],
        cwd=tmp_path,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (build.returncode != 0) is is_refused, build.stderr
    assert ("Install uv" in build.stderr) is is_refused


def test_a_function_for_some_agents_has_what_they_share(tmp_path: Path) -> None:
    """A folder without a card.yaml is no agent."""
    functions, out = tmp_path / "functions", tmp_path / "out"
    out.mkdir()
    for agent in ("news", "other"):
        (functions / "agents" / agent).mkdir(parents=True)
        (functions / "agents" / agent / "card.yaml").write_text("name: A")
    (functions / "agents" / "common").mkdir()
    (functions / "agents" / "common" / "greeting.py").write_text("")
    for handler in ("api", "rpc", "worker", "durable", "notifier"):
        (functions / f"{handler}.py").write_text("")
    shutil.copy(ROOT / "functions" / "Makefile", functions)
    subprocess.run(
        ["make", "build-RpcFunction", f"ARTIFACTS_DIR={out}", "A2A_BUILT_AGENTS=news"],
        cwd=functions,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        check=True,
    )
    assert {path.name for path in (out / "agents").iterdir()} == {"news", "common"}
