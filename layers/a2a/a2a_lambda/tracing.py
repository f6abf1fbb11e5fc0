"""Spans: when a request, a turn, a step and each call of another service began and ended, by OpenTelemetry.

Every module may open one. While tracing is off, `span` is a comparison, and `opentelemetry` is not imported.
No span has a key, the text of a message, or that of an exception.

Source: https://opentelemetry.io/docs/specs/semconv/ (1.41; its names of HTTP, JSON-RPC, AWS and GenAI)
"""

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from opentelemetry import trace

Attributes = Mapping[str, str | bool | int | float]

NO_ATTRIBUTES: Attributes = MappingProxyType({})

SPAN_NAME_CHARACTERS = 128
"""Maximum length of a span's name. A span of a call to another agent has that agent's name in it, which may
have any length."""

SAMPLED = 0x01
"""The flag of a traceparent that asks for a trace to be recorded."""

SpanKind = Literal["internal", "server", "client"]

ATTRIBUTE_NAMES = {
    "owner": "a2a.owner",
    "agent": "gen_ai.agent.name",
    "version": "a2a.version",
    "task_id": "a2a.task.id",
    "context_id": "gen_ai.conversation.id",
    "function_request_id": "faas.invocation_id",
    "cold_start": "faas.coldstart",
}
"""Attributes of spans, by the ids of `telemetry`."""

X_RAY_VARIABLE = "_X_AMZN_TRACE_ID"
"""Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html"""

_tracer: "trace.Tracer | None" = None


class Span:
    """A span that has begun; while tracing is off, nothing. Its methods raise nothing, whatever a span
    processor does that an agent or a layer has added."""

    def __init__(self, span: "trace.Span | None" = None) -> None:
        self._span = span

    def set(self, attributes: Attributes, *, name: str = "") -> None:
        """Add attributes. A name replaces the one with which the span began."""
        if self._span is not None:
            with suppress(Exception):
                self._span.set_attributes(attributes)
                if name:
                    self._span.update_name(name[:SPAN_NAME_CHARACTERS])

    def fail(self, error_type: str) -> None:
        """Mark the span's operation as failed. error_type: a name or a number, never an error's text."""
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            with suppress(Exception):
                self._span.set_attribute("error.type", error_type)
                self._span.set_status(Status(StatusCode.ERROR))

    def set_status(self, status: int, *, min_failure: int = 400) -> None:
        """Set the HTTP status of the answer."""
        self.set({"http.response.status_code": status})
        if status >= min_failure:
            self.fail(str(status))

    def headers(self) -> dict[str, str]:
        """Headers that make another system's spans children of this one (W3C Trace Context)."""
        if self._span is None:
            return {}
        from opentelemetry import trace

        return _headers(trace.set_span_in_context(self._span))


_NONE = Span()

_OFF = nullcontext(_NONE)


def start(provider: "trace.TracerProvider | None" = None) -> None:
    """Switch tracing on. provider: takes the spans; None = the one that a layer or the process has set."""
    global _tracer  # noqa: PLW0603
    from opentelemetry import trace

    if provider is not None:
        trace.set_tracer_provider(provider)  # also of the agents' own spans
    _tracer = trace.get_tracer("a2a_lambda", tracer_provider=provider)


def stop() -> None:
    global _tracer  # noqa: PLW0603
    _tracer = None


def span(
    name: str,
    attributes: Attributes = NO_ATTRIBUTES,
    *,
    kind: SpanKind = "internal",
    parent: Mapping[str, str] | None = None,
    is_current: bool = True,
) -> AbstractContextManager[Span]:
    """A span from here to the end of the `with` block. It fails with the exception that leaves the block.

    parent: headers of a caller in another process; None, or headers without a trace = the current span is the
    parent. is_current: spans that begin meanwhile are its children. A generator must not say so, because its
    caller runs between its steps.
    """
    if _tracer is None:
        return _OFF
    from opentelemetry import trace
    from opentelemetry.context import get_current
    from opentelemetry.propagate import extract

    context = None
    if parent is not None:
        # By the process's propagators: W3C Trace Context's, unless a layer has set others. AWS's layer reads
        # X-Ray's header, which Lambda keeps in a variable for each invocation.
        segment = os.environ.get(X_RAY_VARIABLE)
        carrier = {"X-Amzn-Trace-Id": segment, **parent} if segment else parent
        context = extract(carrier, get_current())
    with suppress(Exception):
        otel_span = _tracer.start_span(
            name[:SPAN_NAME_CHARACTERS], context, trace.SpanKind[kind.upper()], attributes
        )
        return _open_span(otel_span, is_current=is_current)
    return _OFF


def http_span(
    url: str,
    attributes: Attributes = NO_ATTRIBUTES,
    *,
    name: str = "",
    parent: Mapping[str, str] | None = None,
    is_current: bool = True,
) -> AbstractContextManager[Span]:
    """A span of a POST to another server. It names the host of the URL alone, because the rest may be a
    secret. Without a name, the method names it; `span` explains parent and is_current.
    """
    if _tracer is None:
        return _OFF
    address: dict[str, str | int] = {"http.request.method": "POST"}
    with suppress(ValueError):  # the caller refuses such a URL by itself
        parts = urlsplit(url)
        address["server.address"] = parts.hostname or ""
        address["server.port"] = parts.port or (443 if parts.scheme == "https" else 80)
    all_attributes = {**address, **attributes}
    return span(name or "POST", all_attributes, kind="client", parent=parent, is_current=is_current)


def aws_span(
    service: str, operation: str, attributes: Attributes = NO_ATTRIBUTES
) -> AbstractContextManager[Span]:
    """A span of a call to AWS, only within another span, because it would say nothing on its own."""
    if _tracer is None or not ids():
        return _OFF
    call_attributes = {"rpc.system.name": "aws-api", "rpc.method": f"{service}/{operation}"}
    return span(f"{service}.{operation}", {**call_attributes, **attributes}, kind="client")


def limit_share(carrier: Mapping[str, str], share: float) -> Mapping[str, str]:
    """The headers of a caller. If they ask that its trace be recorded, they still do in the given share of
    cases, from 0 to 1. Its trace id decides nothing, because the caller chooses it."""
    # version-trace-parent-flags, and later versions may add fields (https://www.w3.org/TR/trace-context-2/).
    fields = carrier.get("traceparent", "").split("-")
    try:
        flags = int(fields[3], 16)
    except (IndexError, ValueError):
        return carrier
    if not flags & SAMPLED or random.random() < share:  # noqa: S311  # no secret
        return carrier
    fields[3] = f"{flags & ~SAMPLED:02x}"
    return {**carrier, "traceparent": "-".join(fields)}


def current() -> Span:
    if _tracer is None:
        return _NONE
    from opentelemetry import trace

    return Span(trace.get_current_span())


def headers() -> dict[str, str]:
    """Headers that make another system's spans children of the current one."""
    return {} if _tracer is None else _headers(None)


def ids() -> dict[str, str]:
    """Ids of the current span, for log lines, as OpenTelemetry names them there."""
    if _tracer is None:
        return {}
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {
        "trace_id": trace.format_trace_id(context.trace_id),
        "span_id": trace.format_span_id(context.span_id),
    }


def attributes_of(ids: Mapping[str, str | bool]) -> dict[str, str | bool]:
    """Attributes of a span, from the ids of `telemetry`."""
    return {ATTRIBUTE_NAMES[name]: value for name, value in ids.items() if name in ATTRIBUTE_NAMES}


@contextmanager
def _open_span(otel_span: "trace.Span", *, is_current: bool) -> Iterator[Span]:
    """A span that ends with a `with` block."""
    from opentelemetry import trace

    span = Span(otel_span)
    try:
        if not is_current:
            yield span
            return
        with trace.use_span(otel_span, record_exception=False, set_status_on_exception=False):
            yield span
    except Exception as error:  # neither a cancellation nor a generator that is closed is a failure
        kind = type(error).__name__
        # An error of AWS names itself here. Others have other things there, or raise.
        with suppress(Exception):
            kind = str(error.response["Error"]["Code"])  # type: ignore[attr-defined]
        span.fail(kind)
        raise
    finally:
        with suppress(Exception):
            otel_span.end()


def _headers(context: Any) -> dict[str, str]:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, context)
    return carrier
