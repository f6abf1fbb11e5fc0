"""The head of a task: who holds it, and which entries count."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from a2a_lambda import strictjson
from a2a_lambda.errors import LimitExceeded
from a2a_lambda.protocol.model import Part, TaskState, make_status
from a2a_lambda.tasks.event_log import Fence
from a2a_lambda.tasks.execution import Execution, StoredWait
from a2a_lambda.tasks.head import (
    ARGUMENTS_BYTES,
    CALL_BYTES,
    DOCUMENT_BYTES,
    LEASE_SECONDS,
    Pending,
    Place,
    check_pending,
    sweep_minute,
)
from a2a_lambda.tasks.identity import KEPT_REQUESTS, RequestIdentity
from tests.tasks.examples import NOW, SCOPE, chunk, head

WORKING, DONE, ASKING, FAILED = (
    TaskState.WORKING,
    TaskState.COMPLETED,
    TaskState.INPUT_REQUIRED,
    TaskState.FAILED,
)


def test_a_new_run_holds_its_task_for_a_lease() -> None:
    working = head(attempts=1).with_holder(NOW)
    assert working.status == make_status(WORKING, NOW)
    assert (working.lease, working.attempts) == (NOW + LEASE_SECONDS, 2)
    assert working.due * 60 > working.lease, "by then the lease must have been renewed"
    assert working.is_running(working.lease - 1)
    assert not working.is_running(working.lease)
    assert working.holder != head().with_holder(NOW).holder
    assert not head().is_running(NOW - 1000)
    assert head().with_holder(NOW).attempts == 1, "the first one"


def test_only_a_turn_that_its_request_runs_dies_with_its_lease() -> None:
    """A turn that runs elsewhere is started again."""
    working = head().with_holder(NOW)
    assert not working.has_died(working.lease - 1)
    assert working.has_died(working.lease)
    for place in (Place.WORKER, Place.EXECUTION):
        assert not replace(working, place=place).has_died(working.lease)
    assert not replace(working, status=make_status(DONE, NOW)).has_died(working.lease)


def test_a_stopped_task_is_held_by_no_run() -> None:
    working = head().with_holder(NOW)
    assert working.is_held_by(working)
    assert working.is_held_by(replace(working, version=9))
    assert not working.is_held_by(replace(working, epoch=9))
    assert not working.is_held_by(replace(working, holder="other"))
    stopped_head = replace(working, status=make_status(DONE, NOW))
    assert not stopped_head.is_held_by(working)
    assert not stopped_head.is_running(NOW)


def test_the_log_of_a_stopped_task_ends_before_its_closing_status() -> None:
    assert head(sequence=5, epoch=3, committed=2).fence == Fence(3, 2, None)
    assert head(DONE, sequence=5, epoch=3, committed=2).fence == Fence(3, 2, 4)


def test_a_task_whose_events_are_all_in_the_head_needs_no_log() -> None:
    inline = ((1, chunk("a")), (2, chunk("b")))
    assert head(DONE, sequence=3, inline=inline).is_inline
    assert not head(DONE, sequence=4, inline=inline).is_inline
    assert not head(WORKING, sequence=3, inline=inline).is_inline


def test_a_lost_task_has_answered_no_request() -> None:
    request = RequestIdentity.of(SCOPE, "send", b"body")
    failed_head = head(FAILED).with_request(request, NOW)
    assert not failed_head.is_lost
    assert failed_head.as_lost().is_lost
    assert not head(DONE).is_lost


def test_a_task_has_lost_a_request_whose_turn_no_one_ended() -> None:
    request, other = (RequestIdentity.of(SCOPE, "send", body) for body in (b"one", b"other"))
    failed_head = head(FAILED).with_request(request, NOW)
    assert not failed_head.has_lost(request)
    assert failed_head.as_lost().has_lost(request)
    asking = head(ASKING).with_request(other, NOW).with_request(request, NOW)
    assert not asking.has_lost(request)
    forgetful = asking.without_last_request()
    assert forgetful.has_lost(request), "it asks again, and waits for this reply"
    assert not forgetful.has_lost(other)
    assert not head(WORKING).has_lost(request)


def test_a_head_knows_its_newest_requests() -> None:
    newest = head()
    for number in range(KEPT_REQUESTS + 2):
        newest = newest.with_request(RequestIdentity.of(SCOPE, "send", bytes([number])), NOW + number)
    assert [request["at"] - NOW for request in newest.requests] == [0, *range(2, KEPT_REQUESTS + 2)], (
        "the one that made the task counts as long as the task is kept"
    )
    assert newest.requests[-1]["task"] == "task"


@pytest.mark.parametrize(("state", "last"), [(WORKING, 5), (DONE, 4)])
def test_events_are_numbered_after_the_log(state: TaskState, last: int) -> None:
    first = head(state, sequence=5)
    after = first.with_events_after(first.log_end, [chunk("a"), chunk("b")])
    assert [number for number, _ in after.inline] == [last + 1, last + 2]
    assert (after.sequence, after.committed) == (last + 2, last + 2)


def test_events_of_a_stopped_task_begin_with_its_closing_status() -> None:
    newer, rest = head(DONE, sequence=5).with_new_epoch().with_events([chunk("a"), chunk("b")])
    assert [number for number, _ in newer.inline] == [5, 6]
    assert (newer.sequence, newer.committed, rest) == (6, 6, [])


def test_events_that_do_not_fit_are_appended() -> None:
    stopped_head = head(DONE, sequence=5, committed=1).with_new_epoch()
    events = [chunk("x" * DOCUMENT_BYTES)]
    newer, rest = stopped_head.with_events(events)
    assert rest == events
    assert newer.inline == ()
    assert (newer.sequence, newer.committed) == (4, 4)
    fresh, rest = head(sequence=0).with_events(events)
    assert (fresh.sequence, fresh.committed, rest) == (0, 0, events)


def test_a_head_fits_up_to_a_size() -> None:
    room = DOCUMENT_BYTES - len(strictjson.dumps(head(inline=((1, chunk("")),)).document()))
    assert head(inline=((1, chunk("x" * room)),)).fits
    assert not head(inline=((1, chunk("x" * (room + 1))),)).fits


@pytest.mark.parametrize(("state", "last"), [(WORKING, 5), (DONE, 4), (ASKING, 4)])
def test_a_new_epoch_keeps_what_the_log_has(state: TaskState, last: int) -> None:
    newer = head(state, sequence=5, epoch=3, committed=1).with_new_epoch()
    assert (newer.epoch, newer.committed) == (6, last)


def test_a_closing_status_ends_everything_but_the_task() -> None:
    running = replace(head(execution=Execution("u", "s"), place=Place.EXECUTION), sequence=2).with_holder(NOW)
    head_at_end = running.with_closing_status(make_status(DONE, NOW), 7)
    assert (head_at_end.sequence, head_at_end.holder, head_at_end.lease) == (8, "", 0.0)
    assert (head_at_end.place, head_at_end.execution, head_at_end.pending) == (Place.REQUEST, None, None)
    assert not head_at_end.message_only
    assert head_at_end.is_stopped
    assert head_at_end.outcome == "completed"


def test_a_new_head_is_of_the_first_epoch_of_an_empty_log() -> None:
    new_head = head()
    assert new_head.fence == Fence(1, 0, None)
    assert (new_head.version, new_head.sequence, new_head.attempts, new_head.artifact_count) == (1, 0, 0, 0)
    assert (new_head.reopened_at, new_head.due, new_head.lease) == (0, 0, 0.0)
    assert (new_head.place, new_head.message_only) == (Place.REQUEST, False)


def test_only_what_is_there_is_stored() -> None:
    assert not {"execution", "trace", "reopened"} & head().document().keys()
    full = head(trace="00-1", execution=Execution("u", "s")).document()
    assert full["trace"] == "00-1"
    assert full["execution"]["url"] == "u"


def test_a_message_ends_the_wait_that_asked_or_the_first_that_takes_messages() -> None:
    silent, takes = StoredWait("a", "1"), StoredWait("b", "2", takes_messages=True)
    asks = StoredWait("c", "3", is_question=True)

    def waiting(*waits: StoredWait, is_suspended: bool = True) -> StoredWait | None:
        execution = Execution("u", "s", is_suspended=is_suspended, waits=waits)
        return head(execution=execution).message_wait

    assert waiting(silent, takes, asks) == asks
    assert waiting(silent, takes) == takes
    assert waiting(silent) is None
    assert waiting(takes, is_suspended=False) is None
    assert head().message_wait is None
    assert not head().is_suspended


def test_a_task_begins_as_submitted() -> None:
    task = head(DONE).empty_task()
    assert task == {
        "id": "task",
        "contextId": "context",
        "status": make_status(TaskState.SUBMITTED, NOW - 100),
    }


@pytest.mark.parametrize(
    ("field", "limit", "said"),
    [
        (lambda text: {"call": [Part(text=text)]}, CALL_BYTES, "than 300,000 bytes of JSON .* with size"),
        (lambda text: {"values": {"a": text}}, ARGUMENTS_BYTES, "The arguments .* more than 100,000 bytes"),
    ],
    ids=["the message", "arguments"],
)
def test_what_waits_for_an_answer_has_a_limit(field: Callable[[str], Any], limit: int, said: str) -> None:
    def pending(size: int) -> Pending:
        return cast(Pending, {"skill": "s", "slots": {}, "asks": "size", **field("x" * size)})

    room = limit - len(strictjson.dumps(pending(0)))
    check_pending(pending(room))
    with pytest.raises(LimitExceeded, match=said):
        check_pending(pending(room + 1))


@pytest.mark.parametrize(("time", "minute"), [(0.0, 1), (59.9, 1), (60.0, 2), (119.0, 2)])
def test_the_sweep_looks_at_the_next_whole_minute(time: float, minute: int) -> None:
    assert sweep_minute(time) == minute
