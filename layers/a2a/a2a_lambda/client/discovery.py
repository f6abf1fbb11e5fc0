"""Finds out from a card which version an agent speaks, and where. The card may hold anything."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

from a2a_lambda.client.answers import AgentError
from a2a_lambda.client.keys import BearerToken, bearer_header
from a2a_lambda.errors import excerpt
from a2a_lambda.net.addresses import Refused, place_of
from a2a_lambda.protocol.model import Json
from a2a_lambda.strictjson import object_in, objects_in, text_in
from a2a_lambda.wire.interface import Wire
from a2a_lambda.wire.negotiation import VERSIONS

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")

JSONRPC = "JSONRPC"
"""The binding that `Client` calls."""

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Name of a header (RFC 9110 section 5.1)."""

RESERVED_HEADERS = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "accept"}
)
"""Headers that a card must not use for a key."""


class Undiscovered(AgentError):
    """There is no card, or none that this client can use."""


@dataclass(frozen=True, slots=True)
class DiscoveredAgent:
    """An agent as its card describes it to this client.

    headers: the key, in the header that the card asks for. tenant: part of every request.
    """

    card: Mapping[str, Json]
    wire: Wire
    url: str
    headers: Mapping[str, str]
    tenant: str = ""


def card_url(url: str, path: str) -> str:
    """URL of an agent's card: at a path below the agent's URL, unless that is the URL of a card itself."""
    base, mark, query = url.partition("?")
    return url if base.endswith(".json") else f"{base.rstrip('/')}{path}{mark}{query}"


def card_urls(url: str) -> Sequence[str]:
    """URLs at which the card of an agent may be."""
    return tuple(dict.fromkeys(card_url(url, path) for path in WELL_KNOWN))


def agent_of_card(
    card: Json,
    source: str,
    key: str | None,
    hosts: Sequence[str] = (),
    wires: Sequence[Wire] = VERSIONS,
    *,
    binding: str = JSONRPC,
) -> DiscoveredAgent:
    """The agent that a card describes.

    source: URL of the card, which may hold secrets. hosts: other hosts at which the agent may be; the key is
        not sent there.
    wires: what this client speaks, best first. binding: the one that it calls, as cards name it. Raises
    Undiscovered, Refused.
    """
    place = place_of(source)
    if not isinstance(card, dict):
        raise Undiscovered(f"{place}: a card must be an object")
    wire, url, tenant = _interface(card, place, wires, binding)
    try:
        target, origin = httpx2.URL(url), httpx2.URL(source)
    except httpx2.InvalidURL:
        raise Undiscovered(f"{place}: the card has no valid `url`") from None
    if not target.host:
        raise Undiscovered(f"{place}: the card's `url`, {excerpt(url)!r}, must begin with https://")
    if target.userinfo not in (b"", origin.userinfo):  # it could take the place of a bearer token
        raise Undiscovered(f"{place}: the card's `url` has a user name or a password")
    is_home = is_same_origin(target, origin)
    if not is_home and target.host not in hosts:
        other_origin = excerpt(f"{target.scheme}://{target.netloc.decode()}")
        raise Refused(f"{place}: the card sends its callers to another origin, {other_origin}")
    return DiscoveredAgent(card, wire, url, _credentials(card, key) if is_home and key else {}, tenant)


def is_same_origin(url: httpx2.URL, other: httpx2.URL) -> bool:
    """Whether a key for one of two URLs may be sent to the other."""
    return (url.scheme, url.host, url.port) == (other.scheme, other.host, other.port)


def _interface(
    card: Mapping[str, Json], place: str, wires: Sequence[Wire], binding: str
) -> tuple[Wire, str, str]:
    """Wire, URL and tenant to call, in the best version that both sides speak."""
    interfaces = [
        (text_in(item, "protocolVersion"), text_in(item, "url"), text_in(item, "tenant"))
        for item in objects_in(card, "supportedInterfaces")
        if item.get("protocolBinding") == binding and text_in(item, "url")
    ]
    # The first interface of a 0.x card may have another binding.
    others = [{**card, "transport": card.get("preferredTransport") or JSONRPC}]
    others += objects_in(card, "additionalInterfaces")
    if url := next((text_in(item, "url") for item in others if item.get("transport") == binding), ""):
        interfaces.append((text_in(card, "protocolVersion") or "0.1", url, ""))
    for wire in wires:
        for version, url, tenant in interfaces:
            if wire.methods and ".".join(version.split(".")[:2]) in wire.versions:
                return wire, url, tenant
    versions = ", ".join(version for version, _, _ in interfaces) or "none"
    known_versions = dict.fromkeys(version for wire in wires if wire.methods for version in wire.versions)
    raise Undiscovered(
        f"{place}: no {binding} interface of A2A {', '.join(known_versions)} (its card has"
        f" {excerpt(versions)})"
    )


def _credentials(card: Mapping[str, Json], key: str) -> Mapping[str, str]:
    """The header of a card's first scheme for a key; a bearer token if it has none, or for a token."""
    if isinstance(key, BearerToken):
        return bearer_header(key)
    for scheme in object_in(card, "securitySchemes").values():
        details: Any = scheme.get("apiKeySecurityScheme", scheme) if isinstance(scheme, dict) else None
        if not isinstance(details, dict) or details.get("location", details.get("in")) != "header":
            continue
        name = text_in(details, "name")
        if HEADER_NAME.fullmatch(name) and name.lower() not in RESERVED_HEADERS:
            return bearer_header(key) if name.lower() == "authorization" else {name: key}
    return bearer_header(key)
