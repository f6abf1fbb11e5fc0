"""make test, make check, and the other commands that run the kit's tests."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from a2a_lambda.errors import ConfigurationError
from tools import environments
from tools.agents import imports
from tools.command import reports_errors, split_words

SLOW = (
    *("access/test_keys_at_scale.py", "e2e", "faults", "interop", "processes", "push"),
    *("http/test_bad_input.py", "http/test_lists.py", "http/test_lost_streams.py", "http/versions"),
    *("turns/test_run.py", "turns/test_worker.py", "lambda_/test_costs.py", "lambda_/test_emulator.py"),
    *("lambda_/test_image.py", "lambda_/test_runtime.py", "lambda_/test_speed.py"),
    *("tools/build/test_lint.py", "tools/client/test_chat.py", "tools/dev/test_server.py"),
    *("tools/docs/test_site.py", "tools/fork/test_upgrade.py", "tools/playground/test_browser_versions.py"),
    *("tools/test_commands.py", "wire/test_round_trip.py"),
)
"""Tests that make check runs, and make test does not: they take long, or need other environments."""

AGENTS = Path("functions/agents")

RECIPES = ("-m", "pytest", "-o", "addopts=-q --import-mode=importlib", "recipes")

NO_BROWSER = "left out: tests of the playground in a browser, because there is no chromium or google-chrome"


@reports_errors
def main(argv: list[str] = sys.argv, environ: Mapping[str, str] = os.environ) -> int:
    """Run the command that argv[1] names. Returns its exit status."""
    match argv[1]:
        case "test":
            return test(split_words("ARGS", environ))
        case "check":
            return check()
        case "e2e":
            return e2e(environ)
        case "conformance":
            return _run("-m", "tests.conformance.run", environ.get("TCK", ""), environ.get("LINE", ""))
        case "pictures":
            if not environments.install_browser():
                raise ConfigurationError("there is no chromium or google-chrome")
            return _run("-m", "tests.tools.playground.pictures")
        case "costs":  # the figures in docs/operations.md
            environments.install_all()
            return _run("-m", "pytest", "tests/lambda_/test_costs.py", "-s", "-n", "0")
    raise AssertionError(argv)


def e2e(environ: Mapping[str, str]) -> int:
    """Returns the exit status. Raises ConfigurationError."""
    if environ.get("AWS"):
        environments.install("sam")
        return _run("-m", "tests.e2e.proof")
    if given := [name for name in ("STACK", "ROLE", "BOUNDARY") if environ.get(name)]:
        raise ConfigurationError(f"{given[0]} is of a deployment on AWS: add AWS=1, or leave it out")
    environments.install("sam", "ministack")
    status = _run("-m", "pytest", "tests/e2e/test_agents.py", "-n", "0", "-q", "-s")
    if not status:
        print("Next: make deploy STAGE=dev")
    return status


def test(arguments: list[str]) -> int:
    """The agents' tests, and those of the kit that take less than two minutes together. With arguments of
    pytest, exactly those. Returns the exit status. Raises ConfigurationError if there is no such path."""
    paths = [argument.partition("::")[0] for argument in arguments if re.match(r"(\./)?\w+/", argument)]
    for path in paths:
        if not Path(path).exists():
            known = ", ".join(sorted(str(card.parent) for card in AGENTS.glob("*/card.yaml")))
            raise ConfigurationError(f"there is no {path}. Agents are {known}")
    folders = [Path(path).parts for path in paths]
    names = {parts[2] for parts in folders if parts[:2] == AGENTS.parts and len(parts) > 2}
    if missing := imports.find_missing(AGENTS, names if paths else None):
        raise ConfigurationError("\n".join(missing))
    if any(path.startswith("tests") for path in paths):
        environments.install_all()
    elif paths:
        return _run("-m", "pytest", "-n", "0", *arguments)  # so few tests need one process
    _prepare_browser()
    return _run("-m", "pytest", *(arguments or [f"--ignore=tests/{path}" for path in SLOW]))


def check() -> int:
    """Everything that a change has to pass. Returns the exit status."""
    _prepare_browser()
    environments.install_all()
    recipes = str(environments.program_path("recipes", "python"))
    # The official clients run alone: they give up after 5 s, which other tests beside them can take.
    status = (
        _run("-m", "tools.build.lint")
        or _run("-m", "pytest", "--ignore=tests/interop")
        or _run("-m", "pytest", "-n", "0", "tests/interop")
        or environments.run(recipes, *RECIPES, PYTHONPATH="layers/a2a")
        or _run("-m", "ruff", "check", "--quiet")
        or _run("-m", "ruff", "format", "--check", "--quiet")
        or _run("-m", "mypy", "--no-error-summary")
    )
    if not status:
        print("checked")
    return status


def _prepare_browser() -> None:
    if not environments.install_browser():
        print(NO_BROWSER, flush=True)


def _run(*words: str) -> int:
    return environments.run(sys.executable, *words)


if __name__ == "__main__":
    sys.exit(main())
