"""Which version an agent speaks, and where: read from its card."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx2

from a2a_lambda.address import Refused
from a2a_lambda.errors import KitError
from a2a_lambda.model import Json
from a2a_lambda.wire import VERSIONS, Wire

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")


class Undiscovered(KitError):
    """No card, or none this client can go by."""


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent found. headers: what shows the key, as its card asks for it."""

    card: Mapping[str, Json]
    wire: Wire
    url: str
    headers: Mapping[str, str]


def card_urls(url: str) -> Sequence[str]:
    """Where the card of an agent may be: the url itself, when it is one of a card."""
    if url.endswith(".json"):
        return (url,)
    return tuple(url.rstrip("/") + path for path in WELL_KNOWN)


def read(card: Json, source: str, key: str | None, hosts: Sequence[str] = ()) -> Agent:
    """The agent a card describes.

    source: url of the card. hosts: others, beside the card's own, the agent may be at; the key does not
    go there. Raises Undiscovered, Refused.
    """
    if not isinstance(card, dict):
        raise Undiscovered(f"{source}: a card is an object")
    wire, url = _interface(card, source)
    target, origin = httpx2.URL(url), httpx2.URL(source)
    home = (target.scheme, target.host, target.port) == (origin.scheme, origin.host, origin.port)
    if not home and target.host not in hosts:
        raise Refused(f"{source}: the card sends its callers to another host, {target.host}")
    return Agent(card, wire, url, _credentials(card, key) if home and key else {})


def _interface(card: Mapping[str, Json], source: str) -> tuple[Wire, str]:
    """The wire and url to call: JSON-RPC of the newest version both sides speak."""
    found = card.get("supportedInterfaces")
    interfaces = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    offered = [
        (str(item.get("protocolVersion", "")), str(item["url"]))
        for item in interfaces
        if item.get("protocolBinding") == "JSONRPC" and isinstance(item.get("url"), str)
    ]
    if not offered and isinstance(card.get("url"), str):
        offered = [(str(card.get("protocolVersion", "0.1")), _rpc_url(card))]
    for wire in VERSIONS:
        for version, url in offered:
            if wire.METHODS and ".".join(version.split(".")[:2]) in wire.VERSIONS:
                return wire, url
    versions = ", ".join(version for version, _ in offered) or "none"
    raise Undiscovered(f"{source}: no JSON-RPC interface of a known version (its card has {versions})")


def _rpc_url(card: Mapping[str, Json]) -> str:
    """Url of the JSON-RPC interface of a 0.x card, whose first one may speak something else."""
    if card.get("preferredTransport", "JSONRPC") != "JSONRPC":
        for item in card.get("additionalInterfaces") or ():
            if isinstance(item, dict) and item.get("transport") == "JSONRPC":
                return str(item.get("url"))
    return str(card["url"])


def _credentials(card: Mapping[str, Json], key: str) -> Mapping[str, str]:
    """The header a card's first scheme for a key asks for; a bearer token where it has none."""
    schemes = card.get("securitySchemes")
    for scheme in schemes.values() if isinstance(schemes, dict) else ():
        told = scheme.get("apiKeySecurityScheme", scheme) if isinstance(scheme, dict) else {}
        if told.get("location", told.get("in")) == "header" and isinstance(told.get("name"), str):
            bearer = told["name"].lower() == "authorization"
            return {told["name"]: f"Bearer {key}" if bearer else key}
    return {"Authorization": f"Bearer {key}"}
