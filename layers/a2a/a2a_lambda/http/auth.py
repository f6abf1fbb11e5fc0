"""Authentication: a key in `X-API-Key`, `Authorization: Bearer` or `X-Appbuilder-Authorization: Bearer`."""

import logging

from starlette.requests import Request

from a2a_lambda import telemetry, threads
from a2a_lambda.access.key import Key
from a2a_lambda.errors import Forbidden, KeysUnavailable, Unauthenticated, Unavailable
from a2a_lambda.kit import Kit
from a2a_lambda.tasks.identity import Scope

APPBUILDER = "x-appbuilder-authorization"
"""Qianfan's own header."""

logger = logging.getLogger(__name__)


async def authenticate(request: Request) -> Key:
    """The caller's key. Raises Unauthenticated, TooManyRequests, Unavailable."""
    kit: Kit = request.app.state.kit
    secret = secret_of(request)
    if not secret:
        raise Unauthenticated("send a key as X-API-Key or as Authorization: Bearer")
    try:
        # Almost every key is found here: a digest and comparisons, no thread and no call.
        key = kit.keys.find_cached(secret)
        if key is None:  # what an unknown key waits for must not delay a known one
            run = threads.run if kit.keys.knows(secret) else threads.run_for_keys
            key = await run(kit.keys.find, secret)
    except KeysUnavailable as error:
        logger.error("keys could not be read: %s", error)
        raise Unavailable("keys cannot be checked at the moment") from None
    if key is None:
        raise Unauthenticated("the key is not valid")
    telemetry.bind(owner=key.owner)
    await kit.rate_limit.admit(key.owner)
    return key


def scope_of(key: Key, agent: str) -> Scope:
    """Scope of the caller and an agent. Raises Forbidden for a key that was not made for the agent."""
    if not key.allows(agent):
        raise Forbidden(f"agent {agent!r}")
    return Scope(key.owner, agent)


def secret_of(request: Request) -> str:
    """The key that a request carries, or ""."""
    if key := request.headers.get("x-api-key"):
        return key.strip()
    for header in (APPBUILDER, "authorization"):
        scheme, _, credentials = request.headers.get(header, "").partition(" ")
        if scheme.lower() == "bearer" and (secret := credentials.strip()):
            return secret
    return ""


def has_bearer_key(request: Request) -> bool:
    """Whether the key came as a bearer token, in either header."""
    return "x-api-key" not in request.headers and bool(secret_of(request))
