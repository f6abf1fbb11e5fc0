"""Asks an issuer what a token allows that only the issuer can check.

    POST <url>, token=…                        RFC 7662: {"active": true, "aud": …, "sub": …, "scope": …}
    POST <TOKENINFO>, Authorization: Bearer …  the same without `active`; 400 for an unknown token

A userinfo endpoint (OpenID Connect Core section 5.3) would not do. It does not say which application a token
was made for, so every application that people sign in to could call the agents in their names.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Generator
from urllib.parse import quote_plus

import httpx2

from a2a_lambda.access.issuer import SUBJECT_OR_CLIENT, Issuer
from a2a_lambda.access.tokens.documents import documents_of
from a2a_lambda.errors import ConfigurationError, ConfigurationUnavailable, IssuerDown, TokenRefused
from a2a_lambda.protocol.model import Json
from a2a_lambda.strictjson import text_in

ID_TOKEN_FIELDS = ("iss", "alg", "kid")
"""What Google would say of an ID token, and not of an access token."""

TIME_CLAIMS = ("exp", "iat")

UNIX_TIME_FORM = re.compile("[0-9]{1,12}")

PRINTABLE = re.compile(r"[\x21-\x7e]+")
"""A token's characters (RFC 6750 section 2.1 allows fewer)."""

KIND_CLAIMS = frozenset({"aud", "typ", "token_use", "token_usage"})
"""Claims one of which an answer without `token_type` must have, because some issuers say nothing of the kind
about a refresh token. What they say is checked with the others."""

FAILING_STATUSES = frozenset({429, *range(501, 600)})
"""Statuses with which an issuer would answer about any token. With 500, it may have failed because of the one
that it was asked about."""

BEARER_TYPES = ("", "bearer", "access_token")
"""Values of `token_type` that stand for a bearer token. DPoP's needs a proof."""

logger = logging.getLogger(__name__)

FindSecret = Callable[[str], str]
"""A secret by its name. Raises ConfigurationError, ConfigurationUnavailable."""


def introspect(
    issuer: Issuer, token: str, find_secret: FindSecret, *, allow_loopback: bool = False
) -> dict[str, Json] | None:
    """Claims of a token that its issuer knows, and that is still active, else None. Blocks.

    Raises TokenRefused for a token of another kind, or if the issuer does not understand a question about
    this token; KeysUnavailable if the issuer gives no answer, and its subclass IssuerDown if it would give
    none about any other token, either.
    """
    if not PRINTABLE.fullmatch(token):
        raise TokenRefused("form", "it has characters that no token has")
    try:
        login = (issuer.client, find_secret(issuer.secret)) if issuer.client else None
    except (ConfigurationError, ConfigurationUnavailable) as error:
        raise IssuerDown(f"issuer {issuer.name}: {error}") from None
    answer = (
        ask_google(issuer, token, allow_loopback=allow_loopback)
        if issuer.asks_google
        else ask_issuer(issuer, token, login, allow_loopback=allow_loopback)
    )
    return asyncio.run(answer)


async def ask_issuer(
    issuer: Issuer, token: str, login: tuple[str, str] | None, *, allow_loopback: bool
) -> dict[str, Json] | None:
    """Ask an issuer as RFC 7662 defines it."""
    # RFC 6749 section 2.3.1: both are encoded first.
    auth = httpx2.BasicAuth(*map(quote_plus, login)) if login else None
    form = {"token": token, "token_type_hint": "access_token"}
    async with documents_of(issuer, allow_loopback=allow_loopback) as documents:
        status, claims = await documents.post(issuer.introspection, form, auth)
        if status == 400:  # some answer so to a token of a form that they do not know
            logger.warning("issuer %s does not understand a question about a token (400)", issuer.name)
            raise TokenRefused("inactive", "its issuer does not understand a question about it (400)")
        if status in (401, 403):
            text = "it rejected the client's credentials: check CLIENT and SECRET"
            raise documents.problem(text, is_down=status == 401)
        if status != 200 or not isinstance(claims, dict) or not isinstance(claims.get("active"), bool):
            text = f"its answer about a token ({status}) has no `active`"
            raise documents.problem(text, is_down=status in FAILING_STATUSES)
    if not claims["active"]:
        return None
    # Some issuers write null, or an empty audience, for what they do not say.
    claims = {name: value for name, value in claims.items() if value is not None}
    if not claims.get("aud"):
        claims.pop("aud", None)
    if "iss" in claims and claims["iss"] != issuer.url:
        raise TokenRefused("issuer", "a different issuer issued it")
    kind: Json = claims.get("token_type", "")
    if not isinstance(kind, str) or kind.lower() not in BEARER_TYPES:
        raise TokenRefused("kind", "it is not a bearer token")
    if not kind and not KIND_CLAIMS & claims.keys():
        names = ", ".join(sorted(KIND_CLAIMS))
        raise TokenRefused(
            "kind", f"its issuer does not say that it is an access token (token_type, {names})"
        )
    return claims


async def ask_google(issuer: Issuer, token: str, *, allow_loopback: bool) -> dict[str, Json] | None:
    """Ask Google's tokeninfo endpoint."""
    async with documents_of(issuer, allow_loopback=allow_loopback) as documents:
        status, claims = await documents.post(issuer.introspection, {}, _Bearer(token))
        if status in (400, 401):
            return None
        if status != 200 or not isinstance(claims, dict):
            text = f"its answer about a token ({status}) is not a JSON object"
            raise documents.problem(text, is_down=status in FAILING_STATUSES)
    if claims.get("active", True) is not True:
        return None
    if "scope" not in claims or any(name in claims for name in ID_TOKEN_FIELDS):
        raise TokenRefused("kind", "it is not an access token")
    if issuer.owner_claim in ("", SUBJECT_OR_CLIENT) and not text_in(claims, "sub"):
        raise TokenRefused("owner", "it does not say whose it is: ask for the scope openid")
    # Google writes times as texts.
    times = {
        name: int(claims[name]) for name in TIME_CLAIMS if UNIX_TIME_FORM.fullmatch(text_in(claims, name))
    }
    return {**claims, **times}


class _Bearer(httpx2.Auth):
    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request
