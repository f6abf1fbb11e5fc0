"""make test, make check, and the other commands that run the kit's tests."""

import os
import re
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from a2a_lambda.errors import ConfigurationError
from tools import environments
from tools.agents import imports
from tools.agents.stage_parameters import named_parameters
from tools.agents.stages import agents_of_stages, check_agent_names, default_stage, deploy_command
from tools.builds import check_system, find_python
from tools.checks import lab
from tools.command import AGENTS, agent_folder, agent_folders, named_agent, reports_errors, split_words
from tools.commands import LAMBDA_PYTHON

UNTYPED = "lab/bench/(peers|agents|plots)"
"""What of the laboratory runs in an environment of its own."""

RECIPES = ("-m", "pytest", "-o", "addopts=-q --import-mode=importlib", "recipes")

COSTS = ("tests/lambda_/test_costs.py", "tests/files/test_costs.py")
"""Tests that print the figures of docs/costs.md and docs/files.md."""

CLIENTS = "tests/interop"
"""Tests with the official clients, which give up after 5 s: only one other program may run at the same
time."""

BESIDE_CLIENTS = ("tests/tasks", "tests/wire")
"""Tests that start no other program, and so can run at the same time as the official clients."""

NO_TESTS = 5
"""Exit status of pytest if it has found no test."""

NO_BROWSER = "skipped: the playground's browser tests, because there is no chromium or google-chrome"


@reports_errors
def main(argv: list[str] = sys.argv, environ: Mapping[str, str] = os.environ) -> int:
    """Run the command that argv[1] names. Returns its exit status."""
    match argv[1]:
        case "test":
            arguments = split_words("ARGS", environ)
            if agent := named_agent(environ):
                arguments.insert(0, str(agent_folder(agent)))
            return test(arguments)
        case "check":
            return check()
        case "e2e":
            return e2e(environ)
        case "conformance":
            if environ.get("LINE") == "mcp":
                environments.install_js(environments.JS)
            return _run("-m", "tests.conformance.run", environ.get("TCK", ""), environ.get("LINE", ""))
        case "pictures":
            if not environments.install_browser():
                raise ConfigurationError(
                    "there is no chromium or google-chrome: run apt-get install chromium, or install Google"
                    " Chrome"
                )
            return _run("-m", "tests.tools.playground.pictures")
        case "costs":  # the figures in docs/costs.md
            _install_emulator()
            return _run("-m", "pytest", *COSTS, "-s", "-n", "0")
    raise AssertionError(argv)


def e2e(environ: Mapping[str, str]) -> int:
    """Returns the exit status. Raises ConfigurationError."""
    if environ.get("AWS", "") not in ("", "1", "delete"):  # AWS=0 would count as yes
        raise ConfigurationError(f"AWS={environ['AWS']!r}: write AWS=1 or AWS=delete, or leave it out")
    if environ.get("AWS"):
        environments.install("sam")
        return _run("-m", "tests.e2e.proof")
    if variables := [name for name in ("STACK", "ROLE", "BOUNDARY") if environ.get(name)]:
        raise ConfigurationError(f"{variables[0]} is used only on AWS: add AWS=1, or leave it out")
    check_system("make e2e")
    stages = agents_of_stages()
    stage = environ.get("STAGE") or default_stage(stages)
    named_parameters({"STAGE": stage})  # a wrong value is one sentence here
    check_agent_names(stages[stage], list(agent_folders()))
    if not agent_folders():
        raise ConfigurationError("there is no agent: write one, with make agent NAME=…")
    environments.install("sam")
    _install_emulator()
    tests = ("-m", "pytest", "tests/e2e/test_agents.py", "-n", "0", "-q", "-s")
    status = _run(*tests, E2E_STAGE=stage)
    if not status:
        print(f"Next: {deploy_command(stage)}")
    return status


def test(arguments: list[str]) -> int:
    """The agents' tests, and those of the kit that are not marked slow.

    arguments: pytest's. If they name a path, all tests in it run, slow ones, too. Returns the exit status.
    Raises ConfigurationError if there is no such path.
    """
    is_path = re.compile(r"(\./)?\w+/").match
    # The first argument is a path, unless it is an option.
    paths = [
        argument.partition("::")[0]
        for index, argument in enumerate(arguments)
        if is_path(argument) or (index == 0 and not argument.startswith("-"))
    ]
    for path in paths:
        if not Path(path).exists():
            agents = ", ".join(map(str, agent_folders().values()))
            raise ConfigurationError(f"there is no {path}. Agents: {agents}")
    folders = [Path(path).parts for path in paths]
    names = {parts[2] for parts in folders if parts[:2] == AGENTS.parts and len(parts) > 2}
    if sentences := imports.find_missing(AGENTS, names if paths else None):
        raise ConfigurationError("\n".join(sentences))
    if any(path.startswith("tests") for path in paths):
        _install_all()
    elif paths:
        status = _run("-m", "pytest", "-n", "0", *arguments)  # so few tests need one process
        folder = Path(paths[0])
        if status == NO_TESTS and folder.is_dir() and not any(folder.glob("**/test_*.py")):
            place = f"{paths[0].rstrip('/')}/tests/test_{Path(paths[0]).name.replace('-', '_')}.py"
            print(f"there is no test: write {place}, as make agent does", file=sys.stderr)
        return status
    _prepare_browser()
    quick = [] if paths else ["-m", "not slow"]  # another -m among the arguments counts instead
    return _run("-m", "pytest", *quick, *arguments)


def check() -> int:
    """Everything that a change has to pass, what is quick first. Returns the exit status."""
    _prepare_browser()
    _install_all()
    status = _run("-m", "ruff", "check", "--quiet") or _run("-m", "ruff", "format", "--check", "--quiet")
    if not status:
        with ThreadPoolExecutor() as pool:
            clients = pool.submit(_run, "-m", "pytest", "-n", "0", CLIENTS)
            others = _check_all_but_tests() or _run("-m", "pytest", "-n", "0", *BESIDE_CLIENTS)
            status = others or clients.result()
    # More processes than there are cores, because many of these tests wait for other processes.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ignored_tests = [f"--ignore={folder}" for folder in (CLIENTS, *BESIDE_CLIENTS)]
    status = status or _run("-m", "pytest", "-n", str(cores + 2), *ignored_tests)
    if not status:
        print("checked")
    return status


def _check_all_but_tests() -> int:
    """Types, templates, recipes, and the laboratory, if this checkout has one."""
    recipes = str(environments.program_path("recipes", "python"))
    status = (
        _run("-m", "mypy", "--no-error-summary")
        or _run("-m", "tools.build.lint")
        or environments.run(recipes, *RECIPES, PYTHONPATH="layers/a2a")
    )
    if status or not lab.FOLDER.exists():
        return status
    types = _run("-m", "mypy", "--no-error-summary", "--exclude", UNTYPED, str(lab.FOLDER))
    return types or lab.run("-m", "pytest", "lab/tests")


def _install_all() -> None:
    _install_emulator()
    environments.install_all()


def _install_emulator() -> None:
    """The emulator runs functions with its own interpreter, so it gets Lambda's version if this machine has
    that."""
    if python := find_python(LAMBDA_PYTHON):
        environments.install("ministack", UV_PYTHON=python)
    else:
        environments.install("ministack")


def _prepare_browser() -> None:
    if not environments.install_browser():
        print(NO_BROWSER, flush=True)


def _run(*words: str, **variables: str) -> int:
    # With .pyc, whatever the environment says: the tests start hundreds of processes.
    return environments.run(sys.executable, *words, PYTHONDONTWRITEBYTECODE="", **variables)


if __name__ == "__main__":
    sys.exit(main())
