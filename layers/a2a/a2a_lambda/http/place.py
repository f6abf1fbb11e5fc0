"""Where the application stands, as API Gateway says it; no header a client can set has a say."""

import time
from typing import Any

from fastapi import Request

MARGIN = 2.0
"""Seconds before Lambda's own deadline at which an answer must be out."""


def base_url(request: Request) -> str:
    """Url of the deployment's root, without a slash at the end.

    The setting's; else the domain and stage of the event's requestContext
    (https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-mapping-template-reference.html).
    """
    configured: str = request.app.state.kit.settings.base_url
    if configured:
        return configured.rstrip("/")
    event: dict[str, Any] = request.scope.get("aws.event", {})
    context = event.get("requestContext") or {}
    domain = context.get("domainName", "localhost")
    path, whole = event.get("path") or "", context.get("path") or ""
    stage = whole[: -len(path)] if path and whole.endswith(path) else ""
    return f"https://{domain}{stage}".rstrip("/")


def deadline(request: Request) -> float | None:
    """When an answer must be out, on `time.monotonic`; None outside Lambda."""
    context = request.scope.get("aws.context")
    if context is None:
        return None
    remaining: float = context.get_remaining_time_in_millis() / 1000
    return time.monotonic() + remaining - MARGIN


def version(request: Request) -> str:
    """Protocol version a request asks for, in its header or its query; "" where it asks for none.

    Source: https://a2a-protocol.org/v1.0.0/specification, section 3.6.1.
    """
    asked: str = request.headers.get("a2a-version") or request.query_params.get("A2A-Version") or ""
    return asked.strip()
