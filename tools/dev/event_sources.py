"""Lambda's event sources, for an emulator that has none: polls the queues and the table's stream, and
calls the handlers with Lambda's events.

    queue ────── WorkerHandler       table's stream ── NotificationHandler ── notices ── NotificationHandler
    a minute ─── WorkerHandler (sweep)

It looks at a source after this process has written to a queue or the table, and otherwise more and more
rarely. A server that no one calls costs nearly nothing.
"""

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.request import Request, urlopen

from botocore.exceptions import BotoCoreError, ClientError
from werkzeug.sansio.utils import host_is_trusted

from a2a_lambda import telemetry
from a2a_lambda.aws import clients, hot_path
from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.batch import NotificationHandler, WorkerHandler
from a2a_lambda.protocol.model import Json
from tools.command import HOST, HOSTS
from tools.stream_records import is_for_webhooks, to_lambda_json

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

VISIBILITY_SECONDS = 60
"""Seconds for which a message in work is hidden. It is shorter than on Lambda, for a quick restart."""

TURN_RECEIVES = 3

NOTIFICATION_RECEIVES = 10
"""As in template.yaml."""

NOTIFIERS = 8

WORKERS = 8

SWEEP_SECONDS = 20.0
"""Seconds between sweeps. In a deployment it is a minute."""

PAUSES_SECONDS = (0.1, 5.0)
"""Seconds between looks at an empty source, at first and at most. An event that this process did not
write, such as a message that is visible again, waits so long."""

BUSY_PAUSE_SECONDS = 0.05
"""Seconds between looks at a source while the table is being written to."""

REREAD_SECONDS = 240.0
"""Seconds of the stream that are read again after a restart. Lambda has a checkpoint instead. The queue drops
duplicates for 300 s."""

WRITES = ("sqs.SendMessage", "sqs.SendMessageBatch", "dynamodb.PutItem")
"""What a source may have something to deliver after."""

Handler = Callable[[Json, Json], Json]

Found = tuple[Json, Callable[[Json], None]]
"""An event, and a function that takes the handler's answer."""


class Source(Protocol):
    def next(self) -> Found | None:
        """The next event; None if there is none at the moment."""


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Queues:
    """URLs of the queues, and the ARN of the dead-letter queue."""

    turns: str
    dead_arn: str
    notices: str


class LambdaContext:
    """Lambda's context, for a function with fifteen minutes."""

    function_name = "local"
    memory_limit_in_mb = 1024
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:local"

    def __init__(self) -> None:
        self.aws_request_id = str(uuid.uuid4())
        self._ends = time.monotonic() + 900

    def get_remaining_time_in_millis(self) -> int:
        return int((self._ends - time.monotonic()) * 1000)


def create_queues(client: "SQSClient", prefix: str) -> Queues:
    """Create the queues of template.yaml in an emulator, if they are absent."""
    dead_letter_url = client.create_queue(QueueName=f"{prefix}-dead")["QueueUrl"]
    arn = _arn(client, dead_letter_url)
    turns = client.create_queue(
        QueueName=f"{prefix}-turns",
        Attributes={
            "RedrivePolicy": _redrive(arn, TURN_RECEIVES),
            "VisibilityTimeout": str(VISIBILITY_SECONDS),
        },
    )["QueueUrl"]
    dead_notices = client.create_queue(
        QueueName=f"{prefix}-dead-notices.fifo", Attributes={"FifoQueue": "true"}
    )
    notices = client.create_queue(
        QueueName=f"{prefix}-notices.fifo",
        Attributes={
            "FifoQueue": "true",
            "VisibilityTimeout": str(VISIBILITY_SECONDS),
            "RedrivePolicy": _redrive(_arn(client, dead_notices["QueueUrl"]), NOTIFICATION_RECEIVES),
        },
    )["QueueUrl"]
    return Queues(turns, arn, notices)


def _arn(client: "SQSClient", url: str) -> str:
    attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    return attributes["QueueArn"]


def _redrive(dead_arn: str, receives: int) -> str:
    return json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": receives})


class Bell:
    """Rings when this process has written to a queue or the table."""

    def __init__(self) -> None:
        self._rung = 0
        self._ring = threading.Condition()

    def ring(self) -> None:
        with self._ring:
            self._rung += 1
            self._ring.notify_all()

    def count(self) -> int:
        return self._rung

    def wait(self, count: int, seconds: float) -> bool:
        """Wait until it has rung more than `count` times; False if the time is up first."""
        with self._ring:
            return self._ring.wait_for(lambda: self._rung > count, seconds)


def start(kit: Kit) -> "Handler":
    """Poll in threads that end with the process; returns the worker. Raises ConfigurationError if the kit has
    no queues."""
    bell = Bell()
    hot_path.listen(WRITES, bell.ring)
    worker, notifier = (
        WorkerHandler(
            kit.worker,
            kit.sweep,
            lambda: kit.triggers,
            kit.require_queue(),
            kit.settings.dead_letters,
            has_schedules=kit.has_schedules,
        ),
        NotificationHandler(kit.push_notifications),
    )
    sqs = clients.sqs(kit.settings)
    settings = kit.settings
    dead_letter_url = sqs.get_queue_url(QueueName=settings.dead_letters.rpartition(":")[2])["QueueUrl"]
    sources: list[tuple[Source, Handler, int]] = [
        (QueueMessages(sqs, settings.queue, "turns"), worker, WORKERS),
        (QueueMessages(sqs, dead_letter_url, settings.dead_letters), worker, 1),
        (QueueMessages(sqs, settings.notices, "notices"), notifier, NOTIFIERS),
        (StreamRecords(kit), notifier, 1),
    ]
    for source in sources:
        threading.Thread(target=_consume, args=(*source, bell), daemon=True).start()
    threading.Thread(target=_sweep, args=(worker,), daemon=True).start()
    if settings.durable_function and any(kit.agents[name].card.durable_skills for name in kit.agents):
        from a2a_lambda.lambda_.execution_handler import DurableHandler

        handler = DurableHandler(kit.execution_worker, kit.make_lambda_client())
        serve_runs(handler, settings.emulator)
    return worker


def serve_runs(handler: Handler, emulator: str) -> int:
    """Take the runs of durable turns from the emulator, in threads that end with the process; returns the
    port."""

    class RunRequestHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            # Only the emulator calls here: no page of a browser, by this name or another one.
            if "Origin" in self.headers or not host_is_trusted(self.headers.get("Host"), HOSTS):
                self.send_error(403)
                return
            event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            telemetry.collect()
            try:
                body, status = json.dumps(handler(event, LambdaContext())).encode(), 200
            except Exception as error:
                logger.exception("a run of a durable turn failed")
                body, status = type(error).__name__.encode(), 500
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Its answers are no requests of clients."""

    server = ThreadingHTTPServer((HOST, 0), RunRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = int(server.server_address[1])
    urlopen(Request(f"{emulator}/runs", str(port).encode(), method="POST")).close()  # noqa: S310
    return port


def _consume(source: Source, handler: Handler, workers: int, bell: Bell) -> None:
    """Give the events of a source to threads, at most `workers` at once."""
    free_workers = threading.Semaphore(workers)
    pause, most = PAUSES_SECONDS
    while True:
        free_workers.acquire()
        count = bell.count()
        try:
            delivery = source.next()
        except (ClientError, BotoCoreError):
            delivery = None  # the emulator does not answer
        except Exception:
            logger.exception("an event source cannot be read")
            delivery = None
        if delivery is not None:
            pause = PAUSES_SECONDS[0]
            threading.Thread(target=_handle, args=(*delivery, handler, free_workers), daemon=True).start()
            continue
        free_workers.release()
        if bell.wait(count, pause):
            pause = PAUSES_SECONDS[0]
            time.sleep(BUSY_PAUSE_SECONDS)
        else:
            pause = min(1.5 * pause, most)


def _handle(event: Json, done: Callable[[Json], None], handler: Handler, free: threading.Semaphore) -> None:
    telemetry.collect()
    try:
        done(handler(event, LambdaContext()))
    except (ClientError, BotoCoreError):
        time.sleep(1)
    except Exception:
        logger.exception("a handler failed")
        time.sleep(1)
    finally:
        free.release()


def _sweep(worker: Handler) -> None:
    """Sweep every SWEEP_SECONDS, as the template's schedule does each minute."""
    while True:
        time.sleep(SWEEP_SECONDS)
        try:
            worker({"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}, LambdaContext())
        except Exception:
            logger.exception("a sweep failed")


class QueueMessages:
    """Messages of a queue, one message an event."""

    def __init__(self, client: "SQSClient", url: str, arn: str) -> None:
        self._client, self._url, self._arn = client, url, arn

    def next(self) -> Found | None:
        messages = self._client.receive_message(
            QueueUrl=self._url, MaxNumberOfMessages=1, AttributeNames=["All"]
        ).get("Messages", [])
        if not messages:
            return None
        [message] = messages

        def done(answer: Json) -> None:
            if not (answer or {}).get("batchItemFailures"):
                self._client.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])

        return {"Records": [sqs_record(message, self._arn)]}, done


class StreamRecords:
    """Records of the table's stream that the template's filter lets through, which are heads with push
    configs."""

    def __init__(self, kit: Kit) -> None:
        self._client = clients.streams(kit.settings)
        self._table = kit.settings.table
        self._since = time.time() - REREAD_SECONDS
        self._iterator = ""
        self._left: list[Json] = []

    def next(self) -> Found | None:
        while not self._left:
            records = self._next()
            self._left = [record for record in records if self.wants(record)]
            if not records or not self._iterator:  # at the end of what there is, or of the shard
                break
        return ({"Records": self._left}, self._keep_failed) if self._left else None

    def _next(self) -> list[Json]:
        iterator, self._iterator = self._iterator or self.first(), ""
        answer = self._client.get_records(ShardIterator=iterator)
        self._iterator = answer.get("NextShardIterator", "")
        return [to_lambda_json(record) for record in answer["Records"]]

    def _keep_failed(self, answer: Json) -> None:
        """Keep the first failed record and those after it, to send them again."""
        failures = {item["itemIdentifier"] for item in (answer or {}).get("batchItemFailures", [])}
        numbers = [record["dynamodb"]["SequenceNumber"] for record in self._left]
        first = next((index for index, number in enumerate(numbers) if number in failures), len(numbers))
        self._left = self._left[first:]

    def wants(self, record: Json) -> bool:
        """Whether a record passes the template's filter, and is not too old."""
        if record["dynamodb"]["ApproximateCreationDateTime"] < self._since:
            return False
        return is_for_webhooks(record)

    def first(self, where: Literal["TRIM_HORIZON", "LATEST"] = "TRIM_HORIZON") -> str:
        """Iterator at the beginning of the stream, or at its end: "LATEST"."""
        [stream] = self._client.list_streams(TableName=self._table)["Streams"]
        arn = stream["StreamArn"]
        shard = self._client.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"][-1]["ShardId"]
        answer = self._client.get_shard_iterator(StreamArn=arn, ShardId=shard, ShardIteratorType=where)
        return str(answer["ShardIterator"])


def sqs_record(message: Json, arn: str) -> Json:
    """A message, as Lambda gives it to a function."""
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
