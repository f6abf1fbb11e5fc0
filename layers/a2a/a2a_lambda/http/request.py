"""Where the application stands, as API Gateway says it; no header a client can set has a say."""

import time
from typing import Any

from fastapi import Request

LIMIT = 900.0
"""Seconds an invocation of Lambda may take.
Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-timeout.html"""

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


def deadline(request: Request) -> float:
    """When an answer must be out, on `time.monotonic`. A server elsewhere has Lambda's own limit: what runs
    there has to run on Lambda, too, and an agent that never ends has to end."""
    context = request.scope.get("aws.context")
    remaining: float = LIMIT if context is None else context.get_remaining_time_in_millis() / 1000
    return time.monotonic() + remaining - MARGIN


def version(request: Request) -> str:
    """Protocol version a request asks for, in its header or its query; "" where it asks for none.

    Source: https://a2a-protocol.org/v1.0.0/specification, section 3.6.1.
    """
    asked: str = request.headers.get("a2a-version") or request.query_params.get("A2A-Version") or ""
    return asked.strip()
