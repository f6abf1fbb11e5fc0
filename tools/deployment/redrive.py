"""make redrive: sends dead-letter messages back to where they failed, after the cause is fixed.

    make redrive QUEUE=notices STACK=my-stack     push notifications that a webhook did not accept
    make redrive QUEUE=turns STACK=my-stack       background turns, before they are marked as failed
    make redrive QUEUE=records STACK=my-stack     changes of tasks, of the last 24 hours

You can stop it and run it again. A message is deleted only after it has been sent, so it can arrive twice,
but it is never lost.
Source: https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html
"""

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from tools.command import reports_errors
from tools.deployment.stack import ALIAS, aws_errors, resources_of
from tools.stream_records import is_for_webhooks, to_lambda_json

HIDDEN_SECONDS = 300

READ_SECONDS = 120.0
"""Seconds in which the records of one message must be read."""

RECORDS_AT_ONCE = 5
"""An invocation takes 6 MB. A record has an item's old and new state, of 400 KB each at most."""

BATCH_FIELDS = ("streamArn", "shardId", "startSequenceNumber", "endSequenceNumber")
"""Fields of a message that name its records."""

DeadMessage = Mapping[str, Any]


class Redrive:
    """Sends the dead-letter messages of a stack again.

    resources: physical ids of a stack's resources.
    """

    def __init__(self, resources: Mapping[str, str]) -> None:
        self._resources = resources
        self._sqs: Any = clients.session().create_client("sqs")

    def notices(self) -> tuple[int, int]:
        """Returns how many messages it sent, and how many it dropped."""
        return self._each("DeadNotices", self._send_to("Notices"))

    def turns(self) -> tuple[int, int]:
        return self._each("DeadTurns", self._send_to("Turns"))

    def advice_on_hidden(self, queue: str) -> str:
        """What to do about messages that another reader of a dead-letter queue has; "" if there are none."""
        answer = self._sqs.get_queue_attributes(
            QueueUrl=self._resources[queue], AttributeNames=["ApproximateNumberOfMessagesNotVisible"]
        )
        count = int(answer["Attributes"]["ApproximateNumberOfMessagesNotVisible"])
        if not count:
            return ""
        if queue != "DeadTurns":
            return (
                f"Hidden messages: {count}. Another reader has them, or sending them failed. Run this"
                f" command again in {HIDDEN_SECONDS // 60} minutes"
            )
        command = f"aws lambda update-event-source-mapping --uuid {self._resources['WorkerDeadTurns']}"
        return (
            f"Hidden messages: {count}. A message that make redrive could not send is visible again after"
            f" {HIDDEN_SECONDS // 60} minutes. One that the worker is trying to mark as failed is visible"
            " after up to 15 minutes, or 90 if the worker was killed. To resend it instead, stop the worker"
            f" ({command} --no-enabled), run make redrive again when the message is visible, and start the"
            f" worker again ({command} --enabled)"
        )

    def records(self) -> tuple[int, int]:
        """Sends the notifier the records that messages name. Drops a message whose records have expired, or
        that names none."""
        streams: Any = clients.session().create_client("dynamodbstreams")
        functions: Any = clients.session().create_client("lambda")
        exceptions = (
            streams.exceptions.TrimmedDataAccessException,
            streams.exceptions.ResourceNotFoundException,
            ParamValidationError,
        )

        def relay(message: DeadMessage) -> bool:
            try:
                batch_info = json.loads(message["Body"])["DDBStreamBatchInfo"]
                place = {name: batch_info[name] for name in BATCH_FIELDS}
            except (ValueError, TypeError, KeyError):
                return False
            try:
                records = [record for record in _records(streams, place) if is_for_webhooks(record)]
            except exceptions:
                return False
            for start in range(0, len(records), RECORDS_AT_ONCE):
                batch = records[start : start + RECORDS_AT_ONCE]
                event = {
                    "Records": [
                        {**to_lambda_json(record), "eventSourceARN": place["streamArn"]} for record in batch
                    ]
                }
                answer = functions.invoke(
                    FunctionName=self._resources["NotifierFunction"],
                    Qualifier=ALIAS,
                    Payload=json.dumps(event),
                )
                response = json.loads(answer["Payload"].read())
                if "FunctionError" in answer or response.get("batchItemFailures"):
                    raise ConfigurationError("the notifier failed again; see its log for the cause")
            return True

        return self._each("DeadRecords", relay)

    def _send_to(self, queue: str) -> Callable[[DeadMessage], bool]:
        def send(message: DeadMessage) -> bool:
            options: dict[str, str] = {}
            if group := message.get("Attributes", {}).get("MessageGroupId"):
                options["MessageGroupId"] = group
                if queue == "Notices":  # it is FIFO, and drops an id that it had in the last five minutes
                    options["MessageDeduplicationId"] = str(uuid.uuid4())
            self._sqs.send_message(QueueUrl=self._resources[queue], MessageBody=message["Body"], **options)
            return True

        return send

    def _each(self, queue: str, act: Callable[[DeadMessage], bool]) -> tuple[int, int]:
        """Act on each message, and delete it; returns how many were sent, and how many were dropped."""
        url = self._resources[queue]
        deliveries = drops = 0
        while messages := self._receive(url):
            try:
                while messages:
                    if act(messages[0]):
                        deliveries += 1
                    else:
                        drops += 1
                    self._sqs.delete_message(QueueUrl=url, ReceiptHandle=messages[0]["ReceiptHandle"])
                    messages.pop(0)
            finally:
                # After an error, or Ctrl-C, the next run finds the others at once. The one that failed stays
                # hidden, or it could be the first again each time.
                for message in messages[1:]:
                    with suppress(ClientError, BotoCoreError):
                        self._sqs.change_message_visibility(
                            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
                        )
        return deliveries, drops

    def _receive(self, url: str) -> list[DeadMessage]:
        answer = self._sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=HIDDEN_SECONDS,
            WaitTimeSeconds=1,
            MessageSystemAttributeNames=["MessageGroupId"],
        )
        return list(answer.get("Messages", []))


QUEUES: Mapping[str, tuple[str, Callable[[Redrive], tuple[int, int]]]] = {
    "notices": ("DeadNotices", Redrive.notices),
    "turns": ("DeadTurns", Redrive.turns),
    "records": ("DeadRecords", Redrive.records),
}
"""The resource of each dead-letter queue, and what sends its messages again."""


def _records(streams: Any, place: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Records of the stream, from the first to the last that a message names."""
    answer = streams.get_shard_iterator(
        StreamArn=place["streamArn"],
        ShardId=place["shardId"],
        ShardIteratorType="AT_SEQUENCE_NUMBER",
        SequenceNumber=place["startSequenceNumber"],
    )
    iterator, last = answer["ShardIterator"], int(place["endSequenceNumber"])
    deadline = time.monotonic() + READ_SECONDS
    while iterator:  # None: the shard is closed, and was read to its end
        answer = streams.get_records(ShardIterator=iterator)
        for record in answer["Records"]:
            number = int(record["dynamodb"]["SequenceNumber"])
            if number <= last:
                yield record
            if number >= last:
                return
        if time.monotonic() > deadline:
            raise ConfigurationError("the stream did not return all records of a message; try again")
        # A page before the wanted records may be empty.
        iterator = answer.get("NextShardIterator")


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    queue, stack = environ.get("QUEUE", ""), environ.get("STACK", "")
    if queue not in QUEUES or not stack:
        is_wrong = bool(queue) and queue not in QUEUES
        problem = f"there is no queue {queue!r}" if is_wrong else "name a queue and a stack"
        raise ConfigurationError(f"{problem}: make redrive QUEUE={'|'.join(QUEUES)} STACK=<stack>")
    with aws_errors(f"redriving {queue}"):
        redrive = Redrive(resources_of(stack))
        dead_letters, send_again = QUEUES[queue]
        hidden = redrive.advice_on_hidden(dead_letters)  # before it hides messages itself
        deliveries, drops = send_again(redrive)
    print(f"{deliveries} sent again")
    if drops:
        print(f"{drops} dropped: their records have expired, or they name no records")
    if hidden:
        print(hidden, file=sys.stderr)
    return 1 if hidden else 0


if __name__ == "__main__":
    sys.exit(main())
