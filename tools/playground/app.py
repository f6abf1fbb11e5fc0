"""The playground: a page for browsers, and what the page calls. It is served on this machine only.

GET  /                    the page, if the client is a browser
GET  /playground/…        its files
GET  /playground/config   what can be called
GET  /playground/log      server-sent events: a line of the log each
POST /playground/schedules  the agents' schedules; or, with `agent`, `id` and `key`, starts one
POST /playground/call     one call; answered with records, a line of JSON each (see `callers.records`)
"""

import hmac
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import httpx2
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from a2a_lambda.client.discovery import DiscoveredAgent
from a2a_lambda.protocol.model import Json
from tools.callers.names import TITLES, make_caller
from tools.callers.records import SILENCE_SECONDS
from tools.log_entry import LogEntry

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGE = Path(__file__).parent / "page"

HOSTS = ["127.0.0.1", "localhost"]
"""Names of this machine. With another one, a page of the web could have pointed its own name here."""

COOKIE = "a2a-playground"

HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src 'self' data: blob:; media-src blob:; frame-src blob:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Target:
    """What the playground calls.

    url: url of a deployment, or of an agent. title: what the page says it is. agents: names of agents; "" is
    the one at the url. key: the key that the page fills in. operate: asks the worker about schedules, or
    None; it blocks. log: lines from now on, after the last ones.
    error: why nothing can be called.
    """

    url: str
    title: str
    agents: list[str]
    key: str = ""
    log: Callable[[], AsyncGenerator[LogEntry | None, None]] | None = None
    operate: Callable[[Json], Json] | None = None
    error: str = ""


class Call(BaseModel):
    """Body of /playground/call. request: request in A2A 1.0. after: id of the last event that the page
    has."""

    agent: str
    version: str
    key: str = ""
    operation: Literal["card", "send", "stream", "get", "list", "cancel", "subscribe"]
    request: dict[str, Json] = {}
    after: str = ""


class Playground:
    """An ASGI application: the playground, and `app` for all other requests.

    transport: what calls go through instead of the network.
    token: without it, or the cookie that the page with the token sets, all requests are refused; "" = no
        token.
    hosts: names at which it is reached, besides this machine's.
    """

    def __init__(
        self,
        target: Target,
        app: "ASGIApp | None" = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        token: str = "",
        hosts: Sequence[str] = (),
    ) -> None:
        self._target = target
        self._app = app
        self._transport = transport
        self._token = token
        self._known: dict[tuple[str, str, str], DiscoveredAgent] = {}
        self._page = Starlette(
            routes=[
                Route("/", self._index),
                Route("/playground/config", self._config),
                Route("/playground/log", self._log),
                Route("/playground/schedules", self._schedules, methods=["POST"]),
                Route("/playground/call", self._call, methods=["POST"]),
                Mount("/playground", StaticFiles(directory=PAGE)),
            ],
        )
        self._checked = TrustedHostMiddleware(self._serve, allowed_hosts=[*HOSTS, *hosts], www_redirect=False)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        await self._checked(scope, receive, send)

    async def _serve(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if self._app is not None and not _is_for_page(scope):
            await self._app(scope, receive, send)
            return

        if not self._is_admitted(Request(scope)):
            refusal = Response("Open the URL that make playground printed, with its token.\n", 403)
            await refusal(scope, receive, send)
            return

        async def with_headers(message: "Message") -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        await self._page(scope, receive, with_headers)

    def _is_admitted(self, request: Request) -> bool:
        token = request.query_params.get("token") or request.cookies.get(COOKIE, "")
        return not self._token or hmac.compare_digest(token.encode(), self._token.encode())

    async def _index(self, request: Request) -> Response:
        if not request.query_params.get("token"):
            return FileResponse(PAGE / "index.html")
        # The token leaves the address bar and the history.
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, self._token, httponly=True, samesite="strict")
        return answer

    async def _config(self, request: Request) -> Response:
        target = self._target
        return JSONResponse(
            {
                "title": target.title,
                "url": target.url,
                "agents": target.agents,
                "key": target.key,
                "versions": [{"id": name, "title": title} for name, title in TITLES.items()],
                "hasLog": target.log is not None,
                "hasSchedules": target.operate is not None,
                "error": target.error,
            }
        )

    async def _log(self, request: Request) -> Response:
        if self._target.log is None:
            return Response(status_code=204)  # an EventSource does not ask again
        log = self._target.log

        async def body() -> AsyncIterator[bytes]:
            yield b": \n\n"
            async with aclosing(log()) as entries:
                async for entry in entries:
                    yield b": \n\n" if entry is None else b"data: %b\n\n" % json.dumps(entry).encode()

        return StreamingResponse(body(), media_type="text/event-stream")

    async def _schedules(self, request: Request) -> Response:
        if not _is_json(request):
            return Response("send application/json", 415)
        if self._target.operate is None:
            return JSONResponse({"error": self._target.error or "the schedules are not known here"})
        try:
            wanted = await request.json()
        except (ValueError, ClientDisconnect) as error:
            return Response(f"not JSON: {error}", 400)
        return JSONResponse(await run_in_threadpool(self._target.operate, wanted))

    async def _call(self, request: Request) -> Response:
        if not _is_json(request):
            return Response("send application/json", 415)
        try:
            call = Call.model_validate_json(await request.body())
        except (ValidationError, ClientDisconnect) as error:
            return Response(f"not a call: {error}", 400)
        if call.version not in TITLES:
            return Response(f"not a call: there is no version {call.version[:40]!r}", 400)

        # A client reads the card once. The page reads it again when it opens, and after a restart.
        place = call.agent, call.version, call.key
        agent = None if call.operation == "card" else self._known.get(place)

        async def body() -> AsyncIterator[bytes]:
            async with httpx2.AsyncClient(
                timeout=SILENCE_SECONDS, trust_env=False, transport=self._transport
            ) as http:
                caller = make_caller(
                    http, self._target.url, call.version, key=call.key, name=call.agent, agent=agent
                )
                stream = (
                    caller.card()
                    if call.operation == "card"
                    else caller.call(call.operation, call.request, after=call.after)
                )
                async with aclosing(stream) as records:
                    async for record in records:
                        yield json.dumps(record).encode() + b"\n"
                if caller.agent is not None:
                    self._known[place] = caller.agent

        return StreamingResponse(body(), media_type="application/x-ndjson")


def _is_json(request: Request) -> bool:
    """A form of another page can be sent here without asking, but not as JSON."""
    return request.headers.get("content-type") == "application/json"


def _is_for_page(scope: "Scope") -> bool:
    if scope["type"] != "http":
        return False
    path: str = scope["path"]
    if path == "/":
        return scope["method"] in ("GET", "HEAD") and "text/html" in Headers(scope=scope).get("accept", "")
    return path.startswith("/playground/")
