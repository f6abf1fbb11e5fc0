"""A deployed stack, as CloudFormation and the template know it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

from a2a_lambda import aws
from a2a_lambda.errors import ConfigurationError


def table_of(stack: str) -> str:
    """Name of a stack's table. Raises ConfigurationError for one that is not there, or none of ours."""
    with asking_aws(f"stack {stack}"):
        client: Any = aws.session().create_client("cloudformation")
        [found] = client.describe_stacks(StackName=stack)["Stacks"]
    for output in found.get("Outputs", []):
        if output["OutputKey"] == "TableName":
            return str(output["OutputValue"])
    raise ConfigurationError(f"stack {stack}: no output TableName, so it is none of this kit's")


def parameters(defaults: Mapping[str, str], *given: str) -> Iterator[str]:
    """Every parameter of a template with its value; `given` are NAME=value, the last one counts. Raises
    ConfigurationError for one there is not."""
    values = dict(defaults)
    for one in given:
        name, separator, value = one.partition("=")
        if not separator or name not in defaults:
            raise ConfigurationError(f"{one!r}: a parameter of template.yaml is given as NAME=value")
        if '"' in value or value.endswith("\\"):
            raise ConfigurationError(f"parameter {name}: sam takes no value like {value!r}")
        values[name] = value
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
