"""Environment variables of a deployment, and a few of the development server."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from a2a_lambda.errors import ConfigurationError

EMULATOR_REGION = "us-east-1"
"""The region that every caller of the emulator uses, including the built functions, because the emulator
keeps each region's data apart."""


def split_list(value: object) -> object:
    """Values that commas or spaces separate; anything but a string as it is."""
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


MAX_EXECUTION_SECONDS = 366 * 86_400
"""Longest durable execution that Lambda allows, in seconds.
Source: https://docs.aws.amazon.com/lambda/latest/dg/durable-basic-concepts.html"""

URL_PATTERN = r"^(https?://[^/?#\s]+[^?#\s]*)?$"

ADVICE: Mapping[str, str] = {
    "keys_path": "write a path such as /a2a/keys",
    "base_url": "write a URL such as https://agents.example.com",
    "otlp_endpoint": "write a URL such as https://traces.example.com",
    "origin_digests": "write the SHA-256 of each secret, which has 64 hexadecimal digits in lower case",
    "signing_key": "write the ARN of a KMS key, such as arn:aws:kms:eu-west-1:123456789012:key/1234abcd",
}
"""What to write in the variables whose pattern would say little, by the names of the fields."""


class Settings(BaseModel):
    """The variables are the names of the fields in capitals, after `A2A_`.

    table: name of the DynamoDB table. keys_path: path of the API keys in Parameter Store.
    base_url: public URL of the deployment, if it has a custom domain, with its base path. Otherwise it
        is the API's own URL.
    agents: folder of the agents. agent_names: agents that are served; empty = all.
    origin_digests: SHA-256, hex, of secrets. Every request must have one of the secrets as X-Origin-Secret.
        Empty = any caller.
    cors_origins: origins that browsers may call from, or "*".
    task_days: days for which a task is kept. repeat_seconds: how long the same bytes are the same request.
    max_body_bytes: largest body of a request.
    requests_per_owner: requests a second that an owner may make; 0 = no limit.
    streams_per_owner: streams, followers and long sends that an owner may have at once; 0 = no limit.
    list_shards: partitions over which an owner's list of tasks is spread. It may grow, and never shrink.
    files_bucket: name of the bucket with the content of files. "" = every file stays in its task.
    upload_megabytes: megabytes of the largest file that a client may upload to it.
    signing_key: ARN of an asymmetric KMS key that signs the cards, or "".
    queue: URL of the SQS queue of background turns. "" = every turn runs in its request.
    durable_function: name of the function of durable turns, with its alias. "" = there is none, and durable
        skills are refused. execution_timeout: seconds that a durable turn may take.
    dead_letters: ARN of the dead-letter queue of `queue`. notices: URL of the FIFO queue of push
        notifications.
    iam_callers: a function URL lets in only callers whom AWS has authenticated; they need no key.
    service: name of the deployment, on log lines and metrics. log_level: level of Python's logging.
    debug_logs: log the text of exceptions, which may hold messages of clients.
    tracing: whether there are spans. otlp_endpoint: base URL that receives them; "" = the provider in a
        layer sends them. trace_share: part of the traces that is recorded, from 0 to 1.
    agent_metrics: whether each agent has metrics of its own, besides those of the deployment.
    botocore: calls of DynamoDB, SQS and Parameter Store go through botocore, and not through `aws/lean`.
    loopback_webhooks: webhooks may be on this machine, and use http, for tests and `make run`.
    local: the process is a development server; local keys are accepted. emulator: URL of its emulator, or "".
    """

    model_config = ConfigDict(frozen=True)

    table: str = Field(default="", max_length=255)
    keys_path: str = Field(default="/a2a/keys", pattern=r"^(/[A-Za-z0-9_.-]+)+$")
    base_url: str = Field(default="", pattern=URL_PATTERN)
    agents: Path = Path(os.environ.get("LAMBDA_TASK_ROOT", "functions")) / "agents"
    agent_names: Annotated[tuple[str, ...], BeforeValidator(split_list)] = ()
    origin_digests: Annotated[tuple[Digest, ...], BeforeValidator(split_list)] = ()
    cors_origins: Annotated[tuple[str, ...], BeforeValidator(split_list)] = ()
    task_days: float = Field(default=30, gt=0, le=3650)
    repeat_seconds: float = Field(default=60, ge=0)
    max_body_bytes: int = Field(default=4_500_000, gt=0)
    requests_per_owner: int = Field(default=0, ge=0, le=10_000)
    streams_per_owner: int = Field(default=100, ge=0, le=10_000)
    list_shards: int = Field(default=1, ge=1, le=16)
    files_bucket: str = Field(default="", max_length=63)
    upload_megabytes: int = Field(default=1000, ge=1, le=5000)
    queue: str = ""
    durable_function: str = ""
    execution_timeout: int = Field(default=0, ge=0, le=MAX_EXECUTION_SECONDS)
    dead_letters: str = ""
    notices: str = ""
    loopback_webhooks: bool = False
    iam_callers: bool = False
    service: str = Field(default="a2a", min_length=1)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    debug_logs: bool = False
    tracing: bool = False
    otlp_endpoint: str = Field(default="", pattern=URL_PATTERN)
    trace_share: float = Field(default=1, ge=0, le=1)
    agent_metrics: bool = True
    botocore: bool = False
    signing_key: str = Field(default="", pattern=r"^(arn:aws[a-z-]*:kms:[^\s]+:key/[^\s]+)?$")
    local: bool = False
    emulator: str = ""

    @property
    def is_emulated(self) -> bool:
        """Whether the kit's calls of AWS go to an emulator."""
        return self.local and bool(self.emulator)

    @property
    def upload_bytes(self) -> int:
        return self.upload_megabytes * 1_000_000

    @property
    def base_path(self) -> str:
        """Path of `base_url`, before the deployment's routes."""
        return urlsplit(self.base_url).path.rstrip("/")

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Settings":
        """Settings of an environment. Raises ConfigurationError, which names the variable."""
        variables = {name: environ.get(f"A2A_{name.upper()}") for name in cls.model_fields}
        values = {name: value for name, value in variables.items() if value}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = str(first["loc"][0])
            # Without the value, which may be a secret that was written instead of its digest.
            problem = ADVICE.get(name, first["msg"])
            raise ConfigurationError(f"environment variable A2A_{name.upper()}: {problem}") from None
