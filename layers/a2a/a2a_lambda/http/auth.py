"""Authentication, which also counts the caller's requests: a key, or a token of an issuer, in `X-API-Key`,
`Authorization: Bearer` or `X-Appbuilder-Authorization: Bearer`. Without any, AWS may say who calls."""

import logging
from collections.abc import Sequence
from contextlib import suppress

from starlette.requests import Request

from a2a_lambda import telemetry, threads
from a2a_lambda.access import audit
from a2a_lambda.access.credentials import KEY_FORM, KEY_PREFIX, Grant, is_token
from a2a_lambda.access.issuer import Issuer
from a2a_lambda.errors import (
    Forbidden,
    InsufficientScope,
    KeysUnavailable,
    TokenRefused,
    Unauthenticated,
    Unavailable,
)
from a2a_lambda.http.request import base_url, target_of
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.card import is_agent_name
from a2a_lambda.protocol.profile import Profile
from a2a_lambda.tasks.identity import Namespace

APPBUILDER = "x-appbuilder-authorization"
"""Qianfan's own header."""

BEARER_HEADERS = (APPBUILDER, "authorization")

METADATA_PATH = "/.well-known/oauth-protected-resource"
"""Where RFC 9728 section 3 has the metadata of the deployment; an agent's path follows it."""

logger = logging.getLogger(__name__)


async def authenticate(request: Request) -> Grant:
    """What the caller may do. Raises Unauthenticated, InsufficientScope, TooManyRequests, Unavailable."""
    kit: Kit = request.app.state.kit
    secret = secret_of(request)
    iam_caller: Caller | None = None
    if not secret and kit.settings.iam_callers:  # AWS may have authenticated the caller
        from a2a_lambda.access import iam

        iam_caller = iam.find_caller(request.scope.get("aws.event", {}))
    try:
        if is_token(secret):
            grant = await _check_token(request, kit, secret)
        # Almost every key is known here: a digest and comparisons, no thread and no call.
        elif secret and (key := kit.keys.find_cached(secret)) is not None:
            grant = key.grant
        elif secret:
            grant = await _check_key(request, kit, secret)
        elif iam_caller is not None:
            grant = Grant(iam_caller)
        else:
            for name in BEARER_HEADERS:
                if (request.headers.get(name) or "bearer").partition(" ")[0].lower() != "bearer":
                    audit.log_refused("none", "scheme")
                    raise Unauthenticated(
                        f"write `Bearer` and a space before the key or the token in {name.title()}"
                    )
            audit.log_refused("none", "absent")
            raise Unauthenticated("send a key as X-API-Key, or a key or a token as Authorization: Bearer")
    except (Unauthenticated, InsufficientScope) as error:
        with suppress(KeysUnavailable):
            if any(issuer.allows(_agent_of(request)) for issuer in await find_issuers(kit)):
                error.metadata_url = _metadata_url(request)
        raise
    except KeysUnavailable as error:
        logger.error("a caller could not be checked: %s", error)
        raise Unavailable("keys and tokens cannot be checked at the moment") from None
    caller = grant.caller
    audit.log_accepted(caller.kind, caller.owner, caller.issuer, caller.client, grant.key_name)
    telemetry.bind(owner=caller.owner)
    await kit.rate_limit.admit(caller.owner)
    return grant


async def _check_key(request: Request, kit: Kit, secret: str) -> Grant:
    """What a secret allows, if it is not a JWT and `find_cached` did not find it. Raises Unauthenticated,
    InsufficientScope, KeysUnavailable."""
    # It may be an opaque token, which its issuer is asked about. A mistyped key must not reach an issuer.
    is_opaque = not request.headers.get("x-api-key") and not secret.startswith(KEY_PREFIX)
    if is_opaque and kit.tokens.find_cached(secret) is not None:
        return await _check_token(request, kit, secret)
    # What an unknown key waits for must not delay a known one.
    run = threads.run if kit.keys.knows(secret) else threads.run_for_keys
    key = await run(kit.keys.find, secret)
    if key is None:
        if secret.lower().startswith(("bearer ", '"', "'")):
            audit.log_refused("key", "form")
            place = "in X-API-Key" if request.headers.get("x-api-key") else "after one `Bearer`"
            raise Unauthenticated(f"write the key or the token alone {place}, without quotation marks")
        if is_opaque and any(issuer.introspection for issuer in await find_issuers(kit)):
            return await _check_token(request, kit, secret)
        audit.log_refused("key", "unknown")
        has_form = KEY_FORM.fullmatch(secret) or kit.settings.local
        raise Unauthenticated("the key is not valid" if has_form else "this is neither a key nor a token")
    return key.grant


async def _check_token(request: Request, kit: Kit, token: str) -> Grant:
    """What a token allows. Raises Unauthenticated, InsufficientScope, KeysUnavailable."""
    try:
        grant = kit.tokens.find_cached(token)
        if grant is None:  # what an unknown key of an issuer waits for must not delay a known one
            run = threads.run if kit.tokens.asks_no_issuer(token) else threads.run_for_keys
            grant = await run(kit.tokens.check, token)
    except TokenRefused as error:
        audit.log_refused("token", error.reason, issuer=error.issuer, client=error.client)
        if error.scopes:
            # The agent that the request names, or the default one, may need more scopes.
            agent = kit.agents.get(_agent_of(request)) if kit.agents.has_public_names else None
            scopes = dict.fromkeys([*error.scopes, *(agent.card.scopes if agent is not None else ())])
            raise InsufficientScope("this call", scopes) from None
        raise Unauthenticated(f"the token is not valid: {error}", is_token=True) from None
    return grant


def authorize(request: Request, grant: Grant, agent: Profile) -> Namespace:
    """Check that a caller may call an agent; returns the namespace of both. Raises Forbidden."""
    caller = grant.caller
    try:
        return grant.namespace(agent.name, agent.card.scopes)
    except InsufficientScope as error:  # only a caller with a token lacks a scope, so there are issuers
        audit.log_refused(caller.kind, "scope", issuer=caller.issuer, client=caller.client)
        error.metadata_url = _metadata_url(request)
        raise
    except Forbidden:
        audit.log_refused(caller.kind, "agent", issuer=caller.issuer, client=caller.client)
        raise


async def find_issuers(kit: Kit) -> Sequence[Issuer]:
    """The issuers whose tokens are accepted. Raises KeysUnavailable."""
    issuers = kit.keys.find_cached_issuers()
    return issuers if issuers is not None else await threads.run_for_keys(kit.keys.find_issuers)


def _metadata_url(request: Request) -> str:
    """URL of the metadata of the resource that a request calls (RFC 9728 section 3.1)."""
    resource = _resource_path(request)
    # The metadata names the URL that the client has called, or the client must not use it (section 3.3).
    slash = "/" if resource and request.scope["path"] == f"{resource}/" else ""
    return f"{base_url(request)}{METADATA_PATH}{resource}{slash}"


def _resource_path(request: Request) -> str:
    """Path of the agent that a request names, such as /a2a/weather or /mcp/weather; /mcp for the tools of the
    default agent; else "", which is the deployment. A dialect's path, and one that begins with the tenant,
    names the same agent as /a2a/<agent>, whose metadata it gets."""
    target, agents = target_of(request.scope["path"]), request.app.state.kit.agents
    if target.prefix == "mcp" and target.agent is None:
        return "/mcp"
    if agents.has_public_names:
        name = target.agent or target.suffix[1:].partition("/")[0]
        is_agent = name in agents
    else:
        # Callers without a key must not know which agents there are, so any name after a prefix may be one's.
        # A path without a prefix may be the deployment's own.
        name = target.agent or ""
        is_agent = is_agent_name(name)
    if not is_agent:
        return ""
    return f"/{'mcp' if target.prefix == 'mcp' else 'a2a'}/{name}"


def _agent_of(request: Request) -> str:
    """Name of the agent that a request's path names, or of the default one."""
    _, _, name = _resource_path(request).removeprefix("/").partition("/")
    return name or str(request.app.state.kit.agents.default)


def secret_of(request: Request) -> str:
    """The key or the token that a request carries, or ""."""
    if key := request.headers.get("x-api-key"):
        return key.strip()
    for header in BEARER_HEADERS:
        scheme, _, credentials = request.headers.get(header, "").partition(" ")
        if scheme.lower() == "bearer" and (secret := credentials.strip()):
            return secret
    return ""
