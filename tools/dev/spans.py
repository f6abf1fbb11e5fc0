"""A turn's spans, in the log of the playground: what took how long, and within what.

make run OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 also sends them there, such as to Jaeger.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from a2a_lambda import tracing
from tools.dev.log_lines import LogLines
from tools.log_entry import LogEntry

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""OpenTelemetry's own variable. The exporter reads it, and the others of its kind."""

TURN = "invoke_agent"

MAX_TREES = 1000
"""Outermost spans whose inner ones are kept until they end."""


class TurnSpans(SpanProcessor):
    """Adds an entry to the log when the outermost span around a turn has ended: one without a parent in this
    process."""

    def __init__(self, log: LogLines) -> None:
        self._log = log
        self._ended: OrderedDict[int, list[ReadableSpan]] = OrderedDict()  # by the id of the outermost span
        self._outermost: dict[int, int] = {}  # of each span that has not ended
        self._lock = threading.Lock()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        own = span.get_span_context().span_id
        with self._lock:
            parent = None if span.parent is None or span.parent.is_remote else span.parent.span_id
            self._outermost[own] = self._outermost.get(parent, parent) if parent else own

    def on_end(self, span: ReadableSpan) -> None:
        own = span.context.span_id
        with self._lock:
            outermost = self._outermost.pop(own, own)
            self._ended.setdefault(outermost, []).append(span)
            while len(self._ended) > MAX_TREES:
                self._ended.popitem(last=False)
            spans = self._ended.pop(own, [])
        turns = [
            turn for turn in spans if turn.name.startswith(TURN) and "a2a.task.id" in (turn.attributes or {})
        ]
        if turns:
            self._log.add(entry_of(span, spans, turns[0]))


def entry_of(outermost: ReadableSpan, spans: Sequence[ReadableSpan], turn: ReadableSpan) -> LogEntry:
    attributes = turn.attributes or {}
    return LogEntry(
        at=(outermost.end_time or 0) // 1_000_000,
        level="INFO",
        logger="a2a_lambda.spans",
        message=f"{outermost.name} took {_milliseconds(outermost)} ms",
        agent=str(attributes.get("gen_ai.agent.name", "")),
        task=str(attributes["a2a.task.id"]),
        spans="\n".join(_rows(outermost, _children_of(spans))),
    )


def _children_of(spans: Sequence[ReadableSpan]) -> Mapping[int, Sequence[ReadableSpan]]:
    """The spans below each, by its id, in the order in which they began."""
    children: dict[int, list[ReadableSpan]] = {}
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        if span.parent is not None:
            children.setdefault(span.parent.span_id, []).append(span)
    return children


def _rows(
    span: ReadableSpan, children: Mapping[int, Sequence[ReadableSpan]], depth: int = 0
) -> Iterator[str]:
    """A line for a span, and one for each below it, in the order in which they began."""
    failure = "" if span.status.is_unset else f"  {(span.attributes or {}).get('error.type', 'failed')}"
    yield f"{_milliseconds(span):>8} ms  {'  ' * depth}{span.name}{failure}"
    for child in children.get(span.context.span_id, ()):
        yield from _rows(child, children, depth + 1)


def _milliseconds(span: ReadableSpan) -> str:
    return f"{((span.end_time or 0) - (span.start_time or 0)) / 1e6:.1f}"


def start(log: LogLines) -> None:
    """Switch tracing on for this process."""
    provider = TracerProvider(resource=Resource.create({"service.name": "make run"}))
    provider.add_span_processor(TurnSpans(log))
    if os.environ.get(ENDPOINT):
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracing.start(provider)
