"""Secrets and settings of agents, in Parameter Store or Secrets Manager.

Powertools keeps each value for CACHE_SECONDS. The kit's emulator is not asked: like every other call of an
agent, these reach AWS, with the process's own credentials.
"""

import os
import random
import time
from collections.abc import Callable
from functools import cache

import boto3
from aws_lambda_powertools.utilities.parameters import SecretsProvider, SSMProvider
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from a2a_lambda.errors import ConfigurationUnavailable

CACHE_SECONDS = 300
"""Seconds for which a value is used before it is read again."""

PARAMETER_CONFIG = Config(
    connect_timeout=2, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 3}
)

PARAMETER_ABSENT_CODES = ("ParameterNotFound", "ResourceNotFoundException")

ABSENT_SECONDS = 30
"""Seconds for which a value that is not there is not looked up again. Parameter Store allows an account 40
calls a second, and a setting with a default is usually not there."""

PARAMETER_THROTTLED = ("ThrottlingException", "RequestLimitExceeded")

THROTTLED_SECONDS = 8.0
"""Seconds for which a value is asked for again if the service refuses because of too many requests. Hundreds
of containers that start at once ask for it at once. An agent may wait for two values, and its lease must be
renewed after that."""

_absent_until: dict[str, float] = {}


def get_parameter(name: str) -> str | None:
    """Value of a parameter, decrypted; None if there is none. Blocks. Raises ConfigurationUnavailable."""
    return _get(lambda: _parameter_store().get(name, max_age=CACHE_SECONDS, decrypt=True), name)


def get_secret(arn: str) -> str | None:
    """Text of a secret of Secrets Manager; None if there is none. Blocks. Raises ConfigurationUnavailable."""
    region = arn.split(":")[3]
    return _get(lambda: _secrets_manager(region).get(arn, max_age=CACHE_SECONDS), arn)


def _get(read: Callable[[], object], name: str) -> str | None:
    if time.monotonic() < _absent_until.get(name, 0.0):
        return None
    give_up_at = time.monotonic() + THROTTLED_SECONDS
    while True:
        try:
            value = read()
        except (GetParameterError, BotoCoreError) as error:
            cause = error.__context__ if isinstance(error, GetParameterError) else error
            code = getattr(cause, "response", {}).get("Error", {}).get("Code") or type(cause).__name__
        else:
            return None if value is None else str(value)
        if code in PARAMETER_ABSENT_CODES:
            _absent_until[name] = time.monotonic() + ABSENT_SECONDS
            return None
        pause = random.uniform(0.5, 2.0)  # noqa: S311  # no secret
        if code not in PARAMETER_THROTTLED or time.monotonic() + pause > give_up_at:
            raise ConfigurationUnavailable(f"{name} could not be read: {code}")
        time.sleep(pause)


@cache
def _parameter_store() -> SSMProvider:
    region = os.environ.get("AWS_REGION")  # botocore does not read it
    return SSMProvider(boto_config=PARAMETER_CONFIG, boto3_session=boto3.session.Session(region_name=region))


@cache
def _secrets_manager(region: str) -> SecretsProvider:
    return SecretsProvider(
        boto_config=PARAMETER_CONFIG, boto3_session=boto3.session.Session(region_name=region)
    )
