"""A client for the services of AWS that speak JSON: DynamoDB, Parameter Store, SQS.

A write takes about a sixth of the CPU time that it takes in botocore, and no service model is
loaded. Methods, arguments, answers and errors are botocore's. So are retries: those of its standard mode.

Sources: https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html
https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
"""

import base64
import json
import os
import random
import threading
import time
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
)
from botocore.exceptions import ConnectionError as NotConnected

from a2a_lambda import tracing
from a2a_lambda.aws.lean.connections import Connections, HttpAnswer
from a2a_lambda.aws.lean.sigv4 import Credentials, signed_headers
from a2a_lambda.aws.limits import Timeouts

RETRIED_STATUSES = frozenset({500, 502, 503, 504})

TOO_MANY_REQUESTS = 429

RETRIED_ERRORS = frozenset({"RequestTimeout", "RequestTimeoutException"})

THROTTLED = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottledException",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)

THROTTLED_PAUSE_SECONDS = 1.0
"""Maximum pause before the first retry after the service refused because of too many requests."""

MAX_RETRY_PAUSE_SECONDS = 20.0

MAX_EXTRA_PAUSE_SECONDS = 5.0
"""Maximum seconds by which a service can make a pause longer."""

THROTTLED_COST = 5

RETRY_COST = 14
"""What a retry takes of the quota, if the service did not refuse because of too many requests."""


class AwsService(NamedTuple):
    """How a service of AWS is called over JSON.

    name: its name in signatures and host names. title: its name in spans. target: prefix of an operation's
    name. version: version of the JSON protocol. max_first_pause_seconds: longest pause before the first
    retry. had_queries: errors keep the codes of its older protocol.
    """

    name: str
    title: str
    target: str
    version: str
    max_first_pause_seconds: float = 0.05
    had_queries: bool = False


DYNAMODB = AwsService("dynamodb", "DynamoDB", "DynamoDB_20120810", "1.0", max_first_pause_seconds=0.025)
SSM = AwsService("ssm", "SSM", "AmazonSSM", "1.1")
SQS = AwsService("sqs", "SQS", "AmazonSQS", "1.0", had_queries=True)


class JsonClient:
    """Its methods are the service's operations: `put_item` calls PutItem. Threads may share a client. Calls
    block, and raise ClientError if the service refuses, BotoCoreError if it does not answer.

    read_credentials: called for every request. attempts: how many requests a call makes at most.
    listeners: what all clients call after a call that succeeded, by operation, such as "sqs.SendMessage".
    """

    listeners: ClassVar[dict[str, list[Callable[[], None]]]] = {}

    def __init__(
        self,
        service: AwsService,
        url: str,
        region: str,
        read_credentials: Callable[[], Credentials],
        *,
        timeouts: Timeouts,
        attempts: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service = service
        self._region = region
        self._read_credentials = read_credentials
        self._attempts = attempts
        self._sleep = sleep
        self._connections = Connections(url, timeouts)
        self._quota = RetryQuota()
        self._attributes = {"cloud.region": region}
        if service is DYNAMODB:
            self._attributes["db.system.name"] = "aws.dynamodb"

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return partial(self._call, "".join(word.capitalize() for word in method.split("_")))

    def _call(self, operation: str, **arguments: Any) -> Any:
        body = json.dumps(arguments, separators=(",", ":"), default=text_of_binary).encode()
        cost = 0
        with tracing.aws_span(self._service.title, operation, self._attributes):
            for attempt in range(1, self._attempts + 1):
                try:
                    answer = self._read(operation, self._post(operation, body))
                except (ClientError, BotoCoreError) as error:
                    cost, asked_pause = _retry_of(error)
                    if not cost or attempt == self._attempts or not self._quota.take(cost):
                        raise
                    is_throttled = cost == THROTTLED_COST
                    # Full jitter, as in botocore's standard mode: containers that failed together must not
                    # come back together.
                    longest = (
                        THROTTLED_PAUSE_SECONDS if is_throttled else self._service.max_first_pause_seconds
                    )
                    pause = random.random() * min(longest * 2 ** (attempt - 1), MAX_RETRY_PAUSE_SECONDS)  # noqa: S311  # no secret
                    self._sleep(max(pause, min(asked_pause, pause + MAX_EXTRA_PAUSE_SECONDS)))
                else:
                    self._quota.give(cost or 1)
                    for listener in self.listeners.get(f"{self._service.name}.{operation}", ()):
                        listener()
                    return answer
        raise AssertionError("a call is tried at least once")

    def _post(self, operation: str, body: bytes) -> HttpAnswer:
        headers = {
            "host": self._connections.host,
            "content-type": f"application/x-amz-json-{self._service.version}",
            "x-amz-target": f"{self._service.target}.{operation}",
        }
        if self._service.had_queries:
            headers["x-amzn-query-mode"] = "true"
        request_headers = signed_headers(
            self._read_credentials(),
            region=self._region,
            service=self._service.name,
            headers=headers,
            body=body,
            now=time.time(),
        )
        request_headers |= {"accept-encoding": "identity", "user-agent": "a2a-lambda-kit"}
        if trace := os.environ.get("_X_AMZN_TRACE_ID"):  # Lambda stops a loop of functions and queues by it
            request_headers["x-amzn-trace-id"] = trace
        return self._connections.post(request_headers, body)

    def _read(self, operation: str, answer: HttpAnswer) -> Any:
        """What a service answered. Raises ClientError, and HTTPClientError if the answer is damaged."""
        if (checksum := answer.headers.get("x-amz-crc32")) and checksum != str(zlib.crc32(answer.body)):
            raise HTTPClientError(error="the checksum of the answer is wrong")
        try:
            document = json.loads(answer.body or b"{}", object_hook=binary_of_text)
        except (ValueError, RecursionError) as error:
            if answer.status < 300:
                raise HTTPClientError(error="the answer is not JSON") from error
            document = {}
        if answer.status < 300:
            return document
        fields = document if isinstance(document, dict) else {}
        kind = answer.headers.get("x-amzn-errortype") or fields.get("__type") or str(answer.status)
        old_code, _, _ = answer.headers.get("x-amzn-query-error", "").partition(";")
        cause = {
            "Code": old_code or kind.partition(":")[0].rpartition("#")[2],
            "Message": fields.get("message") or fields.get("Message") or "",
        }
        metadata = {
            "HTTPStatusCode": answer.status,
            "RequestId": answer.headers.get("x-amzn-requestid", ""),
            "HTTPHeaders": answer.headers,
        }
        # DynamoDB's answer to a failed condition has the item, too.
        response: Any = {**fields, "Error": cause, "ResponseMetadata": metadata}
        raise ClientError(response, operation)


class RetryQuota:
    """Retries that a client may still make. A service that fails for all is not asked five times by all."""

    def __init__(self, capacity: int = 500) -> None:
        self._capacity = capacity
        self._left = capacity
        self._lock = threading.Lock()

    def take(self, cost: int) -> bool:
        with self._lock:
            if cost > self._left:
                return False
            self._left -= cost
            return True

    def give(self, amount: int) -> None:
        """After a call that succeeded: what its last retry cost, or 1 if it had none."""
        with self._lock:
            self._left = min(self._capacity, self._left + amount)


def _retry_of(error: ClientError | BotoCoreError) -> tuple[int, float]:
    """What another try costs, which is 0 if there must be none, and the seconds that the service asks for
    before it."""
    if not isinstance(error, ClientError):
        return RETRY_COST if isinstance(error, HTTPClientError | NotConnected) else 0, 0.0
    code, metadata = error.response["Error"]["Code"], error.response["ResponseMetadata"]
    milliseconds = metadata["HTTPHeaders"].get("x-amz-retry-after", "")
    pause = int(milliseconds) / 1000 if milliseconds.isdecimal() else 0.0
    status = metadata["HTTPStatusCode"]
    if code in THROTTLED or status == TOO_MANY_REQUESTS:
        return THROTTLED_COST, pause
    return RETRY_COST if status in RETRIED_STATUSES or code in RETRIED_ERRORS else 0, pause


def text_of_binary(value: object) -> str:
    """A binary attribute, for json.dumps."""
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return base64.b64encode(value).decode()


def binary_of_text(value: dict[str, Any]) -> dict[str, Any]:
    """An attribute's value {"B": <base64>}. A map's attribute named B has an object as its value, not a
    text."""
    if len(value) == 1 and isinstance(value.get("B"), str):
        return {"B": base64.b64decode(value["B"])}
    return value
