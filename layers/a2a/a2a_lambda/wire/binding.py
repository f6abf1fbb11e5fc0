"""What a version's tables are made of."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from a2a_lambda.errors import MethodNotFound, ProtocolError
from a2a_lambda.protocol.model import Json
from a2a_lambda.protocol.requests import Operation


class Codec(NamedTuple):
    """Translation of an operation's parameters, or of its result. `decode` raises InvalidParams."""

    decode: Callable[[Json], Any]
    encode: Callable[[Any], Json]


class Route(NamedTuple):
    """HTTP+JSON: a path below the interface's url, variables in braces, and the operation there."""

    verb: str
    path: str
    operation: Operation


def method_not_found(methods: Iterable[str], method: str) -> ProtocolError:
    """Why a method is not among a version's."""
    return MethodNotFound(f"{method[:100]!r}; there are {', '.join(methods)}")
