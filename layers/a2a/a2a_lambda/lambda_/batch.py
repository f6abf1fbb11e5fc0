"""Lambda handlers of batches, from SQS and from the table's stream, with partial failures.

Powertools' batch utility makes the answer that SQS reads.
Source: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

from a2a_lambda import telemetry
from a2a_lambda.aws.queue import Queue
from a2a_lambda.background.sweep import Sweep
from a2a_lambda.background.takeover import END_MARGIN_SECONDS
from a2a_lambda.background.worker import Worker
from a2a_lambda.errors import ConfigurationError, KitError, is_safe_to_log, safe_text
from a2a_lambda.lambda_.observability import LambdaEvent
from a2a_lambda.push.delivery import PushNotifications
from a2a_lambda.tasks.identity import TurnReference

if TYPE_CHECKING:
    from a2a_lambda.operations.triggers import Triggers

EXECUTION_ENDED = "Durable Execution Status Change"
"""Type of an event of Amazon EventBridge. The template lets through only those of executions that did not
succeed.
Source: https://docs.aws.amazon.com/lambda/latest/dg/durable-monitoring.html"""

NO_START = (
    'the worker got an event without "start": give the rule an InputTransformer, or the pipe an input'
    " template, as in docs/background-work.md"
)

logger = logging.getLogger(__name__)


class WorkerHandler:
    """Handler of background turns, of their dead letters, of executions that have ended badly, of events that
    start a turn, and of what happens each minute: the sweep, and the agents' schedules.

    A rule of EventBridge sends {"start": {…}}, and a pipe a list of these: see `StartEvent`. An operator may
    send {"schedules": {}}, which is answered with the schedules, or {"schedules": {"agent", "id", "key"}},
    which starts one.

    get_triggers: makes what starts turns; a worker without schedules and events never calls it.
    queue: the queue of the turns. dead_letters: ARN of its dead-letter queue.
    """

    def __init__(
        self,
        worker: Worker,
        sweep: Sweep,
        get_triggers: "Callable[[], Triggers]",
        queue: Queue,
        dead_letters: str,
        *,
        has_schedules: bool,
    ) -> None:
        self._worker = worker
        self._sweep = sweep
        self._get_triggers = get_triggers
        self._queue = queue
        self._dead_letters = dead_letters
        self._has_schedules = has_schedules

    def __call__(self, event: Any, context: Any) -> Any:
        if isinstance(event, list):
            return self._start_all(event)
        if "start" in event:
            return self._start_all([event])[0]
        if "schedules" in event:
            return self._answer_operator(event["schedules"])
        deadline = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - END_MARGIN_SECONDS
        match event.get("detail-type"):
            case "Scheduled Event":
                return asyncio.run(self._run_minute(deadline))
            case detail if detail == EXECUTION_ENDED:
                asyncio.run(self._sweep.end_execution(event["detail"]["durableExecutionArn"]))
                return {}
        records = event.get("Records")
        if not records or records[0].get("eventSource") != "aws:sqs":
            raise ConfigurationError(NO_START)

        def work(record: LambdaEvent) -> None:
            try:
                turn = TurnReference.read(record["body"])
                if record["eventSourceARN"] == self._dead_letters:
                    asyncio.run(self._worker.fail_turn(turn))
                else:
                    asyncio.run(self._worker.run_turn(turn, deadline))
            except Exception:
                # Otherwise the message comes again only when its visibility timeout ends, in an hour and a
                # half.
                attempt = int(record["attributes"]["ApproximateReceiveCount"])
                self._queue.postpone(record["eventSourceARN"], record["receiptHandle"], attempt)
                raise

        return _process(event, work, EventType.SQS, context)

    async def _run_minute(self, deadline: float) -> dict[str, int]:
        # Schedules first: a backlog of turns must not make them late. Whatever fails, the sweep runs.
        started_count = 0
        try:
            if self._has_schedules:
                started_count = await self._get_triggers().run_schedules()
        finally:
            swept_count = await self._sweep.run(deadline)
        return {"swept": swept_count, "started": started_count}

    def _start_all(self, events: Sequence[Any]) -> list[dict[str, str]]:
        """Start a turn for each event. One that fails stops no other: the source sends all of them again, and
        those that were started are not started twice. Raises the first failure."""
        answers: list[dict[str, str]] = []
        failures: list[Exception] = []
        for event in events:
            try:
                if not isinstance(event, dict) or "start" not in event:
                    raise ConfigurationError(NO_START)
                answers.append({"task": asyncio.run(self._get_triggers().start_event(event["start"]))})
            except Exception as error:
                logger.error("an event started nothing: %s", safe_text(error))
                failures.append(error)
        if failures:  # Lambda's runtime logs the text of what is raised
            raise failures[0] if is_safe_to_log(failures[0]) else KitError(safe_text(failures[0]))
        return answers

    def _answer_operator(self, selection: Any) -> Any:
        triggers = self._get_triggers()
        if selection == {}:
            return {"schedules": triggers.describe()}
        try:
            names = [selection[name] for name in ("agent", "id", "key")]
        except (TypeError, KeyError):
            return {"error": 'write {"schedules": {"agent": …, "id": …, "key": …}}, or {"schedules": {}}'}
        try:
            return {"task": asyncio.run(triggers.fire(*names))}
        except KitError as error:
            return {"error": str(error)}


class NotificationHandler:
    """Handler of the table's stream, and of the queue that it is relayed to."""

    def __init__(self, notifications: PushNotifications) -> None:
        self._notifications = notifications

    def __call__(self, event: LambdaEvent, context: Any) -> Any:
        if event["Records"][0]["eventSource"] == "aws:dynamodb":
            return _process(event, self._notifications.relay, EventType.DynamoDBStreams, context)

        def deliver(record: LambdaEvent) -> None:
            try:
                asyncio.run(self._notifications.deliver(record["body"]))
            except Exception:
                attempt = int(record["attributes"]["ApproximateReceiveCount"])
                self._notifications.postpone(record["receiptHandle"], attempt)
                raise

        # Their failures are counted as pushes.
        return _process(event, deliver, EventType.SQS, context, counts_failures=False)


def _process(
    event: LambdaEvent, work: Any, kind: EventType, context: Any, *, counts_failures: bool = True
) -> Any:
    """Work on each record of a batch; returns its partial failures. A failure is logged without its
    content."""

    def work_on(record: Any) -> Any:
        try:
            return work(record.raw_event)
        except Exception as error:
            if not isinstance(error, KitError):
                logger.exception("a record failed")
            else:
                logger.error("a record failed: %s", safe_text(error))
            if counts_failures:
                telemetry.measure({"FailedRecords": 1})
            raise

    processor = BatchProcessor(event_type=kind, raise_on_entire_batch_failure=False)
    return process_partial_response(event, work_on, processor, context)
