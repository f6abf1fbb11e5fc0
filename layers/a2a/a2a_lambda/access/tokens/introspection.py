"""Asks an issuer what a token allows that only the issuer can check.

    POST <url>, token=…                      RFC 7662: {"active": true, "aud": …, "sub": …, "scope": …}
    POST …/tokeninfo, Authorization: Bearer  Google's own: the same without `active`, or 400

A userinfo endpoint (OpenID Connect Core section 5.3) would not do. It does not say which application a token
was made for, so every application that people sign in to could call the agents in their names.

Source of tokeninfo: getTokenInfo of https://github.com/googleapis/google-auth-library-nodejs
"""

import asyncio
from collections.abc import Callable, Generator

import httpx2

from a2a_lambda.access.tokens.documents import documents_of
from a2a_lambda.access.tokens.issuer import Issuer, text_in
from a2a_lambda.errors import ConfigurationError, ConfigurationUnavailable, KeysUnavailable, TokenRefused
from a2a_lambda.protocol.model import Json

TOKENINFO = "/tokeninfo"
"""End of the url of an endpoint that answers as Google's does."""

TIMES = ("exp", "nbf", "iat")

KINDS = ("", "bearer", "access_token")
"""Values of `token_type` that stand for a bearer token. DPoP's needs a proof, and a refresh token is for the
issuer alone."""

FindSecret = Callable[[str], str]
"""A secret by its name. Raises ConfigurationError, ConfigurationUnavailable."""


def introspect(
    issuer: Issuer, token: str, find_secret: FindSecret, *, allow_loopback: bool = False
) -> dict[str, Json] | None:
    """Claims of a token that its issuer knows and has not ended, else None. Blocks.

    Raises TokenRefused for a token of another kind, KeysUnavailable if the issuer does not say.
    """
    try:
        login = (issuer.client, find_secret(issuer.secret)) if issuer.client else None
    except (ConfigurationError, ConfigurationUnavailable) as error:
        raise KeysUnavailable(f"issuer {issuer.name}: {error}") from None
    return asyncio.run(_introspect(issuer, token, login, allow_loopback=allow_loopback))


async def _introspect(
    issuer: Issuer, token: str, login: tuple[str, str] | None, *, allow_loopback: bool
) -> dict[str, Json] | None:
    url = issuer.introspection
    is_google = url.endswith(TOKENINFO)
    form = {} if is_google else {"token": token, "token_type_hint": "access_token"}
    auth = _Bearer(token) if is_google else httpx2.BasicAuth(*login) if login else None
    async with documents_of(issuer, allow_loopback=allow_loopback) as documents:
        if not documents.is_safe(url):
            raise documents.problem("its INTROSPECTION must begin with https://")
        status, claims = await documents.post(url, form, auth)
        if (
            status == 400
        ):  # Google's answer to an unknown token, others' to one of a form that they do not know
            return None
        if status in (401, 403):
            raise documents.problem(f"{url} refuses the client: check CLIENT and SECRET of the issuer")
        if status != 200 or not isinstance(claims, dict):
            raise documents.problem(f"{url} answered {status}, and no JSON object with 200")
    if not is_google and claims.get("active") is not True:
        return None
    if "iss" in claims and claims["iss"] != issuer.url:
        raise TokenRefused("issuer", "its issuer is another one")
    if text_in(claims, "token_type").lower() not in KINDS:
        raise TokenRefused("kind", "it is not a bearer token")
    # Google writes times as texts.
    return {name: _number(value) if name in TIMES else value for name, value in claims.items()}


class _Bearer(httpx2.Auth):
    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


def _number(value: Json) -> Json:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
