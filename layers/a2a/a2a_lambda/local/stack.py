"""A deployed stack, as CloudFormation and the template know it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

from a2a_lambda import aws
from a2a_lambda.errors import ConfigurationError


def outputs_of(stack: str) -> dict[str, str]:
    """Outputs of a stack. Raises ConfigurationError for one that is not there, or none of ours."""
    with asking_aws(f"stack {stack}"):
        [found] = _cloudformation().describe_stacks(StackName=stack)["Stacks"]
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
        pages = _cloudformation().get_paginator("list_stack_resources").paginate(StackName=stack)
        return {
            item["LogicalResourceId"]: item.get("PhysicalResourceId", "")
            for page in pages
            for item in page["StackResourceSummaries"]
        }


def _cloudformation() -> Any:
    return aws.session().create_client("cloudformation")


def named(defaults: Mapping[str, str], *given: str) -> dict[str, str]:
    """Parameters given as NAME=value; of several the last counts. Raises ConfigurationError for one that the
    template has not."""
    values = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator or name not in defaults:
            raise ConfigurationError(f"{one!r}: a parameter of template.yaml is given as NAME=value")
        if '"' in value or value.endswith("\\"):
            raise ConfigurationError(f"parameter {name}: sam takes no value like {value!r}")
        values[name] = value
    return values


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
