"""Connections to urls that came from somebody else: public addresses only, and no other than was checked.

The name is resolved once and the connection made to that very address, so a name that changes its
address between the check and the call gains nothing. Redirects are the caller's to refuse: httpx
follows none by itself.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence

import httpx2

from a2a_lambda.errors import KitError

NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Refused(KitError):
    """A url nobody should call: not https, or an address that is not public."""


class Guarded(httpx2.AsyncBaseTransport):
    """private: addresses of one's own network, and plain http, are fine too."""

    def __init__(self, *, private: bool = False) -> None:
        self._private = private
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises Refused, and what httpx raises."""
        url = request.url
        if self._private:
            return await self._inner.handle_async_request(request)
        if url.scheme != "https":
            raise Refused(f"{url.host}: only https urls are called")
        address = await resolved(url.host, url.port or 443)
        request.url = url.copy_with(host=address)
        request.extensions = {**request.extensions, "sni_hostname": url.host}
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def resolved(host: str, port: int) -> str:
    """An address of a host, all of whose addresses are public. Raises Refused."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(f"{host}: no address found") from error
    addresses = [str(entry[4][0]) for entry in found]
    check(host, addresses)
    return addresses[0]


def check(host: str, addresses: Sequence[str]) -> None:
    """Raises Refused unless every address is a public one."""
    for address in addresses:
        if not public(address):
            raise Refused(f"{host}: its address is not a public one")


def public(address: str) -> bool:
    """Whether an IP address is reachable from everywhere, whatever it is wrapped in."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if inner is None and ip in NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return public(str(inner))
    return ip.is_global and not ip.is_multicast
