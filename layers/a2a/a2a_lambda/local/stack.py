"""A deployed stack, as CloudFormation and the template know it."""

import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

from a2a_lambda import aws
from a2a_lambda.errors import ConfigurationError


def outputs_of(stack: str) -> dict[str, str]:
    """Outputs of a stack. Raises ConfigurationError for one that is not there, or none of ours."""
    with asking_aws(f"stack {stack}"):
        found = _described(stack)
    outputs = {output["OutputKey"]: str(output["OutputValue"]) for output in found.get("Outputs", [])}
    if "TableName" not in outputs:
        raise ConfigurationError(f"stack {stack}: no output TableName, so it is none of this kit's")
    return outputs


def table_of(stack: str) -> str:
    """Name of a stack's table. Raises ConfigurationError as `outputs_of`."""
    return outputs_of(stack)["TableName"]


def resources_of(stack: str) -> dict[str, str]:
    """Physical ids of a stack's resources, by logical ones. Raises ConfigurationError."""
    with asking_aws(f"stack {stack}"):
        _described(stack)
        pages = _cloudformation().get_paginator("list_stack_resources").paginate(StackName=stack)
        found = {
            item["LogicalResourceId"]: item.get("PhysicalResourceId", "")
            for page in pages
            for item in page["StackResourceSummaries"]
        }
    if not {"Table", "RpcFunction"} <= set(found):
        raise ConfigurationError(f"stack {stack} is none of this kit's")
    return found


def parameters_of(stack: str) -> dict[str, str]:
    """Parameters of a stack as it is deployed. Raises ConfigurationError."""
    with asking_aws(f"stack {stack}"):
        given = _described(stack).get("Parameters", [])
    return {parameter["ParameterKey"]: str(parameter["ParameterValue"]) for parameter in given}


def _described(stack: str) -> dict[str, Any]:
    client = _cloudformation()
    try:
        [found] = client.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if "does not exist" not in str(error):
            raise
        region = client.meta.region_name
        raise ConfigurationError(
            f"there is no stack {stack} in {region}: is its name right, and AWS_REGION?"
        ) from None
    return dict(found)


def _cloudformation() -> Any:
    return aws.session().create_client("cloudformation")


def named(declared: Mapping[str, Mapping[str, Any]], *given: str) -> dict[str, str]:
    """Parameters given as NAME=value; of several the last counts.

    declared: as the template has them. Raises ConfigurationError for one that CloudFormation would refuse.
    """
    values = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator:
            raise ConfigurationError(f"{one!r}: a parameter is given as NAME=value")
        if name not in declared:
            near = difflib.get_close_matches(name, declared, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigurationError(f"template.yaml has no parameter {name}{hint}")
        if '"' in value or value.endswith("\\"):
            raise ConfigurationError(f"parameter {name}: sam takes no value like {value!r}")
        _check(name, value, declared[name])
        values[name] = value
    return values


def _check(name: str, value: str, declared: Mapping[str, Any]) -> None:
    if allowed := declared.get("AllowedValues"):
        if value not in map(str, allowed):
            raise ConfigurationError(f"parameter {name}={value}: it is one of {', '.join(map(str, allowed))}")
    elif declared["Type"] == "Number":
        low, high = declared["MinValue"], declared["MaxValue"]
        if not (value.isdigit() and low <= int(value) <= high):
            raise ConfigurationError(f"parameter {name}={value}: it is a number from {low} to {high}")
    elif (pattern := declared.get("AllowedPattern")) and not re.fullmatch(pattern, value):
        raise ConfigurationError(f"parameter {name}={value} is not right. {declared['Description']}")


def overrides(values: Mapping[str, str]) -> Iterator[str]:
    """Parameters as sam takes them."""
    return (f'{name}="{value}"' for name, value in values.items())


@contextmanager
def asking_aws(what: str) -> Iterator[None]:
    """Whatever AWS, or the way there, has against it becomes a ConfigurationError."""
    try:
        yield
    except NoRegionError:
        raise ConfigurationError(f"{what}: in which region? Set AWS_REGION or AWS_PROFILE") from None
    except NoCredentialsError:
        raise ConfigurationError(f"{what}: no AWS credentials; set AWS_PROFILE, or aws sso login") from None
    except (ClientError, BotoCoreError) as error:
        raise ConfigurationError(f"{what}: {error}") from None
