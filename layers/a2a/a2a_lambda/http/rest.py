"""HTTP+JSON routes, behind one catch-all: API Gateway's paths know no colons, so the application
splits them.

    [/a2a/<agent>] / [<version's prefix>/] [<tenant>/] <a route of the version>
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from fastapi import APIRouter, Request, Response

from a2a_lambda import strictjson
from a2a_lambda.errors import (
    InvalidParams,
    InvalidRequest,
    ProtocolError,
    RouteNotFound,
    StreamingNotSupported,
)
from a2a_lambda.http import sse
from a2a_lambda.http.auth import authenticated, scope_of
from a2a_lambda.http.dispatch import OperationCall, agent_named, answer
from a2a_lambda.http.error_responses import JSON, protocol_error
from a2a_lambda.http.request import check_media_type, read_body, version
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Json
from a2a_lambda.wire import negotiation
from a2a_lambda.wire.interface import Route, Wire
from a2a_lambda.wire.negotiation import VERSIONS
from a2a_lambda.wire.shared import protojson

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Match:
    """A request's place among the routes. agent: as the path names it, or "". variables: of the path,
    the tenant among them."""

    wire: Wire
    route: Route
    agent: str
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rest:
    """Answers of one request."""

    media_type: str
    error_event: str = "error"

    def result(self, value: Json) -> bytes:
        return strictjson.dumps({} if value is None else value)

    def error(self, wire: Wire, error: ProtocolError) -> bytes:
        return strictjson.dumps(wire.encode_failure(error)[1])

    def refusal(self, wire: Wire, error: ProtocolError, *, streaming: bool) -> Response:
        status, body = wire.encode_failure(error)
        if streaming and isinstance(error, StreamingNotSupported):
            # Who expects a stream whatever the card says gets one: of one event, the error.
            return Response(
                sse.encode(strictjson.dumps(body), event=self.error_event), media_type=sse.MEDIA_TYPE
            )
        return Response(strictjson.dumps(body), status, error.headers, self.media_type)


@router.api_route("/{path:path}", methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
async def call(request: Request, path: str) -> Response:
    kit: Kit = request.app.state.kit
    wire = VERSIONS[0]
    binding = Rest(_media_type(request, wire))
    try:
        matches = list(_matches(path))
        if not matches:
            raise RouteNotFound(f"nothing is served at /{path[:200]}")
        wire = matches[0].wire
        binding = Rest(_media_type(request, wire))
        match = next((match for match in matches if match.route.verb == request.method), None)
        if match is None:
            return _not_allowed(binding, wire, request.method, [match.route.verb for match in matches])
        key = await authenticated(request)
        _check_version(wire, version(request))
        body = await read_body(request, kit.settings.max_body_bytes)
        params = _params(request, body, match)
        tenant = params.get("tenant")
        agent = agent_named(kit, match.agent, tenant if isinstance(tenant, str) else None)
        method = f"{match.route.verb} {match.route.path}"
        scope = scope_of(key, agent)
        exchange = OperationCall(
            request, kit, binding, (wire,), scope, match.route.operation, method, params, body
        )
        return await answer(exchange)
    except Exception as raised:
        streaming = sse.MEDIA_TYPE in request.headers.get("accept", "")
        return binding.refusal(wire, protocol_error(raised), streaming=streaming)


def _matches(path: str) -> Iterator[Match]:
    """Routes of a path, whatever their verb."""
    agent, rest = "", path
    if found := re.fullmatch(r"a2a/([^/]+)/(.+)", path):
        agent, rest = found.groups()
    prefix = next(
        (
            wire.path_prefix
            for wire in VERSIONS
            if wire.path_prefix and rest.startswith(f"{wire.path_prefix}/")
        ),
        "",
    )
    inner = rest.removeprefix(f"{prefix}/")
    for wire in VERSIONS:
        for route in wire.routes if prefix == wire.path_prefix else ():
            if found := _pattern(route.path, tenant=not prefix).fullmatch(inner):
                variables = {name: value for name, value in found.groupdict().items() if value}
                yield Match(wire, route, agent, variables)


@cache
def _pattern(path: str, *, tenant: bool) -> "re.Pattern[str]":
    """Expression of a route's path; a tenant is a segment before it."""
    escaped = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+?)", re.escape(path))
    return re.compile((r"(?:(?P<tenant>(?!tasks/)[^/]+)/)?" if tenant else "") + escaped + "/?")


def _params(request: Request, body: bytes, match: Match) -> dict[str, Json]:
    """The body's fields, those of the query, and the path's variables, which no other may contradict.

    Raises ParseError, InvalidParams, UnsupportedMediaType.
    """
    given: Json = {}
    if body.strip():
        check_media_type(request)
        given = strictjson.loads(body)
        if not isinstance(given, dict):
            raise InvalidParams("the body must be an object")
    query = {name: value for name, value in request.query_params.items() if name.lower() != "a2a-version"}
    params = {**given, **query}
    for spelled, name in protojson.spelled(match.variables).items():
        if params.pop(spelled, None) not in (None, "", match.variables[name]):
            raise InvalidParams(f"the path and the body differ in {name}", path=f"params.{name}")
    return {**params, **match.variables}


def _check_version(wire: Wire, asked: str) -> None:
    """Raises VersionNotSupported; InvalidRequest for a version of another path."""
    spoken = negotiation.spoken("", asked)
    if asked and wire.name not in {other.name for other in spoken}:
        raise InvalidRequest(
            f"this path speaks A2A {wire.name}, and A2A-Version says {asked[:20]}:"
            " 0.3 is spoken below /v1, 1.0 without it"
        )


def _media_type(request: Request, wire: Wire) -> str:
    """The version's own media type, unless the client accepts application/json and not that.

    Source: A2A 1.0.1 section 11.1.
    """
    accepted = {
        item.partition(";")[0].strip().lower() for item in request.headers.get("accept", "").split(",")
    }
    only_json = JSON in accepted and not accepted & {wire.media_type, "application/*", "*/*"}
    return JSON if only_json else wire.media_type


def _not_allowed(binding: Rest, wire: Wire, verb: str, allowed: list[str]) -> Response:
    listed = ", ".join(dict.fromkeys(allowed))
    refused = InvalidRequest(f"{verb} is not served here; {listed} is")
    _, body = wire.encode_failure(refused)
    body["error"] |= {"code": 405, "status": "UNIMPLEMENTED"}
    return Response(strictjson.dumps(body), 405, {"Allow": listed}, binding.media_type)
