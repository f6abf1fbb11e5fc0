"""Durable turns: suspended, resumed, answered, followed."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda.errors import StoreError
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.model import Json, Message, Part, Role, TaskState
from a2a_lambda.protocol.requests import Recipient, SendMessageRequest
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall
from a2a_lambda.tasks.replay import replies_in
from a2a_lambda.wire import alibaba, qianfan, v0_1, v0_3, v0_3_http, v1_0
from tests.background.durable_bench import (
    DurableBench,
    operations,
    parts_of,
    text_of,
    texts,
    url_of,
)
from tools.dev import event_sources

MAX_WRITES = 40
"""Writes to the table in a trip, those of its two messages included."""


def test_a_trip_sleeps_asks_and_books(bench: DurableBench) -> None:
    task = bench.send("Oslo")
    assert task["status"]["state"] == TaskState.SUBMITTED
    question = bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    assert question["status"]["message"]["parts"] == [{"text": "Shall I book it?"}]
    assert texts(question) == {"": "A plan for Oslo. 3 nights. "}
    assert bench.store.get_context(bench.namespace, task["contextId"]).asking_task_id == task["id"]
    answered = bench.send("yes", taskId=task["id"])
    assert answered["id"] == task["id"]
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(result) == {
        "": "A plan for Oslo. 3 nights. Booked.",
        "report": "hotel in Oslo, train in Oslo, table in Oslo",
    }
    assert [text_of(each) for each in result["history"]] == ["Oslo", "Shall I book it?", "yes"]
    assert bench.calls == {"plan": 1, "hotel": 1, "train": 1, "table": 1}
    context = bench.store.get_context(bench.namespace, task["contextId"])
    assert context.memory == {"city": "Oslo"}
    assert context.asking_task_id == ""


def test_nothing_is_sent_twice(bench: DurableBench) -> None:
    """A follower gets each output once, in order, across three pauses and four runs."""
    task = bench.send(skill="nap")
    events = bench.follow(task["id"])
    said_texts = [part["text"] for event in events for part in parts_of(event)]
    assert "".join(said_texts) == "1 2 3 awake"
    assert events[-1]["statusUpdate"]["status"]["state"] == TaskState.COMPLETED
    assert bench.numbers == sorted(set(bench.numbers))
    bench.wait_for_runs(4)
    assert [answer["Status"] for answer in bench.runs] == ["PENDING"] * 3 + ["SUCCEEDED"]
    assert not any({"mark", "context", "callback", "options", "again"} & event.keys() for event in events)


def test_a_client_that_disconnects_twice_misses_nothing(bench: DurableBench) -> None:
    task = bench.send("Oslo")
    first = bench.follow(task["id"], stop_after=2)
    question = bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    second = bench.follow(task["id"], after=bench.numbers[-1])
    assert second[-1]["statusUpdate"]["status"] == question["status"]
    last = bench.numbers[-1]
    bench.send("yes", taskId=task["id"])
    third = bench.follow(task["id"], after=last)
    said_texts = [part["text"] for event in first + second + third for part in parts_of(event)]
    assert "".join(said_texts) == (
        "A plan for Oslo. 3 nights. hotel in Oslo, train in Oslo, table in OsloBooked."
    )


def test_a_replay_contains_the_question(bench: DurableBench) -> None:
    """A client may have been away when it was asked, and answered."""
    task = bench.send("Oslo")
    bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    bench.send("yes", taskId=task["id"])
    bench.wait_for(task["id"], TaskState.COMPLETED)
    events = bench.follow(task["id"], after=1)
    statuses = [event for event in events if "statusUpdate" in event]
    [question] = [event for event in statuses if event.get("past")]
    assert text_of(question["statusUpdate"]["status"]["message"]) == "Shall I book it?"
    assert question is not statuses[-1]
    for wire in (v0_1.WIRE, v0_3.WIRE, v0_3_http.WIRE, v1_0.WIRE, alibaba.WIRE, qianfan.WIRE):
        frames = wire.encode_event(question, Recipient())
        assert len(frames) == (wire.name not in ("alibaba", "qianfan"))
        assert not any('"final": true' in json.dumps(frame) or "past" in frame for frame in frames)


def test_a_plain_skill_of_the_agent_answers_in_its_request(bench: DurableBench) -> None:
    result = bench.send("hi", "now")
    assert (result["status"]["state"], texts(result)) == (TaskState.COMPLETED, {"": "at once: hi"})
    assert not bench.runs


def test_a_plain_skill_in_a_durable_run_is_as_everywhere(bench: DurableBench) -> None:
    """A router may choose any skill, so a durable execution runs the turn."""
    profile = bench.agents["traveler"]
    bench.agents._profiles["traveler"] = replace(profile, default_skill="")
    task = bench.send("hi", metadata={})
    assert task["status"]["state"] == TaskState.SUBMITTED
    bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)  # it was the default skill after all


def test_a_plain_question_of_the_agent_is_answered_in_its_request(bench: DurableBench) -> None:
    """The skill that asked is known, and is not durable; the agent's default skill is."""
    question = bench.send(skill="name")
    assert question["status"]["state"] == TaskState.INPUT_REQUIRED
    result = bench.send("Ann", contextId=question["contextId"])
    assert (result["id"], texts(result)) == (question["id"], {"": "Hello, Ann"})
    assert not bench.runs


def test_clients_see_steps_pauses_and_waits(bench: DurableBench) -> None:
    task = bench.send("Oslo")
    events = bench.follow(task["id"])
    bench.send("yes", taskId=task["id"])
    booking_events = bench.follow(task["id"], after=bench.numbers[-1])
    assert operations(events) == [
        "step plan started",
        "step plan ended",
        "sleep sleep started",
        "sleep sleep ended",
        "wait approval started",
    ]
    first, *rest = operations(booking_events)
    assert first == "wait approval ended"
    names = ("hotel", "train", "table")
    assert sorted(rest) == sorted(f"step {name} {state}" for name in names for state in ("started", "ended"))


@pytest.mark.parametrize("key", [None, "K-1"])
def test_a_reply_that_is_sent_again_after_its_turn_has_ended_starts_nothing(
    bench: DurableBench, key: str | None
) -> None:
    """It named its conversation only, and another reply came after it in the same turn."""
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    parts = [Part(text="Oslo")]
    reply = Message(messageId="oslo", role=Role.USER, parts=parts, contextId=task["contextId"])
    request = SendMessageRequest(message=reply, configuration={"returnImmediately": True})
    identity = RequestIdentity.of(bench.namespace, "send", b"oslo", key)
    call = MessageCall(bench.namespace, identity, wire_name="1.0", base_url="https://agents.example.com")

    def task_of_reply() -> str:
        return asyncio.run(bench.messages.send(call, request))["task"]["id"]

    assert task_of_reply() == task["id"]
    bench.wait(task["id"], lambda head: "nights" in json.dumps(head.status))
    bench.send("3", taskId=task["id"])
    bench.wait_for(task["id"], TaskState.COMPLETED)
    assert task_of_reply() == task["id"]


def test_what_a_trip_takes(durable_settings: Settings) -> None:
    """The figures of docs/long-running.md."""
    writes, operations = [], Counter[str]()

    def count(params: Json, **_: Any) -> None:
        updates = json.loads(params["body"])["Updates"]
        operations.update(each["Type"] for each in updates if each["Action"] == "START")

    bench = DurableBench(durable_settings)
    bench.client.meta.events.register("before-call.lambda.CheckpointDurableExecution", count)
    bench.table.meta.events.register("before-call.dynamodb.PutItem", lambda **_: writes.append(1))
    task = bench.send("Oslo")
    bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    bench.send("yes", taskId=task["id"])
    bench.wait_for(task["id"], TaskState.COMPLETED)
    assert operations == {"STEP": 4, "WAIT": 1, "CALLBACK": 1, "CONTEXT": 1}
    bench.wait_for_runs(3)
    print(f"\na trip: {operations.total() + 1} operations, 3 runs, {len(writes)} writes")
    assert len(writes) <= MAX_WRITES
    bench.calls.clear()


def test_a_question_is_asked_once_even_if_the_run_that_asked_it_died(durable_settings: Settings) -> None:
    bench = DurableBench(durable_settings, serves=False)

    def run_and_die_once(event: Json, context: Any) -> Json:
        answer = bench.run(event, context)
        if len(bench.runs) == 1:
            raise OSError("died after the question was stored, and before Lambda heard of it")
        return answer

    event_sources.serve_runs(run_and_die_once, durable_settings.emulator)
    task = bench.send(skill="ask")
    bench.wait_for_runs(2)
    question = bench.wait(
        task["id"], lambda head: head.is_suspended and head.state == TaskState.INPUT_REQUIRED
    )
    assert text_of(question["status"]["message"]) == "Which city?"
    assert [text_of(message) for message in question["history"]] == [""]
    assert texts(question) == {"": "Well. "}


def test_a_reply_is_stored_with_its_own_caller(bench: DurableBench) -> None:
    task = bench.send(skill="ask", caller=Caller(bench.namespace.owner, "token", client="console"))
    bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    caller = Caller(bench.namespace.owner, "token", client="chat", scopes=("chat",))
    bench.send("Oslo", taskId=task["id"], caller=caller)
    events = [event for _, event in bench.store.get_events(bench.head(task["id"]))]
    [reply] = replies_in(events, head.turn_id, bench.namespace.owner).values()
    assert (reply.text, reply.caller) == ("Oslo", caller)


@contextmanager
def lost_answers(monkeypatch: pytest.MonkeyPatch, store: Store, write: str) -> Iterator[None]:
    """Within it, the table takes each such write, and its answer is lost."""
    original = getattr(store, write)

    def write_and_fail(head: Head) -> Head:
        original(head)
        raise StoreError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(store, write, write_and_fail)
        with pytest.raises(StoreError):
            yield


@pytest.mark.parametrize("way", ["callback", "message"])
def test_a_reply_that_is_repeated_wakes_its_turn(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The first try was stored, and failed before it could wake the turn."""
    task_id = bench.send(skill="cash")["id"]
    url = url_of(bench.wait_until_open(task_id))

    def reply() -> None:
        if way == "callback":
            bench.reply(url, {"amount": 1})
        else:
            bench.send("paid", identity="same", taskId=task_id)

    with lost_answers(monkeypatch, bench.store, "update_head"):
        reply()
    reply()
    bench.wait_for(task_id, TaskState.COMPLETED)


def test_a_new_task_that_is_repeated_is_started(bench: DurableBench, monkeypatch: pytest.MonkeyPatch) -> None:
    with lost_answers(monkeypatch, bench.store, "create_head"):
        bench.send(skill="cash", identity="same")
    task = bench.send(skill="cash", identity="same")
    bench.wait_until_open(task["id"])
