"""Clients for the calls of every request. Each is a JsonClient, unless something asks for more.

botocore's client takes its place in these cases:

- A2A_BOTOCORE=true asks for it. Only this module imports the folder `lean`, so a fork that deletes the folder
  changes this module alone.
- The environment sets what only botocore knows, such as a proxy or a FIPS endpoint.
- The region is in a partition of AWS that is not listed here.
- The credentials come from neither the environment nor Lambda.
"""

import os
import re
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from botocore.exceptions import NoCredentialsError

from a2a_lambda.aws.lean.json_client import DYNAMODB, SQS, SSM, AwsService, JsonClient
from a2a_lambda.aws.lean.sigv4 import Credentials
from a2a_lambda.aws.limits import ATTEMPTS, EMULATOR_TIMEOUTS, TIMEOUTS
from a2a_lambda.settings import EMULATOR_REGION, Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient

SUFFIXES = {
    r"(us|eu|ap|sa|ca|me|af|il|mx)-\w+-\d+": "amazonaws.com",
    r"us-gov-\w+-\d+": "amazonaws.com",
    r"cn-\w+-\d+": "amazonaws.com.cn",
}
"""Suffix of host names, for the regions of a partition.
Source: https://docs.aws.amazon.com/general/latest/gr/rande.html"""

BOTOCORE_VARIABLES = frozenset(
    {
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "AWS_CONFIG_FILE",
        "AWS_DATA_PATH",
        "AWS_DEFAULT_PROFILE",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
        "AWS_MAX_ATTEMPTS",
        "AWS_PROFILE",
        "AWS_RETRY_MODE",
        "AWS_USE_DUALSTACK_ENDPOINT",
        "AWS_USE_FIPS_ENDPOINT",
    }
)
"""Variables that only botocore knows, in capitals."""

LOCAL_CREDENTIALS = Credentials("local", "local")
"""For the emulator. It needs credentials, and does not check them."""


def dynamodb(settings: Settings) -> "DynamoDBClient":
    return cast("DynamoDBClient", _client(DYNAMODB, settings, ATTEMPTS))


def ssm(settings: Settings) -> "SSMClient":
    """Client without retries, because `access/key_reader` retries within the time that a request has."""
    return cast("SSMClient", _client(SSM, settings, 1))


def sqs(settings: Settings) -> "SQSClient":
    return cast("SQSClient", _client(SQS, settings, ATTEMPTS))


def listen(operations: Iterable[str], listener: Callable[[], None]) -> None:
    """Call a listener after each successful call of some operations, such as "sqs.SendMessage". Call this
    before the kit makes its clients, because a client of botocore copies its session's hooks when it is made.
    `make run` has no other sign of a write."""
    from a2a_lambda.aws import clients

    def hear(**arguments: Any) -> None:
        if arguments["http_response"].status_code < 300:
            listener()

    for operation in operations:
        clients.session().register(f"after-call.{operation}", hear)
        JsonClient.listeners.setdefault(operation, []).append(listener)


def _client(service: AwsService, settings: Settings, attempts: int) -> Any:
    is_emulated = settings.is_emulated
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    region = EMULATOR_REGION if is_emulated else region
    url = settings.emulator if is_emulated else _url(service.name, region)
    read_credentials = (lambda: LOCAL_CREDENTIALS) if is_emulated else _credentials_reader()
    needs_botocore = any(name.upper() in BOTOCORE_VARIABLES for name in os.environ)
    if settings.botocore or needs_botocore or not url or read_credentials is None:
        from a2a_lambda.aws import clients

        return {DYNAMODB: clients.dynamodb, SSM: clients.ssm, SQS: clients.sqs}[service](settings)
    timeouts = EMULATOR_TIMEOUTS if is_emulated else TIMEOUTS
    return JsonClient(service, url, region, read_credentials, timeouts=timeouts, attempts=attempts)


def _url(service: str, region: str) -> str:
    """Where a service is; "" if only botocore knows."""
    url = os.environ.get(f"AWS_ENDPOINT_URL_{service.upper()}") or os.environ.get("AWS_ENDPOINT_URL")
    if url:
        return url if region and urlsplit(url).path in ("", "/") else ""
    suffixes = (suffix for regions, suffix in SUFFIXES.items() if re.fullmatch(regions, region))
    suffix = next(suffixes, "")
    return f"https://{service}.{region}.{suffix}" if suffix else ""


def _credentials_reader() -> Callable[[], Credentials] | None:
    """What reads the credentials; None if only botocore knows where they are.

    Those in Lambda's environment outlive the process. With SnapStart there are none: botocore gets them from
    Lambda, and renews them.
    Source: https://docs.aws.amazon.com/lambda/latest/dg/snapstart-activate.html
    """
    access_key = os.environ.get("AWS_ACCESS_KEY_ID")
    secret_key = os.environ.get("AWS_SECRET_ACCESS_KEY")
    if access_key and secret_key:
        credentials = Credentials(access_key, secret_key, os.environ.get("AWS_SESSION_TOKEN", ""))
        return lambda: credentials
    if not os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return None
    from a2a_lambda.aws import clients

    lock = threading.Lock()

    def read() -> Credentials:
        with lock:  # the first call fetches them, and botocore would let each thread do so
            source = clients.session().get_credentials()
        if source is None:
            raise NoCredentialsError
        access_key, secret_key, token = source.get_frozen_credentials()[:3]
        return Credentials(access_key or "", secret_key or "", token or "")

    return read
