"""A task's events as a log."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_lambda import strictjson
from a2a_lambda.protocol.model import Event, Message, Part, Role, Task, TaskState, make_status, text_message
from a2a_lambda.tasks.event_log import (
    ENTRY_BYTES,
    GROUPED_CHUNKS,
    Entry,
    Fence,
    apply,
    coalesce,
    coalesce_numbered,
    join,
    join_texts,
    publish,
    restate,
    split,
    without_mark,
)
from tests.helpers.clock import cpu_seconds
from tests.tasks.examples import NOW, chunk, head, status_event

WORKING, ASKING, DONE = TaskState.WORKING, TaskState.INPUT_REQUIRED, TaskState.COMPLETED

events = st.lists(
    st.builds(chunk, st.text(max_size=3), st.sampled_from("ab"), append=st.booleans(), last=st.booleans())
    | st.builds(status_event, st.sampled_from([WORKING, ASKING]), st.text(max_size=3))
    | st.builds(lambda text: Event(message=text_message("task", "context", text)), st.text(max_size=3)),
    max_size=GROUPED_CHUNKS + 4,
)


def new_task() -> Task:
    return Task(id="task", contextId="context", status=make_status(TaskState.SUBMITTED, NOW))


def task_of(log: Any) -> Task:
    task = new_task()
    apply(task, log)
    return task


def chunks(count: int, size: int) -> list[Event]:
    return [chunk("x" * size) for _ in range(count)]


@given(events, st.integers(min_value=0, max_value=3))
def test_what_is_split_is_joined(log: list[Event], after: int) -> None:
    entries = split(log, after=after, epoch=7)
    assert [entry.sequence for entry in entries] == [*range(after + 1, after + 1 + len(entries))]
    assert {entry.epoch for entry in entries} <= {7}
    assert [event for _, event in join([], reversed(entries), after=after)] == log


@given(events)
def test_fewer_events_are_the_same_task(log: list[Event]) -> None:
    assert task_of(coalesce(log)) == task_of(log)
    assert coalesce(coalesce(log)) == coalesce(log)


@given(events, st.integers(min_value=0))
def test_a_task_is_the_same_however_its_events_come(log: list[Event], place: int) -> None:
    task = task_of(log[: place % (len(log) + 1)])
    apply(task, log[place % (len(log) + 1) :])
    assert task == task_of(log)


def test_few_chunks_have_an_entry_each_and_many_share() -> None:
    assert len(split(chunks(GROUPED_CHUNKS - 1, 1), after=0, epoch=1)) == GROUPED_CHUNKS - 1
    [entry] = split(chunks(GROUPED_CHUNKS, 1), after=0, epoch=1)
    assert isinstance(strictjson.loads(entry.body), list)
    many = [status_event(WORKING)] * GROUPED_CHUNKS
    assert len(split(many, after=0, epoch=1)) == GROUPED_CHUNKS, "statuses never share"


def test_chunks_that_share_an_entry_fit_into_it() -> None:
    log = chunks(GROUPED_CHUNKS, ENTRY_BYTES // 4)
    entries = split(log, after=0, epoch=1)
    assert len(entries) < GROUPED_CHUNKS
    assert all(entry.piece == 0 and not entry.more for entry in entries)
    assert max(len(entry.body) for entry in entries) <= ENTRY_BYTES
    assert [event for _, event in join([], entries, after=0)] == log


@pytest.mark.parametrize("spare", [1, 0, -1])
def test_an_event_that_does_not_fit_is_in_pieces(spare: int) -> None:
    size = ENTRY_BYTES - len(strictjson.dumps(chunk(""))) - spare
    entries = split([chunk("x" * size)], after=4, epoch=1)
    flags = [(entry.sequence, entry.piece, entry.more) for entry in entries]
    assert flags == ([(5, 0, False)] if spare >= 0 else [(5, 0, True), (6, 1, False)])


def test_what_is_read_stops_at_a_gap_and_leaves_out_half_an_event() -> None:
    first, pieces = chunk("a"), split([chunk("x" * 2 * ENTRY_BYTES)], after=1, epoch=1)
    entries = [*split([first], after=0, epoch=1), *pieces]
    assert [number for number, _ in join([], entries, after=0)] == [1, 4]
    assert list(join([], entries[:-1], after=0)) == [(1, first)]
    assert list(join([], entries, after=2)) == [], "the rest of an event is no event"
    assert list(join([], entries[1:], after=0)) == []


def test_events_in_the_head_and_in_the_log_are_one_log() -> None:
    first, second, third = chunk("1"), chunk("2"), chunk("3")
    entries = split([second], after=1, epoch=1)
    assert list(join([(3, third), (1, first)], entries, after=0)) == [(1, first), (2, second), (3, third)]
    assert list(join([(3, third), (1, first)], entries, after=1)) == [(2, second), (3, third)]


def test_an_entry_is_whole_unless_it_says_otherwise() -> None:
    assert list(join([], [Entry(1, 1, b"{}")], after=0)) == [(1, {})]


@pytest.mark.parametrize(
    ("sequence", "epoch", "last", "counts"),
    [
        (2, 1, None, True),
        (3, 1, None, False),
        (3, 3, None, True),
        (4, 3, 4, True),
        (5, 3, 4, False),
        (2, 1, 1, False),
    ],
)
def test_what_counts_after_a_run_has_died(sequence: int, epoch: int, last: int | None, counts: bool) -> None:
    assert Fence(epoch=3, committed=2, last_sequence=last).admits(Entry(sequence, epoch, b"{}")) is counts


def test_clients_get_artifacts_and_statuses_of_running_turns() -> None:
    asking, working = status_event(ASKING, "Which?"), status_event(WORKING)
    log = [(1, Event(message=text_message("task", "context", "hi"))), (2, chunk("a")), (3, working)]
    log += [(4, asking), (5, status_event(DONE))]
    assert list(publish(log)) == [(2, chunk("a")), (3, working), (4, {**asking, "past": True})]


def test_of_the_events_of_one_entry_the_last_has_the_number() -> None:
    assert list(publish([(2, chunk("a")), (2, chunk("b")), (3, chunk("c"))])) == [
        (None, chunk("a")),
        (2, chunk("b")),
        (3, chunk("c")),
    ]


def test_a_log_without_events_tells_clients_nothing() -> None:
    assert list(publish([])) == []


def test_clients_do_not_see_marks() -> None:
    marked_part: Event = {**chunk("a"), "mark": [1, "x"]}
    assert list(publish([(1, marked_part)])) == [(1, chunk("a"))]
    assert "mark" in marked_part, "the log itself is not changed"
    working: Event = {**status_event(WORKING), "mark": [1, "x"]}
    assert list(publish([(1, working)])) == [(1, status_event(WORKING))]
    unmarked = chunk("a")
    assert without_mark(unmarked) is unmarked


def test_chunks_that_follow_each_other_become_one() -> None:
    log = [(1, chunk("a", append=False)), (2, chunk("b")), (3, chunk("c", last=True)), (4, chunk("d", "b"))]
    assert coalesce_numbered(log) == [(3, chunk("abc", append=False, last=True)), (4, chunk("d", "b"))]
    assert coalesce([chunk("a"), chunk("b", append=False)]) == [chunk("a"), chunk("b", append=False)]
    assert coalesce([chunk("a"), status_event(WORKING), chunk("b")]) == [
        chunk("a"),
        status_event(WORKING),
        chunk("b"),
    ]


def test_joined_chunks_have_the_last_mark_and_all_metadata() -> None:
    log: list[Event] = [
        {**chunk("a", metadata={"x": 1}), "mark": [1, "x"]},
        {**chunk("b", metadata={"y": 2}), "mark": [2, "y"]},
    ]
    [event] = coalesce(log)
    assert event["mark"] == [2, "y"]
    assert event["artifactUpdate"]["artifact"]["metadata"] == {"x": 1, "y": 2}
    assert task_of([chunk("a"), chunk("b", description="all")])["artifacts"][0]["description"] == "all"
    [plain] = coalesce([chunk("a"), chunk("b")])
    assert "mark" not in plain
    assert "metadata" not in plain["artifactUpdate"]["artifact"]
    assert log[0]["artifactUpdate"]["artifact"]["metadata"] == {"x": 1}, "the events themselves stay"


def test_a_chunk_that_does_not_append_starts_its_artifact_anew() -> None:
    task = task_of([chunk("a"), chunk("b", "other"), chunk("c", append=False), chunk("d")])
    assert [artifact["parts"] for artifact in task["artifacts"]] == [[{"text": "cd"}], [{"text": "b"}]]
    assert "artifacts" not in task_of([])


def test_a_question_that_was_answered_is_history() -> None:
    answer = Event(message=text_message("task", "context", "Rome"))
    working = status_event(WORKING, "Reading.")
    task = task_of([status_event(ASKING, "Which?"), answer, working, status_event(DONE)])
    assert [message["parts"] for message in task["history"]] == [[{"text": "Which?"}], [{"text": "Rome"}]]
    assert task["status"] == head(DONE).status
    silent = task_of([status_event(ASKING, "Which?"), status_event(DONE)])
    assert [message["parts"] for message in silent["history"]] == [[{"text": "Which?"}]]
    assert "history" not in task_of([status_event(WORKING, "Reading."), status_event(DONE)])


def test_a_message_that_came_again_replaces_its_lost_copy_and_nothing_else() -> None:
    """The same bytes are another message if no turn of theirs was lost."""

    def message(text: str, name: str) -> Message:
        return Message(messageId=name, role=Role.USER, parts=[Part(text=text)])

    lost_copy, reply, again = message("book", "lost"), message("Oslo", "reply"), message("book", "again")
    for earlier, history in (
        ([lost_copy], [again]),
        ([lost_copy, reply], [lost_copy, reply, again]),
        ([], [again]),
    ):
        task = Task(id="t", contextId="c", status=make_status(TaskState.WORKING, 0))
        apply(task, [*(Event(message=each) for each in earlier), Event(message=again, again=True)])
        assert task["history"] == history
    task = Task(id="t", contextId="c", status=make_status(TaskState.WORKING, 0))
    apply(task, [Event(message=lost_copy), Event(message=again)])
    assert task["history"] == [lost_copy, again]


@pytest.mark.parametrize(("filename", "is_replaced"), [("a.pdf", True), ("b.pdf", False)])
def test_a_file_that_came_again_is_the_same_under_another_reference(filename: str, is_replaced: bool) -> None:
    """A retry in another minute stores its file anew."""

    def message(reference: str, name: str) -> Message:
        file = Part(url=f"a2a-file:messages/{reference}", filename=name)
        return Message(messageId=reference, role=Role.USER, parts=[Part(text="read this"), file])

    lost_copy, again = message("1", "a.pdf"), message("2", filename)
    task = Task(id="t", contextId="c", status=make_status(TaskState.WORKING, 0))
    apply(task, [Event(message=lost_copy), Event(message=again, again=True)])
    assert task["history"] == ([again] if is_replaced else [lost_copy, again])


def test_a_question_is_looked_up_in_the_history_and_not_searched_for() -> None:
    """A task may have thousands of questions, and is read whole."""

    class Identity(str):
        comparisons = 0

        def __eq__(self, other: object) -> bool:
            Identity.comparisons += 1
            return super().__eq__(other)

        __hash__ = str.__hash__

    log = [status_event(ASKING, "Which?") for _ in range(100)]
    for event in log:
        message = event["statusUpdate"]["status"]["message"]
        message["messageId"] = Identity(message["messageId"])
    assert len(task_of([*log, log[-1], status_event(WORKING)])["history"]) == 100
    assert Identity.comparisons < 200


def test_a_question_leaves_a_status_without_it() -> None:
    task = task_of([status_event(ASKING, "Which?"), Event(message=text_message("task", "context", "Rome"))])
    assert task["status"] == make_status(ASKING, NOW - 50)


def test_texts_in_a_row_are_joined() -> None:
    link = Part(url="https://a", mediaType="text/plain")
    assert join_texts([Part(text="a"), Part(text=""), Part(text="b"), link, Part(text="")]) == [
        {"text": "ab"},
        link,
    ]
    assert join_texts([Part(text="")]) == join_texts([]) == [{"text": ""}]
    marked_part = Part(text="a", metadata={"x": 1})
    assert join_texts([Part(text="a"), marked_part]) == [{"text": "a"}, marked_part]


def test_a_task_is_told_again_by_its_artifacts() -> None:
    task = task_of([chunk("a"), chunk("b"), chunk("c", "other")])
    assert restate(task) == [
        chunk("ab", append=False, last=True),
        chunk("c", "other", append=False, last=True),
    ]
    assert restate(new_task()) == []


def large_stream(megabytes: int) -> list[Event]:
    """Two artifacts that take turns, 4 KB at a time."""
    return [
        Event(
            artifactUpdate={
                "taskId": "t",
                "contextId": "c",
                "artifact": {"artifactId": f"artifact-{number % 2}", "parts": [{"text": "x" * 4_000}]},
                "append": number > 1,
                "lastChunk": False,
            }
        )
        for number in range(megabytes * 250)
    ]


@pytest.mark.parametrize("of", ["many", "one"])
def test_a_task_of_40_mb_is_read_in_two_seconds_of_the_processor(of: str) -> None:
    events = large_stream(40)
    if of == "one":
        events = events[:1]
        events[0]["artifactUpdate"]["artifact"]["parts"] = [{"text": "x" * 40_000_000}]
    entries = split(events, after=0, epoch=1)
    task = Task(id="t", contextId="c", status=make_status(TaskState.WORKING, 0))
    assert cpu_seconds(lambda: apply(task, (event for _, event in join((), entries, after=0)))) < 2
    texts = [part["text"] for artifact in task["artifacts"] for part in artifact["parts"]]
    assert sum(map(len, texts)) == 40_000_000
