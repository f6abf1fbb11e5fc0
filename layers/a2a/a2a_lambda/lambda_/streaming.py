"""Mangum for streams: runs an ASGI application with a Lambda event, and sends its bytes at once.

    event ── Mangum's scope ── application ── send ── prelude, chunk, chunk … ── write

It takes events of a REST API (payload 1.0) and of a function URL (payload 2.0). It writes what the
integration reads: a JSON prelude, eight NUL bytes, the body.
Source: https://docs.aws.amazon.com/apigateway/latest/developerguide/response-transfer-mode-lambda.html
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from mangum.types import ASGI
from starlette.responses import PlainTextResponse
from starlette.types import Message, Scope

from a2a_lambda.lambda_.buffered import UNREADABLE_REQUEST, Buffered, Unreadable

CONTENT_TYPE = "application/vnd.awslambda.http-integration-response"

DELIMITER = bytes(8)

PRELUDE_BYTES = 16_384
"""Maximum size of the prelude with its delimiter, in bytes."""

CAN_STREAM = "A2A_CAN_STREAM"
"""Environment variable that this package's runtime sets before it imports the handler."""

Write = Callable[[bytes], Awaitable[None]]
"""Sends bytes. Raises OSError if no one reads them any more."""

logger = logging.getLogger(__name__)


class Streaming:
    """Handler of a Lambda function.

    can_stream: whether the runtime takes a `Response`. One that does not, as that of an emulator, gets what
        Mangum would answer.
    settle: awaited before an answer is complete, so that Lambda does not freeze unfinished work.
    release: called when the answer is out. It may end the process.
    """

    def __init__(
        self,
        app: ASGI,
        *,
        settle: Callable[[], Awaitable[None]],
        release: Callable[[], None],
        can_stream: bool,
    ) -> None:
        self._app = app
        self._settle = settle
        self._release = release
        self._can_stream = can_stream
        self._buffered = Buffered(app)

    def __call__(self, event: dict[str, Any], context: Any) -> "Response | dict[str, Any]":
        if not self._can_stream:
            return self._buffered(event, context)
        try:
            _, scope, body = self._buffered.read(event, context)
        except Unreadable:
            refusal = PlainTextResponse(UNREADABLE_REQUEST, 400)
            return Response(refusal, {"type": "http", "method": "GET"}, b"", self._settle, self._release)
        # Since 2.4 an application need not listen for a disconnect: its send raises OSError.
        scope = {**scope, "asgi": {"version": "3.0", "spec_version": "2.4"}, "aws.streamed": True}
        return Response(self._app, scope, body, self._settle, self._release)


class Response:
    """An answer that is not made yet. `stream` makes it. `release` is called when it is out."""

    def __init__(
        self,
        app: ASGI,
        scope: Scope,
        body: bytes,
        settle: Callable[[], Awaitable[None]],
        release: Callable[[], None],
    ) -> None:
        self._app = app
        self._scope = scope
        self._body: bytes | None = body
        self._settle = settle
        self.release = release
        self._write: Write
        self._start: Message | None = None
        self._is_complete = False
        self._has_no_body = scope["method"] == "HEAD"
        self._ended = asyncio.Event()

    async def stream(self, write: Write) -> None:
        """Run the application. `write` gets its bytes at once.

        If the application fails before its first byte, the answer is a 500. Raises what it raises after
        that, and OSError of `write`.
        """
        self._write = write
        try:
            await self._app(self._scope, self.receive, self.send)
        except Exception:
            if self._is_complete:
                logger.exception("the application failed after its answer")
                return
            # Part of the answer is out, so no other status can be sent. The runtime reports the failure in
            # the trailers.
            if self._start is not None:
                raise
            logger.exception("the application failed before it answered")
            start = {
                "type": "http.response.start",
                "status": 500,
                "headers": [(b"content-type", b"text/plain")],
            }
            await self.send(start)
            await self.send({"type": "http.response.body", "body": b"Internal Server Error"})
        finally:
            self._ended.set()
            await self._settle()

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._ended.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            head = prelude(message["status"], message.get("headers", ()))
            self._start = message
            self._has_no_body = self._has_no_body or message["status"] in (204, 304)
            await self._write(head)
            return
        if body := b"" if self._has_no_body else message.get("body", b""):
            await self._write(body)
        self._is_complete = not message.get("more_body", False)


def prelude(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Prelude and delimiter of an answer. Raises ValueError if they have more than 16 KB."""
    single_headers: dict[str, str] = {}
    repeated_headers: dict[str, list[str]] = {}
    cookies: list[str] = []
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name == "set-cookie":
            cookies.append(value)
        elif name in repeated_headers:
            repeated_headers[name].append(value)
        elif name in single_headers:
            repeated_headers[name] = [single_headers.pop(name), value]
        else:
            single_headers[name] = value
    document: dict[str, Any] = {"statusCode": status, "headers": single_headers}
    if repeated_headers:
        document["multiValueHeaders"] = repeated_headers
    if cookies:
        document["cookies"] = cookies
    data = json.dumps(document).encode() + DELIMITER
    if len(data) > PRELUDE_BYTES:
        raise ValueError(f"the response's headers have more than {PRELUDE_BYTES} bytes")
    return data
