"""A deployed stack, as CloudFormation and the template describe it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    LoginError,
    NoCredentialsError,
    NoRegionError,
    SSOError,
    TokenRetrievalError,
)

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from tools import environments
from tools.command import read_url

ALIAS = "live"
"""Alias of the functions that every caller uses."""

FUNCTIONS = ("ApiFunction", "RpcFunction", "WorkerFunction", "NotifierFunction")

BROKEN_STATUSES = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED")
"""Statuses of a stack whose first deployment failed, or whose deletion did. It can only be deleted.
Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html"""

GONE_STATUSES = ("DELETE_COMPLETE", "DELETE_SKIPPED")
"""Statuses of resources that a stack no longer has. Versions of functions are skipped, which leaves them."""

EXPIRED = ("ExpiredToken", "ExpiredTokenException")
"""Codes of AWS's answers to credentials that no longer count."""

DURABLE = "DurableFunction"
"""A function that a stack has if ExecutionTimeout is not 0."""


def status_of(stack: str) -> str:
    """Status of a stack; "" if there is none. Raises ConfigurationError if AWS does not say."""
    description = _find(stack)
    return "" if description is None else str(description["StackStatus"])


def status_to_deploy(stack: str) -> str:
    """Status of a stack that is to be deployed; "" if there is none. Raises ConfigurationError if
    CloudFormation cannot update it, before anything is built."""
    status = status_of(stack)
    if status in BROKEN_STATUSES:
        raise broken_stack(stack, status)
    if status == "UPDATE_ROLLBACK_FAILED":
        raise ConfigurationError(
            f"stack {stack} is {status}: CloudFormation could not undo the last deployment. Its events say"
            f" why: fix that, then continue: aws cloudformation continue-update-rollback {options_of(stack)}"
        )
    if status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS":
        raise ConfigurationError(
            f"stack {stack} is {status}: CloudFormation has not finished. Run the command again when it has"
        )
    return status


def options_of(stack: str) -> str:
    """What names a stack to AWS's command line and to SAM's."""
    session = clients.session()
    region, profile = (session.get_config_variable(variable) for variable in ("region", "profile"))
    return f"--stack-name {stack} --region {region}{f' --profile {profile}' if profile else ''}"


def broken_stack(stack: str, status: str) -> ConfigurationError:
    """The error for a stack that can only be deleted."""
    return ConfigurationError(
        f"stack {stack} is {status}: its first deployment failed, or its deletion did. Delete it, and deploy"
        f" again: {environments.SAM} delete {options_of(stack)} --no-prompts"
    )


def outputs_of(stack: str) -> dict[str, str]:
    """Outputs of a stack. Raises ConfigurationError if there is no such stack, or it is not of this kit."""
    description = _describe(stack)
    outputs = {item["OutputKey"]: str(item["OutputValue"]) for item in description.get("Outputs", [])}
    if "TableName" not in outputs:
        raise _foreign(stack, description["StackStatus"])
    return outputs


def url_of(environ: Mapping[str, str]) -> str:
    """URL of the deployment that URL or STACK names, or "". Raises ConfigurationError."""
    url, stack = environ.get("URL", ""), environ.get("STACK", "")
    if url and stack:
        raise ConfigurationError("give URL or STACK, not both")
    return outputs_of(stack)["BaseUrl"] if stack else url and read_url(url)


def table_of(stack: str) -> str:
    """Name of a stack's table. Raises ConfigurationError as `outputs_of`."""
    return outputs_of(stack)["TableName"]


def parameters_of(stack: str) -> dict[str, str]:
    """Parameters of a stack as it is deployed. Raises ConfigurationError."""
    entries = _describe(stack).get("Parameters", [])
    return {parameter["ParameterKey"]: str(parameter["ParameterValue"]) for parameter in entries}


def resources_of(stack: str) -> dict[str, str]:
    """Physical ids of a stack's resources, by logical id. Raises ConfigurationError as `outputs_of`."""
    description = _describe(stack)
    with aws_errors(f"stack {stack}"):
        pages = _cloudformation().get_paginator("list_stack_resources").paginate(StackName=stack)
        resources = {
            item["LogicalResourceId"]: item.get("PhysicalResourceId", "")
            for page in pages
            for item in page["StackResourceSummaries"]
            if item.get("ResourceStatus") not in GONE_STATUSES
        }
    if not {"Table", "RpcFunction"} <= set(resources):
        raise _foreign(stack, description["StackStatus"])
    if missing := [name for name in FUNCTIONS if name not in resources]:
        raise ConfigurationError(
            f"stack {stack} has no {missing[0]} yet: wait until its deployment has ended"
        )
    return resources


def functions_of(resources: Mapping[str, str]) -> list[str]:
    """Logical ids of a stack's functions."""
    return [*FUNCTIONS, *([DURABLE] if resources.get(DURABLE) else [])]


def _describe(stack: str) -> dict[str, Any]:
    """Raises ConfigurationError if there is no such stack."""
    description = _find(stack)
    if description is None:
        region = clients.session().get_config_variable("region")
        raise ConfigurationError(f"there is no stack {stack} in {region}: check its name, and AWS_REGION")
    return description


def _foreign(stack: str, status: str) -> ConfigurationError:
    """The error for a stack that does not have what those of this kit have."""
    if status.endswith("_IN_PROGRESS"):
        return ConfigurationError(f"stack {stack} is {status}: run the command again when that has ended")
    if status in BROKEN_STATUSES:
        return broken_stack(stack, status)
    return ConfigurationError(
        f"stack {stack} is not a stack of this kit: set STACK to one that make deploy has made"
    )


def _find(stack: str) -> dict[str, Any] | None:
    if ":" in stack:  # CloudFormation takes an ARN, but secrets and keys are stored under the name
        raise ConfigurationError(f"STACK={stack}: write the stack's name instead of its ARN")
    with aws_errors(f"stack {stack}"):
        try:
            [description] = _cloudformation().describe_stacks(StackName=stack)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
    return dict(description)


def _cloudformation() -> Any:
    return clients.session().create_client("cloudformation")


def overrides(values: Mapping[str, str]) -> Iterator[str]:
    """Parameters as sam takes them."""
    return (f'{name}="{value}"' for name, value in values.items())


def ask_worker(stack: str, event: Mapping[str, Any]) -> dict[str, Any]:
    """What a stack's worker answers to an event of an operator. Raises ConfigurationError."""
    function = resources_of(stack)["WorkerFunction"]
    functions: Any = clients.session().create_client("lambda")
    with aws_errors(f"the worker of {stack}"):
        answer = functions.invoke(FunctionName=function, Qualifier=ALIAS, Payload=json.dumps(event))
    content = json.loads(answer["Payload"].read() or b"null")
    if answer.get("FunctionError") or not isinstance(content, dict):
        raise ConfigurationError(f"the worker of {stack} failed. To see why: make logs STACK={stack}")
    return content


@contextmanager
def aws_errors(what: str) -> Iterator[None]:
    """Errors of AWS, and of the connection to it, become ConfigurationError."""
    try:
        yield
    except NoRegionError:
        raise ConfigurationError(f"{what}: no AWS region is set; set AWS_REGION or AWS_PROFILE") from None
    except NoCredentialsError:
        raise ConfigurationError(
            f"{what}: no AWS credentials; set AWS_PROFILE or run aws sso login"
        ) from None
    except (ClientError, BotoCoreError) as error:
        is_expired = isinstance(error, SSOError | LoginError | TokenRetrievalError) or (
            isinstance(error, ClientError) and error.response["Error"]["Code"] in EXPIRED
        )
        advice = ". Sign in again, for example with aws sso login" if is_expired else ""
        raise ConfigurationError(f"{what}: {error}{advice}") from None
