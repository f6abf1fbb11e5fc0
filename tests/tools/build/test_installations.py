"""make run, make add: the agents' packages in .venv."""

import threading
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.helpers.clock import PATIENCE_SECONDS, wait_until
from tools import environments
from tools.agents.locks import LOCK
from tools.build import packages

HERE = f"packaging=={version('packaging')}\n"
"""A lock whose only package is in the environment of the tests."""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is called of uv, to install the lock in an environment that is empty."""
    call_list: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(packages, "_run", lambda *words: call_list.append(words[0]))
    LOCK.parent.mkdir(parents=True)
    packages.INSTALLED.parent.mkdir()
    return call_list


def test_what_is_not_in_the_environment_is_installed(calls: list[str]) -> None:
    """A `uv sync` removes what uv.lock does not name."""
    LOCK.write_text("hammer==1.0\n")
    packages.install()
    packages.install()
    assert calls == ["pip", "pip"]


def test_what_is_in_the_environment_is_not_installed_again(calls: list[str]) -> None:
    LOCK.write_text(f"{HERE}hammer==1.0 ; sys_platform == 'none'\n")
    packages.install()
    packages.install()
    assert calls == ["pip"]


def test_an_installation_that_was_interrupted_is_made_again(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package of which some files are missing looks whole to uv. One that no list names any more leaves."""
    commands: list[str] = []

    def run(*words: str) -> None:
        commands.append(f"{words[0]} again" if "--reinstall" in words else words[0])
        if len(commands) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(packages, "_run", run)
    LOCK.write_text("anvil==1.0\n")
    packages.install()
    LOCK.write_text("hammer==1.0\nanvil==1.0\n")
    with suppress(KeyboardInterrupt):
        packages.install()
    LOCK.write_text("anvil==1.0\n")
    packages.install()
    assert commands == ["pip", "pip", "sync", "pip again"]


def test_what_was_removed_from_the_list_leaves_the_environment(calls: list[str]) -> None:
    LOCK.write_text("hammer==1.0\nanvil==1.0\n")
    packages.install()
    LOCK.write_text("anvil==1.0\n")
    packages.install()
    assert calls == ["pip", "sync", "pip"]


def test_what_another_command_installs_is_waited_for_and_not_installed_again(
    calls: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    LOCK.write_text(HERE)
    waiting = threading.Thread(target=packages.install, daemon=True)
    with environments.hold(packages.INSTALLATION, "no one"):
        waiting.start()
        message = wait_until(lambda: capsys.readouterr().err)
        packages.INSTALLED.write_text(HERE)
    waiting.join(PATIENCE_SECONDS)
    assert message == "waiting for another installation of packages to end\n"
    assert (waiting.is_alive(), calls) == (False, [])


def test_without_anything_to_install_no_command_waits(calls: list[str]) -> None:
    LOCK.write_text(HERE)
    packages.INSTALLED.write_text(HERE)
    installing = threading.Thread(target=packages.install, daemon=True)
    with environments.hold(packages.INSTALLATION, "no one"):
        installing.start()
        installing.join(PATIENCE_SECONDS)
        assert (installing.is_alive(), calls) == (False, [])


def test_a_lock_that_changes_during_an_installation_is_installed_next(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*words: str) -> None:
        calls.append(words[0])
        LOCK.write_text(HERE)

    monkeypatch.setattr(packages, "_run", run)
    LOCK.write_text(f"{HERE}hammer==1.0 ; sys_platform == 'none'\n")
    packages.install()
    packages.install()
    assert calls == ["pip", "sync", "pip"]
