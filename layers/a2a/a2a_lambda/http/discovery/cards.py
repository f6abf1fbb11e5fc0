"""Routes of agent cards, and of what else a client reads before it calls. A card is public, unless card.yaml
says otherwise, and can be cached."""

import hashlib
import logging
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from a2a_lambda import strictjson, threads
from a2a_lambda.errors import (
    ConfigurationError,
    KeysUnavailable,
    KitError,
    RouteNotFound,
    Unavailable,
    VersionNotSupported,
)
from a2a_lambda.http.auth import METADATA_PATH, authenticate, authorize, find_issuers
from a2a_lambda.http.error_responses import JSON, report_error
from a2a_lambda.http.request import base_url, version
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.card import is_agent_name
from a2a_lambda.protocol.model import Json
from a2a_lambda.protocol.profile import Profile
from a2a_lambda.wire import negotiation
from a2a_lambda.wire.interface import Wire
from a2a_lambda.wire.shared import card_json, jsonrpc
from a2a_lambda.wire.shared.error_json import encode_http_error

CARD_MAX_AGE_SECONDS = 300
"""Seconds for which a client may use a card without asking again."""

GO_USER_AGENT = "Go-http-client/"
"""How the User-Agent begins that Go's standard library sends."""

METADATA_MAX_AGE_SECONDS = 60
"""Seconds for which a client may use the metadata. An issuer reaches every container in that time, too."""

Translate = Callable[[card_json.Description], dict[str, Json]]

logger = logging.getLogger(__name__)


async def agent_json(request: Request) -> Response:
    return await _card(request, card_json.v0_2_5)


async def strict_card(request: Request) -> Response:
    """The card of 1.0 alone, for clients that send no version and accept no unknown field."""
    return await _card(request, card_json.v1_0)


async def agent_card_json(request: Request) -> Response:
    """In the version that the request asks for. Without one, a card that both 1.0 and 0.3 can read."""
    version_name = version(request)
    if not version_name:
        is_go = request.headers.get("user-agent", "").startswith(GO_USER_AGENT)
        response = await _card(request, card_json.hybrid_for_go if is_go else card_json.hybrid)
        response.headers["Vary"] = "A2A-Version, User-Agent"
        return response
    try:
        wires = negotiation.wires_for("", version_name)
    except VersionNotSupported as error:
        body = jsonrpc.error(None, negotiation.wire_for_error(error, ()).encode_error(error))
        return Response(body, 400, {"Vary": "A2A-Version"}, JSON)
    return await _card(request, wires[0].encode_card)


async def alibaba(request: Request) -> Response:
    return await _card(request, card_json.alibaba)


async def qianfan(request: Request) -> Response:
    """AppBuilder's card is never public, and its errors have a form of their own."""
    try:
        return await _card(request, card_json.qianfan, needs_key=True)
    except KitError as cause:
        error = report_error(cause)
        status, _ = encode_http_error(error)
        code, message = APPBUILDER_ERRORS.get(status, ("InvalidParameter", str(error)))
        body = {"code": code, "message": message, "request_id": str(uuid.uuid4())}
        return Response(strictjson.dumps(body), status, error.headers, JSON)


APPBUILDER_ERRORS = {
    404: ("NotFoundResource", "A2AServerNotPublishedYet"),
    401: ("Unauthorized", "InvalidAuthorization"),
    403: ("AccessDenied", "NoPermissionForThisApp"),
    429: ("TooManyRequests", "TryAgainLater"),
    500: ("InternalError", "InternalError"),
    503: ("ServiceUnavailable", "TryAgainLater"),
}


async def authenticated_extended_card(request: Request) -> Response:
    """The extended card, at the path of A2A 0.2.5 (section 7.10)."""
    kit: Kit = request.app.state.kit
    agent = request.path_params.get("agent")
    profile = kit.agents.find(agent)
    authorize(request, await authenticate(request), profile)
    if profile.card.extended is None:
        raise RouteNotFound("the agent has no extended card")
    description = await describe(request, profile, is_root=agent is None, is_extended=True)
    headers = {"Cache-Control": cache_control([description], needs_key=True)}
    return Response(strictjson.dumps(card_json.v0_2_5(description)), headers=headers, media_type=JSON)


async def jwks(request: Request) -> Response:
    """The public half of the signing key, if one is configured."""
    kit: Kit = request.app.state.kit
    if kit.signer is None:
        raise RouteNotFound("no signing key is configured")
    body = strictjson.dumps({"keys": [await threads.run(kit.signer.fetch_jwk)]})
    return Response(
        body, headers={"Cache-Control": f"public, max-age={CARD_MAX_AGE_SECONDS}"}, media_type=JSON
    )


async def protected_resource(request: Request) -> Response:
    """The metadata of a protected resource (RFC 9728 section 3): what a client reads before it signs in.

    Raises RouteNotFound if no issuer is accepted, or there is no such agent, unless the caller must not know
    which agents there are; Unavailable.
    """
    kit: Kit = request.app.state.kit
    name = str(request.path_params.get("agent") or kit.agents.default)
    is_known = kit.agents.has_public_names or name == kit.agents.default or not is_agent_name(name)
    if is_known:  # otherwise, any name may be an agent's
        kit.agents.find(name)
    try:
        issuers = [issuer for issuer in await find_issuers(kit) if issuer.allows(name)]
    except KeysUnavailable as error:
        raise Unavailable("the issuers cannot be read at the moment") from error
    if not issuers:
        raise RouteNotFound("tokens are not accepted here, only keys")
    scopes = dict.fromkeys(scope for issuer in issuers for scope in issuer.scopes)
    # The agent's path follows that of the metadata, or precedes it (RFC 9728 section 3).
    resource_path = request.scope["path"].removeprefix(METADATA_PATH).removesuffix(METADATA_PATH)
    body: dict[str, Json] = {
        "resource": base_url(request) + resource_path,
        "authorization_servers": list(dict.fromkeys(issuer.url for issuer in issuers)),
        "bearer_methods_supported": ["header"],
    }
    profile = kit.agents.get(name)
    if profile is not None and profile.card.public:
        body["resource_name"] = profile.card.name
        scopes |= dict.fromkeys(profile.card.scopes)
    if scopes:  # without them, a client asks for those that the issuer supports
        body["scopes_supported"] = list(scopes)
    headers = {"Cache-Control": f"public, max-age={METADATA_MAX_AGE_SECONDS}"}
    return Response(strictjson.dumps(body), 200, headers, JSON)


async def extended_card(request: Request, agent: Profile, wire: Wire) -> tuple[Json, str]:
    """The extended card in a version, and its Cache-Control. Raises that version's error if the agent has
    none."""
    if agent.card.extended is None:
        raise wire.no_extended_card("the agent's card has no extended part")
    kit: Kit = request.app.state.kit
    is_root = agent.name == kit.agents.default
    description = await describe(request, agent, is_root=is_root, is_extended=True)
    card = wire.encode_card(description)
    await _sign(request, card, description)
    return card, cache_control([description], needs_key=True)


async def find_agent(request: Request, name: str | None, *, needs_key: bool = False) -> tuple[Profile, bool]:
    """An agent whose card the caller may read, and whether the caller had to show a key.

    name: None = the default agent. needs_key: it always takes a key. Raises RouteNotFound, Unauthenticated,
    Forbidden, TooManyRequests, Unavailable.
    """
    kit: Kit = request.app.state.kit
    # Whether an agent exists is as public as the default agent's card.
    profile = kit.agents.get(name or kit.agents.default) or kit.agents.find(None)
    needs_key = needs_key or not profile.card.public
    if needs_key:
        authorize(request, await authenticate(request), kit.agents.find(name))
    return kit.agents.find(name), needs_key


async def _card(request: Request, translate: Translate, *, needs_key: bool = False) -> Response:
    name: str | None = request.path_params.get("agent")
    agent, needs_key = await find_agent(request, name, needs_key=needs_key)
    description = await describe(request, agent, is_root=name is None)
    card = translate(description)
    body = strictjson.dumps(card)
    date = datetime.fromtimestamp(int(agent.modified_at), UTC)
    headers = {
        **cache_headers(body, [description], needs_key=needs_key),  # without signatures, which vary
        "Last-Modified": format_datetime(date, usegmt=True),
        "Vary": "A2A-Version",
    }
    if is_unchanged(request, headers["ETag"]):
        return Response(None, 304, headers)
    if await _sign(request, card, description):
        body = strictjson.dumps(card)
    return Response(body, 200, headers, JSON)


async def _sign(request: Request, card: dict[str, Json], description: card_json.Description) -> bool:
    """Sign a 1.0 card in its strict form; returns whether it did. If KMS does not sign, the card is sent
    unsigned."""
    signer = request.app.state.kit.signer
    if signer is None or "supportedInterfaces" not in card:
        return False
    try:
        jku = f"{base_url(request)}/.well-known/jwks.json"
        # Each form of the card is signed once in a process. KMS takes some tens of milliseconds.
        card["signatures"] = await threads.run(signer.sign_card, card_json.v1_0(description), jku)
    except (ConfigurationError, ValueError) as error:
        logger.error("the card is not signed: %s", error)
        return False
    return True


async def describe(
    request: Request, agent: Profile, *, is_root: bool, is_extended: bool = False
) -> card_json.Description:
    """What cards and documents of an agent are made from. is_root: they name the deployment's own URL."""
    card = agent.card.with_extended() if is_extended else agent.card
    schemas = agent.input_schemas
    ids = {skill.id for skill in card.skills}
    public_schemas = {skill: schema for skill, schema in schemas.items() if skill in ids}
    sign_ins: list[card_json.SignIn] | None = None
    with suppress(KeysUnavailable):
        sign_ins = [
            card_json.SignIn(issuer.name, issuer.metadata_url, [*issuer.scopes, *card.scopes])
            for issuer in await find_issuers(request.app.state.kit)
            if issuer.allows(agent.name)
        ]
    settings = request.app.state.kit.settings
    upload_bytes = settings.upload_bytes if settings.files_bucket else 0
    return card_json.Description(
        card,
        agent.name,
        base_url(request),
        is_root,
        public_schemas,
        sign_ins,
        upload_bytes,
        settings.repeat_seconds,
    )


def cache_headers(body: bytes, agents: Sequence[card_json.Description], *, needs_key: bool) -> dict[str, str]:
    """Cache-Control and ETag of a body that describes agents. needs_key: the client had to show a key."""
    return {
        "Cache-Control": cache_control(agents, needs_key=needs_key),
        "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
    }


def cache_control(agents: Sequence[card_json.Description], *, needs_key: bool) -> str:
    """How long a client may use what it reads of the agents: not at all, if it does not say how callers sign
    in, because the issuers could not be read."""
    is_complete = all(agent.sign_ins is not None for agent in agents)
    if not is_complete:
        return "no-store"
    return f"{'private' if needs_key else 'public'}, max-age={CARD_MAX_AGE_SECONDS}"


def is_unchanged(request: Request, etag: str) -> bool:
    """Whether the client has this body, by If-None-Match (RFC 9110 section 13.1.2). If-Modified-Since is
    ignored, because issuers and settings change a card without the agent's files."""
    tag_list = ",".join(request.headers.getlist("if-none-match"))
    tags = [tag.strip().removeprefix("W/") for tag in tag_list.split(",")]
    return "*" in tags or etag in tags


routes = [
    Route("/.well-known/agent.json", agent_json),
    Route("/a2a/{agent}/.well-known/agent.json", agent_json),
    Route("/a2a/v1/.well-known/agent-card.json", strict_card),
    Route("/a2a/v1/{agent}/.well-known/agent-card.json", strict_card),
    Route("/.well-known/agent-card.json", agent_card_json),
    Route("/a2a/{agent}/.well-known/agent-card.json", agent_card_json),
    Route("/alibaba/.well-known/agent.json", alibaba),
    Route("/alibaba/{agent}/.well-known/agent.json", alibaba),
    Route("/v2/a2a/{agent}/.well-known/agent.json", qianfan),
    Route("/agent/authenticatedExtendedCard", authenticated_extended_card),
    Route("/a2a/{agent}/agent/authenticatedExtendedCard", authenticated_extended_card),
    Route("/.well-known/jwks.json", jwks),
    # A client whose URL of the resource ends with a slash asks for this path with one.
    *(
        Route(path, protected_resource)
        for place in ("", "/a2a/{agent}", "/mcp", "/mcp/{agent}")
        for path in (f"{METADATA_PATH}{place}", f"{METADATA_PATH}{place}/")
    ),
    Route(f"/a2a/{{agent}}{METADATA_PATH}", protected_resource),
]
"""Each answers GET and HEAD."""
