"""The head of a durable turn, suspended and resumed."""

from dataclasses import replace

import pytest

from a2a_lambda.durable.engine import OpenWait, Suspended, Wait
from a2a_lambda.errors import RouteNotFound
from a2a_lambda.protocol.model import Event, TaskState, make_status, text_message
from a2a_lambda.tasks.callback_token import MAX_TOKEN_CHARACTERS, CallbackToken, callback_token
from a2a_lambda.tasks.execution import Execution, StoredWait
from a2a_lambda.tasks.head import REPLYING, Head, Place, sweep_minute
from a2a_lambda.tasks.suspension import (
    LATE_SECONDS,
    REPLY_SECONDS,
    answered_head,
    execution_of,
    new_execution,
    question_status,
    reply_events,
    replying_head,
    resumed_head,
    suspended_head,
    wait_to_ask,
    with_old_question,
)
from tests.tasks.examples import NOW, head

QUESTION = Wait(key="q", question="Which?", choices=("a", "b"))

CALL = Wait(key="c", question=None)


def durable(**fields: object) -> Head:
    """The head of a durable turn that a run holds."""
    running = head(place=Place.EXECUTION, execution=Execution("https://base", "secret"), sequence=3)
    return replace(running.with_holder(NOW), **fields)  # type: ignore[arg-type]


def suspend(*waits: OpenWait, until: float = 0.0, of: Head | None = None) -> Head:
    suspension = Suspended(waits, until)
    return suspended_head(of or durable(), suspension, wait_to_ask(suspension, of), 3, NOW)


def test_a_pause_is_still_working() -> None:
    paused_head = suspend(until=NOW + 600)
    assert paused_head.execution is not None
    assert (paused_head.state, paused_head.is_suspended) == (TaskState.WORKING, True)
    assert (paused_head.holder, paused_head.lease, paused_head.attempts) == ("", 0.0, 0)
    assert (paused_head.execution.until, paused_head.sequence) == (NOW + 600, 3)
    assert paused_head.due == sweep_minute(NOW + 600 + LATE_SECONDS)
    assert paused_head.place is Place.EXECUTION


def test_a_question_stops_the_task_for_its_client() -> None:
    asking = suspend(OpenWait(CALL, "cb-1"), OpenWait(QUESTION, "cb-2", NOW + 60))
    assert asking.execution is not None
    assert (asking.state, asking.sequence) == (TaskState.INPUT_REQUIRED, 4)
    assert asking.execution.waits == (
        StoredWait("c", "cb-1"),
        StoredWait("q", "cb-2", is_question=True, until=NOW + 60),
    )
    assert asking.execution.until == NOW + 60
    assert asking.status["message"]["parts"] == [{"text": "Which?"}]
    assert asking.status["message"]["metadata"] == {"choices": ["a", "b"]}
    assert asking.message_wait == asking.execution.waits[1]
    assert asking.place is Place.EXECUTION


def test_a_wait_without_an_end_is_looked_at_once_a_day() -> None:
    head = suspend(OpenWait(CALL, "cb-1"))
    assert head.execution is not None
    assert head.execution.until == 0.0
    assert head.message_wait is None
    assert head.due == sweep_minute(NOW + 86_400 + LATE_SECONDS)
    assert suspend(until=NOW + 10 * 86_400).due == head.due


def test_of_two_questions_the_one_that_was_asked_stays() -> None:
    other = Wait(key="p", question="Who?")
    both = Suspended([OpenWait(other, "cb-1"), OpenWait(QUESTION, "cb-2")])
    assert wait_to_ask(both, None) is other
    assert wait_to_ask(both, durable()) is other
    assert wait_to_ask(both, suspend(OpenWait(QUESTION, "cb-2"))) is QUESTION
    assert wait_to_ask(both, suspend(OpenWait(CALL, "cb-1"))) is other
    assert wait_to_ask(Suspended([OpenWait(CALL, "cb-1")]), None) is None


def test_a_sign_in_is_a_state_of_its_own() -> None:
    sign_in = question_status("turn", "task", "context", replace(QUESTION, is_sign_in=True), NOW)
    assert sign_in["state"] == TaskState.AUTH_REQUIRED
    assert question_status("turn", "task", "context", QUESTION, NOW)["state"] == TaskState.INPUT_REQUIRED


def test_a_question_that_is_asked_again_is_one_question() -> None:
    first = suspend(OpenWait(QUESTION, "cb-1"))
    again = suspended_head(durable(), Suspended([OpenWait(QUESTION, "cb-2")]), QUESTION, 4, NOW + 5)
    question = with_old_question(again, first, has_new_events=False)
    assert (question.status, question.sequence, question.committed) == (
        first.status,
        first.sequence,
        first.sequence - 1,
    )
    assert question.execution == again.execution
    other = suspended_head(durable(), Suspended(), replace(QUESTION, question="Who?"), 4, NOW)
    assert with_old_question(other, first, has_new_events=False) is other
    assert with_old_question(durable(), first, has_new_events=False).state == TaskState.WORKING


def test_a_question_that_is_asked_again_after_other_events_is_the_same_message() -> None:
    first = suspend(OpenWait(QUESTION, "cb-1"))
    again = suspended_head(durable(), Suspended([OpenWait(QUESTION, "cb-2")]), QUESTION, 9, NOW + 5)
    question = with_old_question(again, first, has_new_events=True)
    assert question is again
    assert question.status["message"] == first.status["message"]


def test_another_question_with_the_same_words_is_another_message() -> None:
    """The first one's time was up, and an answer to it is none to this one."""
    first = suspend(OpenWait(QUESTION, "cb-1"))
    other = replace(QUESTION, key="q#2")
    second = suspended_head(durable(), Suspended([OpenWait(other, "cb-2")]), other, 9, NOW + 5)
    assert with_old_question(second, first, has_new_events=False) is second
    assert second.status["message"]["messageId"] != first.status["message"]["messageId"]


def test_the_same_question_of_a_later_turn_is_another_message() -> None:
    """An answer to the first one, such as an approval, is none to this one."""
    first, again, later = (
        question_status(turn, "task", "context", QUESTION, NOW) for turn in ("turn", "turn", "turn-2")
    )
    assert first["message"]["messageId"] == again["message"]["messageId"]
    assert first["message"]["messageId"] != later["message"]["messageId"]


@pytest.mark.parametrize(("seconds", "is_open"), [(59, True), (60, False)])
def test_a_question_whose_own_time_is_up_is_closed(seconds: int, is_open: bool) -> None:
    asking = suspend(OpenWait(QUESTION, "cb-1", NOW + 60))
    new_head, _ = resumed_head(asking, "arn", NOW + seconds)
    assert bool(new_head.open_question) is is_open


def test_a_turn_that_was_woken_takes_a_message_only_for_the_question_it_has_asked() -> None:
    other = replace(CALL, key="other", takes_messages=True)
    asking = suspend(OpenWait(QUESTION, "cb-1"), OpenWait(other, "cb-2"))
    [question, free] = execution_of(asking).waits
    assert answered_head(asking, question, NOW).message_wait is None
    woken = answered_head(asking, free, NOW).message_wait
    assert woken is not None
    assert woken.key == question.key


@pytest.mark.parametrize(("asks", "is_open"), [(True, True), (False, False)])
def test_a_question_stays_open_while_a_timer_has_woken_the_turn(asks: bool, is_open: bool) -> None:
    waits = [OpenWait(QUESTION if asks else CALL, "cb-1")]
    asking = suspended_head(durable(), Suspended(waits), QUESTION if asks else None, 4, NOW)
    new_head, _ = resumed_head(asking, "arn", NOW + 60)
    assert bool(new_head.open_question) is is_open
    assert new_head.message_wait is None, "and takes no reply before the turn is suspended again"
    assert execution_of(new_head).find_wait(QUESTION.key) is None
    [wait] = execution_of(asking).waits
    head = answered_head(asking, wait, NOW + 1)
    assert head.is_woken
    assert head.open_question == ""


def test_a_run_that_continues_has_no_waits() -> None:
    paused_head = suspend(OpenWait(CALL, "cb-1"), until=NOW + 60)
    new_head, events = resumed_head(paused_head, "arn", NOW + 60)
    assert new_head.execution is not None
    assert (new_head.execution.arn, new_head.execution.waits, new_head.execution.until) == ("arn", (), 0.0)
    assert not new_head.is_suspended
    assert (events, new_head.attempts) == ([], 1)
    assert new_head.is_running(NOW + 60)
    assert new_head.epoch == paused_head.epoch


def test_a_question_without_a_reply_is_history_when_the_turn_continues() -> None:
    asking = suspend(OpenWait(QUESTION, "cb-1"))
    new_head, overflow = resumed_head(asking, "arn", NOW)
    assert new_head.inline[-1] == (4, asking.closing_event())
    assert (overflow, new_head.epoch, new_head.sequence) == ([], asking.epoch + 3, 4)


def test_a_reply_is_in_the_log_after_its_question() -> None:
    reply = Event(message=text_message("task", "context", "a"))
    asking = suspend(OpenWait(QUESTION, "cb-1"))
    assert reply_events(asking, reply) == [asking.closing_event(), reply]
    assert reply_events(suspend(OpenWait(CALL, "cb-1")), reply) == [reply]


def test_a_reply_wakes_the_execution_and_ends_its_wait() -> None:
    head = suspend(OpenWait(CALL, "cb-1"), OpenWait(QUESTION, "cb-2"))
    assert head.execution is not None
    new_head = answered_head(head, head.execution.waits[1], NOW + 9)
    assert new_head.execution is not None
    assert new_head.execution.waits == (StoredWait("c", "cb-1"),)
    assert new_head.execution.wakes == ("cb-2",)
    assert new_head.status == make_status(TaskState.WORKING, NOW + 9)
    assert new_head.due == sweep_minute(NOW + 9 + LATE_SECONDS)


def test_while_a_large_reply_is_stored_no_run_continues() -> None:
    head = suspend(OpenWait(CALL, "cb-1"))
    replying = replying_head(head, NOW)
    assert (replying.holder, replying.lease, replying.epoch) == (
        REPLYING,
        NOW + REPLY_SECONDS,
        head.epoch + 3,
    )
    assert replying.is_running(NOW)


def test_an_execution_is_stored_as_it_is() -> None:
    execution = Execution("u", "s", "arn", True, 5.0, (StoredWait("k", "cb", True, True),), ("w",))
    assert Execution.of_document(execution.document()) == execution
    assert execution.find_wait("k") == execution.waits[0]
    assert execution.find_wait("other") is None
    assert new_execution("u").secret != new_execution("u").secret
    assert not new_execution("u").is_suspended


def test_a_token_is_of_its_turn_its_wait_and_its_task() -> None:
    turn = durable(turn_id="turn-1")
    token = CallbackToken.read(callback_token(turn, "key"))
    assert (token.namespace, token.task_id, token.key) == (turn.namespace, "task", "key")
    assert token.is_genuine(turn)
    assert not token.is_genuine(replace(turn, turn_id="turn-2"))
    assert not token.is_genuine(replace(turn, execution=Execution("https://base", "other")))
    assert not token.is_genuine(replace(turn, place=Place.WORKER))
    assert not replace(token, key="other").is_genuine(turn)
    assert not replace(token, signature="ü").is_genuine(turn)


@pytest.mark.parametrize("text", ["", "a", "ü.x", "W10", "WzEsMiwzLDRd.x", "e30.x", "WyJhIiwiYiIsImMiXQ.x"])
def test_what_no_turn_has_made_is_no_token(text: str) -> None:
    """No JSON in base64, or JSON that names no wait."""
    with pytest.raises(RouteNotFound):
        CallbackToken.read(text)


def test_a_token_has_a_greatest_length() -> None:
    token = callback_token(durable(), "key")
    signature = "x" * (MAX_TOKEN_CHARACTERS - len(token))
    assert CallbackToken.read(token + signature).key == "key"
    with pytest.raises(RouteNotFound):
        CallbackToken.read(token + signature + "x")


def test_fields_of_a_later_release_are_left_out() -> None:
    """A turn stays with the release in which it began, and later ones write its head, too."""
    execution = Execution("https://base", "secret", waits=(StoredWait("q", "cb-1"),))
    document = execution.document()
    document["later"] = document["waits"][0]["later"] = "x"
    assert Execution.of_document(document) == execution
