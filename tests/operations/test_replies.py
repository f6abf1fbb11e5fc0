"""Replies to the waits of durable turns: messages of the client, and calls of a wait's url."""

import asyncio
import base64
import json
import threading
import uuid
from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda.background import takeover
from a2a_lambda.background.replies import store_reply
from a2a_lambda.errors import (
    NotWaiting,
    RouteNotFound,
    UnsupportedOperation,
    WaitIsOver,
)
from a2a_lambda.operations import intake, waits
from a2a_lambda.protocol.model import Event, Part, TaskState
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.callback_token import callback_token
from a2a_lambda.tasks.head import REPLYING, Head
from a2a_lambda.turns.recovery import load_live_head
from tests.background.durable_bench import (
    DurableBench,
    text_of,
    texts,
    url_of,
    waits_of,
)
from tests.conftest import DAY
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rpc import intent
from tests.processes.death import Died


def test_questions_that_are_yielded_are_answered_within_the_turn(bench: DurableBench) -> None:
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    second = bench.send("Oslo", contextId=task["contextId"])
    assert second["id"] == task["id"]
    question = bench.wait(task["id"], lambda head: "nights" in json.dumps(head.status))
    assert question["status"]["state"] == TaskState.INPUT_REQUIRED
    bench.send("3", taskId=task["id"])
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(result) == {"": "Well. 3 nights in Oslo"}
    assert [text_of(each) for each in result["history"]] == [
        "",
        "Which city?",
        "Oslo",
        "How many nights?",
        "3",
    ]


def test_a_task_outlives_the_longest_turn_by_the_time_that_tasks_are_kept(bench: DurableBench) -> None:
    head = bench.head(bench.send(skill="ask")["id"])
    assert head.expires == int(head.created) + 30 * DAY + 30 * DAY


def test_a_retried_reply_counts_once(bench: DurableBench) -> None:
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    for _ in range(2):
        bench.send("Oslo", taskId=task["id"], identity=f"{task['id']} reply")
    question = bench.wait(task["id"], lambda head: "nights" in json.dumps(head.status))
    assert [text_of(each) for each in question["history"]] == ["", "Which city?", "Oslo"]


def test_a_reply_that_is_too_large_for_the_head_arrives_whole(bench: DurableBench) -> None:
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    bench.send("O" * 10_000, taskId=task["id"])
    bench.wait(task["id"], lambda head: "nights" in json.dumps(head.status))
    bench.send("3", taskId=task["id"])
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(result)[""].endswith("in " + "O" * 10_000)


def test_another_system_ends_a_wait(bench: DurableBench) -> None:
    task = bench.send(skill="pay")
    working = bench.wait_until_open(task["id"])
    assert working["status"]["state"] == TaskState.WORKING
    url = url_of(working)
    assert url.startswith("https://agents.example.com/callbacks/")
    bench.reply(url, {"amount": 9007199254740993})
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert result["artifacts"][0]["parts"][-1]["data"] == {"paid": [{"amount": 9007199254740993}]}
    with pytest.raises(RouteNotFound):  # its turn is over
        bench.reply(url, {})


def test_a_client_cannot_reply_in_the_place_of_another_system(bench: DurableBench) -> None:
    """Neither by its words, nor by data that look like a payment."""
    task = bench.send(skill="pay")
    working = bench.wait_until_open(task["id"])
    part: Part = {"data": {"amount": 12}}
    for parts in ([Part(text="hi")], [part]):
        with pytest.raises(UnsupportedOperation, match="paused or waiting for another system"):
            bench.send(taskId=task["id"], parts=parts)
    assert waits_of(bench.head(task["id"])) == ["payment"]
    bench.reply(url_of(working), {"amount": 3})
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert result["artifacts"][0]["parts"][-1]["data"] == {"paid": [{"amount": 3}]}


@pytest.mark.parametrize("by_url", [False, True])
def test_a_message_ends_a_wait_that_takes_messages(bench: DurableBench, by_url: bool) -> None:
    task = bench.send(skill="cash")
    working = bench.wait_until_open(task["id"])
    if by_url:
        bench.reply(url_of(working), 3)
    else:
        bench.send("cash", taskId=task["id"])
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    data = {"paid": [3], "said": "", "by url": True}
    assert result["artifacts"][0]["parts"][-1]["data"] == (
        data if by_url else {"paid": [], "said": "cash", "by url": False}
    )


def test_a_message_that_comes_a_moment_too_early_ends_the_wait(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn still ran when the message was read."""
    task = bench.send(skill="cash")
    bench.wait_until_open(task["id"])
    looks = 0

    async def load_running_head(*args: Any, **options: Any) -> Head:
        nonlocal looks
        looks += 1
        head = await load_live_head(*args, **options)
        assert head.execution is not None
        return replace(head, execution=replace(head.execution, is_suspended=False, waits=()))

    monkeypatch.setattr(intake, "load_live_head", load_running_head)
    bench.send("go on", taskId=task["id"])
    bench.wait_for(task["id"], TaskState.COMPLETED)
    assert looks == 1


@pytest.mark.parametrize("is_stored_by_another_try", [True, False])
def test_a_reply_whose_write_conflicts_counts_once(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch, *, is_stored_by_another_try: bool
) -> None:
    """The conflict may come from another try of the same request, which has stored the reply."""
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    reply: Any = {"taskId": task["id"], "identity": f"{task['id']} reply"}
    tries = 0

    async def store(*arguments: Any) -> Head:
        nonlocal tries
        tries += 1
        if tries > 1:
            return await store_reply(*arguments)
        if is_stored_by_another_try:
            await asyncio.to_thread(bench.send, "Oslo", **reply)
        raise Conflict

    monkeypatch.setattr(intake, "store_reply", store)
    bench.send("Oslo", **reply)
    question = bench.wait(task["id"], lambda head: "nights" in json.dumps(head.status))
    assert [text_of(each) for each in question["history"]] == ["", "Which city?", "Oslo"]


def test_a_reply_may_come_a_moment_too_early(bench: DurableBench, monkeypatch: pytest.MonkeyPatch) -> None:
    task = bench.send(skill="pay")
    working = bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    assert head.execution is not None
    bench.store.update_head(replace(head, execution=replace(head.execution, is_suspended=False, waits=())))
    replying = threading.Thread(target=bench.reply, args=(url_of(working), {"amount": 3}))
    replying.start()
    bench.store.update_head(replace(bench.head(task["id"]), execution=head.execution))
    replying.join()
    assert bench.wait_for(task["id"], TaskState.COMPLETED)


def test_a_reply_that_no_turn_waits_for_is_refused(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "EARLY_REPLY_SECONDS", 0.0)
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    with pytest.raises(NotWaiting):
        bench.reply(f"https://x/callbacks/{callback_token(head, 'other')}", {})
    for reply in ({"city": "Oslo", "n": 1}, {"n": 1, "city": "Oslo"}):  # after an answer that was lost
        bench.reply(f"https://x/callbacks/{callback_token(head, 'ask')}", reply)
    for other in ({"city": "Rome", "n": 1}, {"city": "Oslo", "n": True}):
        with pytest.raises(WaitIsOver):
            bench.reply(f"https://x/callbacks/{callback_token(head, 'ask')}", other)


@pytest.mark.parametrize("change", ["signature", "owner", "task", "key", "nonsense", "long"])
def test_a_forged_url_is_unknown(bench: DurableBench, change: str) -> None:
    task = bench.send(skill="pay")
    token = url_of(bench.wait_until_open(task["id"])).rpartition("/")[2]
    place, signature = token.split(".")
    owner, agent, task_id, key = json.loads(base64.urlsafe_b64decode(place + "=="))
    forged_places = {
        "owner": ["another", agent, task_id, key],
        "task": [owner, agent, str(uuid.uuid4()), key],
        "key": [owner, agent, task_id, "approval"],
    }
    if change in forged_places:
        place = base64.urlsafe_b64encode(json.dumps(forged_places[change]).encode()).decode().rstrip("=")
    text = {"signature": f"{place}.{signature[::-1]}", "nonsense": "é.é", "long": "A" * 3_000}
    with pytest.raises(RouteNotFound):
        bench.reply("https://x/callbacks/" + text.get(change, f"{place}.{signature}"), {})
    assert waits_of(bench.head(task["id"])) == ["payment"]


def test_a_wait_times_out(bench: DurableBench) -> None:
    task = bench.send('{"seconds": 1}', "pay")
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(result) == {"": "It was not paid in time."}


def test_a_large_reply_is_not_missed_by_a_run_that_continues_meanwhile(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply is stored in several writes, and the timeout comes between them."""
    append, load_head = Store.append, takeover.load_head_of_execution
    has_seen_reply = threading.Event()

    async def load_and_notice(*args: Any) -> Head | None:
        head = await load_head(*args)
        if head is not None and head.is_replying:
            has_seen_reply.set()
        return head

    def append_late(store: Store, head: Head, events: list[Event], *, after: int) -> int:
        if head.holder == REPLYING:
            assert has_seen_reply.wait(PATIENCE_SECONDS), "the run after the timeout has met the reply"
        return append(store, head, events, after=after)

    monkeypatch.setattr(takeover, "load_head_of_execution", load_and_notice)
    monkeypatch.setattr(Store, "append", append_late)
    task = bench.send('{"seconds": 8}', "cash")
    bench.wait_until_open(task["id"])
    bench.send("c" * 10_000, taskId=task["id"])
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert result["artifacts"][0]["parts"][-1]["data"]["said"] == "c" * 10_000


def test_a_large_reply_whose_process_died_can_be_sent_again(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the client, and to the wait's url."""
    append = Store.append

    def die(store: Store, head: Head, events: list[Event], *, after: int) -> int:
        if head.holder == REPLYING:
            raise Died
        return append(store, head, events, after=after)

    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    large = "O" * 10_000
    url = f"https://x/callbacks/{callback_token(bench.head(task['id']), 'ask')}"
    for reply in (
        lambda: bench.send(large, taskId=task["id"], identity=f"{task['id']} reply"),
        lambda: bench.reply(url, large),
    ):
        monkeypatch.setattr(Store, "append", die)
        with pytest.raises(Died):
            reply()
        monkeypatch.undo()
        head = bench.head(task["id"])
        assert head.state == TaskState.INPUT_REQUIRED
        bench.store.update_head(replace(head, lease=0.0))
    bench.send(large, taskId=task["id"], identity=f"{task['id']} reply")
    bench.wait(task["id"], lambda head: "nights" in json.dumps(head.status))
    bench.send("3", taskId=task["id"])
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(result) == {"": f"Well. 3 nights in {large}"}
    assert [text_of(each) for each in result["history"]][1:3] == ["Which city?", large]


def test_two_large_replies_are_both_kept(bench: DurableBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come before the turn continues."""
    task = bench.send(skill="two")
    bench.wait(task["id"], lambda head: head.execution is not None and len(head.execution.waits) == 2)
    head = bench.head(task["id"])
    monkeypatch.setattr(bench.executions, "wake", lambda _: None)
    for index, text in enumerate(("a" * 10_000, "b" * 10_000)):
        bench.reply(f"https://x/callbacks/{callback_token(head, f'parallel/{index}/{text[0]}')}", text)
    monkeypatch.undo()
    bench.sweep(task["id"])
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(result) == {"": "a" * 10_000 + "b" * 10_000}


def test_of_two_questions_the_first_one_stays(bench: DurableBench) -> None:
    task = bench.send(skill="two-questions")
    question = bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    assert text_of(question["status"]["message"]) == "a?"
    bench.send("A", taskId=task["id"])
    second = bench.wait(task["id"], lambda head: "b?" in json.dumps(head.status))
    assert second["status"]["state"] == TaskState.INPUT_REQUIRED
    bench.send("B", taskId=task["id"])
    assert texts(bench.wait_for(task["id"], TaskState.COMPLETED)) == {"": "A B"}


def test_a_wait_that_timed_out_takes_no_reply(bench: DurableBench) -> None:
    task = bench.send(skill="late")
    bench.wait(task["id"], lambda head: waits_of(head) == ["second"])
    head = bench.head(task["id"])
    with pytest.raises(WaitIsOver):
        bench.reply(f"https://x/callbacks/{callback_token(head, 'first')}", {})


def test_a_message_to_a_turn_that_pauses_is_refused_at_once(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.executions, "start", lambda _: "")
    task = bench.send(skill="nap")
    head = bench.head(task["id"])
    assert head.execution is not None
    bench.store.update_head(replace(head, execution=replace(head.execution, arn="x", is_suspended=True)))
    with pytest.raises(UnsupportedOperation, match="is paused"):
        bench.send("hurry", taskId=task["id"])


def test_a_client_that_can_name_no_task_begins_no_second_one_meanwhile(bench: DurableBench) -> None:
    """Alibaba's: what its user says while the task sleeps is refused. Other clients may have two tasks."""
    task = bench.send(skill="pay")
    bench.wait_until_open(task["id"])
    same: dict[str, Any] = {"contextId": task["contextId"], "metadata": intent("count")}
    with pytest.raises(UnsupportedOperation, match="a task in this conversation is paused"):
        bench.send("hello?", names_tasks=False, **same)
    assert bench.send("hello?", **same)["id"] != task["id"]
    other = bench.send("hello?", names_tasks=False, contextId="another", metadata=intent("count"))
    assert other["id"] != task["id"]


def test_a_client_that_can_name_no_task_begins_another_one_beside_a_turn_that_runs(
    bench: DurableBench,
) -> None:
    """Only a turn that sleeps would be forgotten by its user."""
    task = bench.send(skill="pay")
    bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    assert head.execution is not None
    bench.store.update_head(replace(head, execution=replace(head.execution, is_suspended=False)))
    same: dict[str, Any] = {"contextId": task["contextId"], "metadata": intent("count")}
    other = bench.send("hello?", names_tasks=False, **same)
    assert other["id"] != task["id"]
    bench.wait(other["id"], lambda head: head.is_stopped or head.is_suspended)


def test_a_client_that_can_name_no_task_ends_a_wait_that_takes_messages(bench: DurableBench) -> None:
    task = bench.send(skill="cash", names_tasks=False)
    bench.wait_until_open(task["id"])
    for _ in range(2):  # it comes twice
        again = bench.send("here", identity="same", names_tasks=False, contextId=task["contextId"])
        assert again["id"] == task["id"]
    task_at_end = bench.wait_for(task["id"], TaskState.COMPLETED)
    [data] = [part["data"] for part in task_at_end["artifacts"][0]["parts"] if "paid" in part.get("data", {})]
    assert (data["said"], data["by url"]) == ("here", False)
