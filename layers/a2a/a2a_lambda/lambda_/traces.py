"""Spans of a function, sent to an OTLP endpoint, by OpenTelemetry's SDK. TracingLayer has it.

    tracing.span ── batch ──┬─ every five seconds ── POST <endpoint>/v1/traces
                            └─ before an invocation ends, because Lambda then freezes the process

Without an endpoint, spans go to the provider that another layer has set, such as AWS's of OpenTelemetry. This
is imported only if tracing is on.
Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import unquote

from opentelemetry import trace

from a2a_lambda import tracing
from a2a_lambda.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

OTLP_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""Name of a header (RFC 9110 section 5.1)."""

OTLP_HEADER_VALUE = re.compile(r"[ -~\xa0-\xff]*")
"""Value of a header, as `requests` encodes it (RFC 9110 section 5.5)."""

HEADERS_PARAMETER = "secrets/otlp-headers"
"""Parameter of the stack with the endpoint's headers, as `name=value,name=value`: `make secret` sets it."""

SPAN_FLUSH_SECONDS = 2.0
"""Maximum seconds by which the spans make an invocation longer."""

FLUSH_COOLDOWN_SECONDS = 30.0
"""Seconds after a flush that took longer, or failed, in which no invocation waits for one."""

ATTRIBUTE_CHARACTERS = 256

logger = logging.getLogger(__name__)


class Flush:
    """Sends the spans that have ended, in a thread of its own, and waits for SPAN_FLUSH_SECONDS at most. What
    is not sent by then is sent when the process runs again."""

    def __init__(self, send: Callable[[], object]) -> None:
        self._send = send
        self._thread = Thread()
        self._patient_at = 0.0
        self._is_waited_for = False

    def __call__(self) -> None:
        if not self._thread.is_alive():
            self._thread = Thread(target=self._send, name="spans", daemon=True)
            self._thread.start()
        if time.monotonic() < self._patient_at:
            return
        self._is_waited_for = True
        self._thread.join(SPAN_FLUSH_SECONDS)
        if self._thread.is_alive():
            self.cool_down()
        self._is_waited_for = False

    def cool_down(self) -> None:
        """Make no invocation wait for a while: the endpoint is slow, or takes no spans. What fails while none
        waits says nothing of the endpoint, because Lambda may have frozen the process meanwhile."""
        if self._is_waited_for:
            self._patient_at = time.monotonic() + FLUSH_COOLDOWN_SECONDS


def install(settings: Settings) -> Callable[[], object]:
    """Switch tracing on; returns what sends the spans that have ended."""
    if not settings.otlp_endpoint:
        tracing.start()
        # A layer's provider has it; the one that OpenTelemetry has without any does not.
        flush = getattr(trace.get_tracer_provider(), "force_flush", None)
        return Flush(flush) if flush else lambda: None
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    attributes = {
        "service.name": settings.service,
        "cloud.provider": "aws",
        "cloud.platform": "aws_lambda",
        "cloud.region": os.environ.get("AWS_REGION", ""),
        "faas.name": os.environ.get("AWS_LAMBDA_FUNCTION_NAME", ""),
        "faas.version": os.environ.get("AWS_LAMBDA_FUNCTION_VERSION", ""),
        "faas.instance": os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", ""),
    }
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(settings.trace_share)),
        resource=Resource.create({name: value for name, value in attributes.items() if value}),
        span_limits=SpanLimits(max_attribute_length=ATTRIBUTE_CHARACTERS),
    )
    flush = Flush(provider.force_flush)
    provider.add_span_processor(BatchSpanProcessor(_exporter(settings, flush.cool_down)))
    tracing.start(provider)
    return flush


def _exporter(settings: Settings, on_failure: Callable[[], None]) -> "SpanExporter":
    """Sends spans to the settings' endpoint. on_failure: called after spans were not taken."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    from a2a_lambda.aws.parameters import get_parameter  # it imports boto3

    class Exporter(SpanExporter):
        """Reads the headers when it has something to send: an import calls no service, and a header may
        change. They are kept for five minutes."""

        _headers_text: str | None = None
        _exporter: OTLPSpanExporter

        def export(self, spans: "Sequence[ReadableSpan]") -> SpanExportResult:
            result = SpanExportResult.FAILURE
            try:
                result = self._send(spans)
            finally:
                if result is not SpanExportResult.SUCCESS:
                    on_failure()
            return result

        def _send(self, spans: "Sequence[ReadableSpan]") -> SpanExportResult:
            stack, _, _ = settings.keys_path.rpartition("/")
            text = get_parameter(f"{stack}/{HEADERS_PARAMETER}") or ""
            if text != self._headers_text:
                url = f"{settings.otlp_endpoint.rstrip('/')}/v1/traces"
                headers = parse_headers(text)
                self._exporter = OTLPSpanExporter(url, headers=headers, timeout=SPAN_FLUSH_SECONDS)
                self._headers_text = text
            return self._exporter.export(spans)

    return Exporter()


def parse_headers(text: str) -> dict[str, str]:
    """Headers as OTEL_EXPORTER_OTLP_HEADERS has them: `name=value`, percent-encoded, separated by commas.
    A header of another form is left out. The log gives its place, but not its text, which may be a key.

    Source: https://opentelemetry.io/docs/specs/otel/protocol/exporter/#specifying-headers-via-environment-variables
    """
    headers: dict[str, str] = {}
    for place, pair in enumerate(filter(str.strip, text.split(",")), start=1):
        name, separator, value = (unquote(word).strip() for word in pair.partition("="))
        if separator and OTLP_HEADER_NAME.fullmatch(name) and OTLP_HEADER_VALUE.fullmatch(value):
            headers[name.lower()] = value
        else:
            logger.warning(
                "%s: header %d is left out: write name=value, percent-encoded, in characters of Latin-1",
                HEADERS_PARAMETER,
                place,
            )
    return headers
