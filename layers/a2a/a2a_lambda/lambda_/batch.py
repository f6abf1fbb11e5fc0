"""Lambda handlers of batches: what SQS and the table's stream bring, with partial failures.

Source: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html, and Powertools' batch
utility, which makes the answer SQS reads.
"""

import asyncio
import logging
import time
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

from a2a_lambda import telemetry
from a2a_lambda.aws.queue import read
from a2a_lambda.errors import KitError
from a2a_lambda.push.delivery import PushNotifications
from a2a_lambda.turns.worker import Worker

TURN_END_MARGIN_SECONDS = 5.0
"""Seconds before Lambda's own deadline at which a turn ends itself."""

Event = dict[str, Any]

logger = logging.getLogger(__name__)


class TurnHandler:
    """Handler of background turns, of their dead letters, and of the schedule's sweep.

    dead_letters: ARN of the queue whose messages nobody could work off.
    """

    def __init__(self, background: Worker, dead_letters: str) -> None:
        self._background = background
        self._dead_letters = dead_letters

    def __call__(self, event: Event, context: Any) -> Any:
        if "Records" not in event:
            return {"swept": asyncio.run(self._background.sweep())}
        deadline = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - TURN_END_MARGIN_SECONDS

        def work(record: Event) -> None:
            try:
                ticket = read(record["body"])
                if record["eventSourceARN"] == self._dead_letters:
                    asyncio.run(self._background.bury(ticket))
                else:
                    asyncio.run(self._background.run(ticket, deadline))
            except Exception:
                # By itself it would come again when its visibility timeout ends, in an hour and a half.
                attempt = int(record["attributes"]["ApproximateReceiveCount"])
                self._background.postpone(record["eventSourceARN"], record["receiptHandle"], attempt)
                raise

        return _processed(event, work, EventType.SQS, context)


class NotificationHandler:
    """Handler of the table's stream, and of the queue it is relayed to."""

    def __init__(self, notices: PushNotifications) -> None:
        self._notices = notices

    def __call__(self, event: Event, context: Any) -> Any:
        if event["Records"][0]["eventSource"] == "aws:dynamodb":
            return _processed(event, self._notices.relay, EventType.DynamoDBStreams, context)
        return _processed(event, self._deliver, EventType.SQS, context, counted=False)  # as pushes they are

    def _deliver(self, record: Event) -> None:
        try:
            asyncio.run(self._notices.deliver(record["body"]))
        except Exception:
            attempt = int(record["attributes"]["ApproximateReceiveCount"])
            self._notices.postpone(record["receiptHandle"], attempt)
            raise


def _processed(event: Event, work: Any, kind: EventType, context: Any, *, counted: bool = True) -> Any:
    """The partial failures of a batch; each is logged, without its content, and counted."""

    def guarded(record: Any) -> Any:
        try:
            return work(record.raw_event)
        except Exception as error:
            if not isinstance(error, KitError):
                logger.exception("a record failed")
            else:
                logger.error("a record failed: %s", error if error.safe_to_log else type(error).__name__)
            if counted:
                telemetry.measure({"FailedRecords": 1})
            raise

    processor = BatchProcessor(event_type=kind, raise_on_entire_batch_failure=False)
    return process_partial_response(event, guarded, processor, context)
