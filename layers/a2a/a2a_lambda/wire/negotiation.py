"""Which version a request speaks: its path, the A2A-Version header or query, the name of its method.

Source: https://a2a-protocol.org/v1.0.0/specification, section 3.6. No version means 0.3 there; but the
methods of 1.0 and 0.1 have names of their own, and are taken for what they are.
"""

from collections.abc import Mapping, Sequence

from a2a_lambda.errors import MethodNotFound, ProtocolError, VersionNotSupported
from a2a_lambda.wire import alibaba, qianfan, v0_1, v0_3, v0_3_http, v1_0
from a2a_lambda.wire.interface import Wire

UNVERSIONED = "0.3"
"""What a request without a version speaks, where nothing else tells."""

VERSIONS: tuple[Wire, ...] = (v1_0.WIRE, v0_3.WIRE, v0_3_http.WIRE, v0_1.WIRE)
"""Every version, the newest first."""

DIALECTS: Mapping[str, tuple[Wire, ...]] = {
    "": VERSIONS,
    "alibaba": (alibaba.WIRE,),
    "qianfan": (v1_0.WIRE, qianfan.WIRE, v0_1.WIRE),
    "shared": (v1_0.WIRE, v0_3.WIRE, qianfan.WIRE, v0_1.WIRE),
}
"""What is spoken on the paths of a platform; "" is every other path, and "shared" one that a platform's
clients use as well as others'."""


def spoken(dialect: str, version: str) -> tuple[Wire, ...]:
    """Wires of a path that speak a version; all of them where it is empty.

    version: `Major.Minor`; a patch is passed over. Raises VersionNotSupported.
    """
    wires = DIALECTS[dialect]
    if not version:
        return wires
    plain = ".".join(version.strip().split(".")[:2])
    found = tuple(wire for wire in wires if plain in wire.versions)
    if not found:
        known = sorted({name for wire in wires for name in wire.versions})
        raise VersionNotSupported(f"A2A-Version is {version[:20]!r}; spoken here: {', '.join(known)}")
    return found


def of_method(wires: Sequence[Wire], method: str) -> list[Wire]:
    """Wires with that JSON-RPC method: several have `tasks/get`, the one to prefer is first.

    Raises MethodNotFound.
    """
    callable_ = [wire for wire in wires if wire.methods]
    found = [wire for wire in callable_ if method in wire.methods]
    if found:
        return found
    for wire in VERSIONS:
        if method in wire.methods:
            raise MethodNotFound(
                f"{method} is a method of A2A {wire.name}; the request says"
                f" {' or '.join(callable_[0].versions)}, with its path or with A2A-Version"
            )
    raise usual(callable_).unsupported(method)


def named(name: str) -> Wire:
    """The wire a task or a config is marked with; the usual one where it is none of ours."""
    wires = [wire for found in DIALECTS.values() for wire in found]
    return next((wire for wire in wires if name == wire.name), usual(wires))


def of_task(wires: Sequence[Wire], dialect: str) -> Wire:
    """Of the wires a request may speak, the one its task was made over."""
    return next((wire for wire in wires if dialect == wire.name), wires[0])


def usual(wires: Sequence[Wire]) -> Wire:
    """The wire of a request that does not tell."""
    return next((wire for wire in wires if UNVERSIONED in wire.versions), wires[0])


def refusing(error: ProtocolError, wires: Sequence[Wire]) -> Wire:
    """The wire an error is told over."""
    return VERSIONS[0] if isinstance(error, VersionNotSupported) else usual(wires)
