"""What the log of a task says of a durable turn."""

from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.model import Event, Message, Part, RequestOptions, Role
from a2a_lambda.tasks.replay import replies_in


def message_event(turn_id: str, text: str, **options: str) -> Event:
    message = Message(messageId=text, role=Role.USER, parts=[Part(text=text)])
    fields = {"turn": turn_id, "caller": {"subject": "ann"}, **options}
    return Event(message=message, options=RequestOptions(**fields))  # type: ignore[typeddict-item]


def callback_event(turn_id: str, key: str, data: str) -> Event:
    return Event(callback={"turn": turn_id, "key": key, "data": data})


def test_replies_are_those_of_the_turn() -> None:
    events = [
        message_event("t1", "begin"),
        message_event("t1", "yes", answers="approval"),
        callback_event("t1", "payment", "paid"),
        message_event("t2", "no", answers="approval"),
        callback_event("t2", "payment", "unpaid"),
        Event(message=Message(messageId="m", role=Role.AGENT, parts=[])),
    ]
    replies = replies_in(events, "t1", "alice")
    assert replies.keys() == {"approval", "payment"}
    assert (replies["approval"].text, replies["approval"].caller) == ("yes", Caller("alice", subject="ann"))
    assert (replies["payment"].data, replies["payment"].is_callback) == (["paid"], True)
