"""Which client serves the calls of every request, and where it calls."""

import datetime
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.session import Session
from botocore.utils import ContainerMetadataFetcher

from a2a_lambda.aws import clients, hot_path
from a2a_lambda.aws.lean.json_client import JsonClient
from a2a_lambda.aws.lean.sigv4 import Credentials
from a2a_lambda.settings import Settings
from tests.helpers.clock import PATIENCE_SECONDS

CLIENTS = {"dynamodb": hot_path.dynamodb, "ssm": hot_path.ssm, "sqs": hot_path.sqs}

PARTITIONS = ("aws", "aws-cn", "aws-us-gov", "aws-iso", "aws-iso-b", "aws-eusc")


@pytest.fixture(autouse=True)
def function(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment of a Lambda function."""
    for name in os.environ:
        if name.upper() in hot_path.BOTOCORE_VARIABLES or name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in {
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
    }.items():
        monkeypatch.setenv(name, value)
    clients.session.cache_clear()
    yield
    clients.session.cache_clear()


def place(client: Any) -> tuple[str, str]:
    """Url and region of a client."""
    if isinstance(client, JsonClient):
        return client._connections.url, client._region
    return client.meta.endpoint_url, client.meta.region_name


def regions(service: str) -> list[str]:
    session = Session()
    return [
        region for partition in PARTITIONS for region in session.get_available_regions(service, partition)
    ]


@pytest.mark.parametrize("service", CLIENTS)
def test_the_lean_client_calls_where_botocore_would(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    actual = regions(service)
    assert len(actual) > 30
    for region in actual:
        monkeypatch.setenv("AWS_REGION", region)
        clients.session.cache_clear()
        botocores = session.create_client(
            service, region, aws_access_key_id="id", aws_secret_access_key="secret"
        )
        assert place(CLIENTS[service](Settings())) == (botocores.meta.endpoint_url, region)


@pytest.mark.parametrize("region", ["eu-central-1", "us-gov-west-1", "cn-north-1"])
def test_the_lean_client_needs_no_botocore_client(region: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", region)
    assert all(isinstance(make(Settings()), JsonClient) for make in CLIENTS.values())


def test_the_lean_client_uses_the_functions_credentials() -> None:
    client: Any = hot_path.dynamodb(Settings())
    assert client._read_credentials() == Credentials("id", "secret", "token")


def test_the_lean_client_uses_the_endpoint_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSM", "http://127.0.0.1:1")
    assert place(hot_path.dynamodb(Settings())) == ("http://127.0.0.1:4566", "eu-central-1")
    assert place(hot_path.ssm(Settings())) == ("http://127.0.0.1:1", "eu-central-1")
    assert isinstance(hot_path.ssm(Settings()), JsonClient)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("https_proxy", "http://127.0.0.1:3128"),
        ("AWS_USE_FIPS_ENDPOINT", "true"),
        ("AWS_MAX_ATTEMPTS", "9"),
        ("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:4566/with/a/path"),
        ("AWS_REGION", "us-isob-east-1"),
        ("AWS_ACCESS_KEY_ID", ""),
    ],
)
def test_botocore_takes_over(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert isinstance(hot_path.dynamodb(Settings()), BaseClient)


def test_with_snapstart_it_uses_and_renews_lambdas_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda gives them at an address, not in the environment, and they run out."""
    fetched: list[str] = []

    class Credentials(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fetched.append(self.headers["authorization"])
            seconds = 60 if len(fetched) == 1 else 3_600  # botocore renews what has less than 10 minutes left
            expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
            credentials = {
                "AccessKeyId": f"id-{len(fetched)}",
                "SecretAccessKey": "secret",
                "Token": "token",
                "Expiration": expires.isoformat(),
            }
            body = json.dumps(credentials).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Credentials)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    url = f"http://127.0.0.1:{server.server_port}/credentials"
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "lambda")
    monkeypatch.setattr(ContainerMetadataFetcher, "TIMEOUT_SECONDS", PATIENCE_SECONDS)
    client: Any = hot_path.dynamodb(Settings())
    assert isinstance(client, JsonClient)
    with ThreadPoolExecutor(8) as pool:
        credentials = [
            future.result() for future in [pool.submit(client._read_credentials) for _ in range(8)]
        ]
    assert {(each.secret_key, each.token) for each in credentials} == {("secret", "token")}
    assert client._read_credentials().access_key == f"id-{len(fetched)}"
    assert len(fetched) == 2, "once, and once more because they ran out"
    assert set(fetched) == {"lambda"}
    server.shutdown()
