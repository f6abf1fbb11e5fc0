"""Spans of a function: they reach an OTLP endpoint before the invocation ends, or a layer's provider."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from a2a_lambda.lambda_.traces import parse_headers
from tests.conftest import ROOT
from tests.helpers.clock import PATIENCE_SECONDS
from tests.lambda_.observability.collector import Collector

CALLER = "4bf92f3577b34da6a3ce929d0e0e4736"


FLUSH_SECONDS = 5.0


CODE = """
import json, sys
from a2a_lambda import telemetry, tracing
from a2a_lambda.aws import parameters
from a2a_lambda.lambda_ import json_logs
from a2a_lambda.lambda_.observability import Observed
from a2a_lambda.settings import Settings
parameters.get_parameter = lambda name: {"/a2a/s/secrets/otlp-headers": "x-team=my%20team"}.get(name)
settings = Settings(**json.loads(sys.argv[1]), keys_path="/a2a/s/keys", service="s")
json_logs.install("s", "INFO", debug=False)
def handler(event, context):
    import logging
    for carrier in json.loads(sys.argv[2]):
        with tracing.span("work", parent=carrier):
            telemetry.bind(task_id="t-1")
            logging.getLogger("agent").info("working")
class Context:
    aws_request_id = "r-1"
    function_name = "function"
observed = Observed(handler, settings)
import os, time
send, waits = observed._send_spans, []
def time_send():
    began = time.monotonic()
    send()
    waits.append(time.monotonic() - began)
observed._send_spans = time_send
observed({}, Context())
observed({}, Context())
said = {"waited": waits[0], "waited again": waits[1], "loaded": sorted(sys.modules)}
sys.stdout.write(json.dumps(said) + "\\n")  # at once: another thread may log
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("", {}),
        ("Authorization=Bearer%20sk-1", {"authorization": "Bearer sk-1"}),
        (" x-team = my%20team ,x-key=a=b", {"x-team": "my team", "x-key": "a=b"}),
        ("x-empty=,x-name=caf%C3%A9", {"x-empty": "", "x-name": "caf\xe9"}),
    ],
)
def test_headers_are_read_as_opentelemetry_writes_them(
    caplog: pytest.LogCaptureFixture, text: str, headers: dict[str, str]
) -> None:
    assert parse_headers(text) == headers
    assert not caplog.records


@pytest.mark.parametrize(
    ("text", "headers", "place"),
    [
        ("Authorization: Bearer sk-secret", {}, 1),
        ("sk-secret", {}, 1),
        ("x-key=sk-secret\nx-other=1", {}, 1),
        ("x-key=abc,x-name=sk-secret%E2%82%AC", {"x-key": "abc"}, 2),
    ],
)
def test_a_header_of_another_form_is_not_quoted_in_the_log(
    caplog: pytest.LogCaptureFixture, text: str, headers: dict[str, str], place: int
) -> None:
    assert parse_headers(text) == headers
    [line] = caplog.messages
    assert f"header {place} is left out: write name=value" in line
    assert "sk-secret" not in line


Collect = Callable[..., Collector]


@pytest.fixture
def collect() -> Iterator[Collect]:
    collectors: list[Collector] = []

    def collector(*args: Any, **options: Any) -> Collector:
        collectors.append(Collector(*args, **options))
        return collectors[-1]

    yield collector
    for each in collectors:
        each.close()


def invoke(settings: Any, *carriers: Any, code: str = CODE) -> tuple[list[Any], Any]:
    """Log lines of an invocation, and what it says of itself."""
    result = subprocess.run(
        [sys.executable, "-c", code, json.dumps(settings), json.dumps(carriers or [{}])],
        cwd=ROOT,
        env={**os.environ, "AWS_LAMBDA_FUNCTION_NAME": "f", "AWS_REGION": "eu-central-1"},
        capture_output=True,
        text=True,
        check=True,
    )
    *lines, last = map(json.loads, result.stdout.splitlines())
    return lines, last


def carrier(*, sampled: bool = True) -> Any:
    return {"traceparent": f"00-{CALLER}-00f067aa0ba902b7-0{int(sampled)}"}


def test_spans_are_sent_before_the_invocation_ends(collect: Collect) -> None:
    collector = collect()
    lines, _ = invoke({"tracing": True, "otlp_endpoint": collector.url + "/"}, carrier())
    assert collector.traces() == [(CALLER, "work")] * 2
    (headers, body), _ = collector.posts
    assert (headers["path"], headers["x-team"]) == ("/v1/traces", "my team")
    [resource] = ExportTraceServiceRequest.FromString(body).resource_spans
    attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert (attributes["service.name"], attributes["faas.name"], attributes["cloud.region"]) == (
        "s",
        "f",
        "eu-central-1",
    )
    line, _ = [line for line in lines if line.get("message") == "working"]
    assert (line["trace_id"], line["task_id"]) == (CALLER, "t-1")
    assert len(line["span_id"]) == 16


@pytest.mark.parametrize(
    "options", [{"status": 500}, {"status": 503}, {"pause_seconds": 2 * PATIENCE_SECONDS}]
)
def test_an_endpoint_that_does_not_take_them_harms_no_invocation(collect: Collect, options: Any) -> None:
    collector = collect(**options)
    many: list[Any] = [{}] * 2_000  # several batches
    # A busy machine needs longer than two seconds.
    longer = f"from a2a_lambda.lambda_ import traces; traces.SPAN_FLUSH_SECONDS = {FLUSH_SECONDS}"
    _, lines = invoke({"tracing": True, "otlp_endpoint": collector.url}, *many, code=longer + CODE)
    assert collector.posts
    assert lines["waited"] < 2 * FLUSH_SECONDS, "all batches together take longer"
    assert lines["waited again"] < FLUSH_SECONDS, "it is not waited for again at once"
    if options.get("status") == 503:  # which takes a second, because it is tried again
        assert lines["waited again"] < lines["waited"] / 2


def test_the_share_of_traces_that_is_set_is_recorded(collect: Collect) -> None:
    collector = collect()
    invoke({"tracing": True, "otlp_endpoint": collector.url, "trace_share": 0}, {})
    assert not collector.posts


def test_a_caller_may_leave_its_trace_out(collect: Collect) -> None:
    collector = collect()
    invoke({"tracing": True, "otlp_endpoint": collector.url}, carrier(sampled=False))
    assert not collector.posts


def test_spans_go_to_the_provider_that_a_layer_has_set() -> None:
    """AWS's layer sets it before the handler is imported."""
    layer = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
provider = TracerProvider()
one_line = lambda span: span.to_json(indent=None) + "\\n"
provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(formatter=one_line)))
trace.set_tracer_provider(provider)
"""
    lines, _ = invoke({"tracing": True}, code=layer + CODE)
    assert [line["name"] for line in lines if "name" in line] == ["work", "work"]


def test_without_a_layer_nothing_happens_and_off_nothing_is_imported() -> None:
    _, lines = invoke({"tracing": True})
    assert "opentelemetry.sdk" not in lines["loaded"]
    _, lines = invoke({})
    assert not [name for name in lines["loaded"] if name.startswith("opentelemetry")]
