"""What an operator sees of an invocation: lines of JSON, metrics in some of them, no key, no message."""

import asyncio
import base64
import io
import json
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mangum import Mangum

from a2a_lambda import telemetry
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.lambda_ import json_logs
from a2a_lambda.lambda_.batch import NotificationHandler, WorkerHandler
from a2a_lambda.lambda_.metrics import Metrics
from a2a_lambda.lambda_.observability import Observed
from a2a_lambda.lambda_.streaming import Response, Streaming
from a2a_lambda.operations.messages import Messages
from a2a_lambda.protocol.model import timestamp
from a2a_lambda.push.delivery import Undelivered
from a2a_lambda.settings import Settings
from a2a_lambda.store.documents import pack
from tests.background.worker_bench import WorkerBench
from tests.conftest import ROOT, new_key
from tests.helpers.rpc import intent
from tests.lambda_.conftest import logging_kept
from tests.lambda_.context import Context

TEXT = "what the client said in confidence"


class Telling:
    """The application as a function, and what it tells."""

    def __init__(self, kit: Kit, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
        self.secret = new_key(kit, owner=f"owner-{uuid.uuid4()}")
        json_logs.install(settings.service, settings.log_level, debug=settings.debug_logs)
        self._handler = Observed(Mangum(create_app(kit), lifespan="off"), settings)
        self._capsys = capsys

    def call(self, skill: str, method: str = "message/send", **slots: str) -> list[Any]:
        """The lines of a call."""
        body = {"kind": "message", "messageId": "m", "role": "user", "metadata": intent(skill, **slots)}
        params = {"message": body | {"parts": [{"kind": "text", "text": TEXT}]}}
        call = {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": params}
        event = json.loads((ROOT / "events" / "send.json").read_text())
        event["path"] = event["requestContext"]["path"] = "/a2a/probe"
        event["body"] = json.dumps(call)
        headers = {"Content-Type": "application/json", "X-API-Key": self.secret}
        event["headers"] = headers
        event["multiValueHeaders"] = {name: [value] for name, value in headers.items()}
        self.answer = self._handler(event, Context())["body"]
        return self.lines()

    def lines(self) -> list[Any]:
        streams = self._capsys.readouterr()
        assert self.secret not in streams.out + streams.err
        return [json.loads(line) for line in streams.out.splitlines()]


Tell = Callable[..., Telling]


@pytest.fixture
def tell(kit: Kit, settings: Settings, capsys: pytest.CaptureFixture[str]) -> Iterator[Tell]:
    with logging_kept():
        yield lambda **changes: Telling(kit, settings.model_copy(update=changes), capsys)


def metric(lines: list[Any], name: str) -> Any:
    [metric_line] = [line for line in lines if name in line]
    return metric_line


def test_a_turn_is_measured(tell: Tell, no_timed_calls: None) -> None:
    telling = tell(service="my-stack")
    telling.call("echo")  # a cold container reads the keys, too
    start = time.monotonic()
    lines = telling.call("echo")
    milliseconds = 1000 * (time.monotonic() - start)
    [line] = [line for line in lines if "_aws" in line]
    assert (line["service"], line["agent"], line["outcome"]) == ("my-stack", "probe", "completed")
    assert (line["Turns"], line["DynamoDBCalls"]) == (1, 3)
    assert 0 < line["FirstEventTime"] <= milliseconds
    metrics = {
        tuple(item["Name"] for item in directive["Metrics"]): (
            sorted(sorted(names) for names in directive["Dimensions"]),
            {item["Unit"] for item in directive["Metrics"]},
        )
        for directive in line["_aws"]["CloudWatchMetrics"]
        if directive["Namespace"] == "A2A"
    }
    assert metrics == {
        ("Turns",): ([["agent", "outcome", "service"], ["outcome", "service"]], {"Count"}),
        ("RunTime", "FirstEventTime"): ([["agent", "service"], ["service"]], {"Milliseconds"}),
        ("DynamoDBCalls",): ([["function", "service"]], {"Count"}),
    }


def test_each_line_says_what_it_is_about(tell: Tell) -> None:
    telling = tell()
    lines = telling.call("boom")
    # Other tests of this process may leave tasks behind. Python logs them when it collects them.
    [failure] = [line for line in lines if line.get("message") == "skill boom failed"]
    assert failure["level"] == "ERROR"
    for line in (failure, metric(lines, "Turns")):
        assert line["function_request_id"] == Context.aws_request_id
        assert line["function_name"] == "function"
        assert line["cold_start"] is True
        assert line["owner"].startswith("owner-")
        assert (line["agent"], line["version"]) == ("probe", "0.3")
        assert len(line["task_id"]) == len(line["context_id"]) == 36
    assert metric(lines, "Turns")["outcome"] == "failed"
    assert {line["cold_start"] for line in telling.call("boom")} == {False}


@pytest.mark.parametrize("debug", [False, True])
def test_what_an_exception_says_is_for_debugging(tell: Tell, debug: bool) -> None:
    lines = tell(debug_logs=debug).call("boom")
    assert (TEXT in json.dumps(lines)) is debug
    assert TEXT not in json.dumps(tell(debug_logs=debug).call("echo"))
    failure = next(line for line in lines if line.get("exception_name") == "RuntimeError")
    assert "agent.py" in failure["exception"]
    assert "RuntimeError" in failure["exception"]


def test_the_lowest_level_tells_no_more_of_a_message(tell: Tell) -> None:
    """botocore would write down whole requests, in base64 and with the role's token."""
    lines = tell(log_level="DEBUG").call("echo")
    assert not [line for line in lines if line.get("level") == "DEBUG"]


def test_the_path_of_a_request_is_not_logged(tell: Tell) -> None:
    """That of a durable turn's wait is a secret."""
    assert "/a2a/probe" not in json.dumps(tell().call("echo"))


def test_a_failing_measurement_fails_no_turn(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ValueError("no")

    telling = tell()
    monkeypatch.setattr("a2a_lambda.lambda_.metrics._Line.text", fails)
    telling.call("echo")
    assert "completed" in telling.answer


@pytest.mark.parametrize(
    ("values", "dimensions", "sets", "alone"),
    [
        (
            {"Turns": 1},
            {"agent": "probe", "outcome": "completed"},
            [{"service", "agent", "outcome"}, {"service", "outcome"}],
            {"service", "outcome"},
        ),
        ({"RunTime": 0.1}, {"agent": "probe"}, [{"service", "agent"}, {"service"}], {"service"}),
        (
            {"Pushes": 1},
            {"agent": "probe", "outcome": "gone"},
            [{"service", "agent", "outcome"}],
            {"service", "outcome"},
        ),
    ],
)
def test_agents_need_not_have_metrics_of_their_own(
    values: Any, dimensions: Any, sets: Any, alone: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for by_agent, wanted in ((True, sets), (False, [alone])):
        metrics = Metrics("shop", "rpc", by_agent=by_agent)
        metrics.take(values, dimensions)
        metrics.write()
        line = json.loads(capsys.readouterr().out)
        [metric] = line["_aws"]["CloudWatchMetrics"]
        assert sorted(map(sorted, metric["Dimensions"])) == sorted(map(sorted, wanted))
        assert line["agent"] == "probe"


class YieldingOutput(io.StringIO):
    """An output whose every write lets other threads run first."""

    def write(self, text: str) -> int:
        time.sleep(0)
        return super().write(text)


def test_measurements_of_many_threads_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line has a measurement once."""
    sink = Metrics("service", "function")
    output = YieldingOutput()
    monkeypatch.setattr(sys, "stdout", output)

    def take() -> None:
        for _ in range(50):
            sink.take({"Pushes": 1}, {"agent": "probe"})
            sink.take({"DynamoDBCalls": 1}, {})
            sink.write()

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = output.getvalue().splitlines()
    records = [json.loads(line) for line in lines]
    assert sum(line.get("Pushes", 0) for line in records) == 400
    assert sum(line.get("DynamoDBCalls", 0) for line in records) == 400


def test_what_differs_is_on_another_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The tasks of a batch differ, for example."""
    sink = Metrics("service", "function")
    sink.take({"Pushes": 1}, {"agent": "probe", "outcome": "gone"})
    sink.take({"RunTime": 1.0}, {"agent": "probe"})
    sink.take({"Pushes": 1}, {"agent": "other", "outcome": "gone"})
    sink.take({"Pushes": 1}, {"agent": "other", "outcome": "gone"})
    sink.write()
    sink.write()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["agent"] for line in lines] == ["probe", "other", "other"]
    assert [len(line["_aws"]["CloudWatchMetrics"]) for line in lines] == [2, 1, 1]
    assert lines[0]["RunTime"] == 1_000


def test_each_record_has_its_own_ids(
    settings: Settings, kit: Kit, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second cannot be read."""
    notices = Kit(settings.model_copy(update={"notices": "https://queue"})).push_notifications

    def record(number: str) -> Any:
        image = {
            "pk": {"S": f"owner-{number}#probe#task#t-{number}"},
            "sk": {"S": "head"},
            "changed": {"S": f"{timestamp(time.time())}#t-{number}"},
            "version": {"N": "1"},
            "document": {"B": base64.b64encode(pack({"push": []})["B"] if number == "1" else b"{").decode()},
        }
        change = {"NewImage": image, "SequenceNumber": number, "ApproximateCreationDateTime": time.time()}
        return {"eventSource": "aws:dynamodb", "dynamodb": change, "eventID": number}

    with logging_kept():
        json_logs.install("my-stack", "INFO", debug=False)
        handler = Observed(NotificationHandler(notices), settings)
        capsys.readouterr()
        answer = handler({"Records": [record("1"), record("2")]}, Context())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "2"}]}
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [error_line] = [line for line in lines if line.get("level") == "ERROR"]
    assert (error_line["owner"], error_line["task_id"]) == ("owner-2", "t-2")
    assert "context_id" not in error_line
    assert metric(lines, "FailedRecords")["FailedRecords"] == 1


def test_a_webhook_that_fails_is_a_push_and_no_failed_record(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    class Dead:
        async def deliver(self, body: str) -> None:
            telemetry.measure({"Pushes": 1}, agent="probe", outcome="failed")
            raise Undelivered("no one there")

        def postpone(self, handle: str, attempt: int) -> None: ...

    dead: Any = Dead()
    record = {"eventSource": "aws:sqs", "messageId": "1", "receiptHandle": "r", "body": "[]"}
    with logging_kept():
        handler = Observed(NotificationHandler(dead), settings)
        capsys.readouterr()
        handler({"Records": [record | {"attributes": {"ApproximateReceiveCount": "1"}}]}, Context())
    output = capsys.readouterr().out
    assert "Pushes" in output
    assert "FailedRecords" not in output


def test_the_one_end_of_a_task_counts_its_turn(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = WorkerBench(settings)

    def counted(what: Callable[[], Any]) -> list[str]:
        capsys.readouterr()
        invocation(what, Context())
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return [line["outcome"] for line in lines if "Turns" in line]

    with logging_kept():
        invocation: Any = Observed(lambda event, context: event(), settings)  # type: ignore[operator]
        task = bench.send("echo")
        assert counted(lambda: asyncio.run(bench.service.cancel(bench.namespace, task["id"]))) == ["canceled"]
        dead = bench.send("echo")
        for _ in range(3):
            bench.died(dead["id"])
        ticket = bench.ticket(dead["id"])
        assert counted(lambda: asyncio.run(bench.worker.run_turn(ticket, None))) == ["failed"]
        question = bench.send("question")
        asked_ticket = bench.ticket(question["id"])
        assert counted(lambda: asyncio.run(bench.worker.run_turn(asked_ticket, None))) == ["input_required"]


def test_a_mistake_of_the_clients_is_no_error(tell: Tell) -> None:
    lines = tell().call("echo", method="message/unheard")
    assert not [line for line in lines if line.get("level") == "ERROR"]
    [log_line] = [line for line in lines if line.get("message") == "refused: -32601 MethodNotFound"]
    assert log_line["owner"].startswith("owner-")


def test_a_fault_is_counted_whatever_its_status(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    async def send(*_: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Messages, "send", send)
    telling = tell()
    assert metric(telling.call("echo"), "Faults")["Faults"] == 1
    assert not [line for line in telling.call("echo", method="message/unheard") if "Faults" in line]


def test_the_level_leaves_metrics_alone(tell: Tell) -> None:
    assert metric(tell(log_level="ERROR").call("echo"), "Turns")


def test_a_stream_is_reported_when_it_is_over(kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    async def settle() -> None: ...

    released: list[bool] = []
    with logging_kept():
        streaming = Streaming(
            create_app(kit), settle=settle, release=lambda: released.append(True), can_stream=True
        )
        handler = Observed(streaming, kit.settings)
        answer = handler(json.loads((ROOT / "events" / "send.json").read_text()), Context())
        assert isinstance(answer, Response)
        telemetry.measure({"DynamoDBCalls": 4})
        assert capsys.readouterr().out == ""
        answer.release()
    assert json.loads(capsys.readouterr().out)["DynamoDBCalls"] == 4
    assert released == [True]


def test_the_worker_tells_of_its_turn(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    bench = WorkerBench(settings)
    task = bench.send("echo")
    [ticket] = bench.queue.waiting
    record = {"messageId": "1", "eventSource": "aws:sqs", "eventSourceARN": "turns", "body": ticket.encode()}

    class Long(Context):
        def get_remaining_time_in_millis(self) -> int:
            return 900_000

    with logging_kept():
        handler = Observed(
            WorkerHandler(bench.worker, bench.sweep, pytest.fail, bench.queue, "dead", has_schedules=False),
            settings,
        )
        capsys.readouterr()
        handler({"Records": [record]}, Long())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    turns = metric(lines, "Turns")
    assert (turns["agent"], turns["outcome"], turns["task_id"]) == ("probe", "completed", task["id"])
    assert turns["owner"] == ticket.namespace.owner
