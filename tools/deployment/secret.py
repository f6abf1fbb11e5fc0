"""Sets, lists and removes the secrets and settings of agents, here or in a deployed stack.

make secret                                list their names
make secret NAME=openai                    asks for the value, and writes it to .env, for make run
make secret NAME=openai STACK=a2a-dev      asks for the value, and stores it in Parameter Store
make secret NAME=openai REMOVE=1 …         remove it
make setting NAME=model VALUE=gpt-5 …      the same for a setting, which is not secret

The value of a secret is never an argument, because the shell keeps arguments in its history. A command may
write it to the standard input. The value may be the ARN of a secret in Secrets Manager.
"""

import getpass
import io
import logging
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress

import boto3
from dotenv import set_key, unset_key
from dotenv.parser import parse_stream

from a2a_lambda.agent.configuration import (
    ENVIRONMENT_FILE,
    ValueKind,
    read_variables,
    values_by_name,
    variable_of,
)
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.mistakes import closest, did_you_mean
from tools.command import AGENTS, reports_errors, require_name
from tools.deployment.stack import aws_errors, table_of

EFFECT = "Running functions may use the old value for five more minutes."


@reports_errors
def main(argv: list[str] = sys.argv, environ: Mapping[str, str] = os.environ) -> int:
    logging.getLogger("dotenv").setLevel(logging.ERROR)  # a line that it cannot read stays as it is
    kind: ValueKind = "setting" if argv[1:] == ["setting"] else "secret"
    name, stack = environ.get("NAME", ""), environ.get("STACK", "")
    values: Parameters | EnvironmentFile = Parameters(kind, stack) if stack else EnvironmentFile(kind)
    if not name:
        require_name(environ, ("VALUE", "REMOVE"))
        lines = [f"{name}={value}" if kind == "setting" else name for name, value in values.all().items()]
        print("\n".join(lines) or f"no {kind}s in {values.place}")
        return 0
    variable_of(kind, name)
    if environ.get("REMOVE"):
        values.remove(name)
        print(f"removed {name} from {values.place}")
        return 0
    values.set(name, _value(kind, name, environ))
    print(f"set {name} in {values.place}. An agent reads it with turn.{kind}({name!r}).")
    names = _names_read(kind)
    if name not in names and closest(name, names):  # another name may be one that the code puts together
        print(f"note: no agent's code has turn.{kind}({name!r}){did_you_mean(name, names)}")
    if stack:
        print(EFFECT)
    return 0


def _names_read(kind: ValueKind) -> set[str]:
    """The names of secrets or settings in the code of agents."""
    call = re.compile(rf"\.{kind}\(\s*[\"']([a-z0-9-]+)[\"']")
    texts = (path.read_text("utf-8", "replace") for path in AGENTS.rglob("*.py"))
    return {name for text in texts for name in call.findall(text)}


class EnvironmentFile:
    """The values in .env, which make run and tests read. Raises ConfigurationError if it is not UTF-8."""

    place = str(ENVIRONMENT_FILE)

    def __init__(self, kind: ValueKind) -> None:
        self._kind = kind

    def all(self) -> dict[str, str]:
        """Values by name."""
        return dict(sorted(values_by_name(self._kind, read_variables(ENVIRONMENT_FILE)).items()))

    def set(self, name: str, value: str) -> None:
        read_variables(ENVIRONMENT_FILE)  # set_key would fail without naming the file
        ENVIRONMENT_FILE.touch(mode=0o600)
        ENVIRONMENT_FILE.chmod(0o600)
        variable = variable_of(self._kind, name)
        bindings = list(parse_stream(io.StringIO(ENVIRONMENT_FILE.read_text("utf-8-sig"))))
        # As set_key will write it. A quote that is never closed may take in the value, up to a quote in it.
        quoted_value = value.replace("'", "\\'")
        line = f"{variable}='{quoted_value}'\n"
        lines = [line if each.key == variable else each.original.string for each in bindings]
        text = "".join(lines) if line in lines else f"{''.join(lines)}\n{line}"
        new_bindings = parse_stream(io.StringIO(text))
        is_lost = all(each.error or (each.key, each.value) != (variable, value) for each in new_bindings)
        open_quotes = [
            each.original for each in bindings if each.error and re.search("['\"]", each.original.string)
        ]
        if is_lost and open_quotes:
            text = open_quotes[0].string  # it begins with the blank lines above
            number = open_quotes[0].line + text[: len(text) - len(text.lstrip())].count("\n")
            raise ConfigurationError(
                f"{self.place}:{number}: a quote is never closed: close it, or begin the line with #"
            )
        set_key(ENVIRONMENT_FILE, variable, value, follow_symlinks=True)

    def remove(self, name: str) -> None:
        """Raises ConfigurationError if it is not there."""
        names = self.all()
        if name not in names:
            hint = did_you_mean(name, names)
            raise ConfigurationError(f"there is no {self._kind} {name!r} in {self.place}{hint}")
        unset_key(ENVIRONMENT_FILE, variable_of(self._kind, name), follow_symlinks=True)


class Parameters:
    """The values of a stack, in Parameter Store. Raises ConfigurationError, also if AWS refuses a call."""

    def __init__(self, kind: ValueKind, stack: str) -> None:
        self._kind = kind
        self.place = f"/a2a/{stack}/{kind}s"
        table_of(stack)  # raises if there is no such stack
        self._client = boto3.client("ssm", region_name=os.environ.get("AWS_REGION"))

    def all(self) -> dict[str, str]:
        """Values by name. Secrets are not decrypted."""
        with aws_errors(self.place):
            pages = self._client.get_paginator("get_parameters_by_path").paginate(Path=self.place)
            values = {item["Name"]: item["Value"] for page in pages for item in page["Parameters"]}
        return {name.rpartition("/")[2]: value for name, value in sorted(values.items())}

    def set(self, name: str, value: str) -> None:
        with aws_errors(self.place):
            self._client.put_parameter(
                Name=f"{self.place}/{name}",
                Value=value,
                Type="SecureString" if self._kind == "secret" else "String",
                Overwrite=True,
                Tier="Intelligent-Tiering",  # a value may have more than 4 KB
            )

    def remove(self, name: str) -> None:
        with aws_errors(self.place):
            names = self._client.delete_parameters(Names=[f"{self.place}/{name}"])["DeletedParameters"]
        if not names:
            raise ConfigurationError(f"there is no {self._kind} {name!r} in {self.place}")


def _value(kind: ValueKind, name: str, environ: Mapping[str, str]) -> str:
    """The value to set. Raises ConfigurationError if there is none."""
    value = environ.get("VALUE", "")
    if kind == "secret" and value:
        raise ConfigurationError(
            "VALUE would stay in the history of your shell. Leave it out: the command asks for the value"
        )
    if not value and sys.stdin is not None:  # a job of cron may have closed it
        with suppress(EOFError):  # Ctrl-D
            value = getpass.getpass(f"{name}: ") if sys.stdin.isatty() else sys.stdin.read()
    if not (value := value.strip()):
        advice = "add VALUE=…" if kind == "setting" else "write the value, or pipe it in"
        raise ConfigurationError(f"the value of {name} is empty: {advice}, or REMOVE=1 to delete it")
    return value


if __name__ == "__main__":
    sys.exit(main())
