"""AWS clients of the kit's own: one session, timeouts that fit an HTTP request.

They are botocore's: boto3 would make each cold start longer, and adds nothing here.

Endpoints are botocore's own AWS_ENDPOINT_URL_* variables', or the development server's emulator. That
one is given to these clients only: what an agent calls itself reaches AWS, with its own credentials.
"""

import os
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from botocore.config import Config
from botocore.session import Session

from a2a_lambda.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient
    from mypy_boto3_kms import KMSClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient

TIMEOUTS = Config(connect_timeout=2, read_timeout=5, max_pool_connections=32, tcp_keepalive=True)
PATIENT = Config(connect_timeout=10, read_timeout=120)
"""Of a development server's emulator, which one slow read must not end: the machine may be busy."""

RETRIED = TIMEOUTS.merge(Config(retries={"mode": "standard", "total_max_attempts": 5}))
ONCE = TIMEOUTS.merge(Config(retries={"mode": "standard", "total_max_attempts": 1}))


EMULATOR_REGION = "us-east-1"


@cache
def session() -> Session:
    made = Session()
    if region := os.environ.get("AWS_REGION"):  # which botocore does not read
        made.set_config_variable("region", region)
    return made


def dynamodb(settings: Settings) -> "DynamoDBClient":
    return cast("DynamoDBClient", _client("dynamodb", RETRIED, settings))


def ssm(settings: Settings) -> "SSMClient":
    """Client that does not retry: `keys` does, within the time a request has."""
    return cast("SSMClient", _client("ssm", ONCE, settings))


def sqs(settings: Settings) -> "SQSClient":
    return cast("SQSClient", _client("sqs", RETRIED, settings))


def streams(settings: Settings) -> "DynamoDBStreamsClient":
    """Client that an emulator understands; a deployment's Lambda reads the stream by itself."""
    config = RETRIED.merge(Config(account_id_endpoint_mode="disabled"))
    return cast("DynamoDBStreamsClient", _client("dynamodbstreams", config, settings))


def kms(settings: Settings) -> "KMSClient":
    return cast("KMSClient", _client("kms", RETRIED, settings))


def _client(service: str, config: Config, settings: Settings) -> Any:
    if settings.local and settings.emulator:
        config = config.merge(PATIENT)
    return session().create_client(service, config=config, **_local(settings))


def _local(settings: Settings) -> dict[str, Any]:
    """Of an emulator: its endpoint, and what it asks for but does not check."""
    if not settings.local:
        return {}
    known: dict[str, Any] = {"region_name": session().get_config_variable("region") or "us-east-1"}
    if settings.emulator:
        # One region for everyone who calls it, the built functions too: it keeps regions apart.
        known = {"region_name": EMULATOR_REGION, "endpoint_url": settings.emulator}
    if settings.emulator or session().get_credentials() is None:
        known |= {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
    return known
