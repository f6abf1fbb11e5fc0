"""A turn's spans, in the log of the playground."""

import re

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from a2a_lambda import tracing
from tools.dev.log_lines import LogLines
from tools.dev.spans import MAX_TREES, TurnSpans
from tools.log_entry import LogEntry

TURN = {"a2a.task.id": "t-1", "gen_ai.agent.name": "trip"}


class Kept(LogLines):
    def __init__(self) -> None:
        super().__init__()
        self.entries: list[LogEntry] = []

    def add(self, entry: LogEntry) -> None:
        self.entries.append(entry)


def start() -> Kept:
    spans = Kept()
    provider = TracerProvider()
    provider.add_span_processor(TurnSpans(spans))
    tracing.start(provider)
    return spans


def test_a_turn_is_a_tree() -> None:
    spans = start()
    try:
        with tracing.span("POST message/send"), tracing.span("invoke_agent trip", TURN):
            with tracing.span("step plan") as step:
                step.fail("TimeoutError")
            with tracing.span("step book"):
                pass
    finally:
        tracing.stop()
    [entry] = spans.entries
    assert (entry["agent"], entry["task"]) == ("trip", "t-1")
    assert re.fullmatch(r"POST message/send took \d+\.\d ms", entry["message"])
    assert re.sub(r" *\d+\.\d ms", "", entry["spans"]).splitlines() == [
        "  POST message/send",
        "    invoke_agent trip",
        "      step plan  TimeoutError",
        "      step book",
    ]


def test_a_turn_after_its_request_is_an_entry_of_its_own() -> None:
    """It runs in the background, and its request has ended."""
    spans = start()
    try:
        with tracing.span("POST message/send") as request:
            headers = request.headers()
        with tracing.span("invoke_agent trip", TURN, parent=headers):
            pass
    finally:
        tracing.stop()
    assert [entry["message"].split(" took")[0] for entry in spans.entries] == ["invoke_agent trip"]


def test_an_agent_that_another_calls_here_is_an_entry_of_its_own() -> None:
    """Both have one trace, and the caller's entry keeps what had ended before."""
    spans = start()
    try:
        with tracing.span("POST front"), tracing.span("invoke_agent front", TURN):
            with tracing.span("DynamoDB.PutItem"):
                pass
            with tracing.span("invoke_agent other", kind="client") as call:
                headers = call.headers()
            with tracing.span("POST other", parent=headers), tracing.span("invoke_agent trip", TURN):
                pass
    finally:
        tracing.stop()
    first, second = spans.entries
    assert "POST other" in first["message"]
    assert "DynamoDB.PutItem" in second["spans"]
    assert "invoke_agent other" in second["spans"]


def test_spans_whose_outermost_one_never_ends_are_forgotten() -> None:
    lines = Kept()
    provider = TracerProvider()
    provider.add_span_processor(TurnSpans(lines))
    tracer = provider.get_tracer("tests")
    spans = [tracer.start_span("invoke_agent trip", attributes=TURN) for _ in range(MAX_TREES + 1)]
    for span in spans:
        tracer.start_span("inner", trace.set_span_in_context(span)).end()
    for span in (spans[-1], spans[0]):
        span.end()
    assert ["inner" in entry["spans"] for entry in lines.entries] == [True, False]
