"""botocore's clients, of one session, with timeouts that fit an HTTP request. `hot_path` has those of the
calls of every request.

boto3 would make each cold start longer, and adds nothing here.

Endpoints come from botocore's AWS_ENDPOINT_URL_* variables, or from the emulator of the development
server. Only the kit's clients get the emulator's endpoint. The calls of an agent reach AWS, with the
agent's credentials.
"""

import os
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast

from botocore.config import Config
from botocore.loaders import Loader
from botocore.session import Session

from a2a_lambda.aws.limits import ATTEMPTS, EMULATOR_TIMEOUTS, FILE_TIMEOUTS, TIMEOUTS, Timeouts
from a2a_lambda.settings import EMULATOR_REGION, Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient
    from mypy_boto3_kms import KMSClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient

POOLED = Config(max_pool_connections=32, tcp_keepalive=True)
WITH_RETRIES = POOLED.merge(Config(retries={"mode": "standard", "total_max_attempts": ATTEMPTS}))
WITHOUT_RETRIES = POOLED.merge(Config(retries={"mode": "standard", "total_max_attempts": 1}))


class _ModelLoader(Loader):
    """Loads botocore's models. botocore's own loader opens the folders of all 400 services before it loads
    one, which takes 40 % of the time to make the first client."""

    def list_available_services(self, type_name: str) -> list[str]:
        """Names of the services' folders. One without a model of this type is listed, too, and fails when it
        is loaded."""
        return [name for path in self.search_paths if os.path.isdir(path) for name in os.listdir(path)]


@cache
def session() -> Session:
    result = Session()
    paths = result.get_config_variable("data_path")
    result.register_component("data_loader", _ModelLoader(paths.split(os.pathsep) if paths else None))
    if region := os.environ.get("AWS_REGION"):  # botocore does not read it
        result.set_config_variable("region", region)
    return result


def dynamodb(settings: Settings) -> "DynamoDBClient":
    return cast("DynamoDBClient", _client("dynamodb", WITH_RETRIES, settings))


def ssm(settings: Settings) -> "SSMClient":
    """Client without retries, because `access/key_reader` retries within the time that a request has."""
    return cast("SSMClient", _client("ssm", WITHOUT_RETRIES, settings))


def sqs(settings: Settings) -> "SQSClient":
    return cast("SQSClient", _client("sqs", WITH_RETRIES, settings))


def streams(settings: Settings) -> "DynamoDBStreamsClient":
    """Client for an emulator's stream. On AWS, Lambda reads the stream."""
    config = WITH_RETRIES.merge(Config(account_id_endpoint_mode="disabled"))
    return cast("DynamoDBStreamsClient", _client("dynamodbstreams", config, settings))


def kms(settings: Settings) -> "KMSClient":
    return cast("KMSClient", _client("kms", WITH_RETRIES, settings))


def lambda_(settings: Settings) -> "LambdaClient":
    return cast("LambdaClient", _client("lambda", WITH_RETRIES, settings))


def s3(settings: Settings) -> "S3Client":
    """Client of the bucket. It signs for the bucket's host in its region, because the global host redirects
    for a new bucket, and does not serve every region."""
    style: Literal["path", "virtual"] = "path" if settings.is_emulated else "virtual"
    s3_config: Any = {"addressing_style": style, "us_east_1_regional_endpoint": "regional"}
    config = WITH_RETRIES.merge(Config(signature_version="s3v4", s3=s3_config))
    return cast("S3Client", _client("s3", config, settings, FILE_TIMEOUTS))


def _client(service: str, config: Config, settings: Settings, timeouts: Timeouts = TIMEOUTS) -> Any:
    timeouts = EMULATOR_TIMEOUTS if settings.is_emulated else timeouts
    config = config.merge(Config(connect_timeout=timeouts.connect, read_timeout=timeouts.read))
    options: dict[str, Any] = {}
    if settings.local:
        options = {"region_name": session().get_config_variable("region") or "us-east-1"}
        if settings.emulator:
            options = {"region_name": EMULATOR_REGION, "endpoint_url": settings.emulator}
        if settings.emulator or session().get_credentials() is None:
            # botocore signs with some credentials, which the emulator does not check.
            options |= {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
    return session().create_client(service, config=config, **options)
