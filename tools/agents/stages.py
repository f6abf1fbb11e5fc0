"""The stages in samconfig.toml, and which agents each of them serves."""

import re
import shlex
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from a2a_lambda.errors import ConfigurationError
from a2a_lambda.mistakes import closest, did_you_mean
from tools.builds import read_architecture
from tools.command import read_text, split_names

SAMCONFIG = Path("samconfig.toml")

STACK_NAME = re.compile("[A-Za-z][A-Za-z0-9-]{0,127}")

SAM_COMMANDS = (
    *("global", "init", "validate", "build", "package", "deploy", "delete", "logs", "publish", "traces"),
    *("sync", "docs", "local_invoke", "local_start_api", "local_start_lambda", "remote_invoke"),
)
"""Tables of an environment, without some that no stage needs.
Source: https://docs.aws.amazon.com/serverless-application-model/latest/developerguide/serverless-sam-cli-config.html"""

SAM_DEPLOY_KEYS = (
    *("beta_features", "capabilities", "confirm_changeset", "debug", "disable_rollback", "express"),
    *("fail_on_empty_changeset", "force_upload", "guided", "image_repositories", "image_repository"),
    *("kms_key_id", "language_extensions", "max_wait_duration", "metadata", "no_execute_changeset"),
    *("no_progressbar", "notification_arns", "on_failure", "output", "parameter_overrides", "profile"),
    *("region", "resolve_image_repos", "resolve_s3", "role_arn", "s3_bucket", "s3_prefix"),
    *("save_params", "signing_profiles", "stack_name", "tags", "template_file", "use_json"),
)
"""The options of sam deploy, as samconfig.toml names them.
Source: https://docs.aws.amazon.com/serverless-application-model/latest/developerguide/sam-cli-command-reference-sam-deploy.html"""

TYPO_RATIO = 0.8
"""How like a name a misspelling of it is, of at most 1. What is less like it may be another tool's, or a
later SAM CLI's."""

GITHUB_CHARACTERS = 30
"""Maximum length of a stack's name in templates/deploy-role.yaml."""

PLACE_KEYS = ("region", "profile")
"""Parameters of a stage that say where its stack is. A stack's name is unique in an account's region."""


def read_stages(folder: Path = Path()) -> dict[str, dict[str, Any]]:
    """Parameters of sam deploy for each environment that names a stack. folder: folder of the project. Raises
    ConfigurationError."""
    config = folder / SAMCONFIG
    return stages_in(read_text(config)) if config.exists() else {}


def stages_in(text: str) -> dict[str, dict[str, Any]]:
    """The same of the text of a samconfig.toml."""
    environments = _environments_in(text)
    stages: dict[str, dict[str, Any]] = {}
    for name, environment in environments.items():
        shared_parameters = _table(environment, "global", "parameters")
        parameters = {**shared_parameters, **_table(environment, "deploy", "parameters")}
        if not parameters.get("stack_name"):
            continue
        for key in ("stack_name", *PLACE_KEYS):
            if not isinstance(parameters.get(key, ""), str):
                raise ConfigurationError(
                    f'{SAMCONFIG}: {key} of {name} must be a string: write {key} = "{parameters[key]}"'
                )
        if not STACK_NAME.fullmatch(stack := parameters["stack_name"]):
            raise ConfigurationError(
                f"{SAMCONFIG}: stack_name of {name} is {stack!r}: use letters, digits and hyphens, and begin"
                " with a letter"
            )
        for other, others in stages.items():
            if _may_be_one_stack(others, parameters):
                raise ConfigurationError(
                    f"{SAMCONFIG}: the stages {other} and {name} deploy the same stack,"
                    f" {parameters['stack_name']}, so each would replace the other's agents: give one of them"
                    " another stack_name, or each of them its own region or profile"
                )
        stages[name] = parameters
    return stages


def faults_of_tables() -> Iterator[str]:
    """What is wrong with the tables of samconfig.toml, which sam would ignore: one that is misspelled, or has
    a misspelled key, and a stage without a stack's name. `default` is for sam deploy --guided. Raises
    ConfigurationError."""
    environments = _environments_in(read_text(SAMCONFIG)) if SAMCONFIG.exists() else {}
    stages = read_stages()
    if environments and not isinstance(environments.get("version"), float):
        yield f"{SAMCONFIG}: write version = 0.1, without quotes, above its first table"
    for name, environment in environments.items():
        commands = environment if isinstance(environment, dict) else {}
        for command in commands:
            right_command = closest(command, SAM_COMMANDS, TYPO_RATIO)
            if right_command and command not in SAM_COMMANDS:
                yield f"{SAMCONFIG}: [{name}.{command}]: write [{name}.{right_command}.parameters]"
        tables = _table(commands, "deploy")
        for key, value in tables.items():
            if isinstance(value, dict) and key != "parameters":
                yield f"{SAMCONFIG}: [{name}.deploy.{key}]: write [{name}.deploy.parameters]"
            elif not isinstance(value, dict):
                yield f"{SAMCONFIG}: [{name}.deploy] has {key}: move it under [{name}.deploy.parameters]"
        parameters, misspelled_keys = _table(commands, "deploy", "parameters"), dict[str, str]()
        for command in ("global", "deploy"):
            for key, value in _table(commands, command, "parameters").items():
                option = closest(key.removeprefix("no_"), SAM_DEPLOY_KEYS, TYPO_RATIO)
                if option and key not in SAM_DEPLOY_KEYS:
                    misspelled_keys[key] = option
                    right_line = f"{option} = {str(not value).lower()}" if key.startswith("no_") else option
                    yield f"{SAMCONFIG}: [{name}.{command}.parameters]: write {right_line} instead of {key}"
        if parameters and name not in ("default", *stages) and "stack_name" not in misspelled_keys.values():
            yield _advice_on_name(name, stages)


def faults_of_options(name: str, stage: Mapping[str, Any]) -> Iterator[str]:
    """What sam deploy would refuse of a stage's options, or would take the last of. Raises
    ConfigurationError."""
    place = f"{SAMCONFIG}: [{name}.deploy.parameters]"
    if not (stage.get("resolve_s3") or stage.get("s3_bucket")):
        yield f"{place}: write resolve_s3 = true, so that sam has a bucket for the code"
    if "IAM" not in str(stage.get("capabilities")):
        yield f'{place}: write capabilities = "CAPABILITY_IAM CAPABILITY_AUTO_EXPAND"'
    names = [word.partition("=")[0] for word in overrides_of(stage)]
    for parameter in sorted({each for each in names if names.count(each) > 1}):
        yield f"{place}: parameter_overrides sets {parameter} more than once"


def _advice_on_name(stage: str, stages: Mapping[str, Mapping[str, Any]]) -> str:
    """What to write if a stage has no stack's name, in the form of the others."""
    prefixes = {parameters["stack_name"].removesuffix(name) for name, parameters in stages.items()}
    prefix = next((each for each in sorted(prefixes) if each.endswith("-")), "a2a-")
    return (
        f'{SAMCONFIG}: stage {stage} has no stack_name: write stack_name = "{prefix}{stage}" under'
        f" [{stage}.deploy.parameters]"
    )


def _environments_in(text: str) -> dict[str, Any]:
    """The tables of a samconfig.toml. Raises ConfigurationError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{SAMCONFIG}: {error}") from None


def notes_for_github(stages: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What keeps stages from being deployed from GitHub: the roles of templates/deploy-role.yaml know the
    resources of a stack by its name."""
    for name, stage in stages.items():
        stack = stage["stack_name"]
        if len(stack) > GITHUB_CHARACTERS:
            yield f"stage {name}: for GitHub, shorten its stack_name to {GITHUB_CHARACTERS} characters"
        if stage.get("s3_prefix") != stack:
            yield f'stage {name}: for GitHub, write s3_prefix = "{stack}"'
        for other, others in stages.items():
            if others["stack_name"].startswith(f"{stack}-"):
                yield (
                    f"stage {other}: for GitHub, choose another stack_name, because the role of {name} could"
                    f" change the resources of a stack whose name begins with {stack}-"
                )


def _may_be_one_stack(stage: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two stages may deploy the same stack. A stage that names no region, or no profile, uses that of
    the shell, which may be the other's."""
    are_apart = any(stage.get(key) and other.get(key) and stage[key] != other[key] for key in PLACE_KEYS)
    return stage["stack_name"] == other["stack_name"] and not are_apart


def stage_of(environ: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Name and parameters of the stage to deploy. Raises ConfigurationError."""
    name, choices = environ.get("STAGE", ""), read_stages()
    if not choices:
        raise ConfigurationError(
            f'{SAMCONFIG} has no stage: write stack_name = "a2a-dev" under [dev.deploy.parameters]'
        )
    if name not in choices and isinstance(_environments_in(read_text(SAMCONFIG)).get(name), dict):
        raise ConfigurationError(_advice_on_name(name, choices))
    if name not in choices:
        words = " or ".join(f"STAGE={shlex.quote(stage)}" for stage in choices)
        problem = f"{SAMCONFIG} has no stage {name!r}: write" if name else "name a stage:"
        raise ConfigurationError(f"{problem} {words}")
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
        raise ConfigurationError(f'{place}: write a list of strings, such as ["LogDays=7"]')
    try:
        return [word for text in texts for word in shlex.split(text)]
    except ValueError as error:
        raise ConfigurationError(f"{place}: {error}") from None


def values_of_stages(name: str) -> dict[str, str]:
    """Value of a parameter in each stage; "" = the stage does not set it. Raises ConfigurationError."""
    return {
        stage: dict(word.partition("=")[::2] for word in overrides_of(parameters)).get(name, "")
        for stage, parameters in read_stages().items()
    }


def architectures_of_stages(environ: Mapping[str, str]) -> list[str]:
    """What Lambda's functions run on: ARCH, or else what the stages say, each for itself. Raises
    ConfigurationError."""
    if environ.get("ARCH"):
        return [read_architecture(environ)]
    named = values_of_stages("Architecture").values()
    return sorted({read_architecture({}, {"Architecture": value}) for value in named or ("",)})


def default_stage(stages: Mapping[str, Any]) -> str:
    """The stage that a command is for that names none; "" = there is no stage."""
    return "dev" if "dev" in stages else next(iter(stages), "")


def deploy_command(stage: str = "") -> str:
    """The make command that deploys a stage, or else the default one. Raises ConfigurationError."""
    stage = stage or default_stage(read_stages())
    return f"make deploy STAGE={shlex.quote(stage)}" if stage else "make deploy"


def check_agent_names(names: Iterable[str], choices: Collection[str]) -> None:
    """Raises ConfigurationError if AgentNames has an agent that is not there."""
    for name in names:
        if name not in choices:
            hint = did_you_mean(name, choices)
            raise ConfigurationError(
                f"AgentNames: there is no agent {name!r}{hint} Agents: {', '.join(choices)}"
            )


def agents_of_stages() -> dict[str, list[str]]:
    """Names in AgentNames of each stage; none = the stage serves all agents. Raises ConfigurationError."""
    return {stage: split_names(value) for stage, value in values_of_stages("AgentNames").items()}
