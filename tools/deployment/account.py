"""make account: lets API Gateway write access logs, in this account and region.

It needs one role for all APIs there. If there is one it is left as it is: another team's may be.
Source: https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-logging.html
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import NoRegionError

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from tools.deployment.stack import asking_aws

SAM = ".venvs/sam/bin/sam"

STACK = "a2a-account"

QUOTA = "aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384"


REGIONS = (
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1"),
    *("eu-central-1", "eu-north-1", "eu-south-1", "eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3"),
    *("ap-east-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1"),
    *("ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "af-south-1", "me-south-1"),
)
"""Regions that have every kind of resource the templates name."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account in a region.

    concurrency: functions that may run there at once. logs_role: ARN of API Gateway's role, or "".
    """

    number: str
    region: str
    concurrency: int
    logs_role: str


def use(stage: Mapping[str, Any]) -> None:
    """Ask AWS with the profile and the region that a stage of samconfig.toml names, in all that follows."""
    for variable in ("profile", "region"):
        if value := stage.get(variable):
            clients.session().set_config_variable(variable, value)


def account_of(what: str) -> Account:
    """The account a command would change. Raises ConfigurationError if AWS does not know who asks, or where
    is not said."""
    session = clients.session()
    with asking_aws(what):
        region = session.get_config_variable("region")
        if region is None:
            raise NoRegionError

        def client(service: str) -> Any:
            return session.create_client(service)

        number = client("sts").get_caller_identity()["Account"]
        limits = client("lambda").get_account_settings()["AccountLimit"]
        role = client("apigateway").get_account().get("cloudwatchRoleArn") or ""
    return Account(number, str(region), int(limits["ConcurrentExecutions"]), role)


def main() -> int:
    """Returns the process's exit status."""
    try:
        account = account_of("make account")
    except ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if account.logs_role:
        print(f"API Gateway writes logs as {account.logs_role} in {account.region}: nothing to do")
        return 0
    made = subprocess.run(
        [
            *(SAM, "deploy", "--template-file", "templates/account.yaml", "--stack-name", STACK),
            *("--region", account.region, "--capabilities", "CAPABILITY_IAM", "--resolve-s3"),
            "--no-fail-on-empty-changeset",
            *(["--parameter-overrides", given] if (given := os.environ.get("PARAMETERS")) else []),
        ],
        check=False,
    )
    if made.returncode == 0:
        print("API Gateway may write logs now. Deploy again: make deploy turns access logs on")
    return made.returncode


if __name__ == "__main__":
    sys.exit(main())
