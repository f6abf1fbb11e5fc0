"""a2a <command>: runs a command of tools/commands.py.

    make key NAME=alice REVOKE=1
    uv run a2a key NAME=alice REVOKE=1
    uv run a2a key --name alice --revoke

A command's module reads its variables from the environment.
"""

import argparse
import importlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools import environments
from tools.commands import COMMANDS

ROOT = Path(__file__).parents[1]

WITHOUT_PACKAGES = ("help", "lock", "remove")
"""Commands that need no package of an agent. They work even if one cannot be installed."""

MAKES = "A2A_VARIABLES"
"""Names of the variables in a call of make, separated by spaces."""

MAKES_OWN = {"ARCH", "CI", "MAKEFLAGS", "PYTHON", "UV"}
"""Variables of make itself, and of any build."""


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status of the process."""
    words = list(sys.argv[1:] if argv is None else argv) or ["help"]
    name = words.pop(0)
    if name in ("-h", "--help"):
        name = "help"
    if name not in COMMANDS:
        print(f"error: there is no command {name!r}. There are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    os.chdir(ROOT)
    given = parse(name, words, os.environ)
    if "NAME" not in given:
        os.environ.pop("NAME", None)  # WSL sets it to the name of the machine
    _configure(os.environ, given)
    if name not in WITHOUT_PACKAGES and (status := environments.install_packages()):
        return status
    *before, last = COMMANDS[name].steps
    for step in before:
        if status := environments.run(sys.executable, "-m", *step.split()):
            return status
    sys.argv[:] = last.split()
    module: Any = importlib.import_module(sys.argv[0])
    try:
        return int(module.main())
    except KeyboardInterrupt:
        return 130


def parse(name: str, words: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """A command's variables: those in the call of a2a, or of make. Exits with status 2 if there is another
    one."""
    command = COMMANDS[name]
    parser = argparse.ArgumentParser(
        prog=f"a2a {name}",
        description=command.summary,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    for variable, example in command.variables.items():
        if example == "1":
            parser.add_argument(_option(variable), dest=variable, nargs="?", const="1", metavar="1")
        else:
            parser.add_argument(_option(variable), dest=variable, metavar=example)
    of_make = environ.get(MAKES, "").split()
    if unknown := set(of_make) - set(command.variables) - MAKES_OWN:
        takes = f"It takes {', '.join(command.variables)}" if command.variables else "It takes none"
        parser.exit(2, f"error: make {name} has no variable {min(unknown)}. {takes}\n")
    options = [re.sub(r"(?s)^([A-Z_]+)=", lambda found: f"{_option(found[1])}=", word) for word in words]
    found: dict[str, str] = {variable: environ[variable] for variable in of_make if variable in environ}
    return found | vars(parser.parse_args(options))


def _option(variable: str) -> str:
    return f"--{variable.lower().replace('_', '-')}"


def _configure(environ: "os._Environ[str]", given: Mapping[str, str]) -> None:
    """Set what commands, and the programs that they start, read from the environment."""
    environ.update(given)
    # Another make would take the first four, and uv would warn of the last.
    for variable in (MAKES, "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "VIRTUAL_ENV"):
        environ.pop(variable, None)
    environ["PYTHONPATH"] = os.pathsep.join(str(ROOT / place) for place in ("layers/a2a", "functions", "."))
    environ["UV"] = environments.find_uv()
    environ.setdefault("UV_PYTHON_DOWNLOADS", "never")
    # botocore and sam read only AWS_DEFAULT_REGION. AWS's other SDKs, and our documents, use AWS_REGION.
    if region := environ.get("AWS_REGION"):
        environ["AWS_DEFAULT_REGION"] = region
    sys.path[:0] = [str(ROOT / "layers" / "a2a"), str(ROOT / "functions")]


if __name__ == "__main__":
    sys.exit(main())
