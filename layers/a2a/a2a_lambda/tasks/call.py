"""A request for a turn, as whoever takes it in knows it: who asks, and with which bytes."""

from dataclasses import dataclass

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import Event, RequestOptions
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import AnsweredRequest, Request, Scope


@dataclass(frozen=True, slots=True)
class Call:
    """Who asks, of which agent, and with which bytes.

    dialect: name of the wire it came over. extensions: URIs the client activates.
    background: the turn is for the worker. waits: an answer that may come before the turn's end has to
        be asked for.
    config_id: id of a push notification config that was given none; "" = one of its own.
    idempotent: the caller chose the request's identity itself (an Idempotency-Key).
    deadline: on `time.monotonic`, when an answer must be out; None = never.
    """

    scope: Scope
    request: Request
    dialect: str = ""
    extensions: tuple[str, ...] = ()
    background: bool = False
    waits: bool = False
    config_id: str = ""
    idempotent: bool = False
    deadline: float | None = None

    def entered(self, head: Head, asked: SendMessageRequest, turn: str) -> Event:
        """The message, in its task; for the worker, with what else the agent is to know of the request."""
        message = asked["message"].copy()
        message["taskId"], message["contextId"] = head.task_id, head.context_id
        event = Event(message=message)
        if self.background:
            event["asked"] = self.asked(asked, turn)
        return event

    def asked(self, request: SendMessageRequest, turn: str) -> RequestOptions:
        return RequestOptions(
            turn=turn,
            acceptedOutputModes=request.get("configuration", {}).get("acceptedOutputModes", []),
            extensions=list(self.extensions),
            metadata=request.get("metadata", {}),
        )

    def repeats(self, seen: AnsweredRequest | None, *, since: float) -> bool:
        """Whether a request that was answered is this very one.

        since: Unix time from which on the same bytes are the same request. Raises InvalidParams for an
        Idempotency-Key that came with other bytes.
        """
        if seen is None or (not self.idempotent and seen["at"] <= since):
            return False
        self.check_body(seen)
        return True

    def check_body(self, seen: AnsweredRequest) -> None:
        """Raises InvalidParams for an Idempotency-Key that came with other bytes."""
        if seen["body"] != self.request.body:
            raise InvalidParams("this Idempotency-Key was used with another request")
