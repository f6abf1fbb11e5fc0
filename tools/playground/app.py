"""The playground: a page for browsers, and what the page calls. It is served on this machine only.

GET  /                    the page, if the client is a browser
GET  /playground/…        its files
GET  /playground/config   what can be called
GET  /playground/log      server-sent events: which server this is, then a line of the log each
POST /playground/schedules  the agents' schedules; or, with `agent`, `id` and `key`, starts one
POST /playground/upload   a file for the agent; answered with the part that names it
GET  /playground/file     a file of the deployment's bucket, by the URL that an answer has
POST /playground/call     one call; answered with records, a line of JSON each (see `callers.records`)
"""

import hmac
import json
import tempfile
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import httpx2
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from a2a_lambda import strictjson
from a2a_lambda.client import AgentError
from a2a_lambda.client.discovery import DiscoveredAgent
from a2a_lambda.errors import ConfigurationError, ParseError
from a2a_lambda.protocol.model import Json, Part
from tools.callers.names import TITLES, make_caller
from tools.callers.records import FAILURES, make_http
from tools.callers.uploads import NO_UPLOADS, upload, upload_url
from tools.command import HOSTS
from tools.log_entry import LogEntry

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGE = Path(__file__).parent / "page"

FORWARDED = ("x-forwarded-for", "x-forwarded-host", "forwarded", "cf-connecting-ip")
"""Headers of requests that came through a tunnel."""

UPLOAD_TYPE = "application/octet-stream"
"""Media type of an upload. A form of another page cannot send it without asking."""

SHOWN_KINDS = ("image", "audio", "video")
"""Kinds of media that the page shows from the bucket."""

HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src 'self' data: blob:; media-src 'self' blob:; frame-src blob:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


DATA_PATHS = frozenset(
    f"/playground/{name}" for name in ("config", "log", "schedules", "upload", "file", "call")
)
"""Paths that need the token. The page and its files have nothing secret."""

TOKEN_HEADER = "X-Playground-Token"  # noqa: S105
"""Header with the token. What a browser requests by itself has it in the query: the log, and a file."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the playground calls.

    url: URL of a deployment, or of an agent. title: what the page says it is. agents: names of agents; "" is
    the one at the URL. key: the key that the page fills in. operate: asks the worker about schedules, or
    None; it blocks. log: lines from now on, after the last ones.
    files: what the URLs of the deployment's bucket begin with; "" = unknown, so that the page shows no file
    by itself. error: why nothing can be called.
    """

    url: str
    title: str
    agents: list[str]
    key: str = ""
    log: Callable[[], AsyncGenerator[LogEntry | None, None]] | None = None
    operate: Callable[[Json], Json] | None = None
    files: str = ""
    error: str = ""


class CallBody(BaseModel):
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
    token: without it, all requests but those for the page itself are refused; "" = no token.
    hosts: names at which `app` is reached, besides this machine's. Without a token, the playground is refused
        there.
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
        self._has_hosts = not set(hosts) <= set(HOSTS)
        self._id = uuid.uuid4().hex  # a page reads the card again when the server has another one
        self._known: dict[tuple[str, str, str], DiscoveredAgent] = {}
        self._page = Starlette(
            routes=[
                Route("/", self._index),
                Route("/playground/config", self._config),
                Route("/playground/log", self._log),
                Route("/playground/schedules", self._schedules, methods=["POST"]),
                Route("/playground/upload", self._upload, methods=["POST"]),
                Route("/playground/file", self._file),
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

        request = Request(scope)
        if not self._token and not self._is_of_this_machine(request):
            # Anyone with the tunnel's URL would get the log, and the key that the page fills in.
            await Response("The playground is for this machine only.\n", 403)(scope, receive, send)
            return
        if scope["path"] in DATA_PATHS and not self._is_admitted(request):
            refusal = Response("Open the URL that make playground printed, with its token.\n", 403)
            await refusal(scope, receive, send)
            return

        async def with_headers(message: "Message") -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        await self._page(scope, receive, with_headers)

    def _is_of_this_machine(self, request: Request) -> bool:
        """Whether a browser here sent a request. A tunnel may write this machine's name into it."""
        is_forwarded = self._has_hosts and any(name in request.headers for name in FORWARDED)
        return request.headers.get("host", "").split(":")[0] in HOSTS and not is_forwarded

    def _is_admitted(self, request: Request) -> bool:
        # No cookie: a browser sends it to every port of this machine, where others may listen.
        token = request.headers.get(TOKEN_HEADER) or request.query_params.get("token", "")
        return not self._token or hmac.compare_digest(token.encode(), self._token.encode())

    async def _index(self, request: Request) -> Response:
        return FileResponse(PAGE / "index.html")

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
                "files": target.files,
                "error": target.error,
            }
        )

    async def _log(self, request: Request) -> Response:
        if self._target.log is None:
            return Response(status_code=204)  # an EventSource does not ask again
        log = self._target.log

        async def body() -> AsyncIterator[bytes]:
            yield b"event: server\ndata: %b\n\n" % self._id.encode()
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
            selection = strictjson.loads(await request.body())
        except (ParseError, ClientDisconnect) as error:
            return Response(f"not JSON: {error}", 400)
        return JSONResponse(await run_in_threadpool(self._target.operate, selection))

    async def _upload(self, request: Request) -> Response:
        """Take the body, and upload it. The query has the call's agent, version and key, and the file's name
        and type."""
        if request.headers.get("content-type") != UPLOAD_TYPE:
            return Response(f"send {UPLOAD_TYPE}", 415)
        query = request.query_params
        part = Part(filename=query.get("name") or "file", mediaType=query.get("type") or UPLOAD_TYPE)
        with tempfile.TemporaryFile() as file:
            try:
                async for chunk in request.stream():
                    await run_in_threadpool(file.write, chunk)
                size = file.tell()
                file.seek(0)
                async with self._client() as http:
                    return JSONResponse(await self._upload_file(http, request, file, size, part))
            except (*FAILURES, ClientDisconnect, ConfigurationError) as error:
                return JSONResponse({"error": str(error) or type(error).__name__})

    def _key_of(self, text: str) -> str:
        """What the page sends as the key. It knows the target's by its text alone, and not whether it is a
        token."""
        return self._target.key if text == self._target.key else text

    async def _upload_file(
        self, http: httpx2.AsyncClient, request: Request, file: BinaryIO, size: int, part: Part
    ) -> Part:
        query = request.query_params
        caller = make_caller(
            http,
            self._target.url,
            query.get("version", ""),
            key=self._key_of(request.headers.get("x-api-key", "")),
            name=query.get("agent", ""),
        )
        async for record in caller.read_card():
            if record["kind"] == "error":
                raise AgentError(record["message"])
        url = upload_url(caller.agent.card, caller.agent.url) if caller.agent is not None else ""
        if caller.agent is None or not url:
            raise AgentError(NO_UPLOADS)
        return await upload(http, url, file, part, size=size, headers=caller.agent.headers)

    async def _file(self, request: Request) -> Response:
        """A file from the bucket. Other URLs are refused, because what an agent writes must not make this
        server call anything else, and no file may run in the page's origin."""
        try:
            url = str(httpx2.URL(request.query_params.get("url", "")))  # without `..`
        except httpx2.InvalidURL:
            url = ""
        if not self._target.files or not url.startswith(self._target.files):
            return Response("not a file of this deployment", 403)
        try:
            async with AsyncExitStack() as stack:
                http = await stack.enter_async_context(self._client())
                # A film is played from where its viewer is, so a browser asks for pieces.
                range_header = {"Range": request.headers["range"]} if "range" in request.headers else {}
                answer = await stack.enter_async_context(http.stream("GET", url, headers=range_header))
                content = _closing(stack.pop_all(), answer.aiter_raw())
        except httpx2.HTTPError as error:
            return Response(f"the bucket does not answer: {type(error).__name__}", 502)
        media_type = answer.headers.get("content-type", "")
        if media_type.partition("/")[0].lower() not in SHOWN_KINDS:
            media_type = UPLOAD_TYPE
        names = ("content-range", "accept-ranges", "content-length")
        headers = {name: answer.headers[name] for name in names if name in answer.headers}
        # A picture may be an SVG with scripts.
        headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
        return StreamingResponse(content, answer.status_code, headers, media_type=media_type)

    def _client(self) -> httpx2.AsyncClient:
        return make_http(self._target.url, self._transport)

    async def _call(self, request: Request) -> Response:
        if not _is_json(request):
            return Response("send application/json", 415)
        try:
            call = CallBody.model_validate_json(await request.body())
        except (ValidationError, ClientDisconnect) as error:
            return Response(f"not a call: {error}", 400)
        if call.version not in TITLES:
            return Response(f"not a call: there is no version {call.version[:40]!r}", 400)

        # A client reads the card once. The page reads it again when it opens, and after a restart.
        place = call.agent, call.version, call.key
        agent = None if call.operation == "card" else self._known.get(place)

        async def body() -> AsyncIterator[bytes]:
            async with self._client() as http:
                key = self._key_of(call.key)
                caller = make_caller(
                    http, self._target.url, call.version, key=key, name=call.agent, agent=agent
                )
                stream = (
                    caller.read_card()
                    if call.operation == "card"
                    else caller.call(call.operation, call.request, after=call.after)
                )
                async with aclosing(stream) as records:
                    async for record in records:
                        yield json.dumps(record).encode() + b"\n"
                if caller.agent is not None:
                    self._known[place] = caller.agent

        return StreamingResponse(body(), media_type="application/x-ndjson")


async def _closing(stack: AsyncExitStack, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async with stack:
        async for chunk in chunks:
            yield chunk


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
