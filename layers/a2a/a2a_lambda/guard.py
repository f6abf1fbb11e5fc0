"""Connections to urls that came from somebody else: public addresses only, and no other than was checked.

The name is resolved once and the connection made to that very address, so a name that changes its
address between the check and the call gains nothing. Redirects are the caller's to refuse: httpx
follows none by itself.
"""

import httpx2

from a2a_lambda.address import Refused, resolved


class Guarded(httpx2.AsyncBaseTransport):
    """private: addresses of one's own network, and plain http, are fine too."""

    def __init__(self, *, private: bool = False) -> None:
        self._private = private
        # No connection serves a second call: by its address alone, another name's would be taken for it.
        once = httpx2.Limits(max_keepalive_connections=0)
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False, limits=once)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises Refused, and what httpx raises."""
        url = request.url
        if self._private:
            return await self._inner.handle_async_request(request)
        if url.scheme != "https":
            raise Refused(f"{url.host}: only https urls are called")
        host = url.raw_host.decode("ascii")  # as it stands on the wire: names have one spelling there
        address = await resolved(host, url.port or 443)
        request.url = url.copy_with(host=address)
        request.extensions = {**request.extensions, "sni_hostname": host}
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()
