"""a2a <command>: runs a command of tools/commands.py.

    make key NAME=alice REVOKE=1
    uv run a2a key NAME=alice REVOKE=1
    uv run a2a key --name alice --revoke

A command's module reads its variables from the environment.
"""

import argparse
import difflib
import importlib
import importlib.util
import io
import os
import re
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tools import environments
from tools.commands import COMMANDS, MakeCommand

ROOT = Path(__file__).parents[1]

WITHOUT_AGENTS = frozenset(
    ("help", "lock", "remove", "account", "doctor", "fire", "issuer", "key", "logs", "prune", "redrive")
) | {"restore", "rollback", "secret", "setting"}
"""Commands that run even if a package of an agent cannot be installed."""

PACKAGES = ("pydantic", "rich", "uvicorn")
"""Packages that only the kit's environment has together."""

GIVEN, GOALS = "A2A_VARIABLES", "A2A_GOALS"
"""Names of the variables and of the targets in a call of make, separated by spaces."""

PUBLIC_VARIABLES = frozenset(("AGENT", "AGENTS", "OWNER", "PORT", "STACK", "STAGE", "VERSION"))
"""Variables whose values may be printed. Others may hold a key, or a URL with a password."""

SCOPES = frozenset(("AGENT", "AGENTS", "CONTEXT", "DAYS", "OWNER", "STACK", "TASK"))
"""Variables that narrow what a command is for. An empty one would widen it."""

ANYWHERE = re.compile("AWS_.*|UV_.*|CI|MAKEFLAGS|PYTHON|UV")
"""Variables in a call of make that no command names: of make itself, of uv, of AWS's tools."""


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status of the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may know no “…”
    words = list(sys.argv[1:] if argv is None else argv) or ["help"]
    name = words.pop(0)
    if name in ("-h", "--help"):
        name = "help"
    if name not in COMMANDS:
        guesses = difflib.get_close_matches(name, COMMANDS, 1)
        advice = f"did you mean {guesses[0]}?" if guesses else f"the commands are {', '.join(COMMANDS)}"
        print(f"error: unknown command {name!r}: {advice}", file=sys.stderr)
        return 2
    if name not in ("help", "lock") and not all(map(importlib.util.find_spec, PACKAGES)):
        fix = f"Write make {name}, or uv run a2a {name}"
        print(f"error: {sys.executable} does not have the kit's packages. {fix}", file=sys.stderr)
        return 1
    os.chdir(ROOT)
    variables = parse(name, words, os.environ)
    if "NAME" not in variables:
        os.environ.pop("NAME", None)  # WSL sets it to the name of the machine
    if names := _environment_text(name, variables, os.environ):
        print(f"note: from the environment: {names}", file=sys.stderr)
    try:
        _configure(os.environ, variables)
        status = _run(name)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # its reader, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python tries again at its exit
        return 141


def parse(name: str, words: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """A command's variables: those in the call of a2a, or of make. Exits with status 2 if there is another
    one."""
    joined_words = _join_options(COMMANDS[name], words)
    assignments = [re.match("([A-Za-z_]+)=", word) for word in joined_words]
    make_names = environ.get(GIVEN, "").split()
    _check_names(name, [match[1] for match in assignments if match], make_names, environ)
    options = [
        f"{_option(match[1])}={word[match.end() :]}" if match else word
        for match, word in zip(assignments, joined_words, strict=True)
    ]
    values = {variable: environ[variable] for variable in make_names if variable in environ}
    values |= vars(_parser_of(name).parse_args(options))
    _check_values(COMMANDS[name], {**environ, **values})
    for variable in COMMANDS[name].variables:
        if variable in SCOPES and values.get(variable) == "":  # a script's TASK=$ID without an ID
            print(f"error: {variable} is empty: give it a value, or leave {variable} out", file=sys.stderr)
            sys.exit(2)
    return values


def _join_options(command: MakeCommand, words: Sequence[str]) -> list[str]:
    """The words of a call, with each option's value joined to it: `--text`, `a=b` become `--text=a=b`."""
    switches = {_option(variable) for variable, example in command.variables.items() if example == "1"}
    names = {_option(variable) for variable in command.variables}
    joined_words, option = list[str](), ""
    for word in words:  # what follows an option that is no switch is its value
        if option and word.partition("=")[0] not in names:
            joined_words[-1], option = f"{option}={word}", ""
            continue
        joined_words.append(word)
        takes_value = word.startswith("--") and "=" not in word and word not in (*switches, "--help")
        option = word if takes_value else ""
    return joined_words


def _check_names(
    name: str, call_names: Sequence[str], make_names: Sequence[str], environ: Mapping[str, str]
) -> None:
    """Exits with status 2 for a variable that the command does not have.

    call_names: the variables in a2a's own arguments. make_names: those in the call of make, which may be for
        another one of its goals.
    """
    variables = COMMANDS[name].variables
    goals = {name, *environ.get(GOALS, "").split()} & COMMANDS.keys()
    goal_variables = {variable for goal in goals for variable in COMMANDS[goal].variables}
    unknown_names = [
        variable
        for variable in make_names
        if variable not in goal_variables and not ANYWHERE.fullmatch(variable)
    ]
    unknown_names += [variable for variable in call_names if variable not in variables]
    if unknown_names:
        hint = f"It takes {', '.join(variables)}" if variables else "It takes none"
        if unknown_names[0].upper() in variables:
            hint = f"Write it in capitals: {unknown_names[0].upper()}"
        elif guesses := difflib.get_close_matches(unknown_names[0], variables, 1):
            hint = f"Did you mean {guesses[0]}? {hint}"
        print(f"error: {name} has no variable {unknown_names[0]}. {hint}", file=sys.stderr)
        sys.exit(2)


def _parser_of(name: str) -> argparse.ArgumentParser:
    """Parser of a command's options. One that is left out is not among its results."""
    parser = argparse.ArgumentParser(
        prog=f"a2a {name}",
        description=COMMANDS[name].summary,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    for variable, example in COMMANDS[name].variables.items():
        if example == "1":
            parser.add_argument(_option(variable), dest=variable, nargs="?", const="1", metavar="1")
        else:
            help_text = None if example else argparse.SUPPRESS
            parser.add_argument(_option(variable), dest=variable, metavar=example or "VALUE", help=help_text)
    return parser


def _check_values(command: MakeCommand, values: Mapping[str, str]) -> None:
    """Exits with status 2 for a value that is not UTF-8, and for a switch that is not 1."""
    for variable, example in command.variables.items():
        value = values.get(variable, "")
        try:
            value.encode()
        except UnicodeEncodeError:  # Python's stand-ins for bytes that it could not read
            print(f"error: {variable} is not UTF-8: use a terminal whose encoding is UTF-8", file=sys.stderr)
            sys.exit(2)
        if example == "1" and value not in ("", "1"):  # YES=0 would count as yes
            print(f"error: {variable}={value!r}: write {variable}=1, or leave it out", file=sys.stderr)
            sys.exit(2)


def _environment_text(name: str, variables: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """The variables of a command that are not from its call, but were set before it, such as `STACK` in a
    shell, perhaps for another program. variables: those of the call."""
    words = [
        f"{variable}={environ[variable]}" if variable in PUBLIC_VARIABLES else variable
        for variable in COMMANDS[name].variables
        if environ.get(variable) and variable not in variables
    ]
    return ", ".join(words)


def _option(variable: str) -> str:
    return f"--{variable.lower().replace('_', '-')}"


def _configure(environ: MutableMapping[str, str], variables: Mapping[str, str]) -> None:
    """Set what commands, and the programs that they start, read from the environment."""
    environ.update(variables)
    # Another make would take the first five, and uv would warn of the last.
    for variable in (GIVEN, GOALS, "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "VIRTUAL_ENV"):
        environ.pop(variable, None)
    environ["PYTHONPATH"] = os.pathsep.join(str(ROOT / place) for place in ("layers/a2a", "functions", "."))
    environ.setdefault("UV_PYTHON_DOWNLOADS", "never")
    # botocore and sam read only AWS_DEFAULT_REGION. AWS's other SDKs, and our documents, use AWS_REGION.
    if region := environ.get("AWS_REGION"):
        environ["AWS_DEFAULT_REGION"] = region
    # A proxy does not lead to this machine. If the environment has none, NO_PROXY would hide that of macOS.
    if any(environ.get(name) for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")):
        exceptions = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
        for name in ("NO_PROXY", "no_proxy"):
            environ[name] = ",".join(filter(None, (exceptions, "127.0.0.1", "localhost")))
    sys.path[:0] = [str(ROOT / "layers" / "a2a"), str(ROOT / "functions")]


def _run(name: str) -> int:
    """Run a command's steps. Returns the exit status."""
    if name not in WITHOUT_AGENTS and (status := _call("tools.build.packages sync")):
        return status
    *steps, last = COMMANDS[name].steps
    with environments.hold_build() if COMMANDS[name].builds else nullcontext():
        for step in steps:
            if status := environments.run(sys.executable, "-m", *step.split()):
                return status
        return _call(last)


def _call(step: str) -> int:
    """Run a step in this process. Returns its exit status."""
    sys.argv[:] = step.split()
    module: Any = importlib.import_module(sys.argv[0])
    return int(module.main())


if __name__ == "__main__":
    sys.exit(main())
