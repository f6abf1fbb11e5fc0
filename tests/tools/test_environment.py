"""What commands, and the programs that they start, get from the machine."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools import a2a, environments


@pytest.fixture(autouse=True)
def path() -> Iterator[None]:
    """Commands change where Python looks for modules."""
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_does_not_lead_to_this_machine(name: str) -> None:
    environ = {name: "http://proxy.example", "NO_PROXY": "corp.example"}
    a2a._configure(environ, {})
    assert environ["NO_PROXY"] == environ["no_proxy"] == "corp.example,127.0.0.1,localhost"


def test_without_a_proxy_the_systems_own_counts() -> None:
    environ = {"HTTPS_PROXY": "http://proxy.example"}
    a2a._configure(environ, {})
    assert not {"NO_PROXY", "no_proxy"} & environ.keys()


def test_environments_of_a_moved_checkout_or_without_an_interpreter_are_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their programs name the path at which they were installed."""
    calls: list[str] = []
    monkeypatch.setattr(environments, "VENVS", Path("venvs"))

    def sync(*words: str, UV_PROJECT_ENVIRONMENT: str = "", **_: str) -> int:
        calls.append(words[0])
        Path(UV_PROJECT_ENVIRONMENT, "bin").mkdir(parents=True, exist_ok=True)
        Path(UV_PROJECT_ENVIRONMENT, "bin", "python").touch()
        return 0

    monkeypatch.setattr(environments, "_uv", sync)
    monkeypatch.setenv("CI", "1")
    (tmp_path / "old").mkdir()
    for folder in ("old", "new"):
        monkeypatch.chdir(tmp_path / folder)
        for _ in range(2):
            environments.install("sam", projects=ROOT / "environments")
        if folder == "old":
            (tmp_path / "old" / "venvs" / "sam" / "program").touch()
            monkeypatch.chdir(tmp_path)
            Path("old").rename("new")
    assert calls == ["sync", "sync"]
    assert not (tmp_path / "new" / "venvs" / "sam" / "program").exists()
    (tmp_path / "new" / "venvs" / "sam" / "bin" / "python").unlink()
    for _ in range(2):
        environments.install("sam", projects=ROOT / "environments")
    assert calls == ["sync"] * 3
