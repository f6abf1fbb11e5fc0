"""What a version of the protocol, or a dialect of one, has to offer: tables and pure functions."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from a2a_lambda.errors import MethodNotFound, ProtocolError
from a2a_lambda.protocol.model import Event, Json, Task
from a2a_lambda.protocol.requests import Listener, Operation
from a2a_lambda.wire.shared.card_json import Description


class Codec(NamedTuple):
    """Translation of an operation's parameters, or of its result. `decode` raises InvalidParams."""

    decode: Callable[[Json], Any]
    encode: Callable[[Any], Json]


class Route(NamedTuple):
    """HTTP+JSON: a path below the interface's url, variables in braces, and the operation there."""

    verb: str
    path: str
    operation: Operation


class Wire(Protocol):
    """One version or dialect. Its tables and functions raise InvalidParams when they decode.

    NAME: what a task made over it is marked with. VERSIONS: its values of A2A-Version.
    METHODS: JSON-RPC methods. ROUTES: HTTP+JSON, below PREFIX.
    REQUESTS, RESULTS: parameters and results of the operations it has.
    LIVE: a subscription is for tasks that go on: one that has ended is refused, and one that waits for
        input is waited for. Errors of streams are plain answers, not events.
    MEDIA_TYPE: of its answers over HTTP+JSON, and of a push notification, which `encode_notice` makes.
    WAITS: a send that does not say otherwise is answered when its turn has ended.
    NO_EXTENDED_CARD: raised where the agent has none.
    REPLACES: an artifact in a stream with `append: false` takes the place of the one before.
    CONFIG_ID: id of a push notification config that was given none: its task's only one of the kind, which
        the next one replaces. "" = each gets an id of its own.
    """

    @property
    def NAME(self) -> str: ...
    @property
    def VERSIONS(self) -> tuple[str, ...]: ...
    @property
    def METHODS(self) -> Mapping[str, Operation]: ...
    @property
    def ROUTES(self) -> tuple[Route, ...]: ...
    @property
    def PREFIX(self) -> str: ...
    @property
    def REQUESTS(self) -> Mapping[Operation, Codec]: ...
    @property
    def RESULTS(self) -> Mapping[Operation, Codec]: ...
    @property
    def LIVE(self) -> bool: ...
    @property
    def WAITS(self) -> bool: ...
    @property
    def NO_EXTENDED_CARD(self) -> type[ProtocolError]: ...
    @property
    def REPLACES(self) -> bool: ...
    @property
    def CONFIG_ID(self) -> str: ...
    @property
    def MEDIA_TYPE(self) -> str: ...
    def encode_notice(self, task: Task, /) -> Json: ...
    def encode_card(self, source: Description, /) -> dict[str, Json]: ...
    def encode_event(self, event: Event, listener: Listener, /) -> list[Json]: ...
    def decode_event(self, value: Json, /) -> Event: ...
    def encode_error(self, error: ProtocolError, /) -> Json: ...
    def encode_failure(self, error: ProtocolError, /) -> tuple[int, Json]: ...
    def unsupported(self, method: str, /) -> ProtocolError: ...


def method_not_found(methods: Iterable[str], method: str) -> ProtocolError:
    """Why a method is not among a version's."""
    return MethodNotFound(f"{method[:100]!r}; there are {', '.join(methods)}")
