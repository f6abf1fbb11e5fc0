"""Which version a request speaks: by its path, its A2A-Version, and the name of its method.

Without A2A-Version a request is 0.3 by the specification. But the methods of 1.0 and 0.1 have names of their
own, so the name decides first.
Source: https://a2a-protocol.org/v1.0.0/specification, section 3.6
"""

from collections.abc import Mapping, Sequence

from a2a_lambda.errors import MethodNotFound, ProtocolError, VersionNotSupported, excerpt
from a2a_lambda.wire import alibaba, qianfan, v0_1, v0_3, v0_3_http, v1_0
from a2a_lambda.wire.interface import Wire

UNVERSIONED = "0.3"
"""Version of a request that does not name one, if nothing else shows it."""

VERSIONS: tuple[Wire, ...] = (v1_0.WIRE, v0_3.WIRE, v0_3_http.WIRE, v0_1.WIRE)
"""Every version, the newest first."""

DIALECTS: Mapping[str, tuple[Wire, ...]] = {
    "": VERSIONS,
    "alibaba": (alibaba.WIRE,),
    "qianfan": (v1_0.WIRE, qianfan.WIRE, v0_1.WIRE),
    "shared": (v1_0.WIRE, v0_3.WIRE, qianfan.WIRE, v0_1.WIRE),
}
"""Wires by dialect. "" is for every path that belongs to no platform. "shared" is for a path that a
platform's clients and all others use."""


MCP_METHODS = frozenset({"initialize", "server/discover", "tools/list", "tools/call", "ping"})
"""How clients of MCP begin. One that has the path of A2A learns the path of MCP."""


def wires_for(dialect: str, version: str) -> tuple[Wire, ...]:
    """Wires of a dialect that speak a version; all of them if the version is "".

    version: `Major.Minor`; a patch number is ignored. Raises VersionNotSupported.
    """
    wires = DIALECTS[dialect]
    if not version:
        return wires
    short_version = ".".join(version.strip().split(".")[:2])
    matches = tuple(wire for wire in wires if short_version in wire.versions)
    if not matches:
        versions = sorted({name for wire in wires for name in wire.versions})
        raise VersionNotSupported(f"A2A-Version is {excerpt(version)!r}; supported: {', '.join(versions)}")
    return matches


def wires_with(wires: Sequence[Wire], method: str) -> list[Wire]:
    """Wires that have a JSON-RPC method, the preferred one first: several have `tasks/get`.

    Raises MethodNotFound.
    """
    # The binding HTTP+JSON has no methods, but shares versions with those that do.
    rpc_wires = [wire for wire in wires if wire.methods]
    matches = [wire for wire in rpc_wires if method in wire.methods]
    if matches:
        return matches
    for wire in VERSIONS:
        if method in wire.methods:
            raise MethodNotFound(
                f"{method} is a method of A2A {wire.name}, but the request is for"
                f" {' or '.join(rpc_wires[0].versions)}, by its path or its A2A-Version"
            )
    if method in MCP_METHODS:
        raise MethodNotFound(f"{method} is a method of MCP, whose path is /mcp/<agent>")
    raise default_wire(rpc_wires).method_not_found(method)


def wire_named(name: str) -> Wire:
    """The wire with a stored name; the default wire if this release does not have it."""
    wires = [wire for group in DIALECTS.values() for wire in group]
    return next((wire for wire in wires if name == wire.name), default_wire(wires))


def wire_of_task(wires: Sequence[Wire], wire_name: str) -> Wire:
    """Of the wires that a request may speak, the one that its task was made over."""
    return next((wire for wire in wires if wire_name == wire.name), wires[0])


def default_wire(wires: Sequence[Wire]) -> Wire:
    """The wire of a request that names no version."""
    return next((wire for wire in wires if UNVERSIONED in wire.versions), wires[0])


def wire_for_error(error: ProtocolError, wires: Sequence[Wire]) -> Wire:
    """The wire that an error is sent in."""
    return VERSIONS[0] if isinstance(error, VersionNotSupported) else default_wire(wires)
