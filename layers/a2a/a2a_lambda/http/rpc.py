"""JSON-RPC routes: one url for send and stream, and the same with `/stream` behind it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from a2a_lambda import strictjson
from a2a_lambda.errors import (
    InvalidParams,
    ProtocolError,
    RequestTooLarge,
    RouteNotFound,
    UnsupportedMediaType,
)
from a2a_lambda.head import Request as Identity
from a2a_lambda.head import Scope
from a2a_lambda.http import sse
from a2a_lambda.http.auth import scope_of
from a2a_lambda.http.errors import JSON, protocol_error
from a2a_lambda.http.place import deadline
from a2a_lambda.intake import Call
from a2a_lambda.kit import Kit
from a2a_lambda.model import Json, Operation, Published
from a2a_lambda.wire import BY_PATH, Wire, jsonrpc

MAX_IDEMPOTENCY_KEY = 255

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request understood so far as its version, id and operation."""

    request: Request
    kit: Kit
    wire: Wire
    scope: Scope
    body: bytes
    id: jsonrpc.Id
    method: str
    params: Json
    operation: Operation

    def call(self) -> Call:
        key = self.request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY:
            raise InvalidParams(f"Idempotency-Key must have 1 to {MAX_IDEMPOTENCY_KEY} characters")
        identity = Identity.of(self.scope, self.method, self.body, key)
        return Call(self.scope, identity, key is not None, deadline(self.request))


@router.post("/")
@router.post("/stream")
@router.post("/stream/")
async def default_agent(request: Request) -> Response:
    return await _answer(request, "", None)


@router.post("/a2a/{agent}")
@router.post("/a2a/{agent}/")
@router.post("/a2a/{agent}/stream")
@router.post("/a2a/{agent}/stream/")
async def named_agent(request: Request, agent: str) -> Response:
    return await _answer(request, "", agent)


@router.post("/alibaba")
@router.post("/alibaba/")
@router.post("/alibaba/stream")
@router.post("/alibaba/stream/")
async def alibaba_default(request: Request) -> Response:
    return await _answer(request, "alibaba", None)


@router.post("/alibaba/{agent}")
@router.post("/alibaba/{agent}/")
@router.post("/alibaba/{agent}/stream")
@router.post("/alibaba/{agent}/stream/")
async def alibaba_named(request: Request, agent: str) -> Response:
    return await _answer(request, "alibaba", agent)


async def _answer(request: Request, dialect: str, agent: str | None) -> Response:
    kit: Kit = request.app.state.kit
    wire = BY_PATH[dialect]
    identity: jsonrpc.Id = None
    streaming = False
    try:
        name = agent or kit.default
        if name not in kit.agents:
            raise RouteNotFound(f"there is no agent {name[:100]!r}")
        scope = await scope_of(request, name)
        body = await _body(request, kit.settings.max_body_bytes)
        value = strictjson.loads(body)
        identity = jsonrpc.read_id(value)
        envelope = jsonrpc.decode(value)
        operation = wire.METHODS.get(envelope.method)
        if operation is None:
            raise wire.unsupported(envelope.method)
        streaming = operation in ("stream", "subscribe")
        exchange = Exchange(
            request, kit, wire, scope, body, identity, envelope.method, envelope.params, operation
        )
        return await (_streamed(exchange) if streaming else _single(exchange))
    except Exception as raised:
        return _refused(request, wire, identity, protocol_error(raised), streaming=streaming)


async def _body(request: Request, limit: int) -> bytes:
    media_type = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if media_type != JSON and not media_type.endswith("+json"):
        raise UnsupportedMediaType(f"Content-Type is {media_type[:100]}, and must be {JSON}")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise RequestTooLarge(f"a request has at most {limit} bytes")
    return body


async def _single(exchange: Exchange) -> Response:
    work = asyncio.ensure_future(_result(exchange))
    await asyncio.wait({work}, timeout=sse.KEEP_ALIVE)
    if work.done():
        return Response(jsonrpc.result(exchange.id, work.result()), media_type=JSON)

    async def late() -> bytes:
        try:
            return jsonrpc.result(exchange.id, await work)
        except Exception as raised:
            return jsonrpc.error(exchange.id, exchange.wire.encode_error(protocol_error(raised)))

    return StreamingResponse(sse.spaced(asyncio.ensure_future(late()), sse.KEEP_ALIVE), media_type=JSON)


async def _result(exchange: Exchange) -> Json:
    service, wire = exchange.kit.service, exchange.wire
    if exchange.operation == "send":
        request = wire.decode_send(exchange.params)
        return wire.encode_task(await service.send(exchange.call(), request))
    target = wire.decode_task(exchange.params)
    if exchange.operation == "cancel":
        return wire.encode_task(await service.cancel(exchange.scope, target))
    return wire.encode_task(await service.get(exchange.scope, target))


async def _streamed(exchange: Exchange) -> Response:
    service, wire = exchange.kit.service, exchange.wire
    if exchange.operation == "stream":
        events = await service.stream(exchange.call(), wire.decode_send(exchange.params))
    else:
        events = await service.subscribe(
            exchange.scope,
            wire.decode_task(exchange.params),
            after=_last_event_id(exchange.request),
            deadline=deadline(exchange.request),
        )
    headers = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(exchange, events), headers=headers, media_type=sse.MEDIA_TYPE)


async def _events(exchange: Exchange, events: AsyncGenerator[Published, None]) -> AsyncIterator[bytes]:
    try:
        async with aclosing(sse.paced(events, sse.KEEP_ALIVE)) as paced:
            async for published in paced:
                if published is None:
                    yield sse.COMMENT
                    continue
                sequence, event = published
                encoded = exchange.wire.encode_event(event)
                for index, value in enumerate(encoded, 1):
                    # Only the last of several lines tells that the event was received.
                    identity = sequence if index == len(encoded) else None
                    yield sse.encode(jsonrpc.result(exchange.id, value), identity)
    except Exception as raised:
        error = protocol_error(raised)
        yield sse.encode(jsonrpc.error(exchange.id, exchange.wire.encode_error(error)))
        if error is not raised and "aws.streamed" in exchange.request.scope:
            raise  # a fault: the client has been told, Lambda has to be


def _last_event_id(request: Request) -> int | None:
    """Sequence number a client has; None when it says none, or one that never was ours."""
    value = request.headers.get("last-event-id", "")
    return int(value) if value.isascii() and value.isdigit() and len(value) <= 10 else None


def _refused(
    request: Request, wire: Wire, identity: jsonrpc.Id, error: ProtocolError, *, streaming: bool
) -> Response:
    body = jsonrpc.error(identity, wire.encode_error(error))
    if streaming and error.status == 200 and sse.MEDIA_TYPE in request.headers.get("accept", ""):
        # The SDKs' stream readers understand an error as an event and choke on any other body.
        return Response(sse.encode(body), media_type=sse.MEDIA_TYPE)
    return Response(body, error.status, error.headers, JSON)
