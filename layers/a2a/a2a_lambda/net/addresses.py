"""Which addresses a URL from outside may lead to: public ones."""

import asyncio
import ipaddress
import re
import socket
from contextlib import suppress
from urllib.parse import urlsplit

from a2a_lambda.errors import KitError
from a2a_lambda.threads import Pool

NAT64 = ipaddress.ip_network("64:ff9b::/96")

GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
"""Every public address of IPv6 (RFC 4291), except those for documentation (RFC 9637)."""

DOCUMENTATION = ipaddress.ip_network("3fff::/20")

PORTS = range(1, 65_536)

WEBHOOK_URL_BYTES = 2_048

NO_URL = "is not a URL such as https://example.com/hook"

LOOKUP_SECONDS = 3.0
"""Seconds in which a name server must answer."""

_lookup = Pool("dns", 4).run


class Refused(KitError):
    """A URL that must not be called: it is not https, or its address is not public."""


class NotPublic(Refused):
    """A URL whose address is not public. `Client(…, private=True)` calls it."""


class Unresolved(KitError):
    """A name that has no address at the moment."""


def place_of(url: str) -> str:
    """A URL as an error names it: without its user, password, query and fragment, which may be secrets."""
    return re.sub(r"^([^/]*//)?[^/]*@", r"\1", re.split("[?#]", url, maxsplit=1)[0])


def check_webhook_url(url: str, *, allow_loopback: bool) -> tuple[str, int]:
    """Host and port of a webhook, as far as the URL alone can tell. allow_loopback: this machine's own
    addresses are allowed, even over http. Raises Refused."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError:
        raise Refused(NO_URL) from None
    if len(url) > WEBHOOK_URL_BYTES or not url.isascii() or re.search(r"[\x00-\x20\x7f]", url):
        raise Refused(NO_URL)
    address, is_loopback_host = _address_of(host), is_loopback_url(url)
    # Of a name that is not this machine's own, only `resolve` knows the addresses.
    is_private = is_loopback_host or (address is not None and not is_public(address))
    is_local = is_loopback_host and allow_loopback
    if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
        raise Refused("must be https" + (", or http on this machine" if allow_loopback else ""))
    if not host or parts.username is not None or parts.password is not None:
        raise Refused("must have a host and no user name")
    if is_private and not is_local:
        raise NotPublic(f"must have a public address, which {host} is not")
    return host, port


def check_port(host: str, port: int) -> None:
    """Raises Refused for a number that no port has. The network's own error would be an OverflowError."""
    if port not in PORTS:
        raise Refused(f"{host}: there is no port {port}")


async def resolve(host: str, port: int, *, allow_loopback: bool = False) -> list[str]:
    """Addresses of a host. All are public; with `allow_loopback`, all may be this machine's own. Raises
    Refused, Unresolved."""
    check_port(host, port)
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            entries = await _lookup(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # TimeoutError among them
        raise Unresolved(f"{host}: no address found") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    if all(map(is_public, addresses)) or (allow_loopback and all(map(is_loopback, addresses))):
        return addresses
    raise NotPublic(f"{host}: its address is not public")


def is_loopback(address: str) -> bool:
    """Whether an IP address is this machine's own."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def is_loopback_url(url: str) -> bool:
    """Whether a URL is of this machine, as far as the URL alone can tell. Raises ValueError if it is none."""
    host = urlsplit(url).hostname or ""
    if (address := _address_of(host)) is not None:
        return is_loopback(address)
    # localhost and every name below it stand for a loopback address (RFC 6761 section 6.3).
    return f".{host.rstrip('.')}".endswith(".localhost")


def _address_of(host: str) -> str | None:
    """The IP address that a URL's host is, or None if it is a name."""
    if re.fullmatch(r"[0-9a-fx.]+", host):  # 127.1 and 0x7f000001 are addresses, too
        with suppress(OSError):
            return socket.inet_ntoa(socket.inet_aton(host))
    with suppress(ValueError):
        return str(ipaddress.IPv6Address(host))  # with its zone, if it has one
    return None


def is_public(address: str) -> bool:
    """Whether an IP address is public, including one inside an IPv6 address."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        embedded_ip = ip.ipv4_mapped or ip.sixtofour
        if embedded_ip is None and ip in NAT64:
            embedded_ip = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if embedded_ip is not None:
            return is_public(str(embedded_ip))
        if ip not in GLOBAL_UNICAST or ip in DOCUMENTATION:
            return False
    return ip.is_global and not ip.is_multicast
