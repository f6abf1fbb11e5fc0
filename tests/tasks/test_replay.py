"""What the log of a task says of a durable turn."""

from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.model import (
    OPERATION,
    Event,
    Message,
    Part,
    RequestOptions,
    Role,
    TaskState,
    TaskStatusUpdateEvent,
    make_status,
)
from a2a_lambda.tasks.replay import events_of_turn, notices_in, replies_in


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


def test_the_events_of_a_turn_begin_with_its_message_and_not_with_a_reply() -> None:
    first, reply = message_event("t1", "begin"), message_event("t2", "yes", answers="approval")
    second = message_event("t2", "begin again")
    assert events_of_turn([first, reply, second, reply], "t2") == [second, reply]
    assert events_of_turn([first, reply], "t2") == ()


def test_notices_are_known_by_kind_name_and_state() -> None:
    notice = {"kind": "sleep", "name": "pause", "state": "started", "until": "2026-01-01T00:00:00Z"}
    status = make_status(TaskState.WORKING, 0)
    update = TaskStatusUpdateEvent(taskId="t", contextId="c", status=status)
    events = [
        Event(statusUpdate={**update, "metadata": {OPERATION: notice}}),
        Event(statusUpdate={**update, "metadata": {"other": 1}}),
        Event(statusUpdate=update),
        message_event("t1", "begin"),
    ]
    assert notices_in(events) == {("sleep", "pause", "started")}
