"""make <command>, uv run a2a <command>: one table of commands."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from dotenv import dotenv_values

from tests.conftest import ROOT
from tests.helpers.project import copy_kit
from tools import a2a, command, environments
from tools.commands import COMMANDS, listed_groups

pytestmark = pytest.mark.slow


def run(*words: str, folder: Path = ROOT, **variables: str) -> "subprocess.CompletedProcess[str]":
    """As a user calls it: not from within another make."""
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "A2A_VARIABLES"))
    }
    environment = own | {"PYTHONPATH": str(folder)} | variables
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_make_has_every_command() -> None:
    text = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", "")
    [commands_text] = re.findall(r"(?m)^COMMANDS := (.+)$", text)
    assert sorted([*commands_text.split(), "help", "lock"]) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_step_is_a_program(name: str) -> None:
    for step in COMMANDS[name].steps:
        assert callable(importlib.import_module(step.split()[0]).main)


def test_help_lists_all_without_a_package() -> None:
    output = run("make", "--no-print-directory", "PYTHON=" + sys.executable + " -S").stdout
    groups = listed_groups()
    assert re.findall(r"(?m)^  (\w+)", output) == [name for group in groups.values() for name in group]
    assert re.findall(r"(?m)^(\S.*):$", output) == list(groups)


def test_the_quick_tests_need_no_other_environment(tmp_path: Path) -> None:
    """`make test` installs none: in a fresh clone, every test module must be importable without them."""
    folder = copy_kit(tmp_path / "fork")
    (folder / ".venvs").unlink(missing_ok=True)
    for name in ("tests", "docs", "recipes"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    collection = run(
        *(
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "--assert=plain",
            "-qq",
            "-n",
            "0",
            "-m",
            "not slow",
        ),
        folder=folder,
    )
    assert collection.returncode == 0, collection.stdout[-2000:]


@pytest.mark.parametrize(
    ("variable", "hint"),
    [("name", "Write it in capitals: NAME"), ("nam", "It takes NAME"), ("A", "It takes NAME")],
)
def test_a_variable_that_a_command_does_not_have_is_refused(variable: str, hint: str) -> None:
    result = run("make", "--no-print-directory", "setting", f"{variable}=1")
    assert result.stderr.startswith(f"error: setting has no variable {variable}. {hint}")


def test_without_the_packages_a_command_says_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "pydantic.py").touch()  # of the user's Python
    result = run(sys.executable, "-S", "-m", "tools.a2a", "run", PYTHONPATH=str(tmp_path))
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert "Write make run, or uv run a2a run" in result.stderr


def test_a_path_may_have_a_space(tmp_path: Path) -> None:
    """Both the checkout's and uv's are named in the recipes."""
    folder = copy_kit(tmp_path / "my fork")
    uv = folder / "my uv"
    uv.write_text('#!/bin/sh\necho "$UV_PYTHON: $1" >> "$(dirname "$0")/called"\n')
    uv.chmod(0o755)
    (folder / "uv.lock").touch()  # so it must be installed again
    result = run("make", f"UV={uv}", "agent", "NAME=", folder=folder, CI="")
    assert result.stderr.startswith("error: name the agent"), result.stdout + result.stderr
    assert (folder / "called").read_text().splitlines()[-2:] == [": lock", ": sync"]


def test_the_interpreter_can_be_chosen(tmp_path: Path) -> None:
    folder = copy_kit(tmp_path / "fork")
    uv = folder / "uv"
    uv.write_text('#!/bin/sh\necho "$UV_PYTHON: $1" >> called\n')
    uv.chmod(0o755)
    run("make", f"UV={uv}", f"PYTHON={sys.executable}", "agent", "NAME=", folder=folder)
    assert f"{sys.executable}: sync" in (folder / "called").read_text().splitlines()


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


@pytest.mark.parametrize("value", ["URL=b", "--- a", "a=b --c", "--lf", "-x", "--bar=1"])
def test_the_value_of_an_option_may_look_like_something_else(value: str) -> None:
    assert a2a.parse("chat", ["--text", value, "AGENT=x"], {}) == {"TEXT": value, "AGENT": "x"}


def test_an_option_without_its_value_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--agent", "--text", "a=b"], ["--agent", "--text=b"], ["--agent"]):
        with pytest.raises(SystemExit):
            a2a.parse("chat", words, {})
        assert "argument --agent: expected one argument" in capsys.readouterr().err


def test_an_option_that_is_misspelled_is_named_and_not_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        a2a.parse("chat", ["--txt", "a=b"], {})
    assert "unrecognized arguments: --txt=a=b" in capsys.readouterr().err


def test_a_value_reaches_the_command_as_it_was_written(tmp_path: Path) -> None:
    folder = copy_kit(tmp_path / "fork")
    value = """a $HOME '$(x)' "q" \\ #"""
    set_ = run("make", "setting", "NAME=model", f"VALUE={value}", folder=folder)
    assert "set model" in set_.stdout, set_.stderr
    again = run(sys.executable, "-m", "tools.a2a", "setting", "NAME=other", f"VALUE={value}", folder=folder)
    assert again.returncode == 0, again.stderr
    env_values = dotenv_values(folder / ".env", interpolate=False)
    assert env_values == {"SETTING_MODEL": value, "SETTING_OTHER": value}


A2A = [sys.executable, "-m", "tools.a2a"]


@pytest.mark.parametrize("words", [["make", "key"], [*A2A, "key"]])
def test_a_variable_that_the_command_does_not_know_is_refused(words: list[str]) -> None:
    output = run(*words, "NAEM=alice").stderr
    assert "error: key has no variable NAEM. Did you mean NAME? It takes NAME, OWNER, AGENTS" in output


@pytest.mark.parametrize("value", ["YES=0", "YES=false", "OWNER=Andr\udce9", "TASK=", "STACK="])
def test_a_value_that_cannot_be_meant_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`make erase YES=0` would have erased. A terminal in Latin-1 gives half of a character."""
    with pytest.raises(SystemExit):
        a2a.parse("erase", [value], {})
    assert re.search("(YES='.*': write YES=1, or|OWNER is not UTF-8|is empty)", capsys.readouterr().err)
    with pytest.raises(SystemExit):
        a2a.parse("erase", ["OWNER=alice"], {"YES": value})
    with pytest.raises(SystemExit):
        a2a.parse("key", [], {"A2A_VARIABLES": "NAME REVOKE", "NAME": "bob", "REVOKE": value})
    assert a2a.parse("erase", ["YES=1"], {}) == {"YES": "1"}
    assert a2a.parse("key", ["--revoke"], {}) == {"REVOKE": "1"}
    assert a2a.parse("key", ["REVOKE="], {}) == {"REVOKE": ""}


def test_a_call_of_make_may_have_several_targets_and_variables_of_other_tools() -> None:
    variables = {"A2A_VARIABLES": "STAGE AWS_PROFILE", "A2A_GOALS": "validate deploy"}
    call_variables = {"STAGE": "dev", "AWS_PROFILE": "acme"}
    assert a2a.parse("validate", [], {**variables, **call_variables}) == call_variables


@pytest.mark.parametrize("words", [["make"], A2A])
def test_a_command_that_does_not_exist_is_refused(words: list[str]) -> None:
    result = run(*words, "deplpy")
    assert result.returncode == 2
    assert result.stderr.startswith("error: unknown command 'deplpy': did you mean deploy?\n")


def test_two_builds_of_a_checkout_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = f"""import sys; sys.path.insert(0, {str(ROOT)!r})
from tools import environments
with environments.hold_build():
    print("holds it", flush=True)
    sys.stdin.read()
"""
    program = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    start = partial(subprocess.Popen[str], program, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    first = start()
    assert first.stdout
    assert first.stdout.readline() == "holds it\n"
    second = start()
    assert second.stderr
    assert second.stderr.readline().startswith("waiting for another build of this checkout")
    first.communicate()
    assert second.communicate()[0] == "holds it\n"


def test_a_file_system_without_locks_builds_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError("no locks available")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fcntl.flock", flock)
    with environments.hold_build():
        pass


@pytest.mark.parametrize("name", ["build", "deploy", "image", "invoke"])
def test_a_build_is_held_for_all_of_its_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    @contextmanager
    def hold() -> Iterator[None]:
        steps.append("begin")
        yield
        steps.append("end")

    def run_step(*_: object) -> int:
        steps.append("step")
        return 0

    monkeypatch.setattr("tools.environments.hold_build", hold)
    monkeypatch.setattr("tools.environments.run", run_step)
    monkeypatch.setattr(a2a, "_call", run_step)
    a2a._run(name)
    assert steps.index("begin") == 1, "after the packages"
    assert steps[-1] == "end"


@pytest.mark.parametrize("is_ci", [False, True])
def test_an_environment_is_locked_again_for_another_package_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_ci: bool
) -> None:
    """uv refuses a lock that names another index than that of this machine, such as a mirror of PyPI."""
    steps: list[tuple[object, ...]] = []

    def run_uv(*arguments: str, **variables: str) -> int:
        assert variables["UV_PYTHON"] == "3.13", "the same Python locks, checks and installs"
        steps.append(arguments[1:3])
        return int("--check" in arguments)

    monkeypatch.setattr("tools.environments.run", run_uv)
    monkeypatch.setattr("tools.environments.VENVS", tmp_path / "venvs")
    monkeypatch.setenv("CI", "true")
    if not is_ci:
        monkeypatch.delenv("CI")
    for folder in ("sam", "venvs/sam"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sam/uv.lock").write_text("")
    environments.install("sam", projects=tmp_path, UV_PYTHON="3.13")
    again = [] if is_ci else [("lock", "--check"), ("lock", "--project")]
    assert steps == [*again, ("sync", "--locked")]


def test_what_the_environment_says_is_shown_without_its_secrets() -> None:
    result = run(*A2A, "doctor", "--url", "no", STACK="a2a-prod", OWNER="bob", TOKEN="ghp_1", KEY="", TEXT="")
    assert result.stderr.splitlines()[0] == "note: from the environment: TOKEN, STACK=a2a-prod"


def test_a_reader_that_has_enough_is_no_error() -> None:
    result = run("sh", "-c", f"{sys.executable} -m tools.a2a help | true")
    assert not result.stderr


def test_nor_is_one_of_a_command_that_reports_errors() -> None:
    @command.reports_errors
    def main() -> int:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):  # which `a2a.main` takes
        main()


def test_an_older_release_locks_by_the_new_makefile(tmp_path: Path) -> None:
    """Its make upgrade calls make lock, which gets the variables of its own call."""
    folder = copy_kit(tmp_path / "fork")
    output = run("make", "--dry-run", "lock", folder=folder, MAKEFLAGS=" -- TO=v9 UPSTREAM=x").stdout
    [line] = (line for line in output.splitlines() if "tools.a2a" in line)
    variables = dict(re.findall(r"([A-Z_0-9]+)=(\S+)", line))
    assert a2a.parse("lock", [], {"A2A_VARIABLES": "TO UPSTREAM", **variables}) == {}


def test_an_old_python_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    assert "is not Python 3.11 to 3.14, or does not start" in run("make", f"PYTHON={old}").stderr


@pytest.mark.parametrize("has_python", [True, False])
def test_an_environment_without_its_interpreter_is_installed_again(tmp_path: Path, has_python: bool) -> None:
    folder = copy_kit(tmp_path / "fork")
    shutil.rmtree(folder / ".venv")  # links to that of this checkout
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/synced").touch()
    (folder / ".venv/bin/python").symlink_to(sys.executable if has_python else "gone")
    output = run("make", "--dry-run", "check", folder=folder).stdout
    assert ("sync --locked" in output) != has_python


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["test", "ARGS=-k don't"], "ARGS: No closing quotation"),
        (["add", "PACKAGE='x"], "PACKAGE: No closing quotation"),
        (["test", "ARGS=functions/agents/nothing"], "there is no functions/agents/nothing. Agents:"),
        (["test", "ARGS=hello"], "there is no hello. Agents:"),
        (["chat", "URL=http://["], "write the whole URL"),
        (["chat", "URL=http://127.0.0.1:99999"], "write the whole URL"),
        (["doctor", "URL=http://127.0.0.1:1", "KEY=…"], "a character that a header cannot carry"),
        (["build", "ARCH=amd64"], "use arm64 or x86_64"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], said: str) -> None:
    result = run(*A2A, *words)
    assert result.returncode == 1
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_the_name_of_the_machine_is_no_name_for_a_command() -> None:
    """WSL sets NAME."""
    for words in (["make", "agent"], [sys.executable, "-m", "tools.a2a", "agent"]):
        result = run(*words, NAME="desktop-42")
        assert "name the agent" in result.stderr, result.stdout
    assert not (ROOT / "functions" / "agents" / "desktop-42").exists()


def test_agents_need_neither_make_nor_a_shell(tmp_path: Path) -> None:
    """Windows has neither."""
    folder = copy_kit(tmp_path / "fork")
    for words in (["agent", "--name", "hello"], ["test", "ARGS=functions/agents/hello -p no:cacheprovider"]):
        result = run(sys.executable, "-m", "tools.a2a", *words, folder=folder, PATH=str(tmp_path), CI="")
        assert result.returncode == 0, result.stdout + result.stderr
    build = run(sys.executable, "-m", "tools.a2a", "build", folder=folder, PATH=str(tmp_path))
    assert build.returncode == 1
    assert "a build needs make. On Windows, build in WSL" in build.stderr


def test_an_operator_needs_no_package_of_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be one that cannot be installed while a rollback is urgent."""
    steps: list[str] = []

    def call(step: str) -> int:
        steps.append(step)
        return 0

    monkeypatch.setattr(a2a, "_call", call)
    for name in ("rollback", "doctor", "logs", "secret"):
        a2a._run(name)
    assert not any("packages" in step for step in steps)
    a2a._run("chat")
    assert "tools.build.packages sync" in steps
