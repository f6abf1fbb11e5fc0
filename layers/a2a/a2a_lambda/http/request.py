"""Facts of a request: its path, its headers, its body, its deadline, and the URL of the deployment.

The URL comes from a setting or from API Gateway. No header that a client can set has a say in it.
"""

import re
import time
from collections.abc import Collection
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request

from a2a_lambda.errors import (
    InvalidParams,
    InvalidRequest,
    MethodNotAllowed,
    RequestTooLarge,
    UnsupportedMediaType,
    excerpt,
)
from a2a_lambda.http.error_responses import JSON
from a2a_lambda.protocol.model import plain_media_type
from a2a_lambda.tasks.event_log import SEQUENCE_DIGITS

INVOCATION_SECONDS = 900.0
"""Seconds that an invocation of Lambda may take.
Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-timeout.html"""

A2A_VERSION = "a2a-version"
"""Name of the header and of the query parameter, in any case (A2A 1.0 section 3.2.6)."""

MAX_IDEMPOTENCY_KEY_CHARACTERS = 255

SLASHES = re.compile("/+")

APPENDED_PATHS = ("", "/stream", "/tasks/send")
"""What clients append to the URL of an agent: Alibaba's suite a path for its streams, and python-a2a one for
its messages."""

AGENT_PATHS = (
    # No agent's name begins with a dot, and none is the first word of an appended path: see `is_agent_name`.
    re.compile(
        r"/(?P<prefix>a2a|mcp|alibaba|v2/a2a|v2)/(?!stream/?$|tasks/)(?P<agent>[^/.][^/]*)(?P<suffix>(?:/.*)?)",
        re.DOTALL,
    ),
    re.compile(r"/(?P<prefix>mcp|alibaba)(?P<suffix>(?:/.*)?)", re.DOTALL),
)
"""Paths below which an agent is called, and those of the default agent that have a prefix, too."""

ANSWER_MARGIN_SECONDS = 2.0
"""Seconds before Lambda's deadline at which an answer must be out."""


class Target(NamedTuple):
    """What a path names.

    prefix: the first segments of an agent's path, which tell how it is called: "a2a", "mcp", "alibaba",
        "v2/a2a" or "v2"; "" = the path has none. agent: the name after the prefix, or None.
    suffix: what follows, with its first slash.
    """

    prefix: str
    agent: str | None
    suffix: str


def target_of(path: str) -> Target:
    for pattern in AGENT_PATHS:
        if match := pattern.fullmatch(path):
            return Target(match["prefix"], match.groupdict().get("agent"), match["suffix"])
    return Target("", None, path)


def base_url(request: Request) -> str:
    """URL of the deployment's root, without a slash at the end.

    It is the setting, if there is one. Otherwise it is the domain and the stage in the event's requestContext
    (https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-mapping-template-reference.html).
    """
    setting: str = request.app.state.kit.settings.base_url
    if setting:
        return setting.rstrip("/")
    event: dict[str, Any] = request.scope.get("aws.event", {})
    context = event.get("requestContext") or {}
    domain = context.get("domainName", "localhost")
    # The root may be called as /<stage>, too: then the event's path has a slash that the full path lacks.
    # Only the full path keeps a doubled slash.
    paths = (source.get("path") or "" for source in (event, context))
    path, full_path = (SLASHES.sub("/", path).rstrip("/") for path in paths)
    stage = full_path.removesuffix(path) if full_path.endswith(path) else ""
    return f"https://{domain}{stage}"


def deadline(request: Request) -> float:
    """When the answer must be out, on `time.monotonic`.

    Outside Lambda it is Lambda's own limit: an agent that never ends must end there, too. API Gateway has the
    same limit, and counts from the request, so that a cold start is a part of it
    (https://docs.aws.amazon.com/apigateway/latest/developerguide/response-transfer-mode.html).
    """
    context = request.scope.get("aws.context")
    seconds: float = INVOCATION_SECONDS if context is None else context.get_remaining_time_in_millis() / 1000
    event_context = request.scope.get("aws.event", {}).get("requestContext") or {}
    age = time.time() - event_context.get("requestTimeEpoch", 0) / 1000
    if 0 < age < INVOCATION_SECONDS:  # else it is an event of a file
        seconds = min(seconds, INVOCATION_SECONDS - age)
    return time.monotonic() + seconds - ANSWER_MARGIN_SECONDS


def version(request: Request) -> str:
    """Protocol version that the request asks for, in its header or its query; "" if it asks for none.

    Source: https://a2a-protocol.org/v1.0.0/specification, section 3.6.1.
    """
    parameters = request.query_params.multi_items()
    text: str = request.headers.get(A2A_VERSION) or next(
        (value for name, value in parameters if name.lower() == A2A_VERSION), ""
    )
    return text.strip()


def accepted_types(request: Request) -> frozenset[str]:
    """Media types and ranges that the client accepts, in lower case and without parameters; none if it does
    not say."""
    items = ",".join(request.headers.getlist("accept")).split(",")
    # With the weight 0, a type is one that the client does not take (RFC 9110 section 12.4.2).
    taken_items = (item for item in items if not re.search(r";\s*q=0(\.0*)?\s*(;|$)", item, re.IGNORECASE))
    return frozenset(filter(None, map(plain_media_type, taken_items)))


def check_method(request: Request, *methods: str) -> None:
    """Raises MethodNotAllowed for another method of HTTP."""
    if request.method not in methods:
        raise MethodNotAllowed(request.method, methods)


def check_media_type(request: Request) -> None:
    """Raises UnsupportedMediaType if the body is not JSON."""
    media_type = plain_media_type(request.headers.get("content-type", JSON))
    if media_type != JSON and not media_type.endswith("+json"):
        raise UnsupportedMediaType(f"Content-Type is {excerpt(media_type)}, but must be {JSON}")


async def read_body(request: Request, limit: int) -> bytes:
    """The body of a request, of at most `limit` bytes. Raises RequestTooLarge, UnsupportedMediaType if it is
    compressed, and InvalidRequest if it breaks off."""
    items = ",".join(request.headers.getlist("content-encoding")).lower().split(",")
    codings = [coding for item in items if (coding := item.strip()) not in ("", "identity")]
    if codings:
        names = excerpt(", ".join(codings))
        raise UnsupportedMediaType(f"Content-Encoding is {names}: send the body uncompressed")
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise RequestTooLarge(
                    f"a request may have at most {limit:,} bytes: upload a large file first, or send its URL"
                )
            chunks.append(chunk)
    except ClientDisconnect:
        raise InvalidRequest("the client left before the end of its request") from None
    return b"".join(chunks)


def requested_extensions(request: Request, uris: Collection[str]) -> tuple[str, ...]:
    """URIs in `A2A-Extensions` and in its older name, each once, of those that are known."""
    get = request.headers.getlist
    lines = [*get("a2a-extensions"), *get("x-a2a-extensions")]
    items = ",".join(lines).split(",")
    return tuple(dict.fromkeys(uri for item in items if (uri := item.strip()) in uris))


def idempotency_key(request: Request) -> str | None:
    """The client's Idempotency-Key, if it sent one. Raises InvalidParams."""
    key: str | None = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY_CHARACTERS:
        raise InvalidParams(f"Idempotency-Key must have 1 to {MAX_IDEMPOTENCY_KEY_CHARACTERS} characters")
    return key


def last_event_id(request: Request) -> int | None:
    """Sequence number of the last event that the client has. None if it names none, or a number that the
    kit cannot have sent."""
    value = request.headers.get("last-event-id", "")
    return int(value) if value.isascii() and value.isdigit() and len(value) <= SEQUENCE_DIGITS else None
