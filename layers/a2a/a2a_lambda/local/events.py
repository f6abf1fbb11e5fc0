"""What Lambda's event sources do, for an emulator that has none: queues and the table's stream are polled,
and the handlers called with the events Lambda would give them.

    queue ────── Worker          table's stream ── Notifier ── notices ── Notifier
    a minute ─── Worker (sweep)
"""

import base64
import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda import aws
from a2a_lambda.kit import Kit

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

VISIBILITY = 60
"""Seconds a message is hidden while it is worked off: short of Lambda's, so a restart is soon over."""

RECEIVES = 3

TRIES = 10
"""Of a notification, as in template.yaml."""

NOTIFIERS = 8

WORKERS = 8

SWEEP = 20.0
"""Seconds between sweeps, which are a minute apart in a deployment."""

PAUSE = 0.2

REMEMBERED = 240.0
"""Seconds of the stream that are read again after a restart, in place of Lambda's checkpoint; the
queue knows for 300 s what it has taken already."""

Json = Any

Handler = Callable[[Json, Json], Json]

Source = Iterator[tuple[Json, Callable[[Json], None]]]
"""Events, and for each what takes the handler's answer."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Queues:
    """Urls, and the dead letters' ARN."""

    turns: str
    dead: str
    dead_arn: str
    notices: str


class Invocation:
    """Lambda's context, of a function with fifteen minutes."""

    function_name = "local"
    memory_limit_in_mb = 1024
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:local"

    def __init__(self) -> None:
        self.aws_request_id = str(uuid.uuid4())
        self._ends = time.monotonic() + 900

    def get_remaining_time_in_millis(self) -> int:
        return int((self._ends - time.monotonic()) * 1000)


def create_queues(client: "SQSClient", prefix: str) -> Queues:
    """The queues of template.yaml, in an emulator; those that are there are found again."""
    dead = client.create_queue(QueueName=f"{prefix}-dead")["QueueUrl"]
    arn = _arn(client, dead)
    turns = client.create_queue(
        QueueName=f"{prefix}-turns",
        Attributes={"RedrivePolicy": _redrive(arn, RECEIVES), "VisibilityTimeout": str(VISIBILITY)},
    )["QueueUrl"]
    lost = client.create_queue(QueueName=f"{prefix}-dead-notices.fifo", Attributes={"FifoQueue": "true"})
    notices = client.create_queue(
        QueueName=f"{prefix}-notices.fifo",
        Attributes={
            "FifoQueue": "true",
            "VisibilityTimeout": str(VISIBILITY),
            "RedrivePolicy": _redrive(_arn(client, lost["QueueUrl"]), TRIES),
        },
    )["QueueUrl"]
    return Queues(turns, dead, arn, notices)


def _arn(client: "SQSClient", url: str) -> str:
    found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    return found["QueueArn"]


def _redrive(dead_arn: str, receives: int) -> str:
    return json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": receives})


def start(kit: Kit, worker: Handler, notifier: Handler) -> None:
    """Poll in threads that end with the process."""
    sqs = aws.sqs(kit.settings)
    settings = kit.settings
    dead = settings.dead_letters.rpartition(":")[2]
    sources: list[tuple[Source, Handler]] = [
        *((Messages(sqs, settings.queue, "turns"), worker) for _ in range(WORKERS)),
        (Messages(sqs, sqs.get_queue_url(QueueName=dead)["QueueUrl"], settings.dead_letters), worker),
        *((Messages(sqs, settings.notices, "notices"), notifier) for _ in range(NOTIFIERS)),
        (Records(kit), notifier),
        (Minutes(), worker),
    ]
    for source in sources:
        threading.Thread(target=_consume, args=source, daemon=True).start()


def _consume(source: Source, handler: Handler) -> None:
    while True:
        try:
            event, done = next(source)
            done(handler(event, Invocation()))
        except (ClientError, BotoCoreError):
            time.sleep(1)  # the emulator is not there at the moment, or no longer
        except Exception:
            logger.exception("a handler failed")
            time.sleep(1)


class Messages:
    """Messages of a queue, one an event."""

    def __init__(self, client: "SQSClient", url: str, arn: str) -> None:
        self._client, self._url, self._arn = client, url, arn

    def __iter__(self) -> "Messages":
        return self

    def __next__(self) -> tuple[Json, Callable[[Json], None]]:
        while True:
            found = self._client.receive_message(
                QueueUrl=self._url, MaxNumberOfMessages=1, AttributeNames=["All"]
            ).get("Messages", [])
            if found:
                break
            time.sleep(PAUSE)
        [message] = found

        def done(answer: Json) -> None:
            if not (answer or {}).get("batchItemFailures"):
                self._client.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])

        return {"Records": [sqs_record(message, self._arn)]}, done


class Minutes:
    """The schedule."""

    def __iter__(self) -> "Minutes":
        return self

    def __next__(self) -> tuple[Json, Callable[[Json], None]]:
        time.sleep(SWEEP)
        return {"source": "aws.scheduler", "detail": {}}, lambda _: None


class Records:
    """Records of the table's stream that are about heads with push configs, as the template filters them."""

    def __init__(self, kit: Kit) -> None:
        self._client = aws.streams(kit.settings)
        self._table = kit.settings.table
        self._since = time.time() - REMEMBERED
        self._iterator = ""
        self._left: list[Json] = []

    def __iter__(self) -> "Records":
        return self

    def __next__(self) -> tuple[Json, Callable[[Json], None]]:
        while True:
            if not self._left:
                self._left = [record for record in self._next() if self.wants(record)]
            if self._left:
                return {"Records": self._left}, self._done
            time.sleep(PAUSE)

    def _next(self) -> list[Json]:
        iterator, self._iterator = self._iterator or self.first(), ""
        answer = self._client.get_records(ShardIterator=iterator)
        self._iterator = answer.get("NextShardIterator", "")
        return [as_lambda_has_it(record) for record in answer["Records"]]

    def _done(self, answer: Json) -> None:
        """What failed, and what comes behind it, comes again."""
        failed = {item["itemIdentifier"] for item in (answer or {}).get("batchItemFailures", [])}
        numbers = [record["dynamodb"]["SequenceNumber"] for record in self._left]
        first = next((index for index, number in enumerate(numbers) if number in failed), len(numbers))
        self._left = self._left[first:]

    def wants(self, record: Json) -> bool:
        """Whether the template's filter lets it through, and it is not too old."""
        if record["dynamodb"]["ApproximateCreationDateTime"] < self._since:
            return False
        new = record["dynamodb"].get("NewImage", {})
        return new.get("sk", {}).get("S") == "head" and "pushes" in new

    def first(self) -> str:
        """Where the stream begins."""
        [stream] = self._client.list_streams(TableName=self._table)["Streams"]
        arn = stream["StreamArn"]
        shard = self._client.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"][-1]["ShardId"]
        found = self._client.get_shard_iterator(
            StreamArn=arn, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )
        return str(found["ShardIterator"])


def sqs_record(message: Json, arn: str) -> Json:
    """A message as Lambda has it."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": {},
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": "us-east-1",
    }


def as_lambda_has_it(value: Any) -> Any:
    """A record in JSON: bytes are base64 there."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: as_lambda_has_it(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_lambda_has_it(item) for item in value]
    return value
