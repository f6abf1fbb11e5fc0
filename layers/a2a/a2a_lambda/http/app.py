"""The ASGI application: every route, and one way to answer an error.

card routes                       ── cards
[/a2a/<agent>] /openapi.json      ── openapi
/  /a2a/<agent>  /alibaba…  /v2…  ── rpc  ─┬─ key ── wire ── messages (send, stream) or service
every other path                  ── rest ─┘
/mcp  /mcp/<agent>                ── mcp ── key ── envelope ── messages or service
[/a2a/<agent>] /uploads           ── uploads ── key ── files
/callbacks/<token>                ── callbacks
"""

import hashlib
import hmac
import logging
import re
from collections.abc import Sequence
from http import HTTPMethod
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response

from a2a_lambda import telemetry, tracing
from a2a_lambda.errors import InternalError, InvalidRequest, MethodNotAllowed, NotFromOrigin, ProtocolError
from a2a_lambda.http import rest, rpc
from a2a_lambda.http.auth import authenticate
from a2a_lambda.http.discovery import cards
from a2a_lambda.http.error_responses import error_response, report_error
from a2a_lambda.http.request import check_method, target_of
from a2a_lambda.kit import Kit
from a2a_lambda.tasks.execution import CALLBACK_PATH

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ORIGIN_HEADER = "x-origin-secret"

CALLBACKS = f"/{CALLBACK_PATH}/"
"""Path of the URLs of waits."""

logger = logging.getLogger(__name__)

EXPOSED_HEADERS = (
    "ETag",
    "Last-Modified",
    "Retry-After",
    "WWW-Authenticate",
    "A2A-Extensions",
    "X-A2A-Extensions",
)
"""Headers of answers that a web page may read."""

ALLOWED_HEADERS = (
    "Content-Type",
    "X-API-Key",
    "Authorization",
    "Idempotency-Key",
    "Last-Event-ID",
    "A2A-Version",
    "A2A-Extensions",
    "MCP-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "X-A2A-Extensions",
    "X-Appbuilder-Authorization",
    "traceparent",
    "tracestate",
)


def create_app(kit: Kit, app: Starlette | None = None) -> Starlette:
    """The application of a deployment. It reads nothing from AWS until a request needs it.

    app: an application that gets the kit's routes; it may be a FastAPI with routes of its own. None = a new
        one, without FastAPI: importing that takes longer than all the kit's own modules.
    """
    app = app or Starlette()
    app.state.kit = kit
    app.router.routes.extend(cards.routes)
    app.router.default = request_response(route)
    app.router.redirect_slashes = False
    for kind in (HTTPException, ProtocolError, Exception):
        app.add_exception_handler(kind, refuse)
    if kit.settings.base_path:
        app.add_middleware(BasePath, path=kit.settings.base_path)
    app.add_middleware(SingleSlashes)
    if kit.settings.tracing:
        app.add_middleware(Traced, share=kit.settings.trace_share)
    if kit.settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=kit.settings.cors_origins,
            allow_methods=["GET", "HEAD", "POST", "DELETE"],
            allow_headers=ALLOWED_HEADERS,
            expose_headers=EXPOSED_HEADERS,
            max_age=600,
        )
    if kit.settings.origin_digests:
        app.add_middleware(OriginOnly, digests=kit.settings.origin_digests)
    return app


async def route(request: Request) -> Response:
    path: str = request.scope["path"]
    if path.startswith(CALLBACKS):
        check_method(request, "POST")
        from a2a_lambda.http import callbacks

        return await callbacks.handle(request, path.removeprefix(CALLBACKS))
    target = target_of(path)
    match target.prefix, target.suffix:
        case "" | "a2a", "/openapi.json":
            check_method(request, "GET", "HEAD")
            from a2a_lambda.http.discovery import openapi

            return await openapi.handle(request, target.agent)
        case "mcp", "" | "/":
            # A client whose key was refused tries GET next, and shows the user that answer.
            if request.method == "GET":
                await authenticate(request)
            check_method(request, "POST")
            from a2a_lambda.http.mcp import endpoint

            return await endpoint.handle(request, target.agent)
        case "" | "a2a", "/uploads" | "/uploads/":
            check_method(request, "POST")
            from a2a_lambda.http import uploads

            return await uploads.handle(request, target.agent)
    if (dialect := rpc.find_dialect(request, target)) is None:
        return await rest.handle(request, target)
    check_method(request, "POST")
    return await rpc.handle(request, dialect, target.agent)


class OriginOnly:
    """Refuses a request without the secret that the deployment's CDN adds.

    digests: SHA-256 of the secret, hex. There are two while it is being changed.
    """

    def __init__(self, app: "ASGIApp", digests: Sequence[str]) -> None:
        self._app = app
        self._digests = digests

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        header = Headers(scope=scope).get(ORIGIN_HEADER, "")
        digest = hashlib.sha256(header.encode("latin-1")).hexdigest()
        # Every digest is compared, each in constant time.
        if sum(hmac.compare_digest(digest, candidate) for candidate in self._digests):
            await self._app(scope, receive, send)
            return
        refusal = NotFromOrigin("call the URL that the agent card names")
        logger.info("refused: %d %s", refusal.code, type(refusal).__name__)
        await error_response(refusal)(scope, receive, send)


class SingleSlashes:
    """Makes repeated slashes in the path one: a client may append `/stream` to a URL that ends with one."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if "//" in scope.get("path", ""):
            scope = {**scope, "path": re.sub("/{2,}", "/", scope["path"])}
        await self._app(scope, receive, send)


class Traced:
    """A span of each request, until the last byte of its answer. It continues the caller's trace, and is
    recorded for the given share of the callers that ask for it, from 0 to 1."""

    def __init__(self, app: "ASGIApp", share: float) -> None:
        self._app = app
        self._share = share

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        carrier = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        # Anywhere in the path, because the base path has not been removed yet. What follows is a secret.
        is_callback = CALLBACKS in scope["path"]
        path = CALLBACKS if is_callback else scope["path"]
        # A method that a client makes up must not name a span:
        # https://opentelemetry.io/docs/specs/semconv/http/http-spans/
        is_known = scope["method"] in HTTPMethod.__members__
        attributes = {
            "http.request.method": scope["method"] if is_known else "_OTHER",
            "url.scheme": scope["scheme"],
            "url.path": path,
            "server.address": re.sub(r":\d+$", "", headers.get("host", "")),
            "user_agent.original": headers.get("user-agent", ""),
        }
        name = scope["method"] if is_known else "HTTP"
        parent = tracing.limit_share(carrier, self._share)
        with tracing.span(name, attributes, kind="server", parent=parent) as span:

            async def watch(message: "Message") -> None:
                if message["type"] == "http.response.start":
                    span.set_status(message["status"], min_failure=500)
                await send(message)

            try:
                await self._app(scope, receive, watch)
            finally:
                span.set(tracing.attributes_of(telemetry.ids()))


class BasePath:
    """Removes the custom domain's base path, which API Gateway leaves in the event's path."""

    def __init__(self, app: "ASGIApp", path: str) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        path = scope.get("path", "")
        if path == self._path or path.startswith(self._path + "/"):
            scope = {**scope, "path": path[len(self._path) :] or "/"}
        await self._app(scope, receive, send)


async def refuse(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):  # of Starlette's routes, or of the application's own
        methods = (error.headers or {}).get("Allow")
        if error.status_code == 405 and methods:
            refusal = MethodNotAllowed(request.method, sorted(methods.split(", ")))
            return error_response(report_error(refusal))
        return error_response(
            InvalidRequest(str(error.detail)), status=error.status_code, headers=error.headers
        )
    if isinstance(error, ProtocolError):
        return error_response(report_error(error))
    return error_response(InternalError(), status=500)
