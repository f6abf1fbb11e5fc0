"""What a client sends and receives, as records that the playground and `make chat` show."""

import json
import shlex
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing

import httpx2

from a2a_lambda.client import sse
from a2a_lambda.client.answers import read_whole
from a2a_lambda.client.keys import check_key
from a2a_lambda.errors import KitError
from a2a_lambda.net.addresses import is_loopback_url, place_of
from a2a_lambda.protocol.model import Json

MAX_BYTES = 100 * 1024 * 1024
"""Maximum size of an answer, or of an event, in bytes."""

CALL_SILENCE_SECONDS = 120.0
"""Seconds of silence after which a call fails."""

HIDDEN = "…"
"""Shown instead of the key."""

Record = dict[str, Json]
"""What happened: an object with `kind`.

request: method, URL, headers (without the key), body, curl (with the key).
response: status, headers. body: text of an answer. frame: text of a server-sent event or comment.
result: a task, or a message, of A2A 1.0; or a card, with `findings` (see `card_checks`). event: an event of
A2A 1.0, and its id.
error: message, and the code and status, if the answer has them.
Each has `at`, milliseconds since the call began.
"""

FAILURES = (KitError, httpx2.HTTPError, httpx2.InvalidURL, sse.TooLarge, UnicodeError)


def make_http(url: str, transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
    """A client for calls of a deployment, which may be reachable only through the proxy that the environment
    names. transport: what calls go through instead of the network."""
    try:
        uses_proxy = not is_loopback_url(url)
        return httpx2.AsyncClient(timeout=CALL_SILENCE_SECONDS, trust_env=uses_proxy, transport=transport)
    except ImportError:  # a SOCKS proxy needs another package
        return httpx2.AsyncClient(timeout=CALL_SILENCE_SECONDS, trust_env=False, transport=transport)


async def fetch_whole(http: httpx2.AsyncClient, url: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Status and body of an answer. Raises FAILURES: TooLarge for one of more than MAX_BYTES."""
    async with http.stream("GET", url, headers=dict(headers)) as answer:
        return answer.status_code, await read_whole(answer, MAX_BYTES)


class SharedTransport(httpx2.AsyncBaseTransport):
    """Calls through a client of `make_http`, and so through its proxy. That client stays open when those that
    use this transport are closed."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._http.send(request, stream=True)


class RecordingClient:
    """A client that makes records. base: URL of a deployment, or of another agent."""

    def __init__(self, http: httpx2.AsyncClient, base: str, key: str) -> None:
        self._http = http
        self._base = base.rstrip("/")
        self._key = key
        self._began = time.monotonic()

    @property
    def is_local(self) -> bool:
        """Whether the agent is on this machine."""
        return is_loopback_url(self._base)

    async def _safely(self, records: AsyncGenerator[Record, None]) -> AsyncIterator[Record]:
        """The records of a call that begins now. What fails becomes a record, too."""
        self._began = time.monotonic()
        try:
            if self._key:
                check_key(self._key)
            async with aclosing(records):
                async for record in records:
                    yield self._add_time(record)
        except FAILURES as error:
            text = str(error) or type(error).__name__
            if isinstance(error, httpx2.RemoteProtocolError):
                text = (
                    "the connection closed before the answer was complete. If there is no task yet, send the"
                    " message again"
                )
            if isinstance(error, httpx2.ConnectError):
                text = f"{place_of(self._base)} does not answer: {text}"
            failure: Record = {"kind": "error", "message": text}
            for name in ("code", "status"):
                if (value := getattr(error, name, None)) is not None:
                    failure[name] = value
            yield self._add_time(failure)

    def _add_time(self, record: Record) -> Record:
        return {**record, "at": round((time.monotonic() - self._began) * 1000)}

    def _request_record(self, request: httpx2.Request, body: str) -> Record:
        own = {"host", "accept-encoding", "connection", "user-agent", "content-length"}
        headers = {
            name: value
            for name, value in request.headers.items()
            if name not in own and (name, value) != ("accept", "*/*")
        }
        safe_headers = {
            name: value.replace(self._key, HIDDEN) if self._key else value for name, value in headers.items()
        }
        url = str(request.url)
        curl = _curl(request.method, url, headers, body)
        return {
            "kind": "request",
            "method": request.method,
            "url": url,
            "headers": safe_headers,
            "body": body,
            "curl": curl,
        }


def response_record(answer: httpx2.Response) -> Record:
    return {"kind": "response", "status": answer.status_code, "headers": dict(answer.headers)}


def _curl(method: str, url: str, headers: Mapping[str, str], body: str) -> str:
    """The command that sends the same request."""
    words = ["curl", "-sN", url]
    if method != ("POST" if body else "GET"):
        words += ["-X", method]
    for name, value in headers.items():
        words += ["-H", f"{name}: {value}"]
    if body:
        words += ["-d", body]
    return shlex.join(words)


def error_text(content: bytes, status: int) -> str:
    """What an answer says is wrong."""
    try:
        value: Json = json.loads(content)
    except (ValueError, RecursionError):
        return f"the agent answered with status {status}"
    error = value.get("error", value) if isinstance(value, dict) else value
    message = error.get("message") if isinstance(error, dict) else None
    return str(message or f"the agent answered with status {status}")
