"""Lambda handlers of batches, from SQS and from the table's stream, with partial failures.

Powertools' batch utility makes the answer that SQS reads.
Source: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
"""

import asyncio
import logging
import time
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

from a2a_lambda import telemetry
from a2a_lambda.agent_threads import end_stragglers
from a2a_lambda.aws.queue import Queue, read_message
from a2a_lambda.background.sweep import Sweep
from a2a_lambda.background.worker import Worker
from a2a_lambda.errors import KitError
from a2a_lambda.push.delivery import PushNotifications

TURN_END_MARGIN_SECONDS = 5.0
"""Seconds before Lambda's deadline at which a turn must end."""

EXECUTION_ENDED = "Durable Execution Status Change"
"""Type of an event of Amazon EventBridge. The template lets through only those of executions that did not
succeed.
Source: https://docs.aws.amazon.com/lambda/latest/dg/durable-monitoring.html"""

Event = dict[str, Any]

logger = logging.getLogger(__name__)


class TurnHandler:
    """Handler of background turns, of their dead letters, of executions that have ended badly, and of the
    sweep's schedule.

    queue: the queue of the turns. dead_letters: ARN of its dead-letter queue.
    """

    def __init__(self, worker: Worker, sweep: Sweep, queue: Queue, dead_letters: str) -> None:
        self._worker = worker
        self._sweep = sweep
        self._queue = queue
        self._dead_letters = dead_letters

    def __call__(self, event: Event, context: Any) -> Any:
        if event.get("detail-type") == EXECUTION_ENDED:
            asyncio.run(self._sweep.end_execution(event["detail"]["durableExecutionArn"]))
            return {}
        if "Records" not in event:
            return {"swept": asyncio.run(self._sweep.run())}
        seconds = context.get_remaining_time_in_millis() / 1000
        deadline = time.monotonic() + seconds - TURN_END_MARGIN_SECONDS

        def work(record: Event) -> None:
            try:
                turn = read_message(record["body"])
                if record["eventSourceARN"] == self._dead_letters:
                    asyncio.run(self._worker.fail_turn(turn))
                else:
                    asyncio.run(self._worker.run_turn(turn, deadline))
            except Exception:
                # Else the message comes again only when its visibility timeout ends, in an hour and a half.
                attempt = int(record["attributes"]["ApproximateReceiveCount"])
                self._queue.postpone(record["eventSourceARN"], record["receiptHandle"], attempt)
                raise

        return _process(event, work, EventType.SQS, context)

    def release(self) -> None:
        """Called after each invocation; may end the process."""
        end_stragglers()


class NotificationHandler:
    """Handler of the table's stream, and of the queue that it is relayed to."""

    def __init__(self, notifications: PushNotifications) -> None:
        self._notifications = notifications

    def __call__(self, event: Event, context: Any) -> Any:
        if event["Records"][0]["eventSource"] == "aws:dynamodb":
            return _process(event, self._notifications.relay, EventType.DynamoDBStreams, context)
        # Their failures are counted as pushes.
        return _process(event, self._deliver, EventType.SQS, context, counts_failures=False)

    def _deliver(self, record: Event) -> None:
        try:
            asyncio.run(self._notifications.deliver(record["body"]))
        except Exception:
            attempt = int(record["attributes"]["ApproximateReceiveCount"])
            self._notifications.postpone(record["receiptHandle"], attempt)
            raise


def _process(event: Event, work: Any, kind: EventType, context: Any, *, counts_failures: bool = True) -> Any:
    """Work on each record of a batch; returns its partial failures. A failure is logged without its
    content."""

    def work_on(record: Any) -> Any:
        try:
            return work(record.raw_event)
        except Exception as error:
            if not isinstance(error, KitError):
                logger.exception("a record failed")
            else:
                logger.error("a record failed: %s", error if error.safe_to_log else type(error).__name__)
            if counts_failures:
                telemetry.measure({"FailedRecords": 1})
            raise

    processor = BatchProcessor(event_type=kind, raise_on_entire_batch_failure=False)
    return process_partial_response(event, work_on, processor, context)
