"""Reads JSON from an issuer's servers, within limits: of time and size, without redirects, and only from
public addresses unless the operator says otherwise."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from a2a_lambda import strictjson
from a2a_lambda.access.issuer import Issuer
from a2a_lambda.errors import IssuerDown, IssuerUnreachable, KeysUnavailable, ParseError, excerpt
from a2a_lambda.net.addresses import NotPublic, Refused, Unresolved, place_of
from a2a_lambda.net.transport import GuardedTransport
from a2a_lambda.protocol.model import Json

ISSUER_DOCUMENT_BYTES = 256_000
"""Maximum size of a document of an issuer, in bytes."""

DOCUMENTS_SECONDS = 5.0
"""Maximum seconds that an issuer may take for all of its documents."""


class Documents:
    """An issuer's documents. allow_http: a URL may begin with http://, for a loopback address."""

    def __init__(self, issuer: Issuer, http: httpx2.AsyncClient, *, allow_http: bool) -> None:
        self._issuer = issuer
        self._http = http
        self._schemes = ("https://", "http://") if allow_http else ("https://",)

    def is_safe(self, url: str) -> bool:
        return url.startswith(self._schemes)

    async def get(self, url: str) -> Json:
        """JSON at a URL; None if there is none. Raises KeysUnavailable, including for a status that says
        nothing about the URL (429, 5xx)."""
        status, content = await self._read("GET", url)
        if status == 429 or status >= 500:
            raise self.problem(f"{excerpt(place_of(url))} has the status {status}", is_down=True)
        return content if status == 200 else None

    async def post(self, url: str, form: Mapping[str, str], auth: httpx2.Auth | None) -> tuple[int, Json]:
        """Status and JSON of the answer to a form; None if it is no JSON. url: the issuer's INTROSPECTION.

        Raises KeysUnavailable.
        """
        if not self.is_safe(url):
            raise self.problem("its INTROSPECTION must begin with https://")
        return await self._read("POST", url, data=dict(form), auth=auth)

    async def _read(self, method: str, url: str, **options: Any) -> tuple[int, Json]:
        headers = {"Accept": "application/json"}
        async with self._http.stream(method, url, headers=headers, **options) as answer:
            body = b""
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > ISSUER_DOCUMENT_BYTES:
                    raise self.problem(
                        f"{excerpt(place_of(url))} has more than {ISSUER_DOCUMENT_BYTES} bytes"
                    )
        try:
            return answer.status_code, strictjson.loads(body)
        except ParseError:
            return answer.status_code, None

    def problem(self, text: str, *, is_down: bool = False) -> KeysUnavailable:
        """An error of the issuer; IssuerDown if it has nothing to do with what the issuer was asked."""
        kind = IssuerDown if is_down else KeysUnavailable
        return kind(f"issuer {self._issuer.name}: {text}")


@asynccontextmanager
async def documents_of(issuer: Issuer, *, allow_loopback: bool) -> AsyncIterator[Documents]:
    """The documents of an issuer, while the connection is open. Raises IssuerUnreachable if there is no
    answer at all."""
    transport = GuardedTransport(allow_loopback=allow_loopback, private=issuer.private)
    try:
        async with (
            asyncio.timeout(DOCUMENTS_SECONDS),
            httpx2.AsyncClient(transport=transport, timeout=DOCUMENTS_SECONDS) as http,
        ):
            yield Documents(issuer, http, allow_http=allow_loopback)
    except TimeoutError:
        raise IssuerUnreachable(f"issuer {issuer.name} does not answer") from None
    except NotPublic as error:
        raise IssuerUnreachable(
            f"issuer {issuer.name}: it cannot be called: {error}. If its servers have private addresses, add"
            " PRIVATE=1"
        ) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, Refused, Unresolved, UnicodeError) as error:
        # Other errors may quote the answer, which can repeat the token. Some have no text.
        is_own = isinstance(error, httpx2.ConnectError | Refused | Unresolved)
        reason = excerpt(str(error) if is_own else "") or type(error).__name__
        raise IssuerUnreachable(f"issuer {issuer.name}: it cannot be called: {reason}") from None
