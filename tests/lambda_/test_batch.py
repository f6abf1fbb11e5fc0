"""The worker's handler, with the events that Lambda gives it."""

import json
import threading
import time
from typing import Any

import pytest

from a2a_lambda.errors import ConfigurationError, KitError, RouteNotFound, StoreError
from a2a_lambda.lambda_.batch import EXECUTION_ENDED, WorkerHandler
from a2a_lambda.tasks.identity import Namespace, TurnReference
from tests.helpers.clock import PATIENCE_SECONDS
from tools.dev.event_sources import LambdaContext


class Worker:
    """A worker, a sweep and a queue that write down what they are called for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.postponed: list[tuple[str, str, int]] = []
        self.fails = False

    async def run_turn(self, ticket: TurnReference, deadline: float | None) -> None:
        self.asked.append(("run", ticket.task_id))
        assert deadline is not None
        assert 800 < deadline - time.monotonic() < 900
        if self.fails:
            raise StoreError("the table")

    async def fail_turn(self, ticket: TurnReference) -> None:
        self.asked.append(("bury", ticket.task_id))

    def postpone(self, arn: str, handle: str, attempt: int) -> None:
        self.postponed.append((arn, handle, attempt))

    def send(self, ticket: TurnReference) -> None:
        """Nothing is queued here."""

    async def end_execution(self, arn: str) -> None:
        self.asked.append(("end", arn))

    async def run(self, deadline: float) -> int:
        assert 800 < deadline - time.monotonic() < 900
        self.asked.append(("sweep", ""))
        return 3

    async def run_schedules(self) -> int:
        self.asked.append(("schedules", ""))
        if self.fails:
            raise StoreError("the table")
        return 2

    async def start_event(self, fields: Any) -> str:
        self.asked.append(("start", fields["id"]))
        return f"task-{fields['id']}"

    def describe(self) -> list[Any]:
        return [{"id": "nightly"}]

    async def fire(self, agent: str, schedule: str, key: str) -> str:
        if schedule != "nightly":
            raise RouteNotFound("there is no such schedule")
        return f"{agent} {schedule} {key}"


def record(task_id: str, queue: str = "turns") -> dict[str, Any]:
    return {
        "messageId": f"message-{task_id}",
        "body": TurnReference(Namespace("owner", "agent"), task_id, "turn").encode(),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue,
        "receiptHandle": f"handle-{task_id}",
        "attributes": {"ApproximateReceiveCount": "2"},
    }


@pytest.fixture
def background() -> Worker:
    return Worker()


@pytest.fixture
def worker(background: Worker) -> WorkerHandler:
    fake: Any = background
    return WorkerHandler(fake, fake, lambda: fake, fake, "dead", has_schedules=True)


def test_what_each_event_calls_for(background: Worker, worker: WorkerHandler) -> None:
    assert worker({"Records": [record("a")]}, LambdaContext()) == {"batchItemFailures": []}
    worker({"Records": [record("b", "dead")]}, LambdaContext())
    assert worker({"source": "aws.events", "detail-type": "Scheduled Event"}, LambdaContext()) == {
        "swept": 3,
        "started": 2,
    }
    notice = {"status": "FAILED", "durableExecutionArn": "arn:execution"}
    worker({"source": "aws.lambda", "detail-type": EXECUTION_ENDED, "detail": notice}, LambdaContext())
    expected = [("run", "a"), ("bury", "b"), ("schedules", ""), ("sweep", ""), ("end", "arn:execution")]
    assert background.asked == expected


def test_the_sweep_runs_although_the_schedules_fail(background: Worker, worker: WorkerHandler) -> None:
    background.fails = True
    with pytest.raises(StoreError):
        worker({"source": "aws.events", "detail-type": "Scheduled Event"}, LambdaContext())
    assert background.asked == [("schedules", ""), ("sweep", "")]


def test_events_start_turns_one_by_one_or_as_a_list(background: Worker, worker: WorkerHandler) -> None:
    assert worker({"start": {"id": "a"}}, LambdaContext()) == {"task": "task-a"}
    pipe = [{"start": {"id": "b"}}, {"start": {"id": "c"}}]
    assert worker(pipe, LambdaContext()) == [{"task": "task-b"}, {"task": "task-c"}]
    assert background.asked == [("start", "a"), ("start", "b"), ("start", "c")]


def test_one_event_that_starts_nothing_stops_no_other(background: Worker, worker: WorkerHandler) -> None:
    """A queue sends all of them again, and those that were started are not started twice."""
    pipe = [{"start": {"id": "a"}}, {"body": "of a queue, without a template"}, {"start": {"id": "b"}}]
    with pytest.raises(ConfigurationError, match="without"):
        worker(pipe, LambdaContext())
    assert background.asked == [("start", "a"), ("start", "b")]


def test_lambdas_runtime_gets_no_text_that_an_event_may_hold(
    background: Worker, worker: WorkerHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start_event(_: Any) -> str:
        raise RouteNotFound("there is no agent 'what the event says'")

    monkeypatch.setattr(background, "start_event", start_event)
    with pytest.raises(KitError) as error:
        worker({"start": {"id": "a"}}, LambdaContext())
    assert str(error.value) == "RouteNotFound"


@pytest.mark.parametrize("event", [{}, {"strat": {}}, {"detail-type": "Object Created", "detail": {}}])
def test_an_event_that_is_no_one_elses_is_an_error(worker: WorkerHandler, event: Any) -> None:
    """It is not a minute of the worker."""
    with pytest.raises(ConfigurationError, match="InputTransformer"):
        worker(event, LambdaContext())


def test_an_operator_asks_for_schedules(worker: WorkerHandler) -> None:
    assert worker({"schedules": {}}, LambdaContext()) == {"schedules": [{"id": "nightly"}]}
    wanted = {"agent": "reports", "id": "nightly", "key": "k"}
    assert worker({"schedules": wanted}, LambdaContext()) == {"task": "reports nightly k"}
    assert "no such schedule" in worker({"schedules": {**wanted, "id": "x"}}, LambdaContext())["error"]
    for mistake in (None, [1], {"agent": "reports"}):
        assert "write" in worker({"schedules": mistake}, LambdaContext())["error"]


def test_a_minute_without_schedules_makes_nothing_that_starts_turns(background: Worker) -> None:
    fake: Any = background
    worker = WorkerHandler(fake, fake, pytest.fail, fake, "dead", has_schedules=False)
    assert worker({"source": "aws.events", "detail-type": "Scheduled Event"}, LambdaContext()) == {
        "swept": 3,
        "started": 0,
    }


def test_a_turn_that_could_not_be_stored_comes_again(
    background: Worker, worker: WorkerHandler, caplog: pytest.LogCaptureFixture
) -> None:
    background.fails = True
    answer = worker({"Records": [record("a")]}, LambdaContext())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "message-a"}]}
    assert "a record failed: the table" in caplog.text
    assert background.postponed == [("turns", "handle-a", 2)], "soon, not after its visibility timeout"


def test_a_message_that_is_none_of_ours_comes_again_and_dies(
    background: Worker, worker: WorkerHandler
) -> None:
    message = record("a") | {"body": json.dumps({"owner": "x"})}
    assert worker({"Records": [message]}, LambdaContext())["batchItemFailures"]
    assert background.asked == []


def test_several_invocations_in_one_process_leave_each_other_alone(worker: WorkerHandler) -> None:
    """This happens in make run: only Lambda's process serves one at a time and may be ended."""
    from a2a_lambda import agent_threads

    with agent_threads.count_as_running():
        thread = threading.Thread(target=worker, args=({"Records": [record("a")]}, LambdaContext()))
        thread.start()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    "records", [[], [{"eventSource": "aws:s3"}], [{"EventSource": "aws:sns", "Sns": {}}]]
)
def test_notifications_that_no_rule_has_made_a_start_of_are_explained(
    worker: WorkerHandler, records: Any
) -> None:
    with pytest.raises(ConfigurationError, match="give the rule an InputTransformer"):
        worker({"Records": records}, LambdaContext())
