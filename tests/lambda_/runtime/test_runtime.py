"""The built streaming function under a Runtime API: what leaves the process, and when."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.protocol.model import unix_time
from a2a_lambda.settings import Settings
from tests.conftest import ROOT
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rpc import events, intent, message, request, texts
from tests.lambda_.runtime.runtime_api import PROBE, RuntimeApi, event, streamed
from tools import template
from tools.build.built_functions import Built
from tools.dev import emulator
from tools.registers.keys import KeyRegister

pytestmark = pytest.mark.slow(seconds=60)


CONTENT_TYPE = "application/vnd.awslambda.http-integration-response"


class Function:
    """A running function, its Runtime API, and its log."""

    def __init__(self, api: RuntimeApi, log: Path) -> None:
        self.api = api
        self.log = log

    def send(self, method: str = "message/send", skill: str = "echo", **slots: str) -> Any:
        return event(request(method, {"message": message("hello", metadata=intent(skill, **slots))}))


@pytest.fixture(scope="module")
def api() -> Iterator[RuntimeApi]:
    new_api = RuntimeApi()
    yield new_api
    new_api.close()


@pytest.fixture(scope="module")
def function(built: Built, api: RuntimeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Function]:
    log = tmp_path_factory.mktemp("log") / "function.log"
    with (
        log.open("wb") as output,
        built.running(
            "rpc", output=output, variables={"AWS_LAMBDA_RUNTIME_API": api.address, **PROBE}
        ) as process,
    ):
        assert api.polled.wait(PATIENCE_SECONDS), log.read_text()
        yield Function(api, log)
        assert process.poll() is None, log.read_text()


def test_a_piece_arrives_before_the_next_one_is_made(function: Function, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    invocation = function.api.start(function.send("message/stream", "gated", gate=str(gate)))
    invocation.wait_for(b"first ")
    assert b"second" not in invocation.content
    gate.touch()
    assert invocation.done.wait(PATIENCE_SECONDS)
    assert texts({"artifacts": [e["artifact"] for e in streamed(invocation) if "artifact" in e]}) == (
        "first second"
    )
    assert streamed(invocation)[-1]["status"]["state"] == "completed"


def test_the_request_is_what_lambda_asks_for(function: Function) -> None:
    invocation = function.api.invoke(function.send(), invocation_id="inv-1")
    assert invocation.streamed
    assert invocation.headers["content-type"] == CONTENT_TYPE
    assert invocation.headers["transfer-encoding"] == "chunked"
    assert invocation.headers["trailer"] == (
        "Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body"
    )
    assert invocation.headers["lambda-runtime-invocation-id"] == "inv-1"
    assert invocation.trailers == {}
    assert "lambda-runtime-invocation-id" not in function.api.invoke(function.send()).headers


def test_plain_json_goes_the_same_way(function: Function) -> None:
    invocation = function.api.invoke(function.send())
    assert invocation.prelude["statusCode"] == 200
    assert invocation.prelude["headers"]["content-type"] == "application/json"
    assert texts(json.loads(invocation.body)["result"]) == "hello"


def test_the_prelude_comes_first_and_within_16_kb(function: Function) -> None:
    invocation = function.api.invoke(function.send("message/stream", "pieces"))
    first = invocation.chunks[0][1]
    assert first.endswith(bytes(8))
    assert len(first) < 16_384
    assert invocation.prelude["headers"]["content-type"].startswith("text/event-stream")


def test_errors_of_a_client_are_ordinary_answers(function: Function) -> None:
    answer = function.api.invoke(event({"jsonrpc": "2.0"}))
    assert (answer.prelude["statusCode"], answer.trailers) == (200, {})
    assert json.loads(answer.body)["error"]["code"] == -32600
    nobody = function.api.invoke(
        event({}, headers={"Content-Type": "application/json"}, multiValueHeaders={})
    )
    assert nobody.prelude["statusCode"] == 401
    assert "www-authenticate" in nobody.prelude["headers"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_card(function: Function, method: str) -> None:
    path = "/a2a/probe/.well-known/agent.json"
    invocation = function.api.invoke(event(None, path, httpMethod=method))
    assert invocation.prelude["statusCode"] == 200
    assert bool(invocation.body) is (method == "GET")


def test_304_has_no_body(function: Function) -> None:
    path = "/a2a/probe/.well-known/agent.json"
    card = function.api.invoke(event(None, path, httpMethod="GET"))
    headers = {"If-None-Match": card.prelude["headers"]["etag"]}
    again = function.api.invoke(event(None, path, httpMethod="GET", headers=headers, multiValueHeaders={}))
    assert (again.prelude["statusCode"], again.body) == (304, b"")


def test_a_function_url(function: Function) -> None:
    document = json.loads((ROOT / "events" / "send-function-url.json").read_text())
    invocation = function.api.invoke(document)
    assert json.loads(invocation.body)["result"]["status"]["state"] == "completed"


def test_other_scripts_survive(function: Function) -> None:
    text = "你好 é 😀"
    invocation = function.api.invoke(event(request("message/send", {"message": message(text)})))
    assert texts(json.loads(invocation.body)["result"]) == text


def test_sends_and_streams_in_turn_in_one_process(function: Function) -> None:
    for number in range(20):
        method = ("message/send", "message/stream")[number % 2]
        invocation = function.api.invoke(function.send(method))
        assert b"completed" in invocation.body


def test_a_connection_that_breaks_leaves_nothing(function: Function) -> None:
    """The turn runs to its end and is stored. The process takes the next invocation."""
    stream_event = function.send("message/stream", "pieces", count="8", every="0.1")
    cut = function.api.invoke(stream_event, close_after=2)
    task_id = events(cut.body.decode())[0]["id"]
    answer = function.api.invoke(event(request("tasks/get", {"id": task_id})))
    task = json.loads(answer.body)["result"]
    assert task["status"]["state"] == "completed"
    assert texts(task) == "".join(f"{number} " for number in range(8))


def test_410_is_logged_and_no_more(function: Function) -> None:
    answer = function.api.invoke(function.send(), status=410)
    assert answer.streamed
    assert b"completed" in function.api.invoke(function.send()).body
    assert "ended before its response was" in function.log.read_text()


def test_an_event_that_is_none_is_an_error(function: Function) -> None:
    invocation = function.api.invoke({"hello": "world"})
    assert not invocation.streamed
    assert invocation.error["errorType"] == "RuntimeError"
    assert b"completed" in function.api.invoke(function.send()).body


@pytest.mark.parametrize("skill", ["pause", "block"])
def test_a_turn_ends_in_order_at_its_deadline(function: Function, skill: str) -> None:
    stream_event = function.send("message/stream", skill, seconds="60")
    deadline = time.time() + 6
    invocation = function.api.invoke(stream_event, deadline=deadline)
    end = streamed(invocation)[-1]
    assert end["status"]["state"] == "failed"
    assert "time" in end["status"]["message"]["parts"][0]["text"]
    assert unix_time(end["status"]["timestamp"]) < deadline, "long before the 60 s it would take"
    assert invocation.trailers == {}


def test_code_that_does_not_end_ends_the_process(built: Built) -> None:
    """Blocking code in an async skill would block every later one: the answer goes out, the process ends."""
    api = RuntimeApi()
    variables = {"AWS_LAMBDA_RUNTIME_API": api.address, **PROBE}
    with built.running("rpc", variables=variables) as process:
        send_event = event(
            request("message/send", {"message": message(metadata=intent("stall", seconds="60"))})
        )
        assert api.polled.wait(PATIENCE_SECONDS)
        invocation = api.invoke(send_event, deadline=time.time() + 6)
        assert json.loads(invocation.body)["result"]["status"]["state"] == "failed"
        assert process.wait(60) == 1
    api.close()


def test_a_follower_ends_resumable_at_its_deadline(function: Function, built: Built, tmp_path: Path) -> None:
    """Another container runs the task; this one's time is up first."""
    other = RuntimeApi()
    with built.running("rpc", variables={"AWS_LAMBDA_RUNTIME_API": other.address, **PROBE}):
        running = other.start(function.send("message/stream", "pieces", count="40", every="0.2"))
        running.wait_for(b"artifact-update", 4)
        task_id = events(running.body.decode())[0]["id"]
        follow = event(request("tasks/resubscribe", {"id": task_id}))
        followed = function.api.invoke(follow, deadline=time.time() + 5)
        assert streamed(followed)[-1]["kind"] == "artifact-update"
        last = [line[4:] for line in followed.body.decode().splitlines() if line.startswith("id: ")][-1]
        headers = {"Last-Event-ID": last, "X-API-Key": "local-key", "Content-Type": "application/json"}
        rest = function.api.invoke(follow | {"headers": headers, "multiValueHeaders": {}})
        assert running.done.wait(PATIENCE_SECONDS)
    other.close()
    later_text = "".join(texts({"artifacts": [e["artifact"]]}) for e in streamed(rest) if "artifact" in e)
    earlier_text = "".join(
        texts(e) if e["kind"] == "task" else texts({"artifacts": [e["artifact"]]})
        for e in streamed(followed)
        if e["kind"] != "status-update"
    )
    assert earlier_text + later_text == "".join(f"{number} " for number in range(40))
    assert streamed(rest)[-1]["status"]["state"] == "completed"


def test_a_thousand_invocations_in_flat_memory(built: Built, tmp_path: Path) -> None:
    api = RuntimeApi()
    with built.running("rpc", variables={"AWS_LAMBDA_RUNTIME_API": api.address, **PROBE}) as process:

        def resident() -> int:
            return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4096

        def said(method: str) -> Any:
            return event(request(method, {"message": message()}))

        descriptors = Path(f"/proc/{process.pid}/fd")
        path = "/a2a/probe/.well-known/agent.json"
        card = event(None, path, httpMethod="GET")
        get = event({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": "nothing"}})
        kinds = [lambda: card, lambda: get, lambda: said("message/send"), lambda: said("message/stream")]
        for number in range(1000):
            cut = 1 if number % 50 == 49 else None
            api.invoke(kinds[number % 4](), close_after=cut)
            if number == 200:
                before = resident()
                descriptor_count = len(list(descriptors.iterdir()))
        growth = resident() - before
        assert len(list(descriptors.iterdir())) <= descriptor_count + 4
    api.close()
    assert growth < 4 * 1024 * 1024, f"{growth} bytes more after 800 invocations"


def test_an_agent_that_cannot_be_imported_is_an_init_error(built: Built, tmp_path: Path) -> None:
    api = RuntimeApi()
    with built.running(
        "rpc", variables={"AWS_LAMBDA_RUNTIME_API": api.address, "A2A_AGENTS": str(tmp_path)}
    ) as process:
        assert process.wait(PATIENCE_SECONDS) == 1
    api.close()
    assert api.init_error["errorType"] == "ConfigurationError"
    assert "no agent" in api.init_error["errorMessage"]


def test_a_store_that_goes_down_in_mid_stream(built: Built, tmp_path: Path) -> None:
    """The client reads it in the stream, Lambda in the trailers. The process continues."""
    gate = tmp_path / "gate"
    api = RuntimeApi()
    with emulator.running() as url:
        settings = Settings(table="t", keys_path="/t/keys", local=True, emulator=url)
        template.create_table(clients.dynamodb(settings), "t", template.properties(ROOT / "template.yaml"))
        KeyRegister(clients.ssm(settings), "/t/keys").create("local", secret="local-key", local=True)
        variables = {"A2A_TABLE": "t", "A2A_KEYS_PATH": "/t/keys", "A2A_EMULATOR": url, **PROBE}
        variables["AWS_LAMBDA_RUNTIME_API"] = api.address
        running = built.running("rpc", variables=variables)
        running.__enter__()
        metadata = intent("gated", gate=str(gate))
        stream_event = event(request("message/stream", {"message": message(metadata=metadata)}, "r"))
        assert api.polled.wait(PATIENCE_SECONDS)
        invocation = api.start(stream_event, deadline=time.time() + 8)
        invocation.wait_for(b"artifact-update")
    gate.touch()
    try:
        assert invocation.done.wait(60)
        last = json.loads(invocation.body.decode().strip().split("data: ")[-1])
        assert last["id"] == "r"
        assert last["error"]["code"] == -32603
        assert invocation.trailers["lambda-runtime-function-error-type"] == invocation.fault["errorType"]
        assert invocation.fault["errorType"] == "StoreError"
        assert api.invoke(event({})).prelude["statusCode"] in (200, 503)
    finally:
        running.__exit__(None, None, None)
        api.close()


def test_a_store_that_is_down(built: Built, tmp_path: Path) -> None:
    """Before the first byte it is an ordinary answer, and no call hangs."""
    api = RuntimeApi()
    variables = {"AWS_LAMBDA_RUNTIME_API": api.address, **PROBE, "A2A_TABLE": "missing"}
    with built.running("rpc", variables=variables):
        stream_event = event(request("message/stream", {"message": message()}))
        invocation = api.invoke(stream_event)
        assert invocation.prelude["statusCode"] == 503
        assert json.loads(invocation.body)["error"]["code"] == -32603
    api.close()


def test_the_log_is_json_with_the_request(function: Function) -> None:
    invocation = function.api.invoke(function.send("message/send", "boom"))
    assert json.loads(invocation.body)["result"]["status"]["state"] == "failed"
    function.api.invoke(function.send("message/send", "echo"))  # metrics are written before the next one
    # The function may be writing its last line: that of the second invocation, which is not looked at.
    whole_lines, _, _ = function.log.read_text().rpartition("\n")
    lines = [json.loads(line) for line in whole_lines.splitlines()]
    assert "DEBUG" not in {line.get("level") for line in lines}, "not even while it starts"
    mine = [line for line in lines if line.get("function_request_id") == invocation.id]
    [error_line] = [line for line in mine if line.get("level") == "ERROR"]
    assert error_line["exception_name"] == "RuntimeError"
    [turns] = [line for line in mine if "Turns" in line]
    assert turns["outcome"] == "failed"
