"""JSON-RPC: one URL for every operation. The same URL with an appended path works, too."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from a2a_lambda import strictjson
from a2a_lambda.errors import ProtocolError, VersionNotSupported
from a2a_lambda.http import sse
from a2a_lambda.http.auth import APPBUILDER, secret_of
from a2a_lambda.http.error_responses import JSON, report_error
from a2a_lambda.http.operation_call import accept, answer
from a2a_lambda.http.request import APPENDED_PATHS, Target, accepted_types, check_media_type, version
from a2a_lambda.protocol.model import Json
from a2a_lambda.protocol.requests import STREAMED
from a2a_lambda.wire import negotiation, qianfan
from a2a_lambda.wire.interface import Wire
from a2a_lambda.wire.negotiation import DIALECTS
from a2a_lambda.wire.shared import jsonrpc

DIALECTS_BY_PREFIX = {"": "", "a2a": "shared", "alibaba": "alibaba", "v2/a2a": "qianfan", "v2": "qianfan"}
"""The dialect in which an agent is called, by the prefix of its path. For "shared" see `find_dialect`."""


def find_dialect(request: Request, target: Target) -> str | None:
    """Dialect of a request, or None if its path is not one of JSON-RPC.

    Qianfan's clients share `/a2a/<agent>` with all others. Its own header says that a request is Qianfan's.
    If there is a bearer token only, the message says it: see `is_from_appbuilder`.
    """
    if target.suffix.removesuffix("/") not in APPENDED_PATHS:
        return None
    dialect = DIALECTS_BY_PREFIX.get(target.prefix)
    if dialect == "shared":
        is_bearer = "x-api-key" not in request.headers and bool(secret_of(request))
        if is_bearer and APPBUILDER in request.headers:
            return "qianfan"
        if not is_bearer or version(request):
            return ""
    return dialect


@dataclass(frozen=True, slots=True)
class Rpc:
    """Encodes the result and the errors of one JSON-RPC request.

    accepted: media types that the client accepts, as `accepted_types` gives them. id: the request's id, or
    None if it cannot be read.
    """

    accepted: frozenset[str]
    id: jsonrpc.Id
    media_type: str = JSON
    error_event: str = ""

    @property
    def has_unique_id(self) -> bool:
        return jsonrpc.is_unique(self.id)

    def result(self, value: Json) -> bytes:
        return jsonrpc.result(self.id, value)

    def error(self, wire: Wire, error: ProtocolError) -> bytes:
        return jsonrpc.error(self.id, wire.encode_error(error))

    def refusal(self, wire: Wire, error: ProtocolError, *, is_streaming: bool) -> Response:
        body = self.error(wire, error)
        is_event = is_streaming and wire.stream_errors_as_events and error.status == 200
        if is_event and sse.MEDIA_TYPE in self.accepted:
            return Response(sse.encode(body), media_type=sse.MEDIA_TYPE)
        return Response(body, error.status, error.headers, JSON)


async def handle(request: Request, dialect: str, agent: str | None) -> Response:
    """agent: the agent that the path names, if it does; otherwise the tenant may name one."""
    wires: Sequence[Wire] = DIALECTS[dialect]
    binding = Rpc(accepted_types(request), None)
    is_streaming = False
    refusal: VersionNotSupported | None = None
    try:
        wires = negotiation.wires_for(dialect, version(request))
    except VersionNotSupported as unsupported:
        refusal = unsupported  # raised once the caller is known
    try:
        accepted_request = await accept(request, check_media_type)
        value = strictjson.loads(accepted_request.body)
        binding = Rpc(binding.accepted, jsonrpc.read_id(value))
        if refusal is not None:
            raise refusal
        envelope = jsonrpc.decode(value)
        method, params = envelope.method, envelope.params
        wires = negotiation.wires_with(wires, method)
        if len(wires) > 1 and wires[0].methods[method] in ("send", "stream"):
            wires = [qianfan.WIRE if qianfan.is_from_appbuilder(params) else wires[0]]
        operation = wires[0].methods[method]
        is_streaming = operation in STREAMED
        tenant = params.get("tenant") if wires[0].has_tenants and isinstance(params, dict) else None
        return await answer(accepted_request.call(binding, wires, operation, method, params, agent, tenant))
    except Exception as cause:
        error = report_error(cause)
        return binding.refusal(negotiation.wire_for_error(error, wires), error, is_streaming=is_streaming)
