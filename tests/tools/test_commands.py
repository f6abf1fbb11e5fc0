"""make <command>, uv run a2a <command>: one table of commands."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from dotenv import dotenv_values

from tests.conftest import ROOT
from tests.helpers.project import copy_kit
from tools import a2a
from tools.commands import COMMANDS


def run(*words: str, folder: Path = ROOT, **variables: str) -> "subprocess.CompletedProcess[str]":
    """As a user calls it: not from within another make."""
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "A2A_VARIABLES"))
    }
    environment = own | {"PYTHONPATH": str(folder)} | variables
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_make_has_every_command() -> None:
    text = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", "")
    [listed] = re.findall(r"(?m)^COMMANDS := (.+)$", text)
    assert sorted([*listed.split(), "help", "lock"]) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_step_is_a_program(name: str) -> None:
    for step in COMMANDS[name].steps:
        assert callable(importlib.import_module(step.split()[0]).main)


def test_help_lists_all_without_a_package() -> None:
    listed = run("make", "--no-print-directory", "PYTHON=" + sys.executable + " -S").stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(COMMANDS)


@pytest.mark.parametrize(
    "words",
    [
        ["NAME=a b=c", "REVOKE=1"],
        ["--name", "a b=c", "--revoke"],
        ["--name=a b=c", "--revoke=1"],
    ],
)
def test_variables_are_given_as_in_make_or_as_options(words: list[str]) -> None:
    assert a2a.parse("key", words, {}) == {"NAME": "a b=c", "REVOKE": "1"}


def test_a_value_reaches_the_command_as_it_was_written(tmp_path: Path) -> None:
    folder = copy_kit(tmp_path / "fork")
    value = """a $HOME '$(x)' "q" \\ #"""
    set_ = run("make", "setting", "NAME=model", f"VALUE={value}", folder=folder)
    assert "set model" in set_.stdout, set_.stderr
    again = run(sys.executable, "-m", "tools.a2a", "setting", "NAME=other", f"VALUE={value}", folder=folder)
    assert again.returncode == 0, again.stderr
    found = dotenv_values(folder / ".env", interpolate=False)
    assert found == {"SETTING_MODEL": value, "SETTING_OTHER": value}


@pytest.mark.parametrize("words", [["make", "key"], [sys.executable, "-m", "tools.a2a", "key"]])
def test_a_variable_that_the_command_does_not_know_is_refused(words: list[str]) -> None:
    done = run(*words, "NAEM=alice")
    assert done.returncode
    assert "NAEM" in done.stderr.upper()
    assert "Traceback" not in done.stderr


def test_a_command_that_does_not_exist_is_refused() -> None:
    done = run(sys.executable, "-m", "tools.a2a", "deplpy")
    assert done.returncode == 2
    assert "there is no command 'deplpy'. There are run, chat" in done.stderr


def test_the_name_of_the_machine_is_no_name_for_a_command() -> None:
    """WSL sets NAME."""
    for words in (["make", "agent"], [sys.executable, "-m", "tools.a2a", "agent"]):
        done = run(*words, NAME="desktop-42")
        assert "name the agent" in done.stderr, done.stdout
    assert not (ROOT / "functions" / "agents" / "desktop-42").exists()


def test_agents_need_neither_make_nor_a_shell(tmp_path: Path) -> None:
    """As on Windows."""
    folder = copy_kit(tmp_path / "fork")
    for words in (["agent", "--name", "hello"], ["test", "ARGS=functions/agents/hello -p no:cacheprovider"]):
        done = run(sys.executable, "-m", "tools.a2a", *words, folder=folder, PATH=str(tmp_path), CI="")
        assert done.returncode == 0, done.stdout + done.stderr
    built = run(sys.executable, "-m", "tools.a2a", "build", folder=folder, PATH=str(tmp_path))
    assert built.returncode == 1
    assert "a build needs make. On Windows, build in WSL" in built.stderr
