"""What surrounds a message: who sends it, with which bytes, and how long an answer may take."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import Event, RequestOptions
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.tasks.head import Head, Pending
from a2a_lambda.tasks.identity import KnownRequest, RequestIdentity, Scope


@dataclass(frozen=True, slots=True)
class CallContext:
    """A call of `send` or `stream`, apart from its message.

    wire_name: of the wire it came over. extensions: URIs that the client activates.
    is_background: no request runs the turn. is_durable: neither does the worker, but a durable execution.
    needs_execution: whether the turn does, by the id of the skill that asked, or None. It may raise
        Unavailable.
    blocking_by_default, names_tasks: as in `Wire`.
    may_rest: the agent has durable skills, so a later turn of the task may take long.
    url: of the deployment, as the client called it.
    push_config_id: id for a push notification config that the client sent without one; "" = a new id.
    idempotent: the client sent an Idempotency-Key.
    deadline: a `time.monotonic()` value, when the answer must be out; None = never.
    """

    scope: Scope
    request: RequestIdentity
    wire_name: str = ""
    extensions: tuple[str, ...] = ()
    is_background: bool = False
    is_durable: bool = False
    needs_execution: Callable[[str | None], bool] = lambda _: False
    blocking_by_default: bool = False
    names_tasks: bool = True
    may_rest: bool = False
    url: str = ""
    push_config_id: str = ""
    idempotent: bool = False
    deadline: float | None = None

    def after(self, pending: Pending | None) -> "CallContext":
        """The call as it starts a turn. pending: of the question that it answers, or None. Raises what
        `needs_execution` raises."""
        is_durable = self.needs_execution(pending["skill"] if pending else None)
        return replace(self, is_durable=is_durable, is_background=self.is_background or is_durable)

    def message_event(self, head: Head, request: SendMessageRequest, turn: str) -> Event:
        """The message as an event of its task. For the worker it carries the request's options, too."""
        message = request["message"].copy()
        message["taskId"], message["contextId"] = head.task_id, head.context_id
        event = Event(message=message)
        if self.is_background:
            event["asked"] = self.options(request, turn)
        return event

    def options(self, request: SendMessageRequest, turn: str) -> RequestOptions:
        return RequestOptions(
            turn=turn,
            acceptedOutputModes=request.get("configuration", {}).get("acceptedOutputModes", []),
            extensions=list(self.extensions),
            metadata=request.get("metadata", {}),
        )

    def repeats(self, known: KnownRequest | None, *, since: float) -> bool:
        """Whether this call repeats a known request.

        since: Unix time. The same bytes count as the same request only after it; the same Idempotency-Key
            always does. Raises InvalidParams for an Idempotency-Key that came with another body.
        """
        if known is None or (not self.idempotent and known["at"] <= since):
            return False
        self.check_body(known)
        return True

    def check_body(self, known: KnownRequest) -> None:
        """Raises InvalidParams for an Idempotency-Key that came with another body."""
        if known["body"] != self.request.body:
            raise InvalidParams("this Idempotency-Key was used with another request")
