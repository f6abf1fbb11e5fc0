"""make build: what it refuses before it builds."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tools import environments
from tools.build import sam
from tools.builds import for_python
from tools.commands import LAMBDA_PYTHON


@pytest.mark.parametrize("folder", [".", "mine", ".aws-sam", "mine/notes.txt"])
def test_a_folder_that_is_no_build_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tools.environments.run", pytest.fail)
    file = Path(folder) / "src" / "notes.txt" if folder != "mine/notes.txt" else Path(folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")
    file.parent.with_name("template.yaml").write_text("Resources: {}")
    assert sam.main(["sam", "build"], {"BUILD_DIR": folder}) == 1
    assert "is not a build of this release" in capsys.readouterr().err
    assert file.read_text() == "mine"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_of_a_build_is_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tools.environments.run", lambda *_: 7)
    unfinished_build = tmp_path / ".aws-sam" / "build"
    unfinished_build.mkdir(parents=True)
    (unfinished_build / "half").write_text("of a build")
    assert sam.main(["sam", "build"], {}) == 7
    if is_there:
        (tmp_path / "built" / "RpcFunction").mkdir(parents=True)
        (tmp_path / "built" / sam.MARK).touch()
    assert sam.main(["sam", "build"], {"BUILD_DIR": "built"}) == 7, "the next step"


def test_a_build_marks_its_folder_and_opens_it_to_lambdas_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next build may replace it, wherever it is; and the user's umask does not count."""
    monkeypatch.chdir(tmp_path)

    def build(log: Path, *arguments: str, **_: str) -> int:
        place = Path(arguments[arguments.index("--build-dir") + 1])
        place.mkdir(parents=True, exist_ok=True)
        (place / "template.yaml").write_text("Resources: {}")
        (place / "layer").mkdir(0o700, exist_ok=True)
        (place / "layer" / "prompt.txt").touch(0o600)
        (place / "layer" / "tool").touch(0o700)
        return 0

    monkeypatch.setattr("tools.environments.run", lambda *_: 0)
    monkeypatch.setattr("tools.environments.install", lambda *_: None)
    monkeypatch.setattr("tools.environments.run_sam_quietly", build)
    monkeypatch.setattr(sam, "_export_requirements", lambda: 0)
    monkeypatch.setattr("tools.build.size.report", lambda *_, **__: ("small", 0))
    old = environments.BUILDS / "variants" / "of-agents-that-were-renamed"
    old.mkdir(parents=True)
    os.utime(old, (0, 0))
    for _ in range(2):
        assert sam.main(["sam", "build"], {"BUILD_DIR": "built"}) == 0
    assert not old.exists(), "each variant has its packages twice"
    assert {path.name for path in Path("built").iterdir()} == {sam.MARK, "template.yaml", "layer"}
    modes = {path.name: path.stat().st_mode & 0o777 for path in Path("built").rglob("*")}
    assert (modes["layer"], modes["prompt.txt"], modes["tool"]) == (0o755, 0o644, 0o755)


def test_a_stage_is_built_with_its_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "template.yaml", tmp_path)
    overrides = 'parameter_overrides = "AgentNames=b,a Architecture=x86_64"'
    Path("samconfig.toml").write_text(f'[heavy.deploy.parameters]\nstack_name = "a-heavy"\n{overrides}\n')
    builds: list[Any] = []

    def build(_: Path, *arguments: Any, **__: Any) -> int:
        builds.append(arguments)
        return 0

    monkeypatch.setattr(sam, "build", build)
    assert sam.main(["sam", "build"], {"STAGE": "heavy"}) == 0
    assert builds == [("x86_64", LAMBDA_PYTHON, ["a", "b"])]
    assert capsys.readouterr().out == "Next: make e2e STAGE=heavy, then make deploy STAGE=heavy\n"
    assert sam.main(["sam", "build"], {"STAGE": "heavy", "AGENTS": "a"}) == 1
    assert "leave out AGENTS" in capsys.readouterr().err


def test_the_runtime_is_the_python_that_was_built_for() -> None:
    template, dockerfile = (ROOT / "template.yaml").read_text(), (ROOT / "templates/Dockerfile").read_text()
    assert for_python(template, LAMBDA_PYTHON) == template
    assert "Runtime: python3.12\n" in for_python(template, "3.12")
    assert "CompatibleRuntimes: [python3.12]" in for_python(template, "3.12")
    assert "lambda/python:3.12\n" in for_python(dockerfile, "3.12")


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.13/bin", "4", "3.13.1", "3.19"])
def test_a_python_that_the_kit_cannot_be_built_for_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    monkeypatch.setattr("tools.environments.run", pytest.fail)
    assert sam.main(["sam", "build"], {"LAMBDA_PYTHON": version}) == 1
    assert f"LAMBDA_PYTHON={version}: use one of 3.11, 3.12, 3.13" in capsys.readouterr().err
