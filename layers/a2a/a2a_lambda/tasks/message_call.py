"""What surrounds a message: who sends it, with which bytes, and how long an answer may take."""

from dataclasses import dataclass

from a2a_lambda.errors import UnsupportedOperation
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.model import Event, RequestOptions
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.identity import Namespace, RequestIdentity


class QuestionClosed(UnsupportedOperation):
    """The question that a message answers is no longer open: it was answered, its time is up, or its task has
    ended."""


@dataclass(frozen=True, slots=True)
class MessageCall:
    """A call of `send` or `stream`, apart from its message.

    caller: who sends it; None = the owner, with a key. wire_name: name of the wire that the call came over.
    extensions: URIs that the client activates.
    is_streamed: the call is a `stream`. blocking_by_default, names_tasks: see `Wire`.
    answers_in_context: a message that names no task answers the open question of its context.
    takes_message: the answer may be a message instead of a task.
    base_url: URL of the deployment, as the client called it.
    modes: output modes that the caller's protocol asks for, in addition to those that the client accepts.
    push_config_id: id for a push notification config that the client sent without one; see `Wire`.
    deadline: a `time.monotonic()` value, when the answer must be out; None = never.
    """

    namespace: Namespace
    identity: RequestIdentity
    caller: Caller | None = None
    wire_name: str = ""
    extensions: tuple[str, ...] = ()
    is_streamed: bool = False
    blocking_by_default: bool = False
    names_tasks: bool = True
    answers_in_context: bool = True
    takes_message: bool = False
    base_url: str = ""
    modes: tuple[str, ...] = ()
    push_config_id: str = ""
    deadline: float | None = None

    def message_event(self, request: SendMessageRequest, head: Head, turn_id: str, place: Place) -> Event:
        """The message as an event of its task. For another process it carries the request's options, too."""
        message = request["message"].copy()
        message["taskId"], message["contextId"] = head.task_id, head.context_id
        if place is Place.REQUEST:
            return Event(message=message)
        return Event(message=message, options=self.options(request, turn_id))

    def asks_not_to_wait(self, request: SendMessageRequest) -> bool:
        """Whether the client asks for an answer before the turn has ended. A stream shows its turn as it
        runs, whether or not the client would wait for a send."""
        return not self.is_streamed and request.get("configuration", {}).get("returnImmediately", False)

    def is_answered_at_once(self, request: SendMessageRequest, place: Place) -> bool:
        """Whether a send is answered before its turn has ended. If the request does not say whether it
        blocks, some versions block. In the others, the place of the turn decides."""
        options = request.get("configuration", {})
        return options.get("returnImmediately", not self.blocking_by_default) and place is not Place.REQUEST

    def accepted_modes(self, request: SendMessageRequest) -> tuple[str, ...]:
        """Output modes that the caller's protocol asks for, and those that the client accepts."""
        return (*self.modes, *request.get("configuration", {}).get("acceptedOutputModes", ()))

    def options(self, request: SendMessageRequest, turn_id: str) -> RequestOptions:
        """What the agent may know of the request."""
        options = RequestOptions(
            turn=turn_id,
            acceptedOutputModes=request.get("configuration", {}).get("acceptedOutputModes", []),
            extensions=list(self.extensions),
            metadata=request.get("metadata", {}),
        )
        if self.caller is not None and self.caller.kind != "key":
            options["caller"] = self.caller.document()
        return options
