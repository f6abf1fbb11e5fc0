"""The built streaming function under a Runtime API: what leaves the process, and when."""

import json
import statistics
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda.access.key_register import KeyRegister
from a2a_lambda.aws import clients
from a2a_lambda.protocol.model import unix_time
from a2a_lambda.settings import Settings
from tests.conftest import AGENTS, ROOT
from tests.helpers.rpc import events, intent, message, request, texts
from tests.lambda_.runtime_api import RuntimeApi, event, streamed
from tools import template
from tools.build.built_functions import Built
from tools.dev import emulator

pytestmark = pytest.mark.slow(seconds=60)


Json = Any


CONTENT_TYPE = "application/vnd.awslambda.http-integration-response"


class Function:
    """A running function, its Runtime API, and its log."""

    def __init__(self, api: RuntimeApi, log: Path) -> None:
        self.api = api
        self.log = log

    def send(self, method: str = "message/send", skill: str = "echo", **slots: str) -> Json:
        return event(request(method, {"message": message("hello", metadata=intent(skill, **slots))}))


PROBE = {"A2A_AGENTS": str(AGENTS), "A2A_AGENT_NAMES": "probe"}
"""The tests' agent, instead of the one that is in the build."""


@pytest.fixture(scope="module")
def api() -> Iterator[RuntimeApi]:
    made = RuntimeApi()
    yield made
    made.close()


@pytest.fixture(scope="module")
def function(built: Built, api: RuntimeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Function]:
    log = tmp_path_factory.mktemp("log") / "function.log"
    with (
        log.open("wb") as output,
        built.running(
            "rpc", output=output, variables={"AWS_LAMBDA_RUNTIME_API": api.address, **PROBE}
        ) as process,
    ):
        assert api.polled.wait(30), log.read_text()
        yield Function(api, log)
        assert process.poll() is None, log.read_text()


def test_a_stream_arrives_as_it_is_made(function: Function) -> None:
    """An agent yielding every 200 ms arrives every 200 ms, not at the end."""
    invocation = function.api.invoke(function.send("message/stream", "pieces", count="6", every="0.2"))
    arrived = [
        at for at, chunk in invocation.chunks if b"artifact-update" in chunk and b'"text":""' not in chunk
    ]
    assert len(arrived) == 6
    gaps = [later - earlier for earlier, later in pairwise(arrived)]
    assert 0.15 < statistics.median(gaps) < 0.25
    assert max(gaps) < 0.45
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
    refused = function.api.invoke(event({"jsonrpc": "2.0"}))
    assert (refused.prelude["statusCode"], refused.trailers) == (200, {})
    assert json.loads(refused.body)["error"]["code"] == -32600
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
    known = {"If-None-Match": card.prelude["headers"]["etag"]}
    again = function.api.invoke(event(None, path, httpMethod="GET", headers=known, multiValueHeaders={}))
    assert (again.prelude["statusCode"], again.body) == (304, b"")


def test_a_function_url(function: Function) -> None:
    made = json.loads((ROOT / "events" / "send-function-url.json").read_text())
    invocation = function.api.invoke(made)
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
    sent = function.send("message/stream", "pieces", count="8", every="0.1")
    cut = function.api.invoke(sent, close_after=2)
    task_id = events(cut.body.decode())[0]["id"]
    found = function.api.invoke(event(request("tasks/get", {"id": task_id})))
    task = json.loads(found.body)["result"]
    assert task["status"]["state"] == "completed"
    assert texts(task) == "".join(f"{number} " for number in range(8))


def test_410_is_logged_and_no_more(function: Function) -> None:
    gone = function.api.invoke(function.send(), status=410)
    assert gone.streamed
    assert b"completed" in function.api.invoke(function.send()).body
    assert "ended before its response was" in function.log.read_text()


def test_an_event_that_is_none_is_an_error(function: Function) -> None:
    invocation = function.api.invoke({"hello": "world"})
    assert not invocation.streamed
    assert invocation.error["errorType"] == "RuntimeError"
    assert b"completed" in function.api.invoke(function.send()).body


@pytest.mark.parametrize("skill", ["pause", "block"])
def test_a_turn_ends_in_order_at_its_deadline(function: Function, skill: str) -> None:
    sent = function.send("message/stream", skill, seconds="60")
    deadline = time.time() + 6
    invocation = function.api.invoke(sent, deadline=deadline)
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
        sent = event(request("message/send", {"message": message(metadata=intent("stall", seconds="60"))}))
        invocation = api.invoke(sent, deadline=time.time() + 6)
        assert json.loads(invocation.body)["result"]["status"]["state"] == "failed"
        assert process.wait(60) == 1
    api.close()


def test_a_follower_ends_resumable_at_its_deadline(function: Function, built: Built, tmp_path: Path) -> None:
    """Another container runs the task; this one's time is up first."""
    other = RuntimeApi()
    with built.running("rpc", variables={"AWS_LAMBDA_RUNTIME_API": other.address, **PROBE}):
        running = other.start(function.send("message/stream", "pieces", count="40", every="0.2"))
        give_up = time.monotonic() + 120
        while len(running.chunks) < 6:
            assert time.monotonic() < give_up
            time.sleep(0.05)
        task_id = events(running.body.decode())[0]["id"]
        follow = event(request("tasks/resubscribe", {"id": task_id}))
        followed = function.api.invoke(follow, deadline=time.time() + 5)
        assert streamed(followed)[-1]["kind"] == "artifact-update"
        last = [line[4:] for line in followed.body.decode().splitlines() if line.startswith("id: ")][-1]
        headers = {"Last-Event-ID": last, "X-API-Key": "local-key", "Content-Type": "application/json"}
        rest = function.api.invoke(follow | {"headers": headers, "multiValueHeaders": {}})
        assert running.done.wait(30)
    other.close()
    said = "".join(texts({"artifacts": [e["artifact"]]}) for e in streamed(rest) if "artifact" in e)
    seen = "".join(
        texts(e) if e["kind"] == "task" else texts({"artifacts": [e["artifact"]]})
        for e in streamed(followed)
        if e["kind"] != "status-update"
    )
    assert seen + said == "".join(f"{number} " for number in range(40))
    assert streamed(rest)[-1]["status"]["state"] == "completed"


def test_a_thousand_invocations_in_flat_memory(built: Built, tmp_path: Path) -> None:
    api = RuntimeApi()
    with built.running("rpc", variables={"AWS_LAMBDA_RUNTIME_API": api.address, **PROBE}) as process:

        def resident() -> int:
            return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4096

        def said(method: str) -> Json:
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
                opened = len(list(descriptors.iterdir()))
        grown = resident() - before
        assert len(list(descriptors.iterdir())) <= opened + 4
    api.close()
    assert grown < 4 * 1024 * 1024, f"{grown} bytes more after 800 invocations"


def test_an_agent_that_cannot_be_imported_is_an_init_error(built: Built, tmp_path: Path) -> None:
    api = RuntimeApi()
    with built.running(
        "rpc", variables={"AWS_LAMBDA_RUNTIME_API": api.address, "A2A_AGENTS": str(tmp_path)}
    ) as process:
        assert process.wait(30) == 1
    api.close()
    assert api.init_error["errorType"] == "ConfigurationError"
    assert "no agent" in api.init_error["errorMessage"]


def test_a_store_that_goes_down_in_mid_stream(built: Built) -> None:
    """The client reads it in the stream, Lambda in the trailers. The process continues."""
    api = RuntimeApi()
    with emulator.running() as url:
        settings = Settings(table="t", keys_path="/t/keys", local=True, emulator=url)
        template.create_table(clients.dynamodb(settings), "t", template.properties(ROOT / "template.yaml"))
        KeyRegister(clients.ssm(settings), "/t/keys").create("local", secret="local-key", local=True)
        variables = {"A2A_TABLE": "t", "A2A_KEYS_PATH": "/t/keys", "A2A_EMULATOR": url, **PROBE}
        variables["AWS_LAMBDA_RUNTIME_API"] = api.address
        running = built.running("rpc", variables=variables)
        running.__enter__()
        named = intent("pieces", count="15", every="0.1")
        sent = event(request("message/stream", {"message": message(metadata=named)}, "r"))
        assert api.polled.wait(30)
        invocation = api.start(sent, deadline=time.time() + 8)
        give_up = time.monotonic() + 120
        while len(invocation.chunks) < 4:
            assert time.monotonic() < give_up, invocation
            time.sleep(0.02)
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
        sent = event(request("message/stream", {"message": message()}))
        invocation = api.invoke(sent)
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
    [failed] = [line for line in mine if line.get("level") == "ERROR"]
    assert failed["exception_name"] == "RuntimeError"
    [turns] = [line for line in mine if "Turns" in line]
    assert turns["outcome"] == "failed"


@pytest.fixture
def own() -> Iterator[RuntimeApi]:
    """A Runtime API for a function that a test starts itself."""
    made = RuntimeApi()
    yield made
    made.close()


def test_the_wrapper_finds_what_lambdas_bootstrap_finds(
    built: Built, own: RuntimeApi, tmp_path: Path
) -> None:
    """Modules in either folder of a layer, and those a .pth file points at."""
    layers = built.opt / "python"
    packages = layers / "lib" / f"python{built.version}" / "site-packages"
    packages.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (packages / "in_site_packages.py").write_text("WHERE = 'site-packages'\n")
    (packages / "points.pth").write_text(f"{elsewhere}\n")
    (elsewhere / "pointed_at.py").write_text("WHERE = 'elsewhere'\n")
    (layers / "probe_handler.py").write_text(
        "import in_site_packages, pointed_at\n"
        "def handler(event, context):\n"
        "    return [in_site_packages.WHERE, pointed_at.WHERE]\n"
    )
    variables = {"AWS_LAMBDA_RUNTIME_API": own.address}
    with built.running("rpc", handler="probe_handler.handler", variables=variables):
        assert json.loads(own.invoke({}).content) == ["site-packages", "elsewhere"]


def test_another_wrapper_can_be_chained(built: Built, own: RuntimeApi, tmp_path: Path) -> None:
    """As a tracing layer's does, it changes the environment, the handler, and the search path."""
    wrapper = tmp_path / "wrapper"
    (tmp_path / "wrapped.py").write_text(
        "import os\nfrom rpc import handler as inner\n"
        "def handler(event, context):\n    return [os.environ['TRACED'], callable(inner)]\n"
    )
    wrapper.write_text(
        f'#!/bin/sh\nexport TRACED=yes _HANDLER=wrapped.handler PYTHONPATH="{tmp_path}:$PYTHONPATH"\n'
        'exec "$@"\n'
    )
    wrapper.chmod(0o755)
    variables = {"AWS_LAMBDA_RUNTIME_API": own.address, "A2A_NEXT_WRAPPER": str(wrapper)}
    with built.running("rpc", variables=variables):
        assert json.loads(own.invoke({}).content) == ["yes", True]


def test_several_invocations_at_once_are_refused_at_the_start(built: Built, own: RuntimeApi) -> None:
    variables = {"AWS_LAMBDA_RUNTIME_API": own.address, "AWS_LAMBDA_MAX_CONCURRENCY": "8"}
    with built.running("rpc", variables=variables) as process:
        assert process.wait(60) != 0
    assert "one at a time" in own.init_error["errorMessage"]


def test_snapstart(built: Built, own: RuntimeApi) -> None:
    """Before the snapshot nothing is asked of AWS; after it, requests are served, and stream."""
    variables = {
        "AWS_LAMBDA_RUNTIME_API": own.address,
        "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start",
        **PROBE,
    }
    with built.running("rpc", variables=variables) as process:
        assert own.snapshot.wait(60)
        assert own.polls == 0
        assert tcp_connections(process.pid) == 1, "to the Runtime API alone"
        own.restore.set()
        body = request("message/stream", {"message": message("hello", metadata=intent("echo"))})
        invocation = own.invoke(event(body))
        assert invocation.streamed
        assert "hello" in invocation.body.decode()


def tcp_connections(process: int) -> int:
    """Connections of a process, as Linux lists them."""
    links = [str(link.readlink()) for link in Path(f"/proc/{process}/fd").iterdir()]
    lines = Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]
    established = [line.split()[9] for line in lines if line.split()[3] == "01"]
    return sum(f"socket:[{inode}]" in links for inode in established)


def test_restored_containers_do_not_draw_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    import random

    import snapshot_restore_py

    from a2a_lambda.lambda_.observability import prepare
    from tests.lambda_.conftest import logging_kept

    hooks: list[Any] = []
    monkeypatch.setattr(snapshot_restore_py, "register_after_restore", hooks.append)
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "snap-start")
    with logging_kept():
        prepare()
    drawn = set()
    for _ in range(3):
        random.seed("one snapshot")
        for hook in hooks:
            hook()
        drawn.add(random.random())
    assert len(drawn) == 3
