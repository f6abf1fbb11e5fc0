"""Turns that outlive their request: queued, run once, taken over, swept, given up."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda.agent.agent import Agent
from a2a_lambda.background.worker import TURN_ATTEMPTS, Worker
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.errors import ConfigurationError, StoreError, UnsupportedOperation
from a2a_lambda.files.files import Files
from a2a_lambda.operations import messages
from a2a_lambda.operations.call_slots import CallSlots
from a2a_lambda.protocol.model import Json, Part, Task, TaskState
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.head import Head
from tests.background.worker_bench import WorkerBench
from tests.conftest import AGENTS
from tests.helpers.clock import until
from tests.helpers.rest import user_texts
from tests.processes.death import die_after_context, dying_before_write

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(settings: Settings) -> WorkerBench:
    return WorkerBench(settings)


def test_a_background_send_is_answered_at_once_and_runs_later(bench: WorkerBench) -> None:
    task = bench.send("client")
    assert task["status"]["state"] == TaskState.SUBMITTED
    assert len(task["history"]) == 1
    assert bench.get(task["id"])["status"]["state"] == TaskState.SUBMITTED
    assert bench.work() == 1
    result = bench.get(task["id"])
    assert result["status"]["state"] == TaskState.COMPLETED
    assert result["artifacts"][0]["parts"][0]["data"] == {
        "modes": ["text/plain"],
        "extensions": ["urn:x"],
        "metadata": {"around": 9007199254740993},
    }
    assert "asked" not in json.dumps(result)


def test_a_retry_queues_a_turn_that_may_not_have_been_queued(bench: WorkerBench) -> None:
    """It runs once."""
    bench.queue.broken = True
    first = bench.send("look", "same", contextId="retry")
    bench.queue.broken = False
    for _ in range(2):
        assert bench.send("look", "same", contextId="retry")["id"] == first["id"]
    assert bench.work() == 2
    assert bench.send("look", "same", contextId="retry")["status"]["state"] == TaskState.COMPLETED
    assert bench.work() == 0
    assert len(bench.store.get_context(bench.namespace, "retry").conversation) == 2


def test_a_turn_is_queued_even_if_its_webhook_cannot_be_stored(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise StoreError("no answer")

    call, request = bench.sent("echo")
    request["configuration"]["taskPushNotificationConfig"] = {"url": "https://example.com/hook"}
    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "put_push_config", fail)
        with pytest.raises(StoreError):
            asyncio.run(bench.messages.send(call, request))
    assert bench.work() == 1
    assert asyncio.run(bench.messages.send(call, request))["task"]["status"]["state"] == TaskState.COMPLETED


def test_a_message_delivered_twice_runs_once(bench: WorkerBench) -> None:
    task = bench.send("look", contextId="twice")
    bench.queue.waiting *= 3
    assert bench.work() == 3
    [part] = bench.get(task["id"])["artifacts"][0]["parts"]
    assert part["data"]["turns"] == 1
    again = bench.send("look", contextId="twice")
    bench.work()
    assert bench.get(again["id"])["artifacts"][0]["parts"][0]["data"]["turns"] == 2


def test_a_turn_of_an_agent_that_a_version_lacks_waits_for_another_version(bench: WorkerBench) -> None:
    """A deployment may be adding the agent."""
    task = bench.send("echo")
    [turn] = bench.queue.waiting
    old_version = Worker(bench.store, Agents.of(Agent.load(AGENTS / "plain")), files=Files())
    with pytest.raises(ConfigurationError, match="this version has no agent probe"):
        asyncio.run(old_version.run_turn(turn, None))
    assert bench.get(task["id"])["status"]["state"] == TaskState.SUBMITTED
    bench.work()
    assert bench.get(task["id"])["status"]["state"] == TaskState.COMPLETED
    other = bench.send("echo")
    asyncio.run(old_version.fail_turn(bench.queue.waiting[0]))
    assert bench.get(other["id"])["status"]["state"] == TaskState.FAILED


def test_a_turn_that_runs_is_left_alone(bench: WorkerBench) -> None:
    task = bench.send("echo")
    bench.died(task["id"])
    bench.clock.now -= 31  # it is not dead yet
    before = bench.head(task["id"])
    bench.work()
    assert bench.head(task["id"]) == before


def test_a_dead_workers_turn_is_taken_over(bench: WorkerBench) -> None:
    """What it had stored stays until its successor replaces it; nothing is there twice."""
    task = bench.send("echo", text="hi")
    bench.died(task["id"], said="half an ans")
    half = bench.get(task["id"])
    assert half["status"]["state"] == TaskState.WORKING
    assert half["artifacts"][0]["parts"] == [{"text": "half an ans"}]
    bench.work()
    result = bench.get(task["id"])
    assert result["status"]["state"] == TaskState.COMPLETED
    assert [artifact["parts"] for artifact in result["artifacts"]] == [[{"text": "hi"}]]
    head = bench.head(task["id"])
    numbers = [sequence for sequence, _ in bench.store.get_events(head)]
    assert numbers == sorted(set(numbers))


def test_what_a_dead_worker_left_and_its_successor_does_not_say_is_empty(bench: WorkerBench) -> None:
    task = bench.send("echo", text="hi")
    bench.died(task["id"], said="half an ans")
    head = bench.head(task["id"])
    artifact = {"artifactId": "artifact-2", "name": "report", "parts": [{"text": "a half-written rep"}]}
    update: Json = {"taskId": task["id"], "contextId": head.context_id, "artifact": artifact}
    _, last = bench.store.get_task(head)
    event: Json = {"artifactUpdate": update | {"append": False, "lastChunk": False}}
    bench.store.append(head, [event], after=last)
    bench.work()
    artifacts = bench.get(task["id"])["artifacts"]
    assert [artifact["parts"] for artifact in artifacts] == [[{"text": "hi"}], [{"text": ""}]]


def test_a_dead_workers_late_entry_does_not_show(bench: WorkerBench) -> None:
    task = bench.send("pause", slots={"seconds": "0"})
    bench.died(task["id"], said="old ")
    zombie = bench.head(task["id"])
    bench.work()
    result = bench.get(task["id"])
    last = bench.head(task["id"]).sequence
    with pytest.raises(StoreError):
        bench.store.append(zombie, [{"message": result["history"][0]}], after=last - 2)
    assert bench.get(task["id"]) == result


def test_a_dead_workers_turn_is_no_ones_while_it_waits(bench: WorkerBench) -> None:
    task = bench.send("echo")
    bench.died(task["id"], said="half")
    bench.clock.now += 60
    asyncio.run(bench.sweep.run())
    assert bench.get(task["id"])["status"]["state"] == TaskState.SUBMITTED
    bench.work()
    assert bench.get(task["id"])["status"]["state"] == TaskState.COMPLETED


def test_a_second_attempt_does_not_remember_the_first(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker died between the context's write and the head's."""
    asyncio.run(bench.worker.run_turn(bench.ticket(bench.send("echo", contextId="twice")["id"]), None))
    task = bench.send("recall", contextId="twice")
    with monkeypatch.context() as patch:
        die_after_context(patch)
        asyncio.run(bench.worker.run_turn(bench.ticket(task["id"]), None))
    assert bench.head(task["id"]).state == TaskState.WORKING
    turns = len(bench.store.get_context(bench.namespace, "twice").conversation)
    assert turns == 4
    bench.clock.now += 91
    asyncio.run(bench.worker.run_turn(bench.ticket(task["id"]), None))
    result = bench.get(task["id"])
    assert result["artifacts"][0]["parts"][0]["data"] == {"history": 2, "attempt": 2}
    assert len(bench.store.get_context(bench.namespace, "twice").conversation) == turns


def test_a_claim_meets_another_change(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A push config is set at the very moment the worker takes the turn."""
    task = bench.send("echo")
    update_head = bench.store.update_head

    def beaten(head: Head) -> Head:
        monkeypatch.setattr(bench.store, "update_head", update_head)
        update_head(replace(bench.head(task["id"]), push_config_ids=("hook",)))
        return update_head(head)

    monkeypatch.setattr(bench.store, "update_head", beaten)
    bench.work()
    assert bench.get(task["id"])["status"]["state"] == TaskState.COMPLETED


def test_the_third_death_ends_it(bench: WorkerBench) -> None:
    task = bench.send("echo")
    for _ in range(TURN_ATTEMPTS):
        bench.died(task["id"])
    bench.work()
    result = bench.get(task["id"])
    assert result["status"]["state"] == TaskState.FAILED
    assert "could not be run" in result["status"]["message"]["parts"][0]["text"]


def test_an_old_message_is_none_of_a_later_turns(bench: WorkerBench) -> None:
    question = bench.send("question")
    old = bench.ticket(question["id"])
    bench.work()
    task = bench.send("question", taskId=question["id"])
    asyncio.run(bench.worker.fail_turn(old))
    asyncio.run(bench.worker.run_turn(old, None))
    assert bench.get(question["id"])["status"]["state"] == TaskState.SUBMITTED
    bench.work()
    assert bench.get(task["id"])["status"]["state"] == TaskState.COMPLETED


def test_a_queued_task_can_be_canceled(bench: WorkerBench) -> None:
    task = bench.send("echo")
    canceled = asyncio.run(bench.service.cancel(bench.namespace, task["id"])).task
    assert canceled["status"]["state"] == TaskState.CANCELED
    bench.work()
    assert bench.get(task["id"]) == canceled


def test_a_question_continues_in_the_background(bench: WorkerBench) -> None:
    question = bench.send("add", slots={"a": "1"})
    bench.work()
    assert bench.get(question["id"])["status"]["state"] == TaskState.INPUT_REQUIRED
    call, request = bench.sent("echo", taskId=question["id"])
    del request["message"]["metadata"]
    request["message"]["parts"] = [Part(text="2")]
    asyncio.run(bench.messages.send(call, request))
    bench.work()
    task = bench.get(question["id"])
    assert task["artifacts"][0]["parts"] == [{"data": 3}]


def test_a_large_message_waits_in_the_log(bench: WorkerBench) -> None:
    task = bench.send("echo", parts=[Part(text="x" * 500_000)])
    bench.work()
    assert len(bench.get(task["id"])["artifacts"][0]["parts"][0]["text"]) == 500_000


def test_a_turn_whose_message_is_not_in_the_log_fails(bench: WorkerBench) -> None:
    """The table may have been restored from a backup."""
    task_id = bench.send("echo")["id"]
    head = bench.head(task_id)
    bench.store.update_head(replace(head, inline=()))
    assert bench.work() == 1
    head = bench.head(task_id)
    assert (head.state, head.requests) == (TaskState.FAILED, ())


def test_a_message_waits_for_the_worker_a_moment(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    question = bench.send("question")
    monkeypatch.setattr("a2a_lambda.operations.intake.TURN_WAIT_SECONDS", 0.5)
    with pytest.raises(UnsupportedOperation):
        bench.send("question", taskId=question["id"])
    monkeypatch.setattr("a2a_lambda.operations.intake.TURN_WAIT_SECONDS", 10.0)

    async def both() -> None:
        call, request = bench.sent("question", taskId=question["id"])
        answering = asyncio.create_task(bench.messages.send(call, request))
        await asyncio.sleep(0)
        await bench.worker.run_turn(bench.ticket(question["id"]), None)
        await answering

    asyncio.run(both())
    assert bench.ticket(question["id"]) in bench.queue.waiting


def test_a_send_without_a_slot_gets_the_task_that_is_queued(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its turn runs anyway. A refusal would make the client send it again."""
    monkeypatch.setattr(messages, "SLOTLESS_SEND_SECONDS", 0.1)
    probe = bench.agents["probe"]
    bench.agents._profiles["probe"] = replace(probe, card=probe.card.model_copy(update={"background": True}))
    slots = bench.messages._call_slots = CallSlots(bench.store, 1)
    call, request = bench.sent("echo")
    request["configuration"] = {"returnImmediately": False}

    async def send() -> Task:
        async with slots.hold(bench.namespace.owner):
            return (await bench.messages.send(call, request))["task"]

    task = asyncio.run(send())
    assert task["status"]["state"] == TaskState.SUBMITTED
    assert bench.work() == 1
    assert bench.get(task["id"])["status"]["state"] == TaskState.COMPLETED


def test_an_agent_may_be_background_itself(bench: WorkerBench) -> None:
    """The worker runs its streams, too, and the request follows them."""
    probe = bench.agents["probe"]
    background = probe.card.model_copy(update={"background": True})
    bench.agents._profiles["probe"] = replace(probe, card=background)
    call, request = bench.sent("pieces")
    request["configuration"] = {}

    async def stream() -> list[Any]:
        events = await bench.messages.stream(call, request)
        first = await anext(events)
        [ticket] = bench.queue.waiting
        work = asyncio.create_task(bench.worker.run_turn(ticket, None))
        rest = [event async for event in events]
        await work
        return [first, *rest]

    stream_events = asyncio.run(stream())
    assert stream_events[0][1]["task"]["status"]["state"] == TaskState.SUBMITTED
    texts = [
        part["text"]
        for _, event in stream_events
        if "artifactUpdate" in event
        for part in event["artifactUpdate"]["artifact"]["parts"]
    ]
    assert "".join(texts).startswith("0 1 2 ")
    assert stream_events[-1][1]["statusUpdate"]["status"]["state"] == TaskState.COMPLETED
    numbers = [sequence for sequence, _ in stream_events if sequence is not None]
    assert numbers == sorted(numbers)


def test_a_cancel_reaches_the_worker(bench: WorkerBench) -> None:
    """When it next looks at the head, its run is over, and so is the agent's code."""
    task = bench.send("pause", slots={"seconds": "600"})

    async def go() -> None:
        work = asyncio.create_task(bench.worker.run_turn(bench.ticket(task["id"]), None))
        await until(lambda: bench.head(task["id"]).state == TaskState.WORKING)
        await bench.service.cancel(bench.namespace, task["id"])
        await asyncio.wait_for(work, 60)

    asyncio.run(go())
    assert bench.get(task["id"])["status"]["state"] == TaskState.CANCELED


@pytest.mark.parametrize("write", [1, 2, 3])
def test_a_large_reply_whose_process_dies_leaves_the_question(bench: WorkerBench, write: int) -> None:
    """The process dies before it has stored the question, the message or the claim. The client sends the
    reply again."""
    task_id = bench.send("question", parts=[Part(text="FIRST")])["id"]
    bench.work()
    question = bench.get(task_id)
    call, request = bench.sent("question", taskId=task_id, parts=[Part(text="x" * 5_000)])
    with dying_before_write(write, bench.store):
        asyncio.run(bench.messages.send(call, request))
    assert bench.work() == 0
    bench.clock.now += 3600
    asyncio.run(bench.sweep.look_at(bench.namespace, task_id, int(bench.clock()) // 60))
    assert bench.get(task_id) == question
    asyncio.run(bench.messages.send(call, request))
    assert bench.work() == 1
    task = bench.get(task_id)
    assert task["status"]["state"] == TaskState.COMPLETED
    assert user_texts(task) == ["FIRST", "x" * 5_000]
