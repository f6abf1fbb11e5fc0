"""Card routes. Cards are public and cacheable."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

from fastapi import APIRouter, Request, Response

from a2a_lambda import strictjson
from a2a_lambda.errors import RouteNotFound
from a2a_lambda.http.errors import JSON
from a2a_lambda.http.place import base_url
from a2a_lambda.kit import Kit
from a2a_lambda.model import Json
from a2a_lambda.wire import cards

MAX_AGE = 300
"""Seconds a client may keep a card without asking."""

router = APIRouter()


@router.api_route("/.well-known/agent.json", methods=["GET", "HEAD"])
async def v0_2_5(request: Request) -> Response:
    return _card(request, cards.v0_2_5, None, "")


@router.api_route("/.well-known/agent-card.json", methods=["GET", "HEAD"])
async def v0_3_0(request: Request) -> Response:
    return _card(request, cards.v0_3_0, None, "")


@router.api_route("/a2a/{agent}/.well-known/agent.json", methods=["GET", "HEAD"])
async def v0_2_5_of(request: Request, agent: str) -> Response:
    return _card(request, cards.v0_2_5, agent, f"/a2a/{agent}")


@router.api_route("/a2a/{agent}/.well-known/agent-card.json", methods=["GET", "HEAD"])
async def v0_3_0_of(request: Request, agent: str) -> Response:
    return _card(request, cards.v0_3_0, agent, f"/a2a/{agent}")


@router.api_route("/alibaba/.well-known/agent.json", methods=["GET", "HEAD"])
async def alibaba(request: Request) -> Response:
    return _card(request, cards.alibaba, None, "/alibaba")


@router.api_route("/alibaba/{agent}/.well-known/agent.json", methods=["GET", "HEAD"])
async def alibaba_of(request: Request, agent: str) -> Response:
    return _card(request, cards.alibaba, agent, f"/alibaba/{agent}")


def _card(
    request: Request, translate: Callable[[cards.Description], Json], name: str | None, path: str
) -> Response:
    kit: Kit = request.app.state.kit
    agent = kit.agents.get(name or kit.default)
    if agent is None:
        raise RouteNotFound(f"there is no agent {name!r}")
    source = cards.Description(
        agent.card, f"{base_url(request)}{path}" + ("" if path else "/"), agent.input_schemas
    )
    body = strictjson.dumps(translate(source))
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    modified = datetime.fromtimestamp(int(agent.modified), UTC)
    headers = {
        "Cache-Control": f"public, max-age={MAX_AGE}",
        "ETag": etag,
        "Last-Modified": format_datetime(modified, usegmt=True),
    }
    if _unchanged(request, etag, modified):
        return Response(None, 304, headers)
    return Response(body, 200, headers, JSON)


def _unchanged(request: Request, etag: str, modified: datetime) -> bool:
    """RFC 9110 section 13.2.2: If-None-Match decides where it is there."""
    if (match := request.headers.get("if-none-match")) is not None:
        tags = [tag.strip().removeprefix("W/") for tag in match.split(",")]
        return "*" in tags or etag in tags
    try:
        return modified <= parsedate_to_datetime(request.headers.get("if-modified-since", ""))
    except (ValueError, TypeError):
        return False
