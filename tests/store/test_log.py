"""The log of a task: what of it counts, and what ends it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda import strictjson
from a2a_lambda.protocol.model import (
    Event,
    TaskState,
    TaskStatusUpdateEvent,
    make_status,
    text_message,
)
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.event_log import ENTRY_BYTES, GROUPED_CHUNKS, split
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.tasks.suspension import replying_head
from tests.helpers.clock import Clock
from tests.store.calls import Calls
from tests.store.heads import ended, read, running, said
from tests.tasks.examples import chunk


def working(store: Store, head: Head, text: str) -> Event:
    status = make_status(TaskState.WORKING, store.clock() + 5, text_message(head.task_id, "context", text))
    return Event(statusUpdate=TaskStatusUpdateEvent(taskId=head.task_id, contextId="context", status=status))


@pytest.mark.parametrize("how", ["runs", "waits for another run", "runs again", "continues"])
def test_a_task_at_work_shows_the_last_progress_of_its_run(store: Store, head: Head, how: str) -> None:
    """If the run has died, the head says how the task is. An execution continues what its last run did."""
    assert store.get_task(head)[0]["status"] == head.status
    progress = working(store, head, "halfway")
    store.append(head, [progress], after=1)
    if how == "waits for another run":
        head = replace(head, status=make_status(TaskState.SUBMITTED, store.clock() + 9))
    elif how != "runs":
        head = store.take_over(head).with_holder(store.clock() + 9)
        head = replace(head, place=Place.EXECUTION if how == "continues" else Place.WORKER)
    task, sequence = store.get_task(head)
    status = progress["statusUpdate"]["status"] if how in ("runs", "continues") else head.status
    assert (task["status"], sequence) == (status, 2)


def test_the_log_is_read_in_order(store: Store, head: Head) -> None:
    last = store.append(head, [chunk("a"), chunk("b")], after=1)
    store.append(head, [chunk("c")], after=last)
    assert said(store, head) == "abc"
    assert [sequence for sequence, _ in store.get_events(head, after=2)] == [3, 4]


def test_a_task_is_read_without_its_artifacts(store: Store, head: Head) -> None:
    store.append(head, [chunk("a"), working(store, head, "halfway"), chunk("b")], after=1)
    assert [sequence for sequence, _ in store.get_events(head, include_artifacts=False)] == [1, 3]
    task, sequence = store.get_task(head, include_artifacts=False)
    assert "artifacts" not in task
    assert (len(task["history"]), sequence) == (1, 3)
    assert said(store, head) == "ab"


def test_a_flood_of_chunks_is_one_write(store: Store, head: Head, calls: Calls) -> None:
    """Up to the size of an entry. A larger event has entries of its own, and so has what is no chunk."""
    calls.during()
    small = [chunk(f"{number} ") for number in range(1_000)]
    large = chunk("x" * 400_000)
    last = store.append(head, [*small, large, *small], after=1)
    assert calls.during() == {"put_item": last - 1} == {"put_item": 4}
    assert store.get_task(head)[0]["artifacts"][0]["parts"] == [
        {
            "text": "".join(
                each["artifactUpdate"]["artifact"]["parts"][0]["text"] for each in [*small, large, *small]
            )
        }
    ]
    numbers = [sequence for sequence, _ in store.get_events(head, after=1)]
    assert numbers == [2] * 1_000 + [4] + [5] * 1_000
    few = [chunk(f"{number} ") for number in range(GROUPED_CHUNKS - 1)]
    status: Any = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": head.status}}
    assert store.append(head, [*few, status, *few], after=last) == last + 2 * len(few) + 1


def test_a_look_at_a_running_task_is_one_read(store: Store, head: Head, calls: Calls) -> None:
    store.append(head, [chunk("one"), chunk("two")], after=1)
    calls.during()
    newer, events = store.get_progress(head, after=2)
    assert (newer, [sequence for sequence, _ in events]) == (head, [3])
    assert calls.during() == {"query": 1}


def test_a_look_at_a_task_without_news(store: Store, head: Head) -> None:
    assert store.get_progress(head, after=1) == (head, [])


def test_a_look_finds_all_events_of_a_task_that_has_ended(store: Store, head: Head) -> None:
    store.append(head, [chunk("one"), chunk("two")], after=1)
    head_at_end = store.update_head(ended(head, sequence=4))
    newer, events = store.get_progress(head, after=1)
    assert (newer, [sequence for sequence, _ in events]) == (head_at_end, [2, 3])


def test_a_look_does_not_find_what_has_expired(store: Store, head: Head, clock: Clock) -> None:
    store.append(head, [chunk("one")], after=1)
    clock.now = head.expires
    assert store.get_progress(head, after=1) == (None, [])
    assert store.get_progress(running(store, head.namespace, "another"), after=1) == (None, [])


def test_an_event_larger_than_an_item_is_split_and_joined(store: Store, head: Head) -> None:
    text = "é" * 600_000
    last = store.append(head, [chunk(text), chunk("!")], after=1)
    assert last == 6
    assert said(store, head) == text + "!"


def test_a_log_of_several_pages(store: Store, head: Head, calls: Calls) -> None:
    last = store.append(head, [chunk("x" * 340_000)] * 8, after=1)
    calls.during()
    assert len(said(store, head)) == 8 * 340_000
    assert calls.during()["query"] > 1
    assert last == 9


def test_a_zombie_never_shows_and_never_blocks(store: Store, head: Head) -> None:
    """A run that lost its task continues to write. Its successor's epoch began at the floor."""
    store.append(head, [chunk("kept ")], after=1)
    successor = store.update_head(replace(head, epoch=2, committed=2, holder="successor"))
    store.append(head, [chunk("zombie "), chunk("zombie ")], after=2)
    assert said(store, successor) == "kept "
    store.append(successor, [chunk("successor ")], after=2)
    assert said(store, successor) == "kept successor "
    with pytest.raises(Conflict):
        store.append(head, [chunk("zombie ")], after=2)
    head_at_end = store.update_head(ended(successor, sequence=4))
    assert said(store, head_at_end) == "kept successor "
    with pytest.raises(Conflict):
        store.update_head(ended(head))


def test_nothing_shows_after_the_end(store: Store, head: Head) -> None:
    store.append(head, [chunk("said ")], after=1)
    head_at_end = store.update_head(ended(head, sequence=3))
    store.append(head, [chunk("late ")], after=3)
    assert said(store, head_at_end) == "said "


def test_a_run_that_takes_a_task_over_has_an_epoch_of_its_own(store: Store, head: Head) -> None:
    """Above that of the seal. What the dead run writes then neither counts nor meets the new entries."""
    last = store.append(head, [chunk("kept ")], after=1)
    next_head = store.take_over(head)
    assert (next_head.epoch, next_head.committed, next_head.sequence) == (head.epoch + 2, last, last)
    new = store.update_head(replace(next_head, holder="another"))
    with pytest.raises(Conflict):
        store.append(head, [chunk("late")], after=last)
    store.append(new, [chunk("new")], after=new.sequence)
    with pytest.raises(Conflict):
        store.append(head, [chunk("later")], after=last)
    with pytest.raises(Conflict) as conflict:  # who has read the old head can end nothing
        store.seal(head, make_status(TaskState.CANCELED, 0))
    assert conflict.value.head == new
    assert said(store, new) == "kept new"


def test_a_seal_ends_a_task_and_stops_its_run(store: Store, head: Head) -> None:
    store.append(head, [chunk("before ")], after=1)
    head_at_end = store.seal(head, make_status(TaskState.CANCELED, 0))
    with pytest.raises(Conflict):
        store.append(head, [chunk("after ")], after=2)
    with pytest.raises(Conflict):
        store.update_head(ended(head))
    assert (head_at_end.state, head_at_end.sequence) == (TaskState.CANCELED, 3)
    assert said(store, head_at_end) == "before "
    assert read(store, head) == head_at_end


def test_a_seal_counts_what_the_run_appends_meanwhile(store: Store, head: Head, calls: Calls) -> None:
    def append_once(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "query":
            calls.after = lambda operation, arguments: None
            store.append(head, [chunk("just in time")], after=1)

    calls.after = append_once
    head_at_end = store.seal(head, make_status(TaskState.CANCELED, 0))
    assert said(store, head_at_end) == "just in time"


def test_a_seal_of_a_run_that_does_not_pause_reads_its_log_once(
    store: Store, head: Head, calls: Calls
) -> None:
    """It could not be faster than such a run if it looked again at each try."""
    last = store.append(head, [chunk("before ")], after=1)
    numbers: list[int] = []

    def append_first(operation: str, arguments: dict[str, Any]) -> None:
        """The run is faster three times."""
        is_of_run = arguments.get("Item", {}).get("epoch", {}).get("N") == str(head.epoch)
        if operation == "put_item" and not is_of_run and len(numbers) < 3:
            numbers.append(last + len(numbers))
            store.append(head, [chunk("meanwhile ")], after=numbers[-1])

    calls.before = append_first
    calls.during()
    head_at_end = store.seal(head, make_status(TaskState.CANCELED, 0))
    calls.before = lambda operation, arguments: None
    assert calls.during() == {"query": 1, "put_item": 3 + 3 + 2}, "of the run, and of the seal with its head"
    assert said(store, head_at_end) == "before meanwhile meanwhile meanwhile "


def test_a_seal_half_made_is_made_whole(store: Store, head: Head, calls: Calls) -> None:
    """A process that sealed died before the head's write. The next one finishes it."""

    def die(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"] == "head":
            raise KeyboardInterrupt

    calls.before = die
    with pytest.raises(KeyboardInterrupt):
        store.seal(head, make_status(TaskState.CANCELED, 0))
    calls.before = lambda operation, arguments: None
    head_at_end = store.seal(read(store, head), make_status(TaskState.FAILED, 0))
    assert head_at_end.state == TaskState.FAILED
    assert store.get_task(head_at_end)[0]["status"]["state"] == TaskState.FAILED


def test_a_seal_leaves_half_an_event_out(store: Store, head: Head, calls: Calls) -> None:
    def die(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"].endswith("3"):
            raise KeyboardInterrupt

    calls.before = die
    with pytest.raises(KeyboardInterrupt):
        store.append(head, [chunk("x" * 500_000)], after=1)
    calls.before = lambda operation, arguments: None
    head_at_end = store.seal(head, make_status(TaskState.FAILED, 0))
    assert said(store, head_at_end) == ""


def test_the_same_events_may_be_appended_again(store: Store, head: Head) -> None:
    assert store.append(head, [chunk("a"), chunk("b")], after=1) == 3
    assert store.append(head, [chunk("a"), chunk("b")], after=1) == 3
    assert said(store, head) == "ab"


def test_a_task_that_runs_and_has_said_nothing_is_working(store: Store, namespace: Namespace) -> None:
    working = make_status(TaskState.WORKING, store.clock())
    head = replace(store.new_head(namespace, "silent", "c", working), holder="a run")
    store.create_head(head)
    assert store.get_task(head)[0]["status"] == working


def test_a_single_event_is_stored_as_it_is() -> None:
    """The commonest entry is the smallest."""
    [entry] = split([chunk("one")], after=0, epoch=0)
    assert json.loads(entry.body) == chunk("one")


@pytest.mark.parametrize("extra", [-2, -1, 0, 1])
def test_chunks_that_share_an_entry_fill_it_at_most(extra: int) -> None:
    """An entry that is a byte too long would be cut in two, and a client could not come back between them."""
    frame = len(strictjson.dumps(chunk("")))
    sizes = [1000] * (GROUPED_CHUNKS - 1)
    sizes.append(ENTRY_BYTES - sum(frame + size + 1 for size in sizes) - frame - 1 + extra)
    entries = split([chunk("x" * size) for size in sizes], after=0, epoch=0)
    assert [(entry.piece, entry.more) for entry in entries] == [(0, False)] * len(entries)
    assert len(entries) == (1 if extra < 0 else 2)


def asking(store: Store, head: Head) -> Head:
    """The task has asked a question, whose status would have the next number of its log."""
    return store.update_head(ended(head, TaskState.INPUT_REQUIRED))


def test_what_is_written_ahead_counts_with_its_head(store: Store, head: Head) -> None:
    question = asking(store, head)
    ahead = store.write_ahead(question.with_new_epoch(), [chunk("a"), chunk("b" * 400_000)])
    assert said(store, read(store, head)) == ""
    claimed_head = store.update_head(replace(ahead, status=make_status(TaskState.WORKING, 0), holder="next"))
    assert said(store, claimed_head) == "a" + "b" * 400_000
    store.append(claimed_head, [chunk("c")], after=claimed_head.sequence)
    assert said(store, claimed_head).endswith("bc")
    head_at_end = store.seal(claimed_head, make_status(TaskState.CANCELED, 0))
    assert said(store, head_at_end).endswith("bc")


def test_what_a_dead_process_wrote_ahead_is_in_no_ones_way(store: Store, head: Head) -> None:
    """Its entries have numbers that the next turn uses, and neither show there nor stop its run."""
    question = asking(store, head)
    store.write_ahead(question.with_new_epoch(), [chunk("dead "), chunk("dead "), chunk("dead ")])
    base, overflow = question.with_new_epoch().with_events([chunk("small ")])
    claimed_head = store.update_head(replace(base, status=make_status(TaskState.WORKING, 0), holder="next"))
    assert overflow == []
    assert said(store, claimed_head) == "small "
    store.append(claimed_head, [chunk("reply")], after=claimed_head.sequence)
    assert said(store, claimed_head) == "small reply"
    head_at_end = store.seal(claimed_head, make_status(TaskState.CANCELED, 0))
    assert said(store, head_at_end) == "small reply"


def test_in_the_next_epoch_another_message_may_be_written_ahead(store: Store, head: Head) -> None:
    question = asking(store, head)
    store.write_ahead(question.with_new_epoch(), [chunk("dead "), chunk("dead ")])
    with pytest.raises(Conflict):
        store.write_ahead(question.with_new_epoch(), [chunk("other ")])
    fenced_head = store.update_head(question.with_new_epoch())
    assert (fenced_head.state, said(store, fenced_head)) == (TaskState.INPUT_REQUIRED, "")
    claimed_head = store.update_head(store.write_ahead(fenced_head.with_new_epoch(), [chunk("other ")]))
    assert said(store, replace(claimed_head, status=make_status(TaskState.WORKING, 0))) == "other "


def test_a_seal_that_came_too_late_is_not_in_the_way_of_what_is_written_ahead(
    store: Store, head: Head, calls: Calls
) -> None:
    """The run ended its task between the two writes of the seal."""

    def end(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"] == "head":
            calls.before = lambda operation, arguments: None
            asking(store, head)

    calls.before = end
    with pytest.raises(Conflict):
        store.seal(head, make_status(TaskState.CANCELED, 0))
    question = read(store, head)
    assert question.state == TaskState.INPUT_REQUIRED
    assert store.write_ahead(question.with_new_epoch(), [chunk("reply")]).sequence == 2


def test_a_message_that_is_written_ahead_too_late_is_in_no_ones_way(store: Store, head: Head) -> None:
    """Another message has claimed the turn meanwhile, and its run is about to append."""
    question = asking(store, head)
    base, _ = question.with_new_epoch().with_events([chunk("small ")])
    claimed_head = store.update_head(replace(base, status=make_status(TaskState.WORKING, 0), holder="next"))
    late = store.write_ahead(question.with_new_epoch(), [chunk("late "), chunk("late "), chunk("late ")])
    with pytest.raises(Conflict):
        store.update_head(late)
    assert said(store, claimed_head) == "small "
    store.append(claimed_head, [chunk("reply")], after=claimed_head.sequence)
    assert said(store, claimed_head) == "small reply"


@pytest.fixture
def replying(store: Store, head: Head) -> Head:
    """A suspended turn whose reply was appended, and then its process died."""
    suspended_head = store.update_head(replace(head, holder="", lease=0.0))
    reply_head = store.update_head(replying_head(suspended_head, store.clock()))
    store.append(reply_head, [chunk("never answered")], after=reply_head.committed)
    return reply_head


def test_a_run_does_not_see_a_reply_that_was_not_stored_whole(store: Store, replying: Head) -> None:
    head = store.update_head(replace(store.take_over(replying), holder="run"))
    assert said(store, head) == ""
    store.append(head, [chunk("timed out")], after=head.sequence)
    assert said(store, head) == "timed out"
    with pytest.raises(Conflict):
        store.append(replying, [chunk("late")], after=replying.committed)


def test_a_task_that_is_canceled_does_not_show_a_reply_that_was_not_stored_whole(
    store: Store, replying: Head
) -> None:
    head_at_end = store.seal(replying, make_status(TaskState.CANCELED, 0))
    assert (head_at_end.state, said(store, head_at_end)) == (TaskState.CANCELED, "")
    with pytest.raises(Conflict):
        store.update_head(replying)
