"""Asks an issuer for its public keys.

    <issuer>/.well-known/openid-configuration, or RFC 8414's path ── jwks_uri ── JSON Web Keys

Sources: OpenID Connect Discovery 1.0 section 4; RFC 8414 section 3; RFC 7517 section 5.
"""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import httpx2

from a2a_lambda import strictjson
from a2a_lambda.access.tokens.issuer import Issuer
from a2a_lambda.errors import IssuerUnreachable, KeysUnavailable, ParseError
from a2a_lambda.net.addresses import Refused, Unresolved
from a2a_lambda.net.transport import GuardedTransport
from a2a_lambda.protocol.model import Json

MAX_BYTES = 256_000
"""Most bytes of a document of an issuer."""

ANSWER_SECONDS = 5.0
"""Seconds for which an issuer may take for all of its documents."""


def fetch_keys(issuer: Issuer, *, allow_loopback: bool = False) -> list[Json]:
    """An issuer's JSON Web Keys. Blocks. Raises KeysUnavailable, whose text says what is wrong;
    IssuerUnreachable, which is one, if there is no answer at all.

    Where the keys are is discovered each time: a host that the issuer has left could be taken by others.
    """
    transport = GuardedTransport(allow_loopback=allow_loopback, private=issuer.private)
    return asyncio.run(_Asker(issuer, transport, allow_http=allow_loopback).keys())


class _Asker:
    def __init__(self, issuer: Issuer, transport: httpx2.AsyncBaseTransport, *, allow_http: bool) -> None:
        self._issuer = issuer
        self._name = f"issuer {issuer.name}"
        self._transport = transport
        self._allow_http = allow_http

    async def keys(self) -> list[Json]:
        if not self._is_safe(self._issuer.url):
            raise self._problem("its url must begin with https://")
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS),
                httpx2.AsyncClient(transport=self._transport, timeout=ANSWER_SECONDS) as http,
            ):
                jwks_uri = await self._discover(http)
                content = await self._read(http, jwks_uri)
        except TimeoutError:
            raise IssuerUnreachable(f"{self._name}: it does not answer") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, Refused, Unresolved, UnicodeError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise IssuerUnreachable(f"{self._name}: it cannot be called: {reason}") from None
        keys: Any = content.get("keys") if isinstance(content, dict) else None
        if not isinstance(keys, list):
            raise self._problem(f"{jwks_uri} has no JSON Web Key Set")
        return keys

    async def _discover(self, http: httpx2.AsyncClient) -> str:
        """Its jwks_uri. Raises KeysUnavailable."""
        url = self._issuer.url
        parts = urlsplit(url)
        root, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
        for place in (
            f"{url.rstrip('/')}/.well-known/openid-configuration",
            f"{root}/.well-known/oauth-authorization-server{path}",
        ):
            content = await self._read(http, place)
            if not isinstance(content, dict):
                continue
            if content.get("issuer") != url:
                name = str(content.get("issuer"))[:200]
                raise self._problem(f"{place} names the issuer {name!r}: write it exactly so, as ISSUER")
            jwks_uri = content.get("jwks_uri")
            if not isinstance(jwks_uri, str) or not self._is_safe(jwks_uri):
                raise self._problem(f"{place} has no jwks_uri that begins with https://")
            return jwks_uri
        raise self._problem("it has no .well-known/openid-configuration")

    def _is_safe(self, url: str) -> bool:
        return url.startswith(("https://", "http://") if self._allow_http else "https://")

    async def _read(self, http: httpx2.AsyncClient, url: str) -> Json:
        """JSON at a url; None if there is none. Redirects are not followed."""
        async with http.stream("GET", url, headers={"Accept": "application/json"}) as answer:
            if answer.status_code != 200:
                return None
            body = b""
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise self._problem(f"{url} has more than {MAX_BYTES} bytes")
        try:
            return strictjson.loads(body)
        except ParseError:
            return None

    def _problem(self, text: str) -> KeysUnavailable:
        return KeysUnavailable(f"{self._name}: {text}")
