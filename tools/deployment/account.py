"""make account: allows API Gateway to write access logs, in this account and region.

API Gateway uses one role for all APIs of an account and region. If there is a role, the command does not
change it: it may belong to another team.
Source: https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-logging.html
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import NoRegionError

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from tools import environments
from tools.command import reports_errors
from tools.deployment import stack
from tools.deployment.stack import aws_errors

STACK = "a2a-account"

SMALL_CONCURRENCY = 100
"""An account that runs fewer functions at once is small. A new one runs 10."""

REGIONS = (
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1"),
    *("eu-central-1", "eu-north-1", "eu-south-1", "eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3"),
    *("ap-east-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1"),
    *("ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "af-south-1", "me-south-1"),
)
"""Regions that have every kind of resource in the templates."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account in a region.

    concurrency: functions that may run at once. unreserved: how many of these no function has reserved for
    itself. logs_role: ARN of API Gateway's role for logs, or "".
    """

    number: str
    region: str
    concurrency: int
    unreserved: int
    logs_role: str


def quota_request(count: int, region: str) -> str:
    """The command that asks AWS for a number of concurrent executions."""
    return (
        "aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384"
        f" --desired-value {count} --region {region}"
    )


def use_stage(stage: Mapping[str, Any]) -> None:
    """From now on, call AWS with the profile and region of a stage in samconfig.toml. Raises
    ConfigurationError."""
    with aws_errors("AWS"):
        session, profile = clients.session(), stage.get("profile")
        if profile and profile not in session.available_profiles:
            raise ConfigurationError(
                f"samconfig.toml names the profile {profile}, which this machine does not have: create it,"
                f" with aws configure --profile {profile}, or remove it from samconfig.toml, and choose the"
                " account by AWS_PROFILE or by credentials in the environment, as deploy.yml does on GitHub"
            )
        for variable in ("profile", "region"):
            if value := stage.get(variable):
                session.set_config_variable(variable, value)


def account_of(what: str) -> Account:
    """The account that a command would change. Raises ConfigurationError without credentials or a region."""
    with aws_errors(what):
        session = clients.session()
        region = session.get_config_variable("region")
        if region is None:
            raise NoRegionError

        def client(service: str) -> Any:
            return session.create_client(service)

        number = client("sts").get_caller_identity()["Account"]
        limits = client("lambda").get_account_settings()["AccountLimit"]
        role = client("apigateway").get_account().get("cloudwatchRoleArn") or ""
    concurrency, unreserved = limits["ConcurrentExecutions"], limits["UnreservedConcurrentExecutions"]
    return Account(number, str(region), int(concurrency), int(unreserved), role)


@reports_errors
def main() -> int:
    account = account_of("make account")
    if account.logs_role:
        print(f"API Gateway writes logs as {account.logs_role} in {account.region}; nothing to do")
        return 0
    environments.install("sam")
    stack.status_to_deploy(STACK)  # raises if CloudFormation cannot update it
    status = environments.run_sam(
        *("deploy", "--template-file", "templates/account.yaml", "--stack-name", STACK),
        *("--region", account.region, "--capabilities", "CAPABILITY_IAM", "--resolve-s3"),
        "--no-fail-on-empty-changeset",
        *(["--parameter-overrides", overrides] if (overrides := os.environ.get("PARAMETERS")) else []),
    )
    if not status:
        print("API Gateway may write logs now. Next: make deploy turns access logs on")
    return status


if __name__ == "__main__":
    sys.exit(main())
