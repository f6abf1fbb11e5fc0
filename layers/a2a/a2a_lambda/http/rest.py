"""HTTP+JSON. The paths of A2A have colons, which API Gateway's routes cannot have, so the kit splits them.

[/a2a/<agent>] / [<version's prefix>/] [<tenant>/] <a route of the version>
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

from starlette.requests import Request
from starlette.responses import Response

from a2a_lambda import strictjson
from a2a_lambda.errors import (
    InvalidParams,
    MethodNotAllowed,
    ProtocolError,
    RouteNotFound,
    StreamingNotSupported,
    VersionNotSupported,
    excerpt,
)
from a2a_lambda.http import sse
from a2a_lambda.http.error_responses import JSON, NO_STORE, report_error
from a2a_lambda.http.operation_call import Binding, accept, answer
from a2a_lambda.http.request import A2A_VERSION, Target, accepted_types, check_media_type, version
from a2a_lambda.http.rpc import Rpc
from a2a_lambda.protocol.model import Json
from a2a_lambda.wire import negotiation
from a2a_lambda.wire.interface import Route, Wire
from a2a_lambda.wire.negotiation import VERSIONS
from a2a_lambda.wire.shared import jsonrpc, protojson

REGISTRATION_PATH = "register"
"""Where a client of MCP whose key was refused tries to register, and whose answer it shows the user (MCP
2025-03-26, authorization, section 2.3.2)."""

REGISTRATION_HINT = ". Clients cannot register here: check the key or the token that yours sends"


@dataclass(frozen=True, slots=True)
class Match:
    """A route that a path fits. variables: the path's variables, with the tenant among them."""

    wire: Wire
    route: Route
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rest:
    """Encodes the result and the errors of one HTTP+JSON request.

    media_type: media type of the result. error_media_type: media type of an error.
    """

    media_type: str
    error_media_type: str
    error_event: str = "error"
    has_unique_id: bool = False

    def result(self, value: Json) -> bytes:
        return strictjson.dumps({} if value is None else value)

    def error(self, wire: Wire, error: ProtocolError) -> bytes:
        return strictjson.dumps(wire.encode_http_error(error)[1])

    def refusal(self, wire: Wire, error: ProtocolError, *, is_streaming: bool) -> Response:
        status, body = wire.encode_http_error(error)
        if is_streaming and wire.stream_errors_as_events and isinstance(error, StreamingNotSupported):
            # This client expects a stream, whatever the card says. It gets a stream of one event: the error.
            return Response(
                sse.encode(strictjson.dumps(body), event=self.error_event), media_type=sse.MEDIA_TYPE
            )
        return Response(strictjson.dumps(body), status, {**error.headers, **NO_STORE}, self.error_media_type)


async def handle(request: Request, target: Target) -> Response:
    path: str = request.scope["path"].removeprefix("/")
    # The other prefixes are those of JSON-RPC and MCP.
    agent, rest = (target.agent, target.suffix[1:]) if target.prefix == "a2a" else (None, path)
    wire = VERSIONS[0]
    binding = Rest(*_media_types(request, wire))
    try:
        matches = list(_matches(rest))
        if not matches:
            hint = REGISTRATION_HINT if path == REGISTRATION_PATH else ""
            raise RouteNotFound(f"nothing is served at /{excerpt(path)}{hint}")
        wire = matches[0].wire
        binding = Rest(*_media_types(request, wire))
        match = next((match for match in matches if match.route.verb == request.method), None)
        if match is None:
            raise MethodNotAllowed(request.method, dict.fromkeys(match.route.verb for match in matches))
        accepted_request = await accept(request, partial(check_version, wire))
        params = _params(request, accepted_request.body, match)
        if not wire.has_tenants:
            params.pop("tenant", None)
        tenant = params.get("tenant")
        route = match.route
        method = f"{route.verb} {route.path}"
        answer_binding: Binding = binding
        is_envelope = {"jsonrpc", "params"} <= params.keys() and not {"message", "request"} & params.keys()
        if route.operation in ("send", "stream") and wire.path_prefix and is_envelope:
            from a2a_lambda.wire import agno  # few deployments meet its clients

            answer_binding = Rpc(accepted_types(request), jsonrpc.read_id(params))
            wire, params = agno.WIRE, params["params"]
        return await answer(
            accepted_request.call(answer_binding, (wire,), route.operation, method, params, agent, tenant)
        )
    except Exception as cause:
        is_streaming = sse.MEDIA_TYPE in accepted_types(request)
        return binding.refusal(wire, report_error(cause), is_streaming=is_streaming)


def _matches(path: str) -> Iterator[Match]:
    """Routes that match what follows the agent's path, whatever their verbs."""
    # 0.3's paths begin with /v1. 1.0 has no prefix, but may have a tenant in its place.
    prefixes = (wire.path_prefix for wire in VERSIONS if wire.path_prefix)
    prefix = next((candidate for candidate in prefixes if path.startswith(f"{candidate}/")), "")
    route_path = path.removeprefix(f"{prefix}/")
    for wire in VERSIONS:
        for route in wire.routes if prefix == wire.path_prefix else ():
            if match := _pattern(route.path, allows_tenant=not prefix).fullmatch(route_path):
                variables = {name: value for name, value in match.groupdict().items() if value}
                yield Match(wire, route, variables)


@cache
def _pattern(path: str, *, allows_tenant: bool) -> "re.Pattern[str]":
    """Expression of a route's path. allows_tenant: a tenant may stand before it, as a segment."""
    expression = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+?)", re.escape(path))
    return re.compile((r"(?:(?P<tenant>(?!tasks/)[^/]+)/)?" if allows_tenant else "") + expression + "/?")


def _params(request: Request, body: bytes, match: Match) -> dict[str, Json]:
    """Fields of the body, then of the query, then the path's variables. No field may contradict the path.

    Raises ParseError, InvalidParams, UnsupportedMediaType.
    """
    fields: Json = {}
    if body.strip():
        check_media_type(request)
        fields = strictjson.loads(body)
        if fields is None:  # a2a-go up to 2.3.1 sends null where there is nothing to send
            fields = {}
        if not isinstance(fields, dict):
            raise InvalidParams("the body must be an object")
    # A client that writes `?historyLength=` names no length.
    pairs = request.query_params.items()
    query = {name: value for name, value in pairs if value and name.lower() != A2A_VERSION}
    params = {**fields, **query}
    for spelling, name in protojson.spellings(match.variables).items():
        if params.pop(spelling, None) not in (None, "", match.variables[name]):
            raise InvalidParams(f"the path and the body differ in {name}", path=f"params.{name}")
    return {**params, **match.variables}


def check_version(wire: Wire, request: Request) -> None:
    """Raises VersionNotSupported, including for a version that has other paths."""
    version_name = version(request)
    wires = negotiation.wires_for("", version_name)
    if version_name and wire.name not in {other.name for other in wires}:
        raise VersionNotSupported(
            f"this path is for A2A {wire.name}, but A2A-Version is {excerpt(version_name)}."
            " The paths of 0.3 begin with /v1; those of 1.0 do not"
        )


def _media_types(request: Request, wire: Wire) -> tuple[str, str]:
    """Media types of an answer and of an error. An answer has the version's own (A2A 1.0.1 section 11.1),
    unless the client accepts application/json only. An error has it if the client says that it accepts it,
    because streams of a2a-go and calls of a2a-dotnet do not, and read an error only as application/json.
    """
    types = accepted_types(request)
    takes_own = bool(types & {wire.media_type, "application/*", "*/*"})
    only_json = JSON in types and not takes_own
    return JSON if only_json else wire.media_type, wire.media_type if takes_own else JSON
