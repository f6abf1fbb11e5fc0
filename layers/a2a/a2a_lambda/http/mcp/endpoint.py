"""MCP over HTTP: one URL for each agent, `/mcp/<agent>`, and `/mcp` for the default one.

POST ── key or token ── envelope ── method ─┬─ initialize, server/discover, tools/list, ping
                                            ├─ tools/call ── tool_calls
                                            └─ tasks/get, tasks/update, tasks/cancel ── tasks
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from a2a_lambda import strictjson, telemetry, tracing
from a2a_lambda.errors import Forbidden, KitError, MethodNotFound, excerpt
from a2a_lambda.http.error_responses import JSON, report_error
from a2a_lambda.http.mcp import tasks, tool_calls
from a2a_lambda.http.mcp.mcp_call import McpCall
from a2a_lambda.http.operation_call import accept
from a2a_lambda.http.request import base_url, check_media_type, read_body
from a2a_lambda.kit import Kit
from a2a_lambda.net.addresses import is_loopback_url
from a2a_lambda.protocol.model import Json
from a2a_lambda.wire.mcp import envelope, tools
from a2a_lambda.wire.mcp.revisions import (
    STATELESS,
    SUPPORTED,
    TASKS,
    encode_error,
    status_of,
)
from a2a_lambda.wire.shared import jsonrpc

REFUSED_BODY_BYTES = 100_000
"""Maximum size of a body that is read for its id alone, in bytes."""

CACHE: Mapping[str, Json] = {"ttlMs": 300_000, "cacheScope": "private"}
"""How long a client may use what it read without asking again, in milliseconds."""


async def handle(request: Request, agent: str | None) -> Response:
    """The answer to a POST."""
    revision, request_id = STATELESS, None
    try:
        _check_origin(request)
        accepted_request = await accept(request, check_media_type)
        value = strictjson.loads(accepted_request.body)
        request_id = jsonrpc.read_id(value)
        message = envelope.decode(value, request.headers)
        if message is None or message.id is None:
            return Response(status_code=202)
        revision = message.revision
        profile, namespace = accepted_request.resolve_agent(agent)
        telemetry.bind(version=f"mcp-{revision}")
        mcp_call = McpCall(
            request, accepted_request.kit, accepted_request.grant.caller, namespace, profile, message
        )
        methods = STATELESS_METHODS if message.is_stateless else SESSION_METHODS
        if message.method not in ("tools/call", *methods):
            names = ", ".join(["tools/call", *methods])
            raise MethodNotFound(f"{excerpt(message.method)!r} in revision {revision}. Methods: {names}")
        # After the check: what a client makes up must not name a span.
        name = f"{request.method} {message.method}"
        tracing.current().set({"rpc.method": message.method}, name=name)
        if message.method == "tools/call":
            return await tool_calls.answer(mcp_call)
        result = await methods[message.method](mcp_call)
        return Response(mcp_call.encode(result), media_type=JSON)
    except Exception as cause:
        error = report_error(cause)
        if request_id is None:
            # Python clients show an error only if it has the id, so a body that was not read is read now.
            # RuntimeError: it has been read, and is not JSON.
            with suppress(KitError, RuntimeError):
                body = await read_body(request, REFUSED_BODY_BYTES)
                request_id = jsonrpc.read_id(strictjson.loads(body))
        # MCP's schema has no null: the error of a request without a readable id has no id.
        id_field = {} if request_id is None else {"id": request_id}
        content = strictjson.dumps({"jsonrpc": "2.0", **id_field, "error": encode_error(error)})
        return Response(content, status_of(error, revision), error.headers, JSON)


async def initialize(call: McpCall) -> dict[str, Json]:
    return {
        "protocolVersion": call.message.revision,
        "capabilities": {"tools": {}},
        "serverInfo": call.server,
        "instructions": call.agent.card.description,
    }


async def ping(_: McpCall) -> dict[str, Json]:
    return {}


async def discover(call: McpCall) -> dict[str, Json]:
    return {
        "supportedVersions": [*SUPPORTED],
        "capabilities": {"tools": {}, "extensions": {TASKS: {}}},
        "instructions": call.agent.card.description,
        **CACHE,
    }


async def list_tools(call: McpCall) -> dict[str, Json]:
    page, cursor = tools.page_of(call.agent, call.message.params.get("cursor"))
    return {
        "tools": page,
        **({} if cursor is None else {"nextCursor": cursor}),
        **(CACHE if call.message.is_stateless else {}),
    }


Method = Callable[[McpCall], Awaitable[dict[str, Json]]]

STATELESS_METHODS: Mapping[str, Method] = {
    "server/discover": discover,
    "tools/list": list_tools,
    "tasks/get": tasks.get,
    "tasks/update": tasks.update,
    "tasks/cancel": tasks.cancel,
}

SESSION_METHODS: Mapping[str, Method] = {"initialize": initialize, "ping": ping, "tools/list": list_tools}
"""Methods of the revisions with a handshake, besides tools/call."""


def _check_origin(request: Request) -> None:
    """Raises Forbidden for a page of another site: a browser would send it a key that it has."""
    origin = request.headers.get("origin")
    if origin is None:
        return
    kit: Kit = request.app.state.kit
    origins = kit.settings.cors_origins
    try:
        is_own = urlsplit(origin).netloc == urlsplit(base_url(request)).netloc
        is_local = kit.settings.local and is_loopback_url(origin)
    except ValueError:  # no browser sends it
        is_own = is_local = False
    if not (is_own or is_local or origin in origins or "*" in origins):
        raise Forbidden(
            "calls from this Origin are not allowed; the operator can add it to the parameter CorsOrigins"
        )
