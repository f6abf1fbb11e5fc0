"""What a version of the protocol, or a dialect of one, is made of: tables and pure functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from a2a_lambda.errors import MethodNotFound, ProtocolError, excerpt
from a2a_lambda.protocol.model import Event, Json, Task
from a2a_lambda.protocol.requests import Operation, Recipient
from a2a_lambda.wire.shared.card_json import Description
from a2a_lambda.wire.shared.error_json import encode_http_error


def unsupported_codec(value: Json) -> Any:
    """Stands for the half of a codec that only a client needs: the kit's client never uses this binding."""
    raise NotImplementedError


class Codec(NamedTuple):
    """Translation of an operation's parameters, or of its result. `decode` raises InvalidParams."""

    decode: Callable[[Json], Any] = unsupported_codec
    encode: Callable[[Any], Json] = unsupported_codec


class Route(NamedTuple):
    """HTTP+JSON: a path below the interface's URL, variables in braces, and the operation there."""

    verb: str
    path: str
    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wire:
    """One version or dialect. Functions that decode raise InvalidParams.

    name: stored with each task, which is read in the same version later.
    versions: values of A2A-Version.
    methods: JSON-RPC methods. routes: HTTP+JSON, below path_prefix.
    requests, results: parameters and results of the operations that the version has.
    encode_event: an event of a stream; some dialects send one event as several, or as none.
    encode_notification: encodes a task as the body of a push notification.
    notifies_events: later notifications are events, encoded as in a stream; otherwise each is the task.
    media_type: media type of the bodies of notifications, and of HTTP+JSON answers.
    blocking_by_default: a send that does not say otherwise is answered after its turn has ended.
    has_tenants: its requests have a field `tenant`, which names the agent.
    names_tasks: its clients know the ids of tasks. Otherwise all messages of a context are for one task at a
        time.
    answers_with_messages: its clients take a message instead of a task as the answer to a send.
    subscribe_needs_running: a task that has ended refuses a subscription without Last-Event-ID, and the
        stream of a task that waits for input stays open for a while, because it may be answered.
    stream_errors_as_events: an error before the first event is sent as an event: clients of 0.x cannot
        read another body.
    sends_version: a client sends A2A-Version.
    replaces_artifacts: in a stream, an artifact with `append: false` replaces the one before.
    push_config_id: id for a push notification config that a client sends without one. A task has one such
        config, and the next one replaces it. If it is "", the kit makes an id: for a config in a message, it
        makes the id from the task and the URL, so that a repeated config replaces it; any other is new.
    no_extended_card: raised if the agent has none.
    """

    name: str
    versions: tuple[str, ...]
    methods: Mapping[str, Operation] = field(default_factory=dict)
    routes: tuple[Route, ...] = ()
    path_prefix: str = ""
    requests: Mapping[Operation, Codec]
    results: Mapping[Operation, Codec]
    encode_card: Callable[[Description], dict[str, Json]]
    encode_event: Callable[[Event, Recipient], list[Json]]
    decode_event: Callable[[Json], Event] = unsupported_codec
    encode_notification: Callable[[Task], Json]
    encode_error: Callable[[ProtocolError], Json]
    encode_http_error: Callable[[ProtocolError], tuple[int, Json]] = encode_http_error
    notifies_events: bool = False
    media_type: str = "application/json"
    blocking_by_default: bool = False
    has_tenants: bool = False
    names_tasks: bool = True
    answers_with_messages: bool = False
    subscribe_needs_running: bool = False
    stream_errors_as_events: bool = True
    sends_version: bool = False
    replaces_artifacts: bool = True
    push_config_id: str = "default"
    no_extended_card: type[ProtocolError]

    def method_of(self, operation: Operation) -> str:
        """JSON-RPC method of an operation, or "" if the version has none."""
        return next((method for method, candidate in self.methods.items() if candidate == operation), "")

    def method_not_found(self, method: str) -> ProtocolError:
        """The error for a method that the version does not have."""
        return MethodNotFound(f"{excerpt(method)!r}. Methods: {', '.join(self.methods)}")
