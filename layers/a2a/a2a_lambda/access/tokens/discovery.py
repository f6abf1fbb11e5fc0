"""Asks an issuer for its public keys.

    <issuer>/.well-known/openid-configuration, or RFC 8414's path ── jwks_uri ── JSON Web Keys

Sources: OpenID Connect Discovery 1.0 section 4; RFC 8414 section 3; RFC 7517 section 5.
"""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from a2a_lambda.access.issuer import Issuer
from a2a_lambda.access.tokens.documents import Documents, documents_of
from a2a_lambda.errors import IssuerDown, excerpt
from a2a_lambda.net.addresses import place_of
from a2a_lambda.protocol.model import Json

URL_CHARACTERS = 1_000
"""Characters of a wrong URL that are shown, so that it can be copied."""


def fetch_keys(issuer: Issuer, *, allow_loopback: bool = False) -> list[Json]:
    """An issuer's JSON Web Keys. Blocks. Raises KeysUnavailable, whose text says what is wrong, or its
    subclass IssuerUnreachable if there is no answer at all.

    Where the keys are is discovered each time: a host that the issuer has left could be taken by others.
    """

    async def fetch() -> list[Json]:
        async with documents_of(issuer, allow_loopback=allow_loopback) as documents:
            url, metadata = await _read_metadata(documents, issuer)
            jwks_uri = metadata.get("jwks_uri")
            if not isinstance(jwks_uri, str) or not documents.is_safe(jwks_uri):
                raise documents.problem(f"{url} has no jwks_uri that begins with https://")
            content = await documents.get(jwks_uri)
            keys: Any = content.get("keys") if isinstance(content, dict) else None
            if not isinstance(keys, list):
                raise documents.problem(f"{excerpt(place_of(jwks_uri))} has no JSON Web Key Set")
            return keys

    return asyncio.run(fetch())


def find_metadata(issuer: Issuer, *, allow_loopback: bool = False) -> str:
    """URL of an issuer's metadata, which clients read to sign in. Blocks. Raises KeysUnavailable."""

    async def find() -> str:
        async with documents_of(issuer, allow_loopback=allow_loopback) as documents:
            url, _ = await _read_metadata(documents, issuer)
            return url

    return asyncio.run(find())


async def _read_metadata(documents: Documents, issuer: Issuer) -> tuple[str, dict[str, Json]]:
    """An issuer's metadata, and where it is. Raises KeysUnavailable."""
    if not documents.is_safe(issuer.url):
        raise documents.problem("its URL must begin with https://")
    parts = urlsplit(issuer.url)
    root, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    failure: IssuerDown | None = None
    for url in (
        issuer.openid_url,
        f"{root}/.well-known/oauth-authorization-server{path}",
    ):
        try:
            metadata = await documents.get(url)
        except IssuerDown as error:  # some gateways answer so where there is nothing
            failure = failure or error
            continue
        if isinstance(metadata, dict):
            if (name := metadata.get("issuer")) != issuer.url:
                raise documents.problem(f"{url} {_advice(name)}")
            return url, metadata
    raise failure or documents.problem("it has no .well-known/openid-configuration")


def _advice(name: Json) -> str:
    """What to do about the issuer that metadata names. It is not ours."""
    if not isinstance(name, str) or not name:
        return "names no issuer"
    if "{" in name:  # Entra's `common` has a placeholder
        return "does not belong to a single issuer: write your tenant's URL as ISSUER"
    return f"names the issuer {name[:URL_CHARACTERS]!r}: write exactly that as ISSUER"
