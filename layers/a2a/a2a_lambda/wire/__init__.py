"""Protocol versions and dialects: one module each, pure translation to and from `model`.

`Wire` is what a module has to offer; `BY_PATH` names the dialect of a path that is one's own.
"""

from collections.abc import Mapping
from typing import Protocol

from a2a_lambda.errors import ProtocolError
from a2a_lambda.model import Event, Json, Operation, SendMessageRequest, Task, TaskRequest
from a2a_lambda.wire import alibaba, v0_3


class Wire(Protocol):
    """Translation of one version or dialect over JSON-RPC. Decoding raises InvalidParams."""

    @property
    def METHODS(self) -> Mapping[str, Operation]: ...
    def decode_send(self, params: Json, /) -> SendMessageRequest: ...
    def decode_task(self, params: Json, /) -> TaskRequest: ...
    def encode_task(self, task: Task, /) -> Json: ...
    def encode_event(self, event: Event, /) -> list[Json]: ...
    def encode_error(self, error: ProtocolError, /) -> Json: ...
    def unsupported(self, method: str, /) -> ProtocolError: ...


BY_PATH: Mapping[str, Wire] = {"": v0_3, "alibaba": alibaba}
