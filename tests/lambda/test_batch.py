"""The worker's and the notifier's handlers, with the events Lambda gives them."""

import json
import threading
import time
from typing import Any

import pytest

from a2a_lambda.errors import StoreError
from a2a_lambda.head import Scope
from a2a_lambda.lambda_.batch import Worker
from a2a_lambda.local.events import Invocation
from a2a_lambda.queue import Ticket, body


class Background:
    """Writes down what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.fails = False

    async def run(self, ticket: Ticket, deadline: float | None) -> None:
        self.asked.append(("run", ticket.task_id))
        assert deadline is not None
        assert 800 < deadline - time.monotonic() < 900
        if self.fails:
            raise StoreError("the table")

    async def bury(self, ticket: Ticket) -> None:
        self.asked.append(("bury", ticket.task_id))

    async def sweep(self) -> int:
        self.asked.append(("sweep", ""))
        return 3


def record(task_id: str, queue: str = "turns") -> dict[str, Any]:
    return {
        "messageId": f"message-{task_id}",
        "body": body(Ticket(Scope("owner", "agent"), task_id, "turn")),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue,
        "attributes": {"ApproximateReceiveCount": "1"},
    }


@pytest.fixture
def background() -> Background:
    return Background()


@pytest.fixture
def worker(background: Background) -> Worker:
    made: Any = background
    return Worker(made, "dead")


def test_what_each_event_calls_for(background: Background, worker: Worker) -> None:
    assert worker({"Records": [record("a")]}, Invocation()) == {"batchItemFailures": []}
    worker({"Records": [record("b", "dead")]}, Invocation())
    assert worker({"source": "aws.events", "detail-type": "Scheduled Event"}, Invocation()) == {"swept": 3}
    assert background.asked == [("run", "a"), ("bury", "b"), ("sweep", "")]


def test_a_turn_that_could_not_be_stored_comes_again(
    background: Background, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    background.fails = True
    answer = worker({"Records": [record("a")]}, Invocation())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "message-a"}]}
    assert "a record failed: the table" in caplog.text


def test_a_message_that_is_none_of_ours_comes_again_and_dies(background: Background, worker: Worker) -> None:
    broken = record("a") | {"body": json.dumps({"owner": "x"})}
    assert worker({"Records": [broken]}, Invocation())["batchItemFailures"]
    assert background.asked == []


def test_several_invocations_in_one_process_leave_each_other_alone(worker: Worker) -> None:
    """As in make run: only Lambda's process serves one at a time and may be ended."""
    from a2a_lambda import player

    token = object()
    player._busy.add(token)
    try:
        thread = threading.Thread(target=worker, args=({"Records": [record("a")]}, Invocation()))
        thread.start()
        thread.join(5)
        assert not thread.is_alive()
    finally:
        player._busy.discard(token)
