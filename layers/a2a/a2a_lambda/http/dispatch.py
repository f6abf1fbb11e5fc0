"""A request understood, and its answer: the same for every binding.

rpc, rest ── OperationCall ── answer ── wire.decode ── service ── wire.encode ── Response
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Protocol

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from a2a_lambda import telemetry
from a2a_lambda.agent.agent import Agent
from a2a_lambda.errors import InvalidParams, ProtocolError, RouteNotFound
from a2a_lambda.http import cards, sse
from a2a_lambda.http.error_responses import protocol_error
from a2a_lambda.http.request import deadline, last_event_id, requested_extensions
from a2a_lambda.kit import Kit
from a2a_lambda.operations.follow import truncate_history
from a2a_lambda.operations.service import Subscription
from a2a_lambda.operations.stream_limit import Slot
from a2a_lambda.protocol.model import Json
from a2a_lambda.protocol.requests import Operation, Recipient
from a2a_lambda.tasks.call import Call
from a2a_lambda.tasks.event_log import restate
from a2a_lambda.tasks.identity import Request as Identity
from a2a_lambda.tasks.identity import Scope
from a2a_lambda.wire.interface import Wire
from a2a_lambda.wire.negotiation import of_task

MAX_IDEMPOTENCY_KEY = 255

STREAMED = ("stream", "subscribe")

STREAM_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


class Binding(Protocol):
    """How results and errors are put into bytes. error_event: the name of an error in a stream, where
    it has one."""

    @property
    def media_type(self) -> str: ...
    @property
    def error_event(self) -> str: ...
    def result(self, value: Json, /) -> bytes: ...
    def error(self, wire: Wire, error: ProtocolError, /) -> bytes: ...
    def refusal(self, wire: Wire, error: ProtocolError, /, *, streaming: bool) -> Response: ...


@dataclass(frozen=True, slots=True)
class OperationCall:
    """wires: those the request may speak; more than one only where its task has to tell.
    method: what the operation is called there."""

    request: Request
    kit: Kit
    binding: Binding
    wires: Sequence[Wire]
    scope: Scope
    operation: Operation
    method: str
    params: Json
    body: bytes

    @property
    def wire(self) -> Wire:
        return self.wires[0]

    @property
    def agent(self) -> Agent:
        return self.kit.agents[self.scope.agent]

    @property
    def extensions(self) -> tuple[str, ...]:
        """URIs the client activates, of those the agent has."""
        known = self.agent.extension_uris
        return tuple(uri for uri in requested_extensions(self.request) if uri in known)

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of every answer: the extensions active in it, under both of the header's names."""
        if not (active := ", ".join(self.extensions)):
            return {}
        return {"A2A-Extensions": active, "X-A2A-Extensions": active}

    def call(self) -> Call:
        key = self.request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY:
            raise InvalidParams(f"Idempotency-Key must have 1 to {MAX_IDEMPOTENCY_KEY} characters")
        return Call(
            scope=self.scope,
            request=Identity.of(self.scope, self.method, self.body, key),
            dialect=self.wire.name,
            extensions=self.extensions,
            waits=self.wire.blocking_by_default,
            config_id=self.wire.push_config_id,
            idempotent=key is not None,
            deadline=deadline(self.request),
        )


def agent_named(kit: Kit, *names: str | None) -> str:
    """The agent a path and a tenant name, or the default one.

    Raises RouteNotFound, InvalidParams where the two differ.
    """
    given = {name for name in names if name}
    if len(given) > 1:
        raise InvalidParams("the path and the tenant name different agents", path="params.tenant")
    name = next(iter(given), kit.default)
    if name not in kit.agents:
        raise RouteNotFound(f"there is no agent {name[:100]!r}")
    return name


async def answer(exchange: OperationCall) -> Response:
    """Raises ProtocolError, StoreError; once the answer has begun it tells them itself."""
    scope = exchange.scope
    telemetry.bind(owner=scope.owner, agent=scope.agent, version=exchange.wire.name)
    exchange.kit.service.check(exchange.scope, exchange.operation)
    if exchange.operation in STREAMED:
        return await _streamed(exchange)
    work = asyncio.ensure_future(_result(exchange))
    # Only a send may take its time: its answer begins with white space then, and its status is 200.
    await asyncio.wait({work}, timeout=sse.KEEP_ALIVE_SECONDS if exchange.operation == "send" else None)
    binding = exchange.binding
    if work.done():
        return Response(binding.result(work.result()), 200, exchange.headers, binding.media_type)

    async def late() -> bytes:
        try:
            return binding.result(await work)
        except Exception as raised:
            return binding.error(exchange.wire, protocol_error(raised))

    spaced = sse.spaced(asyncio.ensure_future(late()), sse.KEEP_ALIVE_SECONDS)
    return StreamingResponse(spaced, 200, exchange.headers, binding.media_type)


async def _result(exchange: OperationCall) -> Json:
    service, wire, scope = exchange.kit.service, exchange.wire, exchange.scope
    operation = exchange.operation
    request = wire.requests[operation].decode(exchange.params)
    match operation:
        case "send":
            result: Json = await service.send(exchange.call(), request)
        case "get" | "cancel":
            act = service.get if operation == "get" else service.cancel
            found = await act(scope, request["id"])
            if (wire := of_task(exchange.wires, found.dialect)) is not exchange.wire:
                request = wire.requests[operation].decode(exchange.params)
            result = truncate_history(found.task, request.get("historyLength"))
        case "list":
            result = await service.list(scope, request)
        case "set_push":
            result = await service.configs.set(scope, request, wire.name, wire.push_config_id)
        case "get_push":
            result = await service.configs.get(scope, request)
        case "list_push":
            result = await service.configs.list(scope, request)
        case "delete_push":
            await service.configs.delete(scope, request)
            result = None
        case _:
            result = await cards.extended(exchange.request, exchange.agent, wire)
    return wire.results[operation].encode(result)


async def _streamed(exchange: OperationCall) -> Response:
    service, wire = exchange.kit.service, exchange.wire
    request = wire.requests[exchange.operation].decode(exchange.params)
    async with AsyncExitStack() as stack:
        owner = exchange.scope.owner
        slot = await stack.enter_async_context(exchange.kit.stream_limit.slot(owner))
        if exchange.operation == "stream":
            recipient = Recipient(owner, request["message"].get("metadata", {}))
            events = await service.stream(exchange.call(), request)
        else:
            recipient = Recipient(owner)
            subscription = await _subscribed(exchange, request["id"])
            wire, events = of_task(exchange.wires, subscription.dialect), subscription.events
        body = _held(stack.pop_all(), slot, _events(exchange, wire, recipient, events))
    headers = {**STREAM_HEADERS, **exchange.headers}
    return StreamingResponse(body, headers=headers, media_type=sse.MEDIA_TYPE)


async def _held(stack: AsyncExitStack, slot: Slot, body: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    """A stream, with what it holds until it ends."""
    async with stack, aclosing(body):
        async for chunk in body:
            yield chunk
            await slot.keep()


async def _subscribed(exchange: OperationCall, task_id: str) -> Subscription:
    after = last_event_id(exchange.request)
    return await exchange.kit.service.subscribe(
        exchange.scope,
        task_id,
        after=after,
        live=exchange.wire.subscribe_needs_running,
        deadline=deadline(exchange.request),
    )


async def _events(
    exchange: OperationCall, wire: Wire, recipient: Recipient, events: "sse.Events"
) -> AsyncGenerator[bytes, None]:
    binding = exchange.binding
    begun = stale = False
    try:
        async with aclosing(sse.paced(events, sse.KEEP_ALIVE_SECONDS)) as paced:
            async for published in paced:
                if published is None:
                    yield sse.COMMENT
                    continue
                sequence, event = published
                updates = [event]
                if begun and "task" in event:
                    # The turn lost its task: the client has seen chunks that were never stored. Clients take
                    # one task a stream (a2a-sdk 0.3 fails on a second), so its artifacts are sent anew.
                    stale = not wire.replaces_artifacts
                    updates = [] if stale else restate(event["task"])
                begun = begun or "task" in event
                if stale:
                    sequence = None
                encoded = [value for each in updates for value in wire.encode_event(each, recipient)]
                for index, value in enumerate(encoded, 1):
                    # Only the last of several lines tells that the event was received.
                    identity = sequence if index == len(encoded) else None
                    yield sse.encode(binding.result(value), identity)
    except Exception as raised:
        error = protocol_error(raised)
        yield sse.encode(binding.error(wire, error), event=binding.error_event)
        if error is not raised and "aws.streamed" in exchange.request.scope:
            raise  # a fault: the client has been told, Lambda has to be
