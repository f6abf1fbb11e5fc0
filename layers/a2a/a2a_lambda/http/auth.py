"""Who calls: the key in `X-API-Key`, `Authorization: Bearer` or `X-Appbuilder-Authorization: Bearer`."""

import logging

from fastapi import Request

from a2a_lambda import telemetry, threads
from a2a_lambda.access.keys import Key
from a2a_lambda.errors import Forbidden, KeysUnavailable, Unauthenticated, Unavailable
from a2a_lambda.kit import Kit
from a2a_lambda.tasks.identity import Scope

APPBUILDER = "x-appbuilder-authorization"
"""Qianfan's own header."""

logger = logging.getLogger(__name__)


async def authenticated(request: Request) -> Key:
    """The caller's key. Raises Unauthenticated, TooManyRequests, Unavailable."""
    kit: Kit = request.app.state.kit
    secret = presented(request)
    if not secret:
        raise Unauthenticated("send a key as X-API-Key or as Authorization: Bearer")
    try:
        key = kit.keys.find_cached(secret)
        if key is None:  # what an unknown key waits for must not hold up a known one
            call = threads.run if kit.keys.knows(secret) else threads.run_for_keys
            key = await call(kit.keys.find, secret)
    except KeysUnavailable as error:
        logger.error("keys could not be read: %s", error)
        raise Unavailable("keys cannot be checked at the moment") from None
    if key is None:
        raise Unauthenticated("the key is not valid")
    telemetry.bind(owner=key.owner)
    await kit.rate_limit.admit(key.owner)
    return key


def scope_of(key: Key, agent: str) -> Scope:
    """The caller and the agent called. Raises Forbidden for a key not made for this agent."""
    if not key.allows(agent):
        raise Forbidden(f"agent {agent!r}")
    return Scope(key.owner, agent)


def presented(request: Request) -> str:
    """The key a request shows, or ""."""
    if key := request.headers.get("x-api-key"):
        return key.strip()
    return _bearer(request, APPBUILDER) or _bearer(request, "authorization")


def bearer_key(request: Request) -> bool:
    """Whether the key came as a bearer token, in either header."""
    return "x-api-key" not in request.headers and bool(presented(request))


def _bearer(request: Request, header: str) -> str:
    scheme, _, credentials = request.headers.get(header, "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else ""
