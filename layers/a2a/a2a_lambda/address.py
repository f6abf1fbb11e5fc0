"""Which addresses a url that came from somebody else may lead to: public ones."""

import asyncio
import ipaddress
import socket

from a2a_lambda.errors import KitError

NAT64 = ipaddress.ip_network("64:ff9b::/96")

GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
"""All of IPv6 that is assigned for the world (RFC 4291), but for what documents use (RFC 9637)."""

DOCUMENTATION = ipaddress.ip_network("3fff::/20")


class Refused(KitError):
    """A url nobody should call: not https, or an address that is not public."""


class Unresolved(Refused):
    """A name without an address, at the moment."""


async def resolved(host: str, port: int) -> str:
    """An address of a host, all of whose addresses are public. Raises Refused, Unresolved."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unresolved(f"{host}: no address found") from error
    addresses = [str(entry[4][0]) for entry in found]
    if not all(map(public, addresses)):
        raise Refused(f"{host}: its address is not a public one")
    return addresses[0]


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
        if ip not in GLOBAL_UNICAST or ip in DOCUMENTATION:
            return False
    return ip.is_global and not ip.is_multicast
