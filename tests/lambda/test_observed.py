"""What an operator sees of an invocation: lines of JSON, metrics in some of them, no key, no message."""

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mangum import Mangum

from a2a_lambda.http import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.batch import Worker
from a2a_lambda.lambda_.observed import Observed
from a2a_lambda.lambda_.streaming import Response, Streaming
from a2a_lambda.queue import body
from a2a_lambda.settings import Settings
from tests.conftest import ROOT, new_key
from tests.rpc import intent
from tests.test_background import Bench

from .conftest import logging_kept
from .test_handlers import Context

Json = Any

TEXT = "what the client said in confidence"


class Telling:
    """The application as a function, and what it tells."""

    def __init__(self, kit: Kit, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
        self.secret = new_key(kit.keys, owner=f"owner-{uuid.uuid4()}")
        self._handler = Observed(Mangum(create_app(kit), lifespan="off"), settings)
        self._capsys = capsys

    def call(self, skill: str, method: str = "message/send", **slots: str) -> list[Json]:
        """The lines of a call."""
        said = {"kind": "message", "messageId": "m", "role": "user", "metadata": intent(skill, **slots)}
        params = {"message": said | {"parts": [{"kind": "text", "text": TEXT}]}}
        call = {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": params}
        event = json.loads((ROOT / "events" / "send.json").read_text())
        event["path"] = event["requestContext"]["path"] = "/a2a/probe"
        event["body"] = json.dumps(call)
        headers = {"Content-Type": "application/json", "X-API-Key": self.secret}
        event["headers"] = headers
        event["multiValueHeaders"] = {name: [value] for name, value in headers.items()}
        self._handler(event, Context())
        return self.lines()

    def lines(self) -> list[Json]:
        told = self._capsys.readouterr()
        assert self.secret not in told.out + told.err
        return [json.loads(line) for line in told.out.splitlines()]


Tell = Callable[..., Telling]


@pytest.fixture
def tell(kit: Kit, settings: Settings, capsys: pytest.CaptureFixture[str]) -> Iterator[Tell]:
    with logging_kept():
        yield lambda **changes: Telling(kit, settings.model_copy(update=changes), capsys)


def metric(lines: list[Json], name: str) -> Json:
    [found] = [line for line in lines if name in line]
    return found


def test_a_turn_is_measured(tell: Tell) -> None:
    lines = tell(service="my-stack").call("echo")
    turns = metric(lines, "Turns")
    assert turns["Turns"] == [1]
    assert (turns["service"], turns["agent"], turns["outcome"]) == ("my-stack", "probe", "completed")
    [directive] = turns["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "A2A"
    assert [sorted(names) for names in directive["Dimensions"]] == [["agent", "outcome", "service"]]
    times = metric(lines, "RunTime")
    [directive] = times["_aws"]["CloudWatchMetrics"]
    assert sorted(sorted(names) for names in directive["Dimensions"]) == [["agent", "service"], ["service"]]
    assert {item["Name"]: item["Unit"] for item in directive["Metrics"]} == {
        "RunTime": "Milliseconds",
        "FirstEventTime": "Milliseconds",
    }
    assert 0 < times["FirstEventTime"][0] < 5_000
    calls = metric(lines, "DynamoDBCalls")
    assert calls["DynamoDBCalls"] == [3]
    assert calls["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["function", "service"]]


def test_each_line_says_what_it_is_about(tell: Tell) -> None:
    telling = tell()
    lines = telling.call("boom")
    [failure] = [line for line in lines if line.get("level") == "ERROR"]
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


def test_a_mistake_of_the_clients_is_no_error(tell: Tell) -> None:
    lines = tell().call("echo", method="message/unheard")
    assert not [line for line in lines if line.get("level") == "ERROR"]


def test_the_level_leaves_metrics_alone(tell: Tell) -> None:
    assert metric(tell(log_level="ERROR").call("echo"), "Turns")


def test_a_stream_is_told_of_when_it_is_over(kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    async def settle() -> None: ...

    released: list[bool] = []
    with logging_kept():
        streaming = Streaming(create_app(kit), settle=settle, release=lambda: released.append(True))
        handler = Observed(streaming, kit.settings)
        streaming.enabled = True
        answer = handler(json.loads((ROOT / "events" / "send.json").read_text()), Context())
        assert isinstance(answer, Response)
        from a2a_lambda import telemetry

        telemetry.measure({"DynamoDBCalls": 4})
        assert capsys.readouterr().out == ""
        answer.release()
    assert json.loads(capsys.readouterr().out)["DynamoDBCalls"] == [4]
    assert released == [True]


def test_the_worker_tells_of_its_turn(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(settings)
    task = bench.send("echo")
    [ticket] = bench.line.waiting
    record = {"messageId": "1", "eventSourceARN": "turns", "body": body(ticket)}

    class Long(Context):
        def get_remaining_time_in_millis(self) -> int:
            return 900_000

    with logging_kept():
        handler = Observed(Worker(bench.background, "dead"), settings)
        capsys.readouterr()
        handler({"Records": [record]}, Long())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    turns = metric(lines, "Turns")
    assert (turns["agent"], turns["outcome"], turns["task_id"]) == ("probe", "completed", task["id"])
    assert turns["owner"] == ticket.scope.owner


def test_traces_are_of_the_parameter_alone() -> None:
    """The X-Ray SDK is loaded where tracing is on; an invocation runs in a subsegment then."""
    code = """
import json, os, sys
os.environ |= {"AWS_XRAY_SDK_ENABLED": "true", "LAMBDA_TASK_ROOT": "/tmp", "_X_AMZN_TRACE_ID":
    "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"}
from a2a_lambda.lambda_.observed import Observed
from a2a_lambda.settings import Settings
from a2a_lambda import telemetry
Observed(lambda event, context: None, Settings())
before = "aws_xray_sdk" in sys.modules
def handler(event, context):
    from aws_xray_sdk.core import xray_recorder
    telemetry.bind(task_id="t-1")
    sent.append(xray_recorder.current_subsegment())
sent = []
class Context:
    aws_request_id = "r-1"
    function_name = "function"
Observed(handler, Settings(tracing=True, service="my-stack"))({}, Context())
[segment] = sent
print(json.dumps([before, segment.name, segment.annotations, segment.in_progress]))
"""
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    before, name, annotations, open_ = json.loads(found.stdout.splitlines()[-1])
    assert not before
    assert name == "## invocation"
    assert annotations["task_id"] == "t-1"
    assert annotations["function_request_id"] == "r-1"
    assert open_ is False
