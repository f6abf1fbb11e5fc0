"""The head of a durable turn that pauses, asks, and is continued."""

from dataclasses import replace

from a2a_lambda.durable.engine import OpenWait, Suspended, Wait
from a2a_lambda.protocol.model import Event, TaskState, agent_message, status
from a2a_lambda.tasks.head import Head, Place, sweep_minute
from a2a_lambda.tasks.identity import Scope
from a2a_lambda.tasks.suspension import (
    EXECUTION_LOOK_SECONDS,
    LATE_SECONDS,
    answered_head,
    execution_of,
    held_for_reply,
    new_execution,
    question_of,
    reply_events,
    resumed_head,
    still_asking,
    suspended_head,
)

NOW = 1_800_000_000.0

ASK = Wait("ask", "Which?", takes_messages=True, seconds=60)

PAYMENT = Wait("payment")


def running(**options: object) -> Head:
    head = Head(
        scope=Scope("o", "a"),
        task_id="t",
        context_id="c",
        generation="g",
        created=NOW,
        expires=int(NOW) + 86_400,
        status=status(TaskState.WORKING, NOW),
        place=Place.EXECUTION,
        execution=new_execution("https://example.com"),
        sequence=4,
        committed=4,
    )
    return replace(head.with_holder(NOW), **options)  # type: ignore[arg-type]


def asking(head: Head | None = None, *, sequence: int = 5) -> Head:
    waits = [OpenWait(ASK, "callback", NOW + 60)]
    return suspended_head(Suspended(waits), ASK, sequence, NOW, head or running())


def test_a_pause_is_no_stop() -> None:
    head = suspended_head(Suspended((), NOW + 600), None, 5, NOW, running(attempts=3))
    assert (head.state, head.holder, head.lease) == (TaskState.WORKING, "", 0.0)
    assert (head.sequence, head.attempts, head.place) == (5, 0, Place.EXECUTION)
    assert head.is_suspended
    assert execution_of(head).until == NOW + 600
    assert head.due == sweep_minute(NOW + 600 + LATE_SECONDS)


def test_the_sweep_looks_once_a_day_at_least() -> None:
    for suspension in (Suspended(()), Suspended((), NOW + 10 * EXECUTION_LOOK_SECONDS)):
        head = suspended_head(suspension, None, 5, NOW, running())
        assert head.due == sweep_minute(NOW + EXECUTION_LOOK_SECONDS + LATE_SECONDS)


def test_a_question_stops_the_task_for_its_client() -> None:
    head = asking()
    assert head.state == TaskState.INPUT_REQUIRED
    assert head.status["message"]["parts"] == [{"text": "Which?"}]
    assert head.sequence == 6, "the closing status has a number of its own"
    assert head.place is Place.EXECUTION
    [wait] = execution_of(head).waits
    assert (wait.key, wait.callback, wait.is_question) == ("ask", "callback", True)
    assert head.message_wait == wait


def test_a_question_offers_its_choices() -> None:
    question = Wait("ask", "Which?", choices=("a", "b"), takes_messages=True)
    head = suspended_head(Suspended([OpenWait(question)]), question, 5, NOW, running())
    assert head.status["message"]["metadata"] == {"choices": ["a", "b"]}
    assert "metadata" not in asking().status["message"]


def test_a_wait_for_another_system_takes_no_message() -> None:
    waits = [OpenWait(PAYMENT, "callback", 0.0)]
    head = suspended_head(Suspended(waits), None, 5, NOW, running())
    assert head.state == TaskState.WORKING
    assert head.message_wait is None


def test_of_several_questions_the_one_that_was_asked_before_stays() -> None:
    other = Wait("other", "When?", takes_messages=True, seconds=60)
    both = Suspended([OpenWait(other, "b", NOW + 60), OpenWait(ASK, "callback", NOW + 60)])
    assert question_of(both, None) is other
    assert question_of(both, asking()) is ASK
    assert question_of(Suspended([OpenWait(PAYMENT, "p", 0.0)]), None) is None


def test_the_same_question_is_one_question() -> None:
    """With its events, all of which count: those that earlier runs stored, too."""
    old_head = asking()
    again = asking(replace(old_head.with_new_epoch(), sequence=5))
    kept = still_asking(again, old_head)
    assert (kept.status, kept.sequence, kept.committed) == (old_head.status, 6, 5)
    assert kept.epoch == again.epoch
    entry_of_old_run = 5
    assert kept.fence.committed >= entry_of_old_run
    message = agent_message("t", "c", [{"text": "Another?"}])
    other = replace(again, status=status(TaskState.INPUT_REQUIRED, NOW, message))
    assert still_asking(other, old_head) is other


def test_a_run_that_continues_after_an_unanswered_question_stores_it() -> None:
    head, events = resumed_head("arn", asking(), NOW + 100)
    assert not events, "the head can hold it"
    assert [event["statusUpdate"]["status"]["state"] for _, event in head.inline] == [
        TaskState.INPUT_REQUIRED
    ]
    assert (head.state, head.attempts) == (TaskState.WORKING, 1)
    execution = execution_of(head)
    assert (execution.arn, execution.is_suspended, execution.waits) == ("arn", False, ())


def test_a_reply_wakes_the_turn() -> None:
    head = asking()
    [wait] = execution_of(head).waits
    reply = Event(message={"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Oslo"}]})  # type: ignore[typeddict-item]
    assert reply_events(head, reply) == [head.closing_event(), reply]
    held = held_for_reply(head, NOW)
    assert held.lease > NOW
    assert held.epoch > head.epoch
    answered = answered_head(held, wait, NOW)
    assert (answered.state, answered.holder, answered.lease) == (TaskState.WORKING, "", 0.0)
    assert (execution_of(answered).waits, execution_of(answered).wakes) == ((), ("callback",))
    assert answered.due == sweep_minute(NOW + LATE_SECONDS)
    assert reply_events(answered, reply) == [reply]
