"""What makes two requests the same, who calls, and what a replay puts out again."""

import uuid

import pytest

from a2a_lambda.errors import CodeChanged, InvalidParams
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.model import Event, Message, Part, Role, TaskState
from a2a_lambda.protocol.requests import SendMessageConfiguration, SendMessageRequest
from a2a_lambda.tasks.head import Place
from a2a_lambda.tasks.identity import KnownRequest, Namespace, RequestIdentity, config_id_of
from a2a_lambda.tasks.message_call import MessageCall
from a2a_lambda.tasks.replay import Mark, Replay, last_mark
from tests.tasks.examples import NOW, SCOPE, chunk, head, status_event

KEYED = RequestIdentity.of(SCOPE, "send", b"body", "key")

MESSAGE = Message(messageId="m", role=Role.USER, parts=[Part(text="hi")])

PLAIN = RequestIdentity.of(SCOPE, "send", b"body")


def record_of(request: RequestIdentity, at: float = NOW, task: str = "t") -> KnownRequest:
    return KnownRequest(key=request.key, body=request.body, task=task, at=at)


def test_a_request_is_its_owner_agent_operation_and_body() -> None:
    others = [
        RequestIdentity.of(Namespace("other", "agent"), "send", b"body"),
        RequestIdentity.of(Namespace("owner", "other"), "send", b"body"),
        RequestIdentity.of(SCOPE, "stream", b"body"),
        RequestIdentity.of(SCOPE, "send", b"other"),
        KEYED,
    ]
    assert PLAIN.key not in {other.key for other in others}
    assert len({other.key for other in others}) == len(others)
    assert RequestIdentity.of(SCOPE, "send", b"body") == PLAIN
    assert (KEYED.is_idempotent, PLAIN.is_idempotent) == (True, False)


def test_a_key_takes_the_place_of_the_body() -> None:
    other = RequestIdentity.of(SCOPE, "send", b"other", "key")
    assert other.key == KEYED.key
    assert RequestIdentity.of(SCOPE, "send", b"body", "other").key != KEYED.key
    with pytest.raises(InvalidParams, match="Idempotency-Key was used"):
        other.repeats([record_of(KEYED)], since=0)


def test_the_same_bytes_repeat_within_their_window_and_a_key_forever() -> None:
    assert PLAIN.repeats([record_of(PLAIN)], since=NOW - 1)
    assert not PLAIN.repeats([record_of(PLAIN)], since=NOW)
    assert KEYED.repeats([record_of(KEYED)], since=NOW + 1)
    assert not PLAIN.repeats([record_of(KEYED)], since=0)
    assert not PLAIN.repeats([], since=0)


def test_the_newest_of_equal_requests_counts() -> None:
    newest = record_of(PLAIN, NOW + 5, "new")
    assert PLAIN.find([record_of(PLAIN), newest, record_of(KEYED)]) == newest
    assert PLAIN.find([record_of(KEYED)]) is None


def test_ids_are_the_same_for_every_retry_and_are_uuids() -> None:
    again = RequestIdentity.of(SCOPE, "send", b"body")
    ids = [
        PLAIN.task_id(),
        PLAIN.task_id("t"),
        PLAIN.turn_id(),
        PLAIN.turn_id("t"),
        config_id_of("t", "u"),
    ]
    assert ids == [
        again.task_id(),
        again.task_id("t"),
        again.turn_id(),
        again.turn_id("t"),
        config_id_of("t", "u"),
    ]
    assert len(set(ids)) == len(ids)
    assert {uuid.UUID(identity).version for identity in ids} == {4}


def test_a_retry_finds_what_an_earlier_release_has_stored() -> None:
    """A client may repeat its request, and a turn may be replayed, after a deployment of another release."""
    assert PLAIN.key == "c8dbaf292e17d63aa7725a898ff9c846"
    assert PLAIN.body == "230d8358dc8e8890b4c58deeb62912ee"
    assert PLAIN.task_id("t") == "ff66b4e3-692a-4c9c-8cb2-ac66c2cd53bd"
    assert PLAIN.turn_id("a") == "0a59dc93-8ad9-4a12-bf53-cc3a4422ee4b"
    assert Mark().after(status_event(TaskState.WORKING, "b")) == Mark(1, "93cc2f635662ea5a")


def test_a_turn_shows_which_bytes_started_it() -> None:
    assert PLAIN.has_started(PLAIN.turn_id())
    assert PLAIN.has_started(PLAIN.turn_id("an earlier answer"))
    assert not PLAIN.has_started(KEYED.turn_id())


def test_a_caller_is_described_by_what_it_has() -> None:
    full = Caller("o", "token", "idp", "ann", "app", ("read",), {"tid": "1"})
    assert Caller.of_document("o", full.document()) == full
    assert full.document()["scopes"] == ["read"]
    assert "owner" not in full.document()
    assert Caller("o").document() == {"kind": "key"}
    assert Caller.of_document("o", {"kind": "key"}) == Caller("o")


def test_a_message_for_another_process_carries_its_options() -> None:
    modes = SendMessageConfiguration(acceptedOutputModes=["text/plain"])
    request = SendMessageRequest(message=MESSAGE, configuration=modes, metadata={"a": 1})
    call = MessageCall(SCOPE, PLAIN, extensions=("urn:x",), caller=Caller("o", "token", subject="ann"))
    event = call.message_event(request, head(), "turn", Place.WORKER)
    assert (event["message"]["taskId"], event["message"]["contextId"]) == ("task", "context")
    assert "taskId" not in MESSAGE, "the request itself is not changed"
    assert event["options"] == {
        "turn": "turn",
        "acceptedOutputModes": ["text/plain"],
        "extensions": ["urn:x"],
        "metadata": {"a": 1},
        "caller": {"kind": "token", "subject": "ann"},
    }
    here = call.message_event(request, head(), "turn", Place.REQUEST)
    assert "options" not in here


@pytest.mark.parametrize("caller", [None, Caller("o")])
def test_a_caller_with_a_key_is_not_described(caller: Caller | None) -> None:
    request = SendMessageRequest(message=MESSAGE)
    options = MessageCall(SCOPE, PLAIN, caller=caller).options(request, "turn")
    assert options == {"turn": "turn", "acceptedOutputModes": [], "extensions": [], "metadata": {}}


def test_a_replay_passes_over_what_the_log_has() -> None:
    def outputs() -> list[Event]:
        return [chunk("a"), status_event(TaskState.WORKING, "b"), chunk("c")]

    events = Replay().take(outputs()[:2])
    assert [event["mark"][0] for event in events] == [1, 2]
    second = Replay(last_mark(events))
    assert [event["mark"][0] for event in second.take(outputs())] == [3]
    assert second.next().take(outputs()) == []


def test_another_output_than_before_is_noticed() -> None:
    events = Replay().take([chunk("a"), chunk("b")])
    for outputs in (
        [chunk("a"), chunk("x")],
        [chunk("x"), chunk("b")],
        [chunk("a"), chunk("b", append=False)],
    ):
        with pytest.raises(CodeChanged, match="differs"):
            Replay(last_mark(events)).take(outputs)


def test_a_run_that_was_cut_short_keeps_the_mark_of_the_log() -> None:
    mark = last_mark(Replay().take([chunk("a"), chunk("b")]))
    cut = Replay(mark)
    assert cut.take([chunk("a")]) == []
    assert cut.next().take([chunk("a"), chunk("b")]) == []


def test_statuses_are_compared_by_their_words_and_not_by_their_time() -> None:
    early, late = status_event(TaskState.WORKING, "a"), status_event(TaskState.WORKING, "a")
    late["statusUpdate"]["status"]["timestamp"] = "later"
    assert Mark().after(early) == Mark().after(late)
    assert Mark().after(early) != Mark().after(status_event(TaskState.WORKING, "b"))
    assert Mark().after(early) != Mark().after(status_event(TaskState.WORKING))
    assert last_mark([]) == last_mark([early]) == Mark()
