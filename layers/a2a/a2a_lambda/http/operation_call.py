"""One operation, for every binding.

rpc, rest ── accept ── OperationCall ── answer ── wire.decode ─┬─ messages ─┬─ wire.encode ── Response
                                                               └─ service ──┘
`messages` has send and stream, `service` the others. A stream takes its slot here, before its turn starts.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import starlette.types as asgi
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from a2a_lambda import strictjson, telemetry, tracing
from a2a_lambda.access.credentials import Grant
from a2a_lambda.errors import InvalidParams, ProtocolError
from a2a_lambda.http import sse
from a2a_lambda.http.auth import authenticate, authorize
from a2a_lambda.http.discovery import cards
from a2a_lambda.http.error_responses import JSON, NO_STORE, is_fault_on_lambda, report_error
from a2a_lambda.http.request import (
    base_url,
    deadline,
    idempotency_key,
    last_event_id,
    read_body,
    requested_extensions,
)
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.model import Json, truncate_history
from a2a_lambda.protocol.profile import Profile
from a2a_lambda.protocol.requests import STREAMED, Operation, Recipient, SendMessageRequest
from a2a_lambda.tasks.identity import Namespace, RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall
from a2a_lambda.wire.interface import Wire
from a2a_lambda.wire.negotiation import wire_of_task

STREAM_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


class Binding(Protocol):
    """How results and errors become bytes.

    media_type: media type of the answers. error_event: name of an error's event in a stream, or "".
    has_unique_id: no other request has the id of this one.
    """

    @property
    def media_type(self) -> str: ...
    @property
    def error_event(self) -> str: ...
    @property
    def has_unique_id(self) -> bool: ...
    def result(self, value: Json, /) -> bytes: ...
    def error(self, wire: Wire, error: ProtocolError, /) -> bytes: ...
    def refusal(self, wire: Wire, error: ProtocolError, /, *, is_streaming: bool) -> Response: ...


@dataclass(frozen=True, slots=True)
class OperationCall:
    """A request that is understood: an operation, its caller and its agent.

    wires: the wires that the request may speak. If there are several, the task decides; else it is the
    first. extensions: URIs that the client activates, of those that the agent has.
    method: name of the operation in the binding. params, body: the request's parameters and bytes, as they
    came.
    """

    request: Request
    kit: Kit
    binding: Binding
    wires: Sequence[Wire]
    wire: Wire
    caller: Caller
    namespace: Namespace
    agent: Profile
    extensions: tuple[str, ...]
    operation: Operation
    method: str
    params: Json
    body: bytes

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of every answer: the active extensions, under both names of the header."""
        if not (extension_list := ", ".join(self.extensions)):
            return {}
        return {"A2A-Extensions": extension_list, "X-A2A-Extensions": extension_list}

    def message_call(self, request: SendMessageRequest) -> MessageCall:
        """What surrounds the message of a `send` or `stream`. Raises InvalidParams."""
        key, message = idempotency_key(self.request), request["message"]
        has_own_id = not request.get("lacks_id") or self.binding.has_unique_id
        source = self.body
        if key is not None:
            # The envelope's id is new in each try of most clients, so the parameters alone count.
            source = strictjson.dumps(self.params)
        elif not has_own_id and not message.keys() & {"taskId", "contextId"}:
            # The same bytes may be the first words of another user. This id is new in each request.
            source = message["messageId"].encode()
        return MessageCall(
            namespace=self.namespace,
            caller=self.caller,
            identity=RequestIdentity.of(self.namespace, self.method, source, key, has_own_id=has_own_id),
            wire_name=self.wire.name,
            extensions=self.extensions,
            is_streamed=self.operation == "stream",
            blocking_by_default=self.wire.blocking_by_default,
            names_tasks=self.wire.names_tasks,
            takes_message=self.wire.answers_with_messages and self.operation == "send",
            base_url=base_url(self.request),
            push_config_id=self.wire.push_config_id,
            deadline=deadline(self.request),
        )


@dataclass(frozen=True, slots=True)
class AuthenticatedRequest:
    """A request whose caller is known, before it is understood."""

    request: Request
    kit: Kit
    grant: Grant
    body: bytes

    def resolve_agent(self, name: str | None) -> tuple[Profile, Namespace]:
        """The agent with a name, or the default one, and the caller's namespace with it. From now on, the
        lines of the log name the agent. Raises RouteNotFound, Forbidden."""
        agent = self.kit.agents.find(name)
        namespace = authorize(self.request, self.grant, agent)
        telemetry.bind(agent=namespace.agent)
        return agent, namespace

    def call(
        self,
        binding: Binding,
        wires: Sequence[Wire],
        operation: Operation,
        method: str,
        params: Json,
        *names: Json,
    ) -> OperationCall:
        """The operation that the request calls.

        names: values that name the agent, from the request's path and its tenant. One that is not a string
            names none, and without a name it is the default agent.
        Raises RouteNotFound, Forbidden, InvalidParams if two names differ.
        """
        agent_names = {name for name in names if isinstance(name, str) and name}
        if len(agent_names) > 1:
            raise InvalidParams("the path and the tenant name different agents", path="params.tenant")
        agent, namespace = self.resolve_agent(next(iter(agent_names), None))
        return OperationCall(
            request=self.request,
            kit=self.kit,
            binding=binding,
            wires=wires,
            wire=wires[0],
            caller=self.grant.caller,
            namespace=namespace,
            agent=agent,
            extensions=requested_extensions(self.request, agent.extension_uris),
            operation=operation,
            method=method,
            params=params,
            body=self.body,
        )


async def accept(request: Request, check: Callable[[Request], None]) -> AuthenticatedRequest:
    """Authenticate a request, check it, and read its body.

    check: checks what can be checked without the body.
    Raises Unauthenticated, InsufficientScope, TooManyRequests, Unavailable, RequestTooLarge, InvalidRequest
    if the body breaks off, and what `check` raises.
    """
    kit: Kit = request.app.state.kit
    grant = await authenticate(request)
    check(request)
    body = await read_body(request, kit.settings.max_body_bytes)
    return AuthenticatedRequest(request, kit, grant, body)


async def answer(call: OperationCall) -> Response:
    """Run an operation. Raises ProtocolError and StoreError; once it has begun, errors are in the answer."""
    telemetry.bind(version=call.wire.name)
    verb = call.request.method
    operation_name = call.method.removeprefix(f"{verb} ")  # HTTP+JSON's methods begin with the verb
    tracing.current().set({"rpc.method": operation_name}, name=f"{verb} {operation_name}")
    call.agent.card.check_operation(call.operation)
    if call.operation in STREAMED:
        return await _stream(call)
    binding = call.binding
    if call.operation == "card":
        call.wire.requests["card"].decode(call.params)
        card, cache_control = await cards.extended_card(call.request, call.agent, call.wire)
        body = binding.result(call.wire.results["card"].encode(card))
        return Response(body, 200, {**call.headers, "Cache-Control": cache_control}, binding.media_type)
    headers = {**call.headers, **NO_STORE}
    if call.operation != "send":  # only a send may take long
        return Response(await _run_operation(call), 200, headers, binding.media_type)

    def encode_error(cause: Exception) -> bytes:
        return binding.error(call.wire, report_error(cause))

    return await respond(_run_operation(call), encode_error, headers, binding.media_type)


async def respond(
    result: Coroutine[None, None, bytes],
    encode_error: Callable[[Exception], bytes],
    headers: Mapping[str, str] = MappingProxyType({}),
    media_type: str = JSON,
) -> Response:
    """An answer that may take long. After its first keep-alive the status is 200, and an error is in the
    body. Before that, it raises what `result` raises."""
    work = asyncio.ensure_future(result)
    await asyncio.wait({work}, timeout=sse.KEEP_ALIVE_SECONDS)
    if work.done():
        return Response(work.result(), 200, headers, media_type)

    async def finish_late() -> bytes:
        try:
            return await work
        except Exception as cause:
            return encode_error(cause)

    body = sse.with_spaces(asyncio.ensure_future(finish_late()), sse.KEEP_ALIVE_SECONDS)
    return StreamingResponse(body, 200, headers, media_type)


async def _run_operation(call: OperationCall) -> bytes:
    service, wire, namespace = call.kit.service, call.wire, call.namespace
    operation = call.operation
    request = wire.requests[operation].decode(call.params)
    match operation:
        case "send":
            result: Json = await call.kit.messages.send(call.message_call(request), request)
        case "get" | "cancel":
            act = service.get if operation == "get" else service.cancel
            record = await act(namespace, request["id"])
            if (wire := wire_of_task(call.wires, record.wire_name)) is not call.wire:
                request = wire.requests[operation].decode(call.params)
            result = truncate_history(record.task, request.get("historyLength"))
        case "list":
            result = await service.list(namespace, request)
        case "set_push":
            result = await service.configs.set(namespace, request, wire.name, wire.push_config_id)
        case "get_push":
            result = await service.configs.get(namespace, request, wire.push_config_id)
        case "list_push":
            result = await service.configs.list(namespace, request)
        case _:  # delete_push
            await service.configs.delete(namespace, request)
            result = None
    return call.binding.result(wire.results[operation].encode(result))


async def _stream(call: OperationCall) -> Response:
    service, wire = call.kit.service, call.wire
    request = wire.requests[call.operation].decode(call.params)
    async with AsyncExitStack() as stack:
        owner = call.namespace.owner
        await stack.enter_async_context(call.kit.call_slots.hold(owner))
        if call.operation == "stream":
            recipient = Recipient(owner, request["message"].get("metadata", {}))
            events = await call.kit.messages.stream(call.message_call(request), request)
        else:
            recipient = Recipient(owner)
            subscription = await service.subscribe(
                call.namespace,
                request["id"],
                after=last_event_id(call.request),
                deadline=deadline(call.request),
                needs_running=wire.subscribe_needs_running,
            )
            wire, events = wire_of_task(call.wires, subscription.wire_name), subscription.events
        body = _encode_stream(call, wire, recipient, events)
        return SlotStream(body, stack, call.headers)


class SlotStream(StreamingResponse):
    """Server-sent events that hold a slot. Both are released when the answer ends, even if the client leaves
    before the first event. stack: releases the slot; the response takes over what is in it."""

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        stack: AsyncExitStack,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(events, headers={**STREAM_HEADERS, **headers}, media_type=sse.MEDIA_TYPE)
        stack.push_async_callback(events.aclose)
        self._stack = stack.pop_all()

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        async with self._stack:
            await super().__call__(scope, receive, send)


async def _encode_stream(
    call: OperationCall, wire: Wire, recipient: Recipient, events: "sse.Events"
) -> AsyncGenerator[bytes, None]:
    binding = call.binding
    view = sse.StreamView(replaces=wire.replaces_artifacts)
    try:
        async with aclosing(sse.with_silences(events, sse.KEEP_ALIVE_SECONDS)) as items:
            async for item in items:
                if item is None:
                    yield sse.COMMENT
                    continue
                sequence, event = item
                updates = view.take(event)
                values = [value for update in updates for value in wire.encode_event(update, recipient)]
                for index, value in enumerate(values, 1):
                    # One event may become several. Only the last of them has the id: a client that has it
                    # has the whole event.
                    event_id = sequence if index == len(values) and not view.is_stale else None
                    yield sse.encode(binding.result(value), event_id)
    except Exception as cause:
        yield sse.encode(binding.error(wire, report_error(cause)), event=binding.error_event)
        if is_fault_on_lambda(cause, call.request):
            raise
