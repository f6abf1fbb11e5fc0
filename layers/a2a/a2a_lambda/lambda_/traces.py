"""Spans of a function, sent to an OTLP endpoint, by OpenTelemetry's SDK. The layer `tracing` has it.

    tracing.span ── batch ──┬─ every five seconds ── POST <endpoint>/v1/traces
                            └─ before an invocation ends, because Lambda then freezes the process

Without an endpoint, spans go to the provider that another layer has set, such as AWS's of OpenTelemetry. This
is imported only if tracing is on.
Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.util.re import parse_env_headers

from a2a_lambda import tracing
from a2a_lambda.aws.parameters import get_parameter
from a2a_lambda.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

HEADERS = "secrets/otlp-headers"
"""Parameter of the stack with the endpoint's headers, as `name=value,name=value`: `make secret` sets it."""

EXPORT_SECONDS = 2.0
"""Seconds in which the endpoint must take the spans. An invocation lasts as much longer."""


def install(settings: Settings) -> Callable[[], object]:
    """Switch tracing on; returns what sends the spans that have ended."""
    if not settings.otlp_endpoint:
        tracing.start()
        # A layer's provider has it; the one that OpenTelemetry has without any does not.
        return getattr(trace.get_tracer_provider(), "force_flush", lambda: None)
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    share = TraceIdRatioBased(settings.trace_share)
    provider = TracerProvider(
        # A caller may leave its trace out. It cannot make us record more than our own share.
        sampler=ParentBased(share, remote_parent_sampled=share),
        resource=Resource.create(_resource(settings)),
    )
    provider.add_span_processor(BatchSpanProcessor(_exporter(settings)))
    tracing.start(provider)
    return provider.force_flush


def _resource(settings: Settings) -> dict[str, str]:
    named = {
        "service.name": settings.service,
        "cloud.provider": "aws",
        "cloud.platform": "aws_lambda",
        "cloud.region": os.environ.get("AWS_REGION", ""),
        "faas.name": os.environ.get("AWS_LAMBDA_FUNCTION_NAME", ""),
        "faas.version": os.environ.get("AWS_LAMBDA_FUNCTION_VERSION", ""),
        "faas.instance": os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", ""),
    }
    return {name: value for name, value in named.items() if value}


def _exporter(settings: Settings) -> "SpanExporter":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Exporter(SpanExporter):
        """Reads the headers when it first has something to send: an import calls no service."""

        _made: OTLPSpanExporter | None = None

        def export(self, spans: "Sequence[ReadableSpan]") -> SpanExportResult:
            if self._made is None:
                stack, _, _ = settings.keys_path.rpartition("/")
                headers = parse_env_headers(get_parameter(f"{stack}/{HEADERS}") or "", liberal=True)
                url = f"{settings.otlp_endpoint.rstrip('/')}/v1/traces"
                self._made = OTLPSpanExporter(url, headers=headers, timeout=EXPORT_SECONDS)
            return self._made.export(spans)

        def shutdown(self) -> None:
            if self._made is not None:
                self._made.shutdown()  # type: ignore[no-untyped-call]

    return Exporter()
