"""Which addresses a url that came from somebody else may lead to: public ones."""

import asyncio
import ipaddress
import socket

from a2a_lambda.errors import KitError
from a2a_lambda.threads import Pool

NAT64 = ipaddress.ip_network("64:ff9b::/96")

GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
"""All of IPv6 that is assigned for the world (RFC 4291), but for what documents use (RFC 9637)."""

DOCUMENTATION = ipaddress.ip_network("3fff::/20")

LOOKUP_SECONDS = 3.0
"""Seconds a name server has to answer."""

_lookup = Pool("dns", 4).run


class Refused(KitError):
    """A url nobody should call: not https, or an address that is not public."""


class Unresolved(KitError):
    """A name without an address, at the moment."""


async def resolved(host: str, port: int, *, allow_loopback: bool = False) -> list[str]:
    """Addresses of a host, every one of them public; or, with `allow_loopback`, every one its own. Raises
    Refused, Unresolved."""
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            found = await _lookup(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # TimeoutError among them
        raise Unresolved(f"{host}: no address found") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if all(map(public, addresses)) or (allow_loopback and all(map(loopback, addresses))):
        return addresses
    raise Refused(f"{host}: its address is not a public one")


def loopback(address: str) -> bool:
    """Whether an IP address is this machine's own."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


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
