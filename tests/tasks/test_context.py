"""What a context keeps of its turns."""

from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda import strictjson
from a2a_lambda.errors import MemoryFull
from a2a_lambda.protocol.model import Part
from a2a_lambda.store import items
from a2a_lambda.tasks.context import (
    CONVERSATION_BYTES,
    CONVERSATION_LENGTH,
    KEPT_EXCHANGES,
    KEPT_TURNS,
    MEMORY_BYTES,
    UNDO_BYTES,
    Add,
    Context,
    Delete,
    Put,
    TurnRecord,
    Utterance,
    apply_changes,
)
from a2a_lambda.tasks.identity import KEPT_REQUESTS, KnownRequest, Namespace


def record(
    turn: str, said: str = "hello", reply: str = "hi", task: str = "", **options: object
) -> TurnRecord:
    base = TurnRecord(
        turn_id=turn, task_id=task or f"task of {turn}", message=[Part(text=said)], reply=[Part(text=reply)]
    )
    return replace(base, **options)  # type: ignore[arg-type]


def texts(context: Context) -> list[str]:
    return [entry.text for entry in context.conversation]


def known(key: str, task: str = "t") -> KnownRequest:
    return KnownRequest(key=key, body="b", task=task, at=1.0)


def test_a_context_knows_which_tasks_have_asked_and_not_ended() -> None:
    context = Context()
    for task_id in ("a", "b", "a", "c"):
        context = context.with_question_of(task_id)
    assert (context.asking_task_id, context.earlier_asking_tasks) == ("c", ("b", "a"))
    assert context.with_question_of("c") is context
    assert context.without_question_of("unknown") is context
    context = context.without_question_of("c").without_question_of("b")
    assert (context.asking_task_id, context.earlier_asking_tasks) == ("", ("a",))
    for number in range(9):
        context = context.with_question_of(str(number))
    assert context.earlier_asking_tasks == ("4", "5", "6", "7")
    assert items.to_context(items.from_context(Namespace("o", "a"), "c", context, 1)) == context


def test_a_turn_is_included_once() -> None:
    context = Context().after(record("a", changes=[Add("visits", 1)]))
    assert texts(context) == ["hello", "hi"]
    assert context.memory == {"visits": 1}
    assert context.after(record("a", changes=[Add("visits", 1)])) is context


def test_a_failed_turn_leaves_words_and_no_memory_and_another_attempt_counts() -> None:
    context = Context().after(record("a", reply="oh", changes=[Add("visits", 1)], was_ended_by_skill=False))
    assert context.memory == {}
    assert (context.turns, context.failed_turns) == ((), ("a",))
    assert texts(context) == ["hello", "oh"]
    new_context = context.after(record("a", changes=[Add("visits", 1)]))
    assert new_context.memory == {"visits": 1}
    assert (new_context.turns, new_context.failed_turns) == (("a",), ())
    assert texts(new_context) == ["hello", "hi"], "what the failed attempt said is gone"


def test_a_turn_does_not_see_what_its_earlier_attempt_said() -> None:
    first = Context().after(record("a", said="one"))
    both = first.after(record("b", said="two", task="t2"))
    assert both.before("c", "t3") is both, "a turn that the context does not know changes nothing"
    assert texts(both.before("b", "t2")) == ["one", "hi"]
    after_failure = first.after(record("b", said="two", task="t2", was_ended_by_skill=False))
    assert texts(after_failure.before("b", "t2")) == ["one", "hi"]


def test_a_turn_sees_the_earlier_turns_of_its_own_task() -> None:
    """Only the last message of the task, and what followed it, is the turn's."""
    context = Context().after(record("a", said="book", reply="where?", task="t"))
    after_answer = context.after(record("b", said="Oslo", reply="done", task="t"))
    assert texts(after_answer.before("b", "t")) == ["book", "where?"]


def test_a_turn_that_is_too_large_to_keep_takes_no_other_with_it() -> None:
    """Its first attempt has failed, and left no words that the second one could replace."""
    context = Context().after(record("a", said="book", reply="where?", task="t"))
    large = "x" * (CONVERSATION_BYTES + 1)
    after_failure = context.after(record("b", said=large, task="t", was_ended_by_skill=False))
    assert texts(after_failure) == texts(after_failure.before("b", "t")) == ["book", "where?"]
    again = after_failure.after(record("b", said=large, reply="done", task="t"))
    assert texts(again) == ["book", "where?"]
    small = again.after(record("b2", said="Oslo", reply="done", task="t"))
    assert texts(small.before("b2", "t")) == ["book", "where?"]


def test_the_newest_requests_are_known() -> None:
    context = Context()
    for number in range(KEPT_REQUESTS + 1):
        context = context.after(record(f"turn {number}", answered=[known(f"key {number}")]))
    assert len(context.requests) == KEPT_REQUESTS
    assert context.requests[-1]["key"] == f"key {KEPT_REQUESTS}"
    again = context.after(record("later", answered=[known("key 5", task="newer")]))
    assert [entry["task"] for entry in again.requests if entry["key"] == "key 5"] == ["newer"]


def test_the_replies_within_a_turn_are_known_and_no_old_request_comes_back() -> None:
    """A task's head names them all, also those that newer ones have replaced."""
    replies = [{**known(f"reply {number}"), "at": float(number)} for number in range(3)]
    context = Context().after(record("turn", answered=replies))
    assert [entry["key"] for entry in context.requests] == ["reply 0", "reply 1", "reply 2"]
    assert context.after(record("turn", answered=replies)) is context
    assert context.after(record("next", answered=replies)).requests == context.requests
    newer = [{**known(f"newer {number}"), "at": 10.0 + number} for number in range(KEPT_REQUESTS)]
    context = context.after(record("others", answered=newer))
    later = context.after(record("later", answered=[*replies, {**known("last"), "at": 99.0}]))
    assert [entry["key"] for entry in later.requests] == [*(entry["key"] for entry in newer[1:]), "last"]
    assert later.after(record("later", answered=replies)) is later


def test_a_turn_that_runs_again_after_others_counts_once() -> None:
    """A dead worker's turn runs again some minutes later, and its conversation may have gone on."""
    again = record("again", changes=[Add("count", 1)])
    context = Context().after(again)
    for number in range(KEPT_TURNS - 1):
        context = context.after(record(f"turn {number}"))
    assert context.after(again).memory == {"count": 1}
    assert len(context.after(record("another")).turns) == KEPT_TURNS


def test_a_request_is_learned_of_a_turn_that_is_included() -> None:
    context = Context().after(record("a"))
    newer = context.after(record("a", answered=[known("key")]))
    assert [entry["key"] for entry in newer.requests] == ["key"]
    assert newer.conversation == context.conversation


def test_changes_are_made_in_their_order() -> None:
    changes = [Put("a", 1), Add("a", 2), Put("b", 1), Delete("b"), Delete("nothing")]
    assert Context().after(record("x", changes=changes)).memory == {"a": 3}
    with pytest.raises(TypeError):
        Context().after(record("x", changes=[Put("a", "text"), Add("a", 1)]))


def test_memory_has_a_limit() -> None:
    fits = "x" * (MEMORY_BYTES - len('{"a":""}'))
    assert Context().after(record("x", changes=[Put("a", fits)])).memory == {"a": fits}
    with pytest.raises(MemoryFull):
        Context().after(record("x", changes=[Put("a", fits + "x")]))


def test_a_conversation_keeps_whole_turns() -> None:
    context = Context()
    for number in range(CONVERSATION_LENGTH):
        context = context.after(record(f"turn {number}", said=f"q{number}", reply=f"a{number}"))
    texts_kept = texts(context)
    assert len(texts_kept) == CONVERSATION_LENGTH
    assert texts_kept[:2] == [f"q{CONVERSATION_LENGTH // 2}", f"a{CONVERSATION_LENGTH // 2}"]
    assert texts_kept[-1] == f"a{CONVERSATION_LENGTH - 1}"


def test_a_conversation_is_kept_up_to_its_last_byte() -> None:
    empty = len(strictjson.dumps([Part(text="")]))
    context = Context().after(record("a", said="one", reply="two"))
    rest = CONVERSATION_BYTES - 3 * empty - len("onetwo")
    fitting, longer = "q" * rest, "q" * (rest + 1)
    assert texts(context.after(replace(record("b", fitting), reply=()))) == ["one", "two", fitting]
    assert texts(context.after(replace(record("b", longer), reply=()))) == [longer]
    alone = "q" * (CONVERSATION_BYTES - empty)
    full = context.after(replace(record("b", alone), reply=()))
    assert texts(full) == [alone]
    assert texts(full.before("b", "task of b")) == [], "its next attempt replaces it"
    assert texts(context.after(replace(record("b", alone + "q"), reply=()))) == ["one", "two"]


def test_a_conversation_that_begins_with_the_agent_is_kept() -> None:
    """Its first question was of a turn that was tried again."""
    context = Context(conversation=(Utterance("agent", [Part(text="hi")], "t"),))
    assert texts(context.after(record("b", said="one", reply="two"))) == ["hi", "one", "two"]


def test_what_a_durable_turn_saw_is_restored() -> None:
    context = Context().after(record("a", changes=[Put("k", [1])]))
    view = Context.of_turn_document(context.turn_document())
    assert (view.memory, view.conversation) == (context.memory, context.conversation)


def exchanges(count: int) -> list[tuple[list[Part], list[Part]]]:
    return [([Part(text=f"question {number}")], [Part(text=f"reply {number}")]) for number in range(count)]


def test_another_attempt_does_not_see_what_the_first_changed() -> None:
    base = Context(memory={"kept": 1, "old": 1, "gone": 1})
    changes = [Put("old", 2), Put("new", 2), Delete("gone"), Add("old", 1)]
    context = base.after(record("a", task="t", changes=changes))
    assert context.memory == {"kept": 1, "old": 3, "new": 2}
    for after in (context, context.after(record("b"))):  # which changed nothing
        stored_context = items.to_context(items.from_context(Namespace("o", "a"), "c", after, 1))
        assert stored_context.before("a", "t").memory == base.memory
        assert stored_context.before("b", "u").memory == context.memory
    assert context.after(record("a", task="t", changes=changes)) is context
    later = context.after(record("b", changes=[Put("new", 3)]))
    assert later.before("a", "t").memory == later.memory, "what the later turn has changed is not undone"
    large = base.after(record("a", task="t", changes=[Put("old", "x" * UNDO_BYTES)]))
    assert large.before("a", "t").memory["old"] == 1
    larger = large.after(record("b", task="u", changes=[Put("old", 1)]))
    assert larger.before("b", "u").memory == larger.memory, "the value before is too large to keep"


def test_a_turn_with_questions_is_one_turn() -> None:
    """A second attempt replaces all of it, and it is dropped as a whole."""
    context = Context().after(record("a", said="before", task="t"))
    after_failure = context.after(record("b", task="t", exchanges=exchanges(2), was_ended_by_skill=False))
    words = ["hello", "question 0", "reply 0", "question 1", "reply 1", "hi"]
    assert texts(after_failure) == ["before", "hi", *words]
    assert texts(after_failure.before("b", "t")) == ["before", "hi"]
    assert texts(after_failure.after(record("b", task="t", exchanges=exchanges(2)))) == [
        "before",
        "hi",
        *words,
    ]
    large = Part(text="x" * (CONVERSATION_BYTES - 100))
    assert "reply 1" not in texts(after_failure.after(record("c", message=[large])))


def test_the_last_questions_of_a_turn_are_kept() -> None:
    context = Context().after(record("a", exchanges=exchanges(KEPT_EXCHANGES + 1)))
    assert texts(context)[:3] == ["hello", "question 1", "reply 1"]
    assert len(texts(context)) == 2 + 2 * KEPT_EXCHANGES


def test_a_turn_with_long_replies_keeps_its_message_and_its_answer() -> None:
    long = [([Part(text="q")], [Part(text="x" * (CONVERSATION_BYTES // 2))]) for _ in range(3)]
    assert [len(text) for text in texts(Context().after(record("a", exchanges=long)))] == [5, 1, 32000, 2]
    longer = [([Part(text="q")], [Part(text="x" * CONVERSATION_BYTES)])]
    assert texts(Context().after(record("a", exchanges=longer))) == ["hello", "hi"]


def test_a_reply_stays_one_in_the_table() -> None:
    context = Context().after(record("a", exchanges=exchanges(1)))
    stored_context = items.to_context(items.from_context(Namespace("o", "a"), "c", context, 1))
    assert stored_context.conversation == context.conversation
    assert Context.of_turn_document(context.turn_document()).conversation == context.conversation


def test_the_bytes_of_files_are_not_kept() -> None:
    file = Part(raw="AAAA", filename="a.bin")
    context = Context().after(record("a", message=[file]))
    assert context.conversation[0].parts == [{"filename": "a.bin"}]
    assert file["raw"] == "AAAA", "the message itself is not changed"


@pytest.mark.parametrize("value", ["1", True, None, [1]])
def test_only_a_number_is_added_to(value: Any) -> None:
    with pytest.raises(TypeError):
        apply_changes({"a": value}, [Add("a", 1)])
    assert apply_changes({"a": 1.5}, [Add("a", 1)]) == {"a": 2.5}
    assert apply_changes({}, [Add("a", 1)]) == {"a": 1}
