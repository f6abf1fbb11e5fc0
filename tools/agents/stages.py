"""The stages in samconfig.toml, and which agents each of them serves."""

import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from a2a_lambda.errors import ConfigurationError
from tools.command import read_text, split_names

SAMCONFIG = Path("samconfig.toml")


def read_stages(folder: Path = Path()) -> dict[str, dict[str, Any]]:
    """Parameters of sam deploy for each environment that names a stack. folder: folder of the project. Raises
    ConfigurationError."""
    config = folder / SAMCONFIG
    if not config.exists():
        return {}
    try:
        environments = tomllib.loads(read_text(config))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{config}: {error}") from None
    stages = {}
    for name, environment in environments.items():
        parameters = _table(environment, "deploy", "parameters")
        if parameters.get("stack_name"):
            stages[name] = {**_table(environment, "global", "parameters"), **parameters}
    return stages


def stage_of(environ: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Name and parameters of the stage to deploy. Raises ConfigurationError."""
    name, choices = environ.get("STAGE", ""), read_stages()
    if not choices:
        raise ConfigurationError(f"{SAMCONFIG} has no stage with a stack_name")
    if name not in choices:
        raise ConfigurationError(f"name a stage: {' or '.join(f'STAGE={stage}' for stage in choices)}")
    return name, choices[name]


def _table(value: Any, *names: str) -> dict[str, Any]:
    """A table within tables; empty if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def overrides_of(stage: Mapping[str, Any]) -> list[str]:
    """The words `Name=value` in a stage's parameter_overrides, with quotes or without, as in a shell. Raises
    ConfigurationError."""
    overrides = stage.get("parameter_overrides", [])
    texts = [overrides] if isinstance(overrides, str) else overrides
    place = f"{SAMCONFIG}: parameter_overrides of {stage['stack_name']}"
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ConfigurationError(f'{place}: write a list of texts, such as ["LogDays=7"]')
    try:
        return [word for text in texts for word in shlex.split(text)]
    except ValueError as error:
        raise ConfigurationError(f"{place}: {error}") from None


def agents_of_stages() -> dict[str, list[str]]:
    """Names in AgentNames of each stage; none = the stage serves all agents. Raises ConfigurationError."""
    names = {
        stage: [word.partition("=")[2] for word in overrides_of(parameters) if word.startswith("AgentNames=")]
        for stage, parameters in read_stages().items()
    }
    return {stage: split_names(values[-1]) if values else [] for stage, values in names.items()}
