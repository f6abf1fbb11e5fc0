"""Spans: what was called within what, across processes too; and nothing that a client wrote."""

import asyncio
import json
import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import propagate
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import default_getter
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.testclient import TestClient

from a2a_lambda import telemetry, tracing
from a2a_lambda.aws import clients
from a2a_lambda.client import Client
from a2a_lambda.errors import StoreError
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.operations.messages import Messages
from a2a_lambda.protocol.model import TaskState
from a2a_lambda.settings import Settings
from tests.background.durable_bench import DurableBench
from tests.background.worker_bench import WorkerBench
from tests.client.served import CARDS, Served
from tests.conftest import BASE_URL, new_key
from tests.helpers.rest import Rest
from tests.helpers.rpc import Rpc, intent, message
from tests.push.courier import Courier, Webhook
from tools.dev import event_sources

TEXT = "what the client said in confidence"

CALLER = {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "span_id": "00f067aa0ba902b7"}

TRACEPARENT = f"00-{CALLER['trace_id']}-{CALLER['span_id']}-01"


class Spans:
    """Spans that have ended, in the order in which they began."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def all(self) -> list[ReadableSpan]:
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> ReadableSpan:
        [only_span] = [span for span in self.all() if span.name == name]
        return only_span

    def names(self) -> list[str]:
        return [span.name for span in self.all()]

    def below(self, parent: ReadableSpan) -> set[str]:
        return {span.name for span in self.all() if parent_of(span) == ids_of(parent)[1]}


@pytest.fixture
def spans() -> Iterator[Spans]:
    span_recorder = Spans()
    tracing.start(span_recorder.provider)
    yield span_recorder
    tracing.stop()


@pytest.fixture
def traced(settings: Settings) -> Kit:
    return Kit(settings.model_copy(update={"tracing": True}))


@pytest.fixture
def rpc(traced: Kit) -> Rpc:
    return Rpc(TestClient(create_app(traced), base_url=BASE_URL), new_key(traced), "/a2a/probe")


def ids_of(span: ReadableSpan) -> tuple[str, str]:
    return format_trace_id(span.context.trace_id), format_span_id(span.context.span_id)


def parent_of(span: ReadableSpan) -> str:
    return "" if span.parent is None else format_span_id(span.parent.span_id)


def test_a_method_that_a_client_makes_up_names_no_span(rpc: Rpc, spans: Spans) -> None:
    rpc.client.request(TEXT.replace(" ", "-"), "/a2a/probe")
    assert (spans.named("HTTP").attributes or {})["http.request.method"] == "_OTHER"


def test_a_request_continues_its_callers_trace(rpc: Rpc, spans: Spans) -> None:
    rpc.client.headers["traceparent"] = TRACEPARENT
    task = rpc.call("message/send", {"message": message(text=TEXT)})
    request = spans.named("POST message/send")
    assert request.kind == SpanKind.SERVER
    assert ids_of(request)[0] == CALLER["trace_id"]
    assert parent_of(request) == CALLER["span_id"]
    attributes = request.attributes or {}
    assert attributes["http.response.status_code"] == 200
    assert attributes["url.path"] == "/a2a/probe"
    assert attributes["server.address"]
    assert {"invoke_agent probe", "DynamoDB.PutItem"} <= spans.below(request)
    turn = spans.named("invoke_agent probe")
    attributes = turn.attributes or {}
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    assert attributes["gen_ai.agent.name"] == "probe"
    assert attributes["a2a.task.id"] == task["id"]
    assert attributes["gen_ai.conversation.id"] == task["contextId"]
    assert (attributes["a2a.skill"], attributes["a2a.task.state"]) == ("echo", "TASK_STATE_COMPLETED")
    writes = [span for span in spans.all() if span.name == "DynamoDB.PutItem"]
    assert {span.kind for span in writes} == {SpanKind.CLIENT}
    assert {ids_of(span)[0] for span in spans.all()} == {CALLER["trace_id"]}


def test_a_request_is_named_after_its_operation(rpc: Rpc, spans: Spans) -> None:
    headers = {"X-API-Key": rpc.key, "Host": "agents.example.com:8443"}
    rpc.client.get("/a2a/probe/tasks/unknown", headers={**headers, "A2A-Version": "1.0"})
    attributes = spans.named("GET tasks/{id}").attributes or {}
    assert (attributes["rpc.method"], attributes["server.address"]) == ("tasks/{id}", "agents.example.com")
    call = {"jsonrpc": "2.0", "id": 1, "method": TEXT}
    answer = rpc.client.post("/mcp/probe", json=call, headers=headers)
    assert answer.json()["error"]["code"] == -32601
    assert TEXT not in "".join(spans.names()), "what a client makes up names no span"


@pytest.mark.parametrize(
    ("cause", "name"), [(RuntimeError("a bug"), "InternalError"), (StoreError("no answer"), "503")]
)
def test_a_fault_fails_the_span_of_its_request_and_is_counted(
    rpc: Rpc, spans: Spans, monkeypatch: pytest.MonkeyPatch, cause: Exception, name: str
) -> None:
    """JSON-RPC may send it with status 200."""
    measures: list[Any] = []

    async def send(*_: Any) -> Any:
        raise cause

    monkeypatch.setattr(Messages, "send", send)
    monkeypatch.setattr(telemetry, "sink", lambda values, _: measures.append(values))
    rpc.error("message/send", {"message": message()})
    assert measures.count({"Faults": 1}) == 1
    request = spans.named("POST message/send")
    assert (request.attributes or {})["error.type"] == name
    assert request.status.status_code == StatusCode.ERROR


def test_no_span_has_what_a_client_said_or_a_key(rpc: Rpc, spans: Spans) -> None:
    rpc.call("message/send", {"message": message(text=TEXT, metadata=intent("boom"))})
    content = json.dumps([json.loads(span.to_json()) for span in spans.all()])
    assert TEXT not in content
    assert "secret detail" not in content
    assert rpc.key not in content
    turn = spans.named("invoke_agent probe")
    assert turn.status.status_code == StatusCode.ERROR
    assert not turn.events


def test_a_caller_without_a_trace_leaves_the_current_one(spans: Spans) -> None:
    """With the layer of another tracer, there is one around the handler."""
    with tracing.span("handler"), tracing.span("request", parent={}):
        pass
    assert spans.below(spans.named("handler")) == {"request"}


@pytest.mark.parametrize("carrier", [{}, {"traceparent": TRACEPARENT}])
def test_with_the_propagators_of_a_layer_a_request_joins_lambdas_own_trace(
    spans: Spans, monkeypatch: pytest.MonkeyPatch, carrier: dict[str, str]
) -> None:
    """AWS's layer sets two: X-Ray's, and W3C's, which counts more."""

    class XRay(TraceContextTextMapPropagator):
        def extract(self, carrier: Any, context: Any = None, getter: Any = default_getter) -> Any:
            return super().extract({"traceparent": carrier.get("X-Amzn-Trace-Id", "")}, context)

    both = CompositePropagator([XRay(), TraceContextTextMapPropagator()])
    monkeypatch.setattr(propagate, "get_global_textmap", lambda: both)
    monkeypatch.setenv("_X_AMZN_TRACE_ID", f"00-{'a' * 32}-{'b' * 16}-01")
    with tracing.span("request", parent=carrier):
        pass
    assert ids_of(spans.named("request"))[0] == (CALLER["trace_id"] if carrier else "a" * 32)


@pytest.mark.parametrize("url", ["https://h:99999/", "http://[::1", ""])
def test_a_url_that_is_none_is_no_error_of_tracing(spans: Spans, url: str) -> None:
    with tracing.http_span(url):
        pass
    assert spans.names() == ["POST"]


@pytest.mark.parametrize("response", [None, "text", {"Error": {"Code": "Throttled"}}, {"Error": None}])
def test_what_fails_within_a_span_fails_as_without(spans: Spans, response: Any) -> None:
    """Errors of other libraries have a `response` of another kind than botocore's."""
    error = RuntimeError("boom")
    error.response = response  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="boom"), tracing.span("work"):
        raise error
    failure = (spans.named("work").attributes or {})["error.type"]
    assert failure == ("Throttled" if response == {"Error": {"Code": "Throttled"}} else "RuntimeError")


def test_a_cancellation_is_no_failure(spans: Spans) -> None:
    with pytest.raises(asyncio.CancelledError), tracing.span("work"):
        raise asyncio.CancelledError
    assert spans.named("work").status.is_unset


@pytest.mark.parametrize("place", ["on_start", "on_end"])
def test_a_span_processor_that_fails_stops_no_turn(spans: Spans, rpc: Rpc, place: str) -> None:
    """An agent, or a layer, may have added it."""

    class Failing(SpanProcessor):
        pass

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the processor fails")

    setattr(Failing, place, fail)
    spans.provider.add_span_processor(Failing())
    assert rpc.call("message/send", {"message": message(text="hi")})["status"]["state"] == "completed"


def test_a_callers_wish_to_be_recorded_counts_for_our_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its trace id decides nothing: the caller chooses it."""
    wish = {"traceparent": TRACEPARENT, "tracestate": "a=b"}
    assert tracing.limit_share(wish, 1) == wish
    assert tracing.limit_share(wish, 0) == {**wish, "traceparent": f"{TRACEPARENT[:-2]}00"}
    for luck, flag in ((0.29, "01"), (0.31, "00")):
        monkeypatch.setattr(random, "random", lambda luck=luck: luck)
        assert tracing.limit_share(wish, 0.3)["traceparent"][-2:] == flag
    for flags, flags_sent in (
        ("03", "02"),
        ("ff", "fe"),
        ("01-later", "00-later"),
        ("02", "02"),
        ("x1", "x1"),
    ):
        parent = TRACEPARENT[:-2] + flags
        assert tracing.limit_share({"traceparent": parent}, 0)["traceparent"] == TRACEPARENT[:-2] + flags_sent
    assert tracing.limit_share({"traceparent": "broken"}, 0) == {"traceparent": "broken"}


def test_a_callback_shows_no_token(rpc: Rpc, spans: Spans) -> None:
    """Whoever knows the token can end the wait in place of the other system."""
    rpc.client.post("/callbacks/t0ken", json={})
    [request] = [span for span in spans.all() if span.kind == SpanKind.SERVER]
    assert "t0ken" not in request.to_json()


def test_a_background_turn_is_in_the_trace_of_its_request(settings: Settings, spans: Spans) -> None:
    bench = WorkerBench(settings)
    with tracing.span("request") as request:
        assert request.headers()
        bench.send("echo")
    assert bench.work() == 1
    assert ids_of(spans.named("invoke_agent probe"))[0] == ids_of(spans.named("request"))[0]
    assert spans.below(spans.named("request")) >= {"invoke_agent probe"}


def test_a_webhook_gets_the_trace_of_the_turn(settings: Settings, spans: Spans) -> None:
    queues = event_sources.create_queues(clients.sqs(settings), f"notices-{uuid.uuid4().hex[:8]}")
    changes = {"tracing": True, "notices": queues.notices, "loopback_webhooks": True}
    kit = Kit(settings.model_copy(update=changes))
    rest = Rest(TestClient(create_app(kit), base_url=BASE_URL), new_key(kit))
    webhook, courier = Webhook(), Courier(kit)
    try:
        rest.client.headers["traceparent"] = TRACEPARENT
        question = rest.send("question")
        rest.call("POST", f"tasks/{question['id']}/pushNotificationConfigs", {"url": webhook.url + "/s3cret"})
        rest.send("question", taskId=question["id"])
        courier.relay()
        courier.deliver()
    finally:
        webhook.close()
    traces = [headers["traceparent"].split("-") for headers, _, _ in webhook.seen]
    posts = [span for span in spans.all() if span.name == "POST"]
    assert {trace for _, trace, _, _ in traces} == {CALLER["trace_id"]}
    assert [parent for *_, parent, _ in traces] == [ids_of(span)[1] for span in posts]
    assert "s3cret" not in json.dumps([json.loads(span.to_json()) for span in posts])


@pytest.mark.parametrize("method", ["send", "stream"])
def test_a_call_of_another_agent_takes_the_trace_along(traced: Kit, spans: Spans, method: str) -> None:
    server = Served(traced, {**CARDS["1.0"], "name": "Probe"})

    async def call() -> None:
        async with Client(BASE_URL, key=new_key(traced), transport=server) as other:
            with tracing.span("mine"):
                own = tracing.ids()
                if method == "send":
                    await other.send("hi")
                else:
                    async for _ in other.stream("hi"):
                        assert tracing.ids() == own, "what the caller does between events is not in the call"

    asyncio.run(call())
    mine, callee = spans.named("mine"), spans.named("invoke_agent Probe")
    assert parent_of(callee) == ids_of(mine)[1]
    assert callee.kind == SpanKind.CLIENT
    assert (callee.attributes or {})["http.response.status_code"] == 200
    [request] = [span for span in spans.all() if span.kind == SpanKind.SERVER]
    assert parent_of(request) == ids_of(callee)[1]
    trace, _ = ids_of(mine)
    assert server.seen[0].headers["traceparent"].split("-")[1] == trace, "the card is of the same trace"


def test_the_steps_of_a_durable_turn_are_in_the_trace_of_its_request(
    durable_settings: Settings,
    spans: Spans,
) -> None:
    """Each once, although the skill runs again after each pause."""
    bench = DurableBench(durable_settings)
    with tracing.span("request"):
        task = bench.send("Oslo")
    bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    bench.send("yes", taskId=task["id"])
    bench.wait_for(task["id"], TaskState.COMPLETED)
    bench.wait_for_runs(3)
    trace, _ = ids_of(spans.named("request"))
    own = [span for span in spans.all() if ids_of(span)[0] == trace]
    steps = [span.name for span in own if span.name.startswith("step ")]
    assert sorted(steps) == ["step hotel", "step plan", "step table", "step train"]
    runs = [span for span in own if span.name == "invoke_agent traveler"]
    assert len(runs) >= 3
    parents = {parent_of(span) for span in own if span.name.startswith("step ")}
    assert parents <= {ids_of(run)[1] for run in runs}
