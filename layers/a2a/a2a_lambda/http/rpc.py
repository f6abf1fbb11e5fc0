"""JSON-RPC routes: one url for every operation, and the same with `/stream` behind it."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, HTTPException, Request, Response

from a2a_lambda import strictjson
from a2a_lambda.errors import ProtocolError
from a2a_lambda.http import sse
from a2a_lambda.http.auth import APPBUILDER, authenticated, bearer_key, scope_of
from a2a_lambda.http.dispatch import STREAMED, OperationCall, agent_named, answer
from a2a_lambda.http.error_responses import JSON, protocol_error
from a2a_lambda.http.request import check_media_type, read_body, version
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Json
from a2a_lambda.wire import negotiation, qianfan, v1_0
from a2a_lambda.wire.interface import Wire
from a2a_lambda.wire.negotiation import DIALECTS
from a2a_lambda.wire.shared import jsonrpc

router = APIRouter()

PATHS = {
    "": "",
    "/a2a/{agent}": "",
    "/alibaba": "alibaba",
    "/alibaba/{agent}": "alibaba",
    "/v2/a2a/{agent}": "qianfan",
    "/v2/{agent}": "qianfan",
}
"""Where agents are called, and the dialect there."""


@dataclass(frozen=True, slots=True)
class Rpc:
    """Answers of one request."""

    accept: str
    id: jsonrpc.Id
    media_type: str = JSON
    error_event: str = ""

    def result(self, value: Json) -> bytes:
        return jsonrpc.result(self.id, value)

    def error(self, wire: Wire, error: ProtocolError) -> bytes:
        return jsonrpc.error(self.id, wire.encode_error(error))

    def refusal(self, wire: Wire, error: ProtocolError, *, streaming: bool) -> Response:
        body = self.error(wire, error)
        if (
            streaming
            and wire.stream_errors_as_events
            and error.status == 200
            and sse.MEDIA_TYPE in self.accept
        ):
            # The stream readers of 0.x SDKs understand an error as an event and choke on any other body.
            return Response(sse.encode(body), media_type=sse.MEDIA_TYPE)
        return Response(body, error.status, error.headers, JSON)


async def _call(request: Request) -> Response:
    kit: Kit = request.app.state.kit
    wires: Sequence[Wire] = DIALECTS[_dialect(request)]
    binding = Rpc(request.headers.get("accept", ""), None)
    streaming = False
    try:
        key = await authenticated(request)
        check_media_type(request)
        body = await read_body(request, kit.settings.max_body_bytes)
        value = strictjson.loads(body)
        binding = Rpc(binding.accept, jsonrpc.read_id(value))
        wires = negotiation.spoken(_dialect(request), version(request))
        envelope = jsonrpc.decode(value)
        wires = negotiation.of_method(wires, envelope.method)
        if len(wires) > 1 and wires[0].methods[envelope.method] in ("send", "stream"):
            wires = [qianfan.WIRE if qianfan.speaks(envelope.params) else wires[0]]
        operation = wires[0].methods[envelope.method]
        streaming = operation in STREAMED
        tenant = _tenant(envelope.params) if wires[0] is v1_0.WIRE else None
        agent = agent_named(kit, request.path_params.get("agent"), tenant)
        scope = scope_of(key, agent)
        exchange = OperationCall(
            request, kit, binding, wires, scope, operation, envelope.method, envelope.params, body
        )
        return await answer(exchange)
    except Exception as raised:
        error = protocol_error(raised)
        return binding.refusal(negotiation.refusing(error, wires), error, streaming=streaming)


async def _refuse(request: Request) -> Response:
    raise HTTPException(405, headers={"Allow": "POST"})


for _path in PATHS:
    for _end in ("", "/", "/stream", "/stream/"):
        if _path + _end:
            router.add_api_route(_path + _end, _call, methods=["POST"])
            router.add_api_route(_path + _end, _refuse, methods=["GET", "HEAD", "PUT", "PATCH", "DELETE"])


def _dialect(request: Request) -> str:
    """The dialect of a path. `/a2a/{agent}` is Qianfan's too: wholly for its own header, and for a bearer
    token where the message tells (see `qianfan.speaks`)."""
    path = request.scope["route"].path.rstrip("/").removesuffix("/stream")
    if path == "/a2a/{agent}":
        if APPBUILDER in request.headers and bearer_key(request):
            return "qianfan"
        if bearer_key(request) and not version(request):
            return "shared"
    return PATHS[path]


def _tenant(params: Json) -> str | None:
    tenant = params.get("tenant") if isinstance(params, dict) else None
    return tenant if isinstance(tenant, str) else None
