"""What surrounds a message: who sends it, with which bytes, and how long an answer may take."""

from dataclasses import dataclass

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import Event, RequestOptions
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import AnsweredRequest, RequestIdentity, Scope


@dataclass(frozen=True, slots=True)
class CallContext:
    """A call of `send` or `stream`, apart from its message.

    dialect: name of the wire it came over. extensions: URIs that the client activates.
    background: the worker is to run the turn.
    blocking_by_default: as in `Wire`.
    push_config_id: id of a push notification config that has none; "" = it gets an id of its own.
    idempotent: the client sent an Idempotency-Key.
    deadline: on `time.monotonic`, when the answer must be out; None = never.
    """

    scope: Scope
    request: RequestIdentity
    dialect: str = ""
    extensions: tuple[str, ...] = ()
    background: bool = False
    blocking_by_default: bool = False
    push_config_id: str = ""
    idempotent: bool = False
    deadline: float | None = None

    def message_event(self, head: Head, request: SendMessageRequest, turn: str) -> Event:
        """The message as an event of its task. For the worker it carries the request's options, too."""
        message = request["message"].copy()
        message["taskId"], message["contextId"] = head.task_id, head.context_id
        event = Event(message=message)
        if self.background:
            event["asked"] = self.options(request, turn)
        return event

    def options(self, request: SendMessageRequest, turn: str) -> RequestOptions:
        return RequestOptions(
            turn=turn,
            acceptedOutputModes=request.get("configuration", {}).get("acceptedOutputModes", []),
            extensions=list(self.extensions),
            metadata=request.get("metadata", {}),
        )

    def repeats(self, answered: AnsweredRequest | None, *, since: float) -> bool:
        """Whether this call repeats a request that was answered.

        since: Unix time. The same bytes count as the same request only after it; the same Idempotency-Key
            always does. Raises InvalidParams for an Idempotency-Key that came with another body.
        """
        if answered is None or (not self.idempotent and answered["at"] <= since):
            return False
        self.check_body(answered)
        return True

    def check_body(self, answered: AnsweredRequest) -> None:
        """Raises InvalidParams for an Idempotency-Key that came with another body."""
        if answered["body"] != self.request.body:
            raise InvalidParams("this Idempotency-Key was used with another request")
