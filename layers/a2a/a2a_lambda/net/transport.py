"""Connections to urls that came from somebody else: public addresses only, and no other than was checked.

The name is resolved once and the connection made to that very address, so a name that changes its
address between the check and the call gains nothing. Redirects are the caller's to refuse: httpx
follows none by itself.
"""

from contextlib import suppress

import httpx2

from a2a_lambda.net.addresses import Refused, loopback, resolved

CONNECT_SECONDS = 3.0
"""Seconds to reach one of several addresses."""


class Guarded(httpx2.AsyncBaseTransport):
    """allow_loopback: its own addresses, by plain http too, are fine. private: so are all others."""

    def __init__(self, *, allow_loopback: bool = False, private: bool = False) -> None:
        self._allow_loopback = allow_loopback
        self._private = private
        # No connection serves a second call: by its address alone, another name's would be taken for it.
        once = httpx2.Limits(max_keepalive_connections=0)
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False, limits=once)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises Refused, Unresolved, and what httpx raises. The request's body is to be bytes."""
        url = request.url
        if self._private:
            return await self._inner.handle_async_request(request)
        host = url.raw_host.decode("ascii")  # as it stands on the wire: names have one spelling there
        addresses = await resolved(host, url.port or 443, allow_loopback=self._allow_loopback)
        if url.scheme != "https" and not all(map(loopback, addresses)):
            raise Refused(f"{url.host}: only https urls are called")
        request.extensions = {**request.extensions, "sni_hostname": host}
        timeouts = request.extensions.get("timeout", {})
        shorter = min(CONNECT_SECONDS, timeouts.get("connect") or CONNECT_SECONDS)
        for address in addresses[:-1]:
            request.url = url.copy_with(host=address)
            request.extensions["timeout"] = {**timeouts, "connect": shorter}
            with suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
                return await self._inner.handle_async_request(request)
        request.url = url.copy_with(host=addresses[-1])
        request.extensions["timeout"] = timeouts
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()
