"""Parameters of the stages in samconfig.toml, and what is wrong with them before AWS is asked."""

import math
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from a2a_lambda.catalog.agents import load_profiles
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.net.addresses import Refused, check_webhook_url
from tools import template
from tools.agents import stages
from tools.command import AGENTS, split_names

TEMPLATE = Path("template.yaml")


def named_parameters(environ: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Parameters in samconfig.toml, and in the call. Raises ConfigurationError."""
    stage_words = stages.overrides_of(stages.stage_of(environ)[1])
    declarations = template.parameters(TEMPLATE)
    try:
        call_words = shlex.split(environ.get("PARAMETERS", ""))
    except ValueError as error:
        raise ConfigurationError(f"PARAMETERS: {error}") from None
    stage_parameters = template.parse_parameters(declarations, *stage_words)
    return stage_parameters, template.parse_parameters(declarations, *call_words)


def longest_task_days(parameters: Mapping[str, str]) -> int:
    """Days after which no task has a file any more. An upload may be a day older than its task."""
    execution_days = math.ceil(int(parameters["ExecutionTimeout"]) / 86_400)
    return int(parameters["TaskDays"]) + execution_days + 1


def fitted_file_days(parameters: Mapping[str, str]) -> dict[str, str]:
    """FileDays for the tasks of a stack, if it is 0; else nothing."""
    return {"FileDays": str(longest_task_days(parameters))} if parameters["FileDays"] == "0" else {}


def check_parameters(parameters: Mapping[str, str]) -> None:
    """Raises ConfigurationError if two parameters do not fit together."""
    has_subnets, has_groups = bool(parameters["SubnetIds"]), bool(parameters["SecurityGroupIds"])
    if has_subnets is not has_groups:  # a rule of CloudFormation cannot compare lists with nothing
        raise ConfigurationError("set both SubnetIds and SecurityGroupIds, or neither")
    reserved, provisioned = int(parameters["RpcConcurrency"]), int(parameters["RpcProvisioned"])
    if 0 < reserved < provisioned:
        raise ConfigurationError(
            f"RpcProvisioned={provisioned} is more than RpcConcurrency={reserved}: raise RpcConcurrency, or"
            " set it to 0"
        )
    if problem := template.broken_rule(TEMPLATE, parameters):
        raise ConfigurationError(problem)


def read_agent_names(parameters: Mapping[str, str]) -> list[str]:
    """The names in AgentNames. Raises ConfigurationError if there is no such agent."""
    names = split_names(parameters["AgentNames"])
    # One that is called card.yml, say, is named by `load_profiles`.
    stages.check_agent_names(names, sorted({card.parent.name for card in AGENTS.glob("*/card.*")}))
    return names


def check_agents(parameters: Mapping[str, str]) -> None:
    """Raises ConfigurationError if an agent is wrong, AgentNames has one that is not there, or one is durable
    in a stack without a function for that."""
    for profile in load_profiles(AGENTS, read_agent_names(parameters)):
        for schedule in profile.card.schedules:
            if schedule.webhook is None:
                continue
            try:
                check_webhook_url(schedule.webhook, allow_loopback=False)
            except Refused as error:
                raise ConfigurationError(
                    f"agent {profile.name}: schedule {schedule.id}: in a stack, its webhook's URL {error}"
                ) from None
        if profile.card.durable_skills and parameters["ExecutionTimeout"] == "0":
            raise ConfigurationError(
                f"agent {profile.name} is durable: add ExecutionTimeout=2592000 to parameter_overrides in"
                " samconfig.toml, for turns of up to 30 days; see docs/long-running.md"
            )


def faults_of_stages(*, with_agents: bool = True) -> Iterator[str]:
    """What `make deploy` would refuse of each stage without asking AWS. Raises ConfigurationError if no stage
    can be read.

    with_agents: load the agents, too. False = one of them is wrong, which has been said.
    """
    for stage, options in stages.read_stages().items():
        try:
            yield from stages.faults_of_options(stage, options)
            named, _ = named_parameters({"STAGE": stage})
            parameters = {**template.defaults(TEMPLATE), **named}
            check_parameters(parameters | fitted_file_days(parameters))
            read_agent_names(parameters)
            if with_agents:
                check_agents(parameters)
        except ConfigurationError as error:
            for fault in str(error).splitlines():
                yield f"stage {stage}: {fault}"
    yield from stages.faults_of_tables()
