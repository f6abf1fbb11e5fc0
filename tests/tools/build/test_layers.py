"""The Makefiles of the layers, which sam build calls: with make build's uv, or with nothing of ours."""

import os
import platform
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


def dry_run(target: str, *variables: str, artifacts: Path = Path("out")) -> str:
    """The commands with which a layer is built."""
    return subprocess.run(
        ["make", "--dry-run", target, f"ARTIFACTS_DIR={artifacts}", *variables],
        cwd=ROOT / "layers" / LAYERS[target],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.replace("\\\n", "")


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
    output = dry_run(target, f"ARCH={architecture}", f"UV={uv}")
    assert "--only-binary :all: --no-deps --require-hashes" in output
    assert "--python-version 3.13" in output
    if has_uv:
        assert f'"{uv}" pip install' in output
        assert f"--python-platform {machine}-manylinux_2_34" in output
    else:
        assert "python3 -m pip install" in output
        assert f"--platform manylinux2014_{machine}" in output
        assert str(uv) not in output


@pytest.mark.parametrize("target", LAYERS)
def test_sam_build_finds_the_uv_that_make_has_fetched(target: str, tmp_path: Path) -> None:
    uv, artifacts = tmp_path / ".uv" / "bin" / "uv", tmp_path / ".aws-sam" / "build" / "Layer"
    for path in (uv.parent, artifacts):
        path.mkdir(parents=True)
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    assert f'"{artifacts}/../../../.uv/bin/uv" pip install' in dry_run(target, artifacts=artifacts)


@pytest.mark.parametrize("target", ["build-AgentsLayer", "build-DependenciesLayer"])
@pytest.mark.parametrize(("python", "glibc"), [("3.11", "2_17"), ("3.12", "2_34"), ("3.13", "2_34")])
def test_wheels_need_no_newer_glibc_than_lambda_has(target: str, python: str, glibc: str) -> None:
    """Lambda's Python 3.11 runs on Amazon Linux 2."""
    for uv in (sys.executable, "no-uv"):
        text = dry_run(target, f"UV={uv}", f"LAMBDA_PYTHON={python}")
        assert f"manylinux_{glibc}" in text
        assert ("manylinux_2_34" in text) is (glibc == "2_34")


def build_agents(folder: Path, lock: str, *variables: str) -> "subprocess.CompletedProcess[str]":
    """A build of the agents' layer in a folder, without uv. lock: its requirements.txt."""
    for name in ("Makefile", "check_host.py"):
        shutil.copy(ROOT / "layers" / "agents" / name, folder)
    (folder / "requirements.txt").write_text(lock)
    return subprocess.run(
        ["make", "build-AgentsLayer", "ARTIFACTS_DIR=out", "UV=no-uv", *variables],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("status", "is_built"), [(None, True), (137, False)])
def test_a_file_that_is_not_python_stays_uncompiled(
    status: int | None, is_built: bool, tmp_path: Path
) -> None:
    """A template is one. An interpreter that dies is another matter. status: its own; None = a real one."""
    package = tmp_path / "out" / "python" / "package"
    package.mkdir(parents=True)
    (package / "template.py").write_text("{{ name }}: class\n")
    (package / "code.py").write_text("a = 1\n")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexit {status}\n")
    python.chmod(0o755)
    build = build_agents(tmp_path, "# none\n", f"PYTHON_LAMBDA={python if status else sys.executable}")
    assert (build.returncode == 0) is is_built, build.stderr
    assert [path.name.partition(".")[0] for path in package.rglob("*.pyc")] == (["code"] if is_built else [])
    assert build.stdout.splitlines()[-1].startswith("note:") is is_built


ALL_MACHINES = " or ".join(
    f"(platform_machine == '{machine}' and sys_platform == '{system}')"
    for machine in ("AMD64", "ARM64", "aarch64", "arm64", "x86_64")
    for system in ("darwin", "linux", "win32")
)
"""The marker that uv writes for each package of a lock, because of `environments` in pyproject.toml."""


@pytest.mark.parametrize(
    ("marker", "is_refused"),
    [
        (ALL_MACHINES, False),
        (f"python_full_version >= '3.13' and ({ALL_MACHINES})", None),
        ("sys_platform == 'linux'", sys.platform != "linux"),
        ("sys_platform == 'win32'", sys.platform == "win32"),
        ("platform_machine == 'aarch64'", platform.machine() != "aarch64"),
    ],
)
def test_without_uv_a_lock_that_pip_would_read_wrongly_is_refused(
    marker: str, is_refused: bool | None, tmp_path: Path
) -> None:
    """By pip's rules for the machine on which it runs, whatever it is to install for. is_refused: None if it
    depends on the build's interpreter, which need not be this one."""
    if is_refused is None:
        code = "import sys; print(sys.version_info < (3, 13))"
        is_refused = subprocess.check_output(["python3", "-c", code], text=True).strip() == "True"
    lock = f"legacy-cgi==2.6.4 ; {marker} \\\n"  # without a hash, so nothing is installed
    build = build_agents(tmp_path, lock, "ARCH=arm64")
    assert (build.returncode != 0) is is_refused, build.stderr
    assert ("whether legacy-cgi is needed differs" in build.stderr) is is_refused


def write_functions(tmp_path: Path) -> Path:
    functions = tmp_path / "functions"
    for agent in ("news", "other"):
        (functions / "agents" / agent).mkdir(parents=True)
        (functions / "agents" / agent / "card.yaml").write_text("name: A")
    (functions / "agents" / "common").mkdir()
    (functions / "agents" / "common" / "greeting.py").write_text("")
    for handler in ("api", "rpc", "worker", "durable", "notifier"):
        (functions / f"{handler}.py").write_text("")
    shutil.copy(ROOT / "functions" / "Makefile", functions)
    return functions


def build_function(functions: Path, out: Path, *variables: str) -> subprocess.CompletedProcess[str]:
    out.mkdir()
    return subprocess.run(
        ["make", "build-RpcFunction", f"ARTIFACTS_DIR={out}", *variables],
        cwd=functions,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", [".env", ".env.prod", "tls.key", ".netrc"])
def test_sam_build_by_hand_deploys_no_secrets(tmp_path: Path, name: str) -> None:
    functions = write_functions(tmp_path)
    (functions / "agents/news" / f"{name}.example").write_text("TOKEN=")
    assert build_function(functions, tmp_path / "first").returncode == 0
    (functions / "agents/news" / name).write_text("TOKEN=x")
    build = build_function(functions, tmp_path / "second")
    assert build.returncode != 0
    assert f"agents/news/{name}\n" in build.stdout
    assert "may hold secrets" in build.stderr


def test_a_function_for_some_agents_has_what_they_share(tmp_path: Path) -> None:
    """A folder without a card.yaml is no agent."""
    out = tmp_path / "out"
    assert build_function(write_functions(tmp_path), out, "A2A_BUILT_AGENTS=news").returncode == 0
    assert {path.name for path in (out / "agents").iterdir()} == {"news", "common"}
