"""Secrets and settings of agents, by name.

    turn.secret("openai")    turn.setting("model", "gpt-5")

A name is looked up in this order:

    1. what a test gives                   agent.run("hi", secrets={"openai": "sk-test"})
    2. an environment variable             SECRET_OPENAI, SETTING_MODEL
    3. the file .env, if the kit runs      the same names
       on a developer's machine
    4. Parameter Store, if it is deployed  /a2a/<stack>/secrets/openai, /a2a/<stack>/settings/model

If a value is the ARN of a secret in Secrets Manager, the text of that secret is used.
"""

import io
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from a2a_lambda.errors import ConfigurationError, excerpt
from a2a_lambda.mistakes import did_you_mean

PATH_VARIABLE = "A2A_AGENT_PARAMETERS"
"""Environment variable of a deployment: the path in Parameter Store."""

VALUE_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")

ENVIRONMENT_FILE = Path(".env")
"""File with the values of a developer's machine."""

SECRET_ARN = re.compile(r"arn:[a-z-]+:secretsmanager:\S+")

ValueKind = Literal["secret", "setting"]

VARIABLE_PREFIXES: Mapping[ValueKind, str] = MappingProxyType({"secret": "SECRET_", "setting": "SETTING_"})
"""How the environment variables of each kind begin."""


class Configuration:
    """Where an agent's secrets and settings come from.

    path: path in Parameter Store; "" on a developer's machine. environment: environment variables. file: see
    `read_variables`. overrides: variables that a test sets. They count first.
    """

    def __init__(
        self,
        path: str = "",
        environment: Mapping[str, str] = MappingProxyType({}),
        file: Path | None = None,
        overrides: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._path = path
        # The end of a command that sets a value: a deployment's has the stack's name.
        self._stack = f" STACK={path.rpartition('/')[2]}" if path else ""
        self._test_advice = "" if path else '; in a test, write agent.run(…, {}={{"{}": "…"}})'
        self._environment = environment
        self._file = file
        self._overrides = overrides

    def secret(self, name: str) -> str:
        """A secret. Raises ConfigurationError if it is not set, and says how to set it. Raises
        ConfigurationUnavailable."""
        value = self._find("secret", name)
        if value is None:
            raise ConfigurationError(
                f"there is no secret {name!r}{did_you_mean(name, self.names('secret'))}"
                f" Set it: make secret NAME={name}{self._stack}"
                f"{self._test_advice.format('secrets', name)}"
            )
        if not SECRET_ARN.fullmatch(value):
            return value
        from a2a_lambda.aws.parameters import get_secret

        secret = get_secret(value)
        if secret is None:
            raise ConfigurationError(
                f"the secret {name!r} is {value}, which Secrets Manager does not have: create it there, or"
                f" set the ARN of another: make secret NAME={name}{self._stack}"
            )
        return secret

    def setting(self, name: str, default: str | None = None) -> str:
        """A setting. default: the value if it is not set. Raises ConfigurationError if there is neither,
        and says how to set it. Raises ConfigurationUnavailable."""
        value = self._find("setting", name)
        if value is None:
            value = default
        if value is None:
            raise ConfigurationError(
                f"there is no setting {name!r}{did_you_mean(name, self.names('setting'))}"
                f" Set it: make setting NAME={name} VALUE=…{self._stack}"
                f"{self._test_advice.format('settings', name)}"
            )
        return value

    def names(self, kind: ValueKind) -> list[str]:
        """Names of the secrets, or of the settings, that are set outside of Parameter Store. Raises
        ConfigurationError."""
        of_file = read_variables(self._file) if self._file else {}
        return [*values_by_name(kind, {**self._overrides, **self._environment, **of_file})]

    def _find(self, kind: ValueKind, name: str) -> str | None:
        variable = variable_of(kind, name)
        for values in (self._overrides, self._environment):
            if variable in values:
                return values[variable]
        value = None if self._file is None else read_variables(self._file).get(variable)
        if value is not None:
            return value
        if not self._path:
            return None
        from a2a_lambda.aws.parameters import get_parameter

        return get_parameter(f"{self._path}/{kind}s/{name}")


def variable_of(kind: ValueKind, name: str) -> str:
    """Environment variable of a secret or a setting. Raises ConfigurationError for a name that is not
    allowed."""
    if not VALUE_NAME.fullmatch(name):
        right_name = name.lower().replace("_", "-")
        example = right_name if VALUE_NAME.fullmatch(right_name) else "openai-2"
        raise ConfigurationError(
            f"{excerpt(name)!r} cannot be the name of a {kind}. Use at most 63 lower-case letters, digits"
            f" and -, and begin with a letter, as in {example!r}"
        )
    return VARIABLE_PREFIXES[kind] + name.upper().replace("-", "_")


def values_by_name(kind: ValueKind, variables: Mapping[str, str]) -> dict[str, str]:
    """The secrets, or the settings, among variables. A name that has lower-case letters does not
    count."""
    prefix = VARIABLE_PREFIXES[kind]
    return {
        variable.removeprefix(prefix).lower().replace("_", "-"): value
        for variable, value in variables.items()
        if variable.startswith(prefix) and variable.isupper()
    }


def kind_of(variable: str) -> ValueKind | None:
    """What an environment variable is for agents; None = neither a secret nor a setting."""
    return next((kind for kind, prefix in VARIABLE_PREFIXES.items() if variable.startswith(prefix)), None)


def read_variables(file: Path) -> dict[str, str]:
    """The variables that have a value in a file such as .env; none if there is no file. Raises
    ConfigurationError if it is not UTF-8."""
    if not file.exists():
        return {}
    from dotenv import dotenv_values

    try:
        text = file.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} is not UTF-8: save it as UTF-8") from None
    values = dotenv_values(stream=io.StringIO(text), interpolate=False)
    return {variable: value for variable, value in values.items() if value is not None}


def variables_of_test(secrets: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Variables of a test's secrets and settings."""
    return {
        **{variable_of("secret", name): value for name, value in secrets.items()},
        **{variable_of("setting", name): value for name, value in settings.items()},
    }


def read_environment(overrides: Mapping[str, str] = MappingProxyType({})) -> Configuration:
    """The configuration of this process. overrides: what a test gives."""
    path = os.environ.get(PATH_VARIABLE, "")
    return Configuration(path, os.environ, None if path else ENVIRONMENT_FILE, overrides)


@cache
def process_configuration() -> Configuration:
    """The one that all turns of the process use."""
    return read_environment()
