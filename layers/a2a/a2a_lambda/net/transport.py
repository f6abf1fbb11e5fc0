"""Connections to URLs from outside: only to public addresses, and only to the address that was checked.

The name is resolved once, and the connection is made to that address. So a name gains nothing if it
changes its address between the check and the call. httpx follows no redirects by itself, and a caller must
not either.
"""

import logging
import ssl
from contextlib import suppress
from functools import cache

import httpx2

from a2a_lambda import telemetry
from a2a_lambda.net.addresses import Refused, check_port, is_loopback, resolve

CONNECT_SECONDS = 3.0
"""Seconds to connect to one of several addresses."""


@cache
def tls_context() -> ssl.SSLContext:
    """What every connection checks certificates with. Loading the authorities takes about 30 ms."""
    return httpx2.create_ssl_context(trust_env=False)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Connects to public addresses only, each of which it checks after the DNS lookup.

    allow_loopback: this machine's own addresses are allowed, even over http. private: every address is.
    """

    def __init__(self, *, allow_loopback: bool = False, private: bool = False) -> None:
        for name in telemetry.URL_LOGGERS:  # on any server, unless its operator has chosen a level
            if (logger := logging.getLogger(name)).level == logging.NOTSET:
                logger.setLevel(logging.WARNING)
        self._allow_loopback = allow_loopback
        self._allows_private = private
        # No connection is used twice. The pool knows addresses only, so it would mix up names at one address.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._inner = httpx2.AsyncHTTPTransport(tls_context(), limits=limits)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises Refused, Unresolved, and what httpx raises. The request's body must be bytes."""
        url = request.url
        check_port(url.host, url.port or 443)
        if self._allows_private:
            return await self._inner.handle_async_request(request)
        host = url.raw_host.decode("ascii")  # as it is sent: there a name has one spelling
        addresses = await resolve(host, url.port or 443, allow_loopback=self._allow_loopback)
        if url.scheme != "https" and not all(map(is_loopback, addresses)):
            raise Refused(f"{url.host}: only https URLs are allowed")
        request.extensions = {**request.extensions, "sni_hostname": host}
        timeouts = request.extensions.get("timeout", {})
        connect_seconds = min(CONNECT_SECONDS, timeouts.get("connect") or CONNECT_SECONDS)
        try:
            for address in addresses[:-1]:
                request.url = url.copy_with(host=address)
                request.extensions["timeout"] = {**timeouts, "connect": connect_seconds}
                with suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
                    return await self._inner.handle_async_request(request)
            request.url = url.copy_with(host=addresses[-1])
            request.extensions["timeout"] = timeouts
            return await self._inner.handle_async_request(request)
        finally:
            request.url = url  # an error names it

    async def aclose(self) -> None:
        await self._inner.aclose()
