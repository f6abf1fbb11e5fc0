"""Durable turns on AWS's SDK, against AWS's own emulation of durable executions: suspended, resumed,
answered, canceled, run again."""

import asyncio
import base64
import json
import shutil
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import aclosing, suppress
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda.agent.agent import Agent
from a2a_lambda.agent.agents import Agents
from a2a_lambda.aws import clients
from a2a_lambda.aws.executions import LambdaExecutions
from a2a_lambda.aws.queue import QueuedTurn
from a2a_lambda.durable.engine import Keys
from a2a_lambda.errors import (
    NotWaiting,
    RouteNotFound,
    StoreError,
    Unavailable,
    UnsupportedOperation,
    WaitIsOver,
)
from a2a_lambda.lambda_ import durable, sdk_engine
from a2a_lambda.lambda_.durable import DurableHandler
from a2a_lambda.operations import callbacks
from a2a_lambda.operations.callbacks import Callbacks
from a2a_lambda.operations.service import Service
from a2a_lambda.protocol.model import Event, Json, Message, Part, Role, Task, TaskState
from a2a_lambda.protocol.requests import Recipient, SendMessageConfiguration, SendMessageRequest
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.call_context import CallContext
from a2a_lambda.tasks.callback import callback_token
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import RequestIdentity, Scope
from a2a_lambda.turns.durable import RUN_ATTEMPTS, DurableTurns
from a2a_lambda.turns.suspension import REPLYING
from a2a_lambda.turns.worker import Worker
from a2a_lambda.wire import alibaba, qianfan, v0_1, v0_3, v0_3_http, v1_0
from tests.conftest import AGENTS, DAY, ROOT
from tests.helpers.rpc import intent
from tests.turns.test_worker import Line
from tools import template
from tools.dev import emulator, event_sources

MOST_WRITES = 40
"""Writes to the table in a trip, those of its two messages included."""

SECONDS = 30
"""More than any of these tests takes on a busy machine."""


@pytest.fixture(scope="module")
def durable_settings() -> Iterator[Settings]:
    """With an emulator in which a pause takes a fifth of a second at most."""
    with emulator.running(longest_pause="0.2") as url:
        made = Settings(
            table="durable",
            agents=AGENTS,
            base_url="https://agents.example.com",
            durable_function="durable:live",
            execution_timeout=30 * DAY,
            local=True,
            emulator=url,
        )
        template.create_table(clients.dynamodb(made), made.table, ROOT / "template.yaml")
        yield made


class Bench:
    """A deployment: its function is run in threads of this process, or elsewhere."""

    def __init__(self, settings: Settings, *, serves: bool = True) -> None:
        self.agents = Agents.of(Agent.load(AGENTS / "traveler"))
        self.scope = Scope(f"owner-{uuid.uuid4()}", "traveler")
        self.table = clients.dynamodb(settings)
        self.store = Store(self.table, settings.table, ttl=30 * DAY)
        self.executions = LambdaExecutions(lambda: clients.lambda_(settings), settings.durable_function)
        self.turns = DurableTurns(self.store, self.agents, self.executions)
        self.service = Service(
            self.store,
            self.agents,
            repeat_seconds=60,
            durable=self.turns,
            durable_seconds=settings.execution_timeout,
        )
        self.callbacks = Callbacks(self.store, self.turns)
        self.numbers: list[int] = []
        self.worker = Worker(self.store, self.agents, Line(), self.turns)
        self.client = clients.lambda_(settings)
        self.handler = DurableHandler(self.turns, self.client)
        self.runs: list[Json] = []
        if serves:
            event_sources.serve_runs(self.run, settings.emulator)

    def run(self, event: Json, context: Any) -> Json:
        answer = self.handler(event, context)
        self.runs.append(answer)
        return answer

    @property
    def calls(self) -> Any:
        """How often each step of the agent ran."""
        return self.agents.load("traveler").skills["now"].function.__globals__["CALLS"]

    def send(
        self,
        text: str = "",
        skill: str = "plan-trip",
        identity: str = "",
        *,
        names_tasks: bool = True,
        **fields: Any,
    ) -> Task:
        said = Message(messageId="m", role=Role.USER, parts=[Part(text=text)])
        if "taskId" not in fields and "contextId" not in fields:
            said["metadata"] = intent(skill)
        said.update(fields)  # type: ignore[typeddict-item]
        request = SendMessageRequest(
            message=said, configuration=SendMessageConfiguration(returnImmediately=True)
        )
        body = (identity or str(uuid.uuid4())).encode()
        same = RequestIdentity.of(self.scope, "send", body)
        url = "https://agents.example.com"
        call = CallContext(self.scope, same, wire_name="1.0", url=url, names_tasks=names_tasks)
        return asyncio.run(self.service.send(call, request))["task"]

    def get(self, task_id: str) -> Task:
        return asyncio.run(self.service.get(self.scope, task_id)).task

    def head(self, task_id: str) -> Head:
        head = self.store.get_head(self.scope, task_id)
        assert head is not None
        return head

    def wait(self, task_id: str, until: Callable[[Head], bool]) -> Task:
        """The task, after its head is as wanted."""
        give_up_at = time.monotonic() + SECONDS
        while not until(self.head(task_id)):
            assert time.monotonic() < give_up_at, (self.head(task_id), self.runs)
            time.sleep(0.02)
        return self.get(task_id)

    def wait_for(self, task_id: str, state: TaskState) -> Task:
        return self.wait(task_id, lambda head: head.state == state)

    def wait_for_runs(self, count: int) -> None:
        """Wait until the function has run so often; it has not run more often."""
        give_up_at = time.monotonic() + SECONDS
        while len(self.runs) < count:
            assert time.monotonic() < give_up_at, self.runs
            time.sleep(0.02)
        assert len(self.runs) == count

    def follow(self, task_id: str, *, after: int = 0, stop_after: int = 1_000) -> list[Event]:
        """Events of a task as a client that subscribes has them for good: up to the last number. `numbers`
        has the numbers."""

        async def follow() -> list[Event]:
            subscription = await self.service.subscribe(self.scope, task_id, after=after, deadline=None)
            self.numbers = []
            followed: list[Event] = []
            kept = 0
            async with aclosing(subscription.events) as events:
                async for number, event in events:
                    followed.append(event)
                    if number is not None:
                        self.numbers.append(number)
                        kept = len(followed)
                    if len(self.numbers) == stop_after:
                        break
            return followed[:kept]

        return asyncio.run(follow())

    def reply(self, url: str, data: Json) -> None:
        """What another system sends to a wait."""
        asyncio.run(self.callbacks.reply(self.callbacks.read_token(url.rpartition("/")[2]), data))

    def sweep(self, task_id: str) -> None:
        """A sweep, when the task is due."""
        head = self.head(task_id)
        self.store.update_head(replace(head, due=int(self.store.clock()) // 60))
        minute = int(self.store.clock()) // 60
        with suppress(Conflict):  # the turn continues already
            asyncio.run(self.worker._sweep_task(self.scope, task_id, minute))

    def wait_until_open(self, task_id: str) -> Task:
        """The task, after its turn waits for a reply."""
        return self.wait(task_id, lambda head: bool(waits_of(head)))


@pytest.fixture
def bench(durable_settings: Settings) -> Iterator[Bench]:
    bench = Bench(durable_settings)
    yield bench
    bench.calls.clear()


def waits_of(head: Head) -> list[str]:
    """Keys of the waits of a turn that is suspended."""
    execution = head.execution
    return [wait["key"] for wait in execution["waits"]] if execution and execution["is_suspended"] else []


def texts(task: Task) -> dict[str, str]:
    """Texts of the artifacts by name."""
    return {
        each.get("name", ""): "".join(part.get("text", "") for part in each["parts"])
        for each in task.get("artifacts", [])
    }


def test_a_trip_sleeps_asks_and_books(bench: Bench) -> None:
    task = bench.send("Oslo")
    assert task["status"]["state"] == TaskState.SUBMITTED
    asked = bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    assert asked["status"]["message"]["parts"] == [{"text": "Shall I book it?"}]
    assert texts(asked) == {"": "A plan for Oslo. 3 nights. "}
    answered = bench.send("yes", taskId=task["id"])
    assert answered["id"] == task["id"]
    done = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(done) == {
        "": "A plan for Oslo. 3 nights. Booked.",
        "report": "hotel in Oslo, train in Oslo, table in Oslo",
    }
    assert [text_of(each) for each in done["history"]] == ["Oslo", "Shall I book it?", "yes"]
    assert bench.calls == {"plan": 1, "hotel": 1, "train": 1, "table": 1}
    context = bench.store.get_context(bench.scope, task["contextId"])
    assert context.memory == {"city": "Oslo"}
    assert context.waiting == ""


def text_of(message: Message) -> str:
    return "".join(part.get("text", "") for part in message["parts"])


def test_nothing_is_sent_twice(bench: Bench) -> None:
    """A follower gets each output once, in order, across three pauses and four runs."""
    task = bench.send(skill="nap")
    events = bench.follow(task["id"])
    said = [part["text"] for event in events for part in parts_of(event)]
    assert "".join(said) == "1 2 3 awake"
    assert events[-1]["statusUpdate"]["status"]["state"] == TaskState.COMPLETED
    assert bench.numbers == sorted(set(bench.numbers))
    bench.wait_for_runs(4)
    assert [answer["Status"] for answer in bench.runs] == ["PENDING"] * 3 + ["SUCCEEDED"]
    assert not any({"mark", "context", "callback", "asked"} & event.keys() for event in events)


def test_a_client_that_disconnects_twice_misses_nothing(bench: Bench) -> None:
    task = bench.send("Oslo")
    first = bench.follow(task["id"], stop_after=2)
    asked = bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    second = bench.follow(task["id"], after=bench.numbers[-1])
    assert second[-1]["statusUpdate"]["status"] == asked["status"]
    last = bench.numbers[-1]
    bench.send("yes", taskId=task["id"])
    third = bench.follow(task["id"], after=last)
    said = [part["text"] for event in first + second + third for part in parts_of(event)]
    assert "".join(said) == ("A plan for Oslo. 3 nights. hotel in Oslo, train in Oslo, table in OsloBooked.")


def test_a_replay_contains_the_question(bench: Bench) -> None:
    """For a client that was away when it was asked, and answered."""
    task = bench.send("Oslo")
    bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    bench.send("yes", taskId=task["id"])
    bench.wait_for(task["id"], TaskState.COMPLETED)
    events = bench.follow(task["id"], after=1)
    statuses = [event for event in events if "statusUpdate" in event]
    [asked] = [event for event in statuses if event.get("past")]
    assert text_of(asked["statusUpdate"]["status"]["message"]) == "Shall I book it?"
    assert asked is not statuses[-1]
    for wire in (v0_1.WIRE, v0_3.WIRE, v0_3_http.WIRE, v1_0.WIRE, alibaba.WIRE, qianfan.WIRE):
        frames = wire.encode_event(asked, Recipient())
        assert len(frames) == (wire.name not in ("alibaba", "qianfan"))
        assert not any('"final": true' in json.dumps(frame) or "past" in frame for frame in frames)


def test_a_plain_skill_of_the_agent_answers_in_its_request(bench: Bench) -> None:
    done = bench.send("hi", "now")
    assert (done["status"]["state"], texts(done)) == (TaskState.COMPLETED, {"": "at once: hi"})
    assert not bench.runs


def test_a_plain_skill_in_a_durable_run_is_as_everywhere(bench: Bench) -> None:
    """A router may choose any skill, so a durable execution runs the turn."""
    profile = bench.agents["traveler"]
    bench.agents._profiles["traveler"] = replace(profile, default_skill="")
    task = bench.send("hi", metadata={})
    assert task["status"]["state"] == TaskState.SUBMITTED
    bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)  # it was the default skill after all


def test_a_plain_question_of_the_agent_is_answered_in_its_request(bench: Bench) -> None:
    """The skill that asked is known, and is not durable; the agent's default skill is."""
    asked = bench.send(skill="name")
    assert asked["status"]["state"] == TaskState.INPUT_REQUIRED
    done = bench.send("Ann", contextId=asked["contextId"])
    assert (done["id"], texts(done)) == (asked["id"], {"": "Hello, Ann"})
    assert not bench.runs


def test_questions_that_are_yielded_are_answered_within_the_turn(bench: Bench) -> None:
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    second = bench.send("Oslo", contextId=task["contextId"])
    assert second["id"] == task["id"]
    asked = bench.wait(task["id"], lambda head: "nights" in json.dumps(head.status))
    assert asked["status"]["state"] == TaskState.INPUT_REQUIRED
    bench.send("3", taskId=task["id"])
    done = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(done) == {"": "Well. 3 nights in Oslo"}
    assert [text_of(each) for each in done["history"]] == [
        "",
        "Which city?",
        "Oslo",
        "How many nights?",
        "3",
    ]


def test_a_retried_reply_counts_once(bench: Bench) -> None:
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    for _ in range(2):
        bench.send("Oslo", taskId=task["id"], identity=f"{task['id']} reply")
    asked = bench.wait(task["id"], lambda head: "nights" in json.dumps(head.status))
    assert [text_of(each) for each in asked["history"]] == ["", "Which city?", "Oslo"]


def test_a_reply_that_is_too_large_for_the_head_arrives_whole(bench: Bench) -> None:
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    bench.send("O" * 10_000, taskId=task["id"])
    bench.wait(task["id"], lambda head: "nights" in json.dumps(head.status))
    bench.send("3", taskId=task["id"])
    done = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(done)[""].endswith("in " + "O" * 10_000)


def test_another_system_ends_a_wait(bench: Bench) -> None:
    task = bench.send(skill="pay")
    working = bench.wait_until_open(task["id"])
    assert working["status"]["state"] == TaskState.WORKING
    url = url_of(working)
    assert url.startswith("https://agents.example.com/callbacks/")
    bench.reply(url, {"amount": 9007199254740993})
    done = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert done["artifacts"][0]["parts"][-1]["data"] == {"paid": [{"amount": 9007199254740993}]}
    with pytest.raises(RouteNotFound):  # its turn is over
        bench.reply(url, {})


def test_a_client_cannot_reply_in_the_place_of_another_system(bench: Bench) -> None:
    """Neither by its words, nor by data that look like a payment."""
    task = bench.send(skill="pay")
    working = bench.wait_until_open(task["id"])
    forged: Part = {"data": {"amount": 12}}
    for parts in ([Part(text="hi")], [forged]):
        with pytest.raises(UnsupportedOperation, match="pauses or waits for another system"):
            bench.send(taskId=task["id"], parts=parts)
    assert waits_of(bench.head(task["id"])) == ["payment"]
    bench.reply(url_of(working), {"amount": 3})
    done = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert done["artifacts"][0]["parts"][-1]["data"] == {"paid": [{"amount": 3}]}


def test_a_wait_of_an_earlier_release_takes_no_message(bench: Bench) -> None:
    """Its head does not say who may end it."""
    task = bench.send(skill="cash")
    bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    assert head.execution is not None
    del head.execution["waits"][0]["takes_messages"]
    bench.store.update_head(head)
    with pytest.raises(UnsupportedOperation):
        bench.send("hi", taskId=task["id"])


@pytest.mark.parametrize("by_url", [False, True])
def test_a_message_ends_a_wait_that_takes_messages(bench: Bench, by_url: bool) -> None:
    task = bench.send(skill="cash")
    working = bench.wait_until_open(task["id"])
    if by_url:
        bench.reply(url_of(working), 3)
    else:
        bench.send("cash", taskId=task["id"])
    done = bench.wait_for(task["id"], TaskState.COMPLETED)
    paid = {"paid": [3], "said": "", "by url": True}
    assert done["artifacts"][0]["parts"][-1]["data"] == (
        paid if by_url else {"paid": [], "said": "cash", "by url": False}
    )


def test_a_reply_may_come_a_moment_too_early(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    task = bench.send(skill="pay")
    working = bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    assert head.execution is not None
    bench.store.update_head(replace(head, execution={**head.execution, "is_suspended": False}))
    replying = threading.Thread(target=bench.reply, args=(url_of(working), {"amount": 3}))
    replying.start()
    bench.store.update_head(replace(bench.head(task["id"]), execution=head.execution))
    replying.join()
    assert bench.wait_for(task["id"], TaskState.COMPLETED)


def test_a_reply_that_no_turn_waits_for_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "EARLY_SECONDS", 0.0)
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    with pytest.raises(NotWaiting):
        bench.reply(f"https://x/callbacks/{callback_token(head, 'other')}", {})
    bench.reply(f"https://x/callbacks/{callback_token(head, 'ask')}", {"city": "Oslo"})
    with pytest.raises(WaitIsOver):
        bench.reply(f"https://x/callbacks/{callback_token(head, 'ask')}", {"city": "Rome"})


@pytest.mark.parametrize("change", ["signature", "owner", "task", "key", "nonsense", "long"])
def test_a_forged_url_is_unknown(bench: Bench, change: str) -> None:
    task = bench.send(skill="pay")
    token = url_of(bench.wait_until_open(task["id"])).rpartition("/")[2]
    place, signature = token.split(".")
    owner, agent, task_id, key = json.loads(base64.urlsafe_b64decode(place + "=="))
    forged = {
        "owner": ["another", agent, task_id, key],
        "task": [owner, agent, str(uuid.uuid4()), key],
        "key": [owner, agent, task_id, "approval"],
    }
    if change in forged:
        place = base64.urlsafe_b64encode(json.dumps(forged[change]).encode()).decode().rstrip("=")
    text = {"signature": f"{place}.{signature[::-1]}", "nonsense": "é.é", "long": "A" * 3_000}
    with pytest.raises(RouteNotFound):
        bench.reply("https://x/callbacks/" + text.get(change, f"{place}.{signature}"), {})
    assert waits_of(bench.head(task["id"])) == ["payment"]


def test_a_wait_times_out(bench: Bench) -> None:
    task = bench.send('{"seconds": 1}', "pay")
    done = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(done) == {"": "It was not paid in time."}


def test_a_step_is_tried_again_and_its_failure_ends_the_turn(bench: Bench) -> None:
    task = bench.send(skill="fail")
    failed = bench.wait_for(task["id"], TaskState.FAILED)
    assert text_of(failed["status"]["message"]) == "The agent could not finish this request."
    assert bench.calls["boom"] == 2
    caught = bench.send('{"how": "catch"}', "fail")
    assert texts(bench.wait_for(caught["id"], TaskState.COMPLETED)) == {"": "caught OSError"}
    refused = bench.send('{"how": "refuse"}', "fail")
    done = bench.wait_for(refused["id"], TaskState.FAILED)
    assert text_of(done["status"]["message"]) == "The client may read this."


def test_code_that_a_replay_cannot_repeat_fails_clearly(bench: Bench) -> None:
    task = bench.send(skill="drift")
    failed = bench.wait_for(task["id"], TaskState.FAILED)
    assert "it puts out something else than before" in text_of(failed["status"]["message"])


def test_a_canceled_turn_that_is_suspended_never_continues(bench: Bench) -> None:
    task = bench.send("Oslo")
    asked = bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    execution = bench.head(task["id"]).execution
    assert execution is not None
    canceled = asyncio.run(bench.service.cancel(bench.scope, task["id"])).task
    assert canceled["status"]["state"] == TaskState.CANCELED
    assert not bench.executions.is_running(execution["arn"])
    with pytest.raises(UnsupportedOperation):
        bench.send("yes", taskId=asked["id"])
    assert bench.calls == {"plan": 1}


def test_a_canceled_turn_that_runs_ends_within_seconds(bench: Bench) -> None:
    task = bench.send(skill="stall")
    bench.wait(task["id"], lambda _: bool(bench.calls["stall"]))
    asyncio.run(bench.service.cancel(bench.scope, task["id"]))
    give_up_at = time.monotonic() + SECONDS
    while not bench.calls["stalled"]:
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


def test_the_memory_is_as_the_turn_first_saw_it(bench: Bench) -> None:
    """Another turn changes it while the first one waits."""
    first = bench.send(skill="remember")
    bench.wait_until_open(first["id"])
    second = bench.send(contextId=first["contextId"], metadata=intent("learn"))
    bench.wait_for(second["id"], TaskState.COMPLETED)
    bench.send("go on", taskId=first["id"])
    done = bench.wait_for(first["id"], TaskState.COMPLETED)
    assert texts(done) == {"": "None None"}
    memory = bench.store.get_context(bench.scope, first["contextId"]).memory
    assert memory == {"learned": "much", "remembered": 1}


def test_a_turn_is_started_once(bench: Bench) -> None:
    task = bench.send(skill="pay")
    head = bench.wait_until_open(task["id"]) and bench.head(task["id"])
    arn = bench.executions.start(QueuedTurn.of(head))
    assert head.execution is not None
    assert arn == head.execution["arn"]
    # An execution that is not the turn's finds nothing to do.
    asyncio.run(bench.turns.run(QueuedTurn.of(head), "arn:another", no_engine, None))
    assert bench.head(task["id"]) == head


def test_a_message_whose_execution_was_not_started_is_started_by_the_sweep(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.executions, "start", unreachable)
    task = bench.send(skill="nap")
    monkeypatch.undo()
    assert bench.get(task["id"])["status"]["state"] == TaskState.SUBMITTED
    bench.sweep(task["id"])
    assert bench.wait_for(task["id"], TaskState.COMPLETED)


def test_a_reply_whose_turn_was_not_woken_is_delivered_by_the_sweep(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    monkeypatch.setattr(bench.executions, "wake", unreachable)
    bench.send("Oslo", taskId=task["id"])
    monkeypatch.undo()
    assert bench.get(task["id"])["status"]["state"] == TaskState.WORKING
    bench.sweep(task["id"])
    assert bench.wait(task["id"], lambda head: "nights" in json.dumps(head.status))


@pytest.mark.parametrize("skill", ["pay", "ask"])
def test_a_turn_whose_function_was_removed_fails(bench: Bench, skill: str) -> None:
    """ExecutionTimeout became 0, or its function was deleted by hand: the task does not work for ever."""
    task = bench.send(skill=skill)
    bench.wait_until_open(task["id"])
    head = bench.store.update_head(replace(bench.head(task["id"]), due=0))
    without = Worker(bench.store, bench.worker._agents, bench.worker._queue)
    asyncio.run(without._sweep_task(bench.scope, task["id"], int(bench.store.clock()) // 60))
    assert bench.get(task["id"])["status"]["state"] == TaskState.FAILED
    assert head.execution is not None
    assert bench.head(task["id"]).execution is None
    bench.executions.stop(head.execution["arn"])


def test_a_turn_whose_execution_is_gone_fails(bench: Bench) -> None:
    task = bench.send(skill="pay")
    bench.wait_until_open(task["id"])
    execution = bench.head(task["id"]).execution
    assert execution is not None
    bench.sweep(task["id"])
    assert bench.get(task["id"])["status"]["state"] == TaskState.WORKING  # it only waits
    bench.executions.stop(execution["arn"])
    bench.sweep(task["id"])
    assert bench.get(task["id"])["status"]["state"] == TaskState.FAILED


def test_a_stopped_execution_ends_its_task_even_if_it_asked(bench: Bench) -> None:
    """AWS reports the end of an execution as an event."""
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    assert head.execution is not None
    bench.executions.stop(head.execution["arn"])
    asyncio.run(bench.worker.end_execution(head.execution["arn"]))
    failed = bench.get(task["id"])
    assert failed["status"]["state"] == TaskState.FAILED
    assert [text_of(each) for each in failed["history"]] == ["", "Which city?"]


def test_the_task_outlives_its_longest_wait(bench: Bench) -> None:
    task = bench.send(skill="pay")
    head = bench.wait_until_open(task["id"]) and bench.head(task["id"])
    assert head.expires - head.created == pytest.approx(60 * DAY, abs=2)


def test_a_deployment_without_durable_functions_says_so(bench: Bench) -> None:
    plain = Service(bench.store, bench.agents, repeat_seconds=60)
    bench.service = plain
    with pytest.raises(Unavailable, match="does not run this agent's long tasks"):
        bench.send("Oslo")
    assert texts(bench.send("hi", "now")) == {"": "at once: hi"}


def no_engine(*_: Any) -> Any:
    raise AssertionError("the turn must not run")


def unreachable(*_: Any) -> str:
    raise StoreError("Lambda does not answer")


def parts_of(event: Event) -> list[Part]:
    return event["artifactUpdate"]["artifact"]["parts"] if "artifactUpdate" in event else []


def url_of(task: Task) -> str:
    url = task["artifacts"][0]["parts"][0]["data"]["pay at"]
    assert isinstance(url, str)
    return url


def test_clients_see_steps_pauses_and_waits(bench: Bench) -> None:
    task = bench.send("Oslo")
    asked = bench.follow(task["id"])
    bench.send("yes", taskId=task["id"])
    booked = bench.follow(task["id"], after=bench.numbers[-1])
    assert operations(asked) == [
        "step plan started",
        "step plan ended",
        "sleep sleep started",
        "sleep sleep ended",
        "wait approval started",
    ]
    first, *rest = operations(booked)
    assert first == "wait approval ended"
    names = ("hotel", "train", "table")
    assert sorted(rest) == sorted(f"step {name} {state}" for name in names for state in ("started", "ended"))


def operations(events: list[Event]) -> list[str]:
    found = [
        event["statusUpdate"].get("metadata", {}).get("operation")
        for event in events
        if "statusUpdate" in event
    ]
    return [f"{each['kind']} {each['name']} {each['state']}" for each in found if each]


def test_what_a_trip_takes(durable_settings: Settings) -> None:
    """The figures of docs/long-running.md."""
    writes, operations = [], Counter[str]()

    def count(params: Json, **_: Any) -> None:
        updates = json.loads(params["body"])["Updates"]
        operations.update(each["Type"] for each in updates if each["Action"] == "START")

    bench = Bench(durable_settings)
    bench.client.meta.events.register("before-call.lambda.CheckpointDurableExecution", count)
    bench.table.meta.events.register("before-call.dynamodb.PutItem", lambda **_: writes.append(1))
    task = bench.send("Oslo")
    bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    bench.send("yes", taskId=task["id"])
    bench.wait_for(task["id"], TaskState.COMPLETED)
    assert operations == {"STEP": 4, "WAIT": 1, "CALLBACK": 1, "CONTEXT": 1}
    bench.wait_for_runs(3)
    print(f"\na trip: {operations.total() + 1} operations, 3 runs, {len(writes)} writes")
    assert len(writes) <= MOST_WRITES
    bench.calls.clear()


def test_a_turn_whose_code_was_changed_fails_clearly(bench: Bench, tmp_path: Path) -> None:
    """As under make run: on AWS a turn stays on its version."""
    task = bench.send(skill="remember")
    bench.wait_until_open(task["id"])
    place = tmp_path / "traveler"
    shutil.copytree(AGENTS / "traveler", place)
    code = (place / "agent.py").read_text()
    wait = 'await turn.wait_for("go", messages=True)'
    (place / "agent.py").write_text(code.replace(wait, 'await turn.step("go", int)'))
    changed: Future[Agent | str] = Future()
    changed.set_result(Agent.load(place))
    bench.agents._loading["traveler"] = changed
    bench.send("go on", taskId=task["id"])
    failed = bench.wait_for(task["id"], TaskState.FAILED)
    assert "its agent was changed" in text_of(failed["status"]["message"])


def test_a_step_that_begins_late_moves_to_the_next_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function has little time left when the second step begins."""
    left = chain([800, 800, 100], repeat(800))  # the first step asks twice
    monkeypatch.setattr(sdk_engine.SdkRun, "time_left", property(lambda _: next(left)))
    task = bench.send(skill="count")
    bench.wait_for(task["id"], TaskState.COMPLETED)
    assert bench.calls == {"a": 1, "b": 1, "c": 1}
    bench.wait_for_runs(5)  # one for each of three pauses, one for the second step, and the first


def test_a_step_that_takes_longer_than_its_function_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function has a second for it, twice."""
    seconds = durable.RUN_END_MARGIN_SECONDS + sdk_engine.STEP_END_MARGIN_SECONDS + 1
    monkeypatch.setattr(event_sources.Context, "get_remaining_time_in_millis", lambda _: int(seconds * 1000))
    task = bench.send(skill="slow")
    done = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(done) == {"": "TimeoutError"}
    assert bench.calls["slow"] == 2


def test_a_task_of_a_process_that_dies_each_time_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    task = bench.send(skill="pay")
    bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    bench.store.update_head(replace(head, attempts=RUN_ATTEMPTS))
    assert head.execution is not None
    claim = bench.turns.run(QueuedTurn.of(head), head.execution["arn"], no_engine, None)
    asyncio.run(claim)
    failed = bench.get(task["id"])
    assert text_of(failed["status"]["message"]) == "This turn could not be run to its end."


class Died(BaseException):
    """The process of a client's reply."""


def test_a_large_reply_is_not_missed_by_a_run_that_continues_meanwhile(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply is in the head's write and in the log's. The timeout comes between them."""
    append = Store.append

    def append_late(store: Store, head: Head, events: list[Event], *, after: int) -> int:
        if head.holder == REPLYING:
            time.sleep(1.5)
        return append(store, head, events, after=after)

    monkeypatch.setattr(Store, "append", append_late)
    task = bench.send('{"seconds": 1}', "cash")
    bench.wait_until_open(task["id"])
    bench.send("c" * 10_000, taskId=task["id"])
    done = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert done["artifacts"][0]["parts"][-1]["data"]["said"] == "c" * 10_000


def test_a_large_reply_whose_process_died_can_be_sent_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
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
    done = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(done) == {"": f"Well. 3 nights in {large}"}
    assert [text_of(each) for each in done["history"]][1:3] == ["Which city?", large]


def test_two_large_replies_are_both_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come before the turn continues."""
    task = bench.send(skill="two")
    bench.wait(task["id"], lambda head: head.execution is not None and len(head.execution["waits"]) == 2)
    head = bench.head(task["id"])
    monkeypatch.setattr(bench.executions, "wake", lambda _: None)
    for index, text in enumerate(("a" * 10_000, "b" * 10_000)):
        bench.reply(f"https://x/callbacks/{callback_token(head, f'parallel/{index}/{text[0]}')}", text)
    monkeypatch.undo()
    bench.sweep(task["id"])
    done = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(done) == {"": "a" * 10_000 + "b" * 10_000}


def test_of_two_questions_the_first_one_stays(bench: Bench) -> None:
    task = bench.send(skill="two-questions")
    asked = bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    assert text_of(asked["status"]["message"]) == "a?"
    bench.send("A", taskId=task["id"])
    second = bench.wait(task["id"], lambda head: "b?" in json.dumps(head.status))
    assert second["status"]["state"] == TaskState.INPUT_REQUIRED
    bench.send("B", taskId=task["id"])
    assert texts(bench.wait_for(task["id"], TaskState.COMPLETED)) == {"": "A B"}


def test_a_step_that_cancels_itself_fails(bench: Bench) -> None:
    task = bench.send(skill="self-cancel")
    done = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(done) == {"": "InterruptedError"}
    assert bench.calls["self-cancel"] == 1


def test_a_cancel_reaches_parallel_steps(bench: Bench) -> None:
    task = bench.send(skill="crowd")
    bench.wait(task["id"], lambda _: bench.calls["stall"] == 2)
    asyncio.run(bench.service.cancel(bench.scope, task["id"]))
    give_up_at = time.monotonic() + SECONDS
    while bench.calls["stalled"] < 2:
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


def test_a_question_whose_execution_is_gone_fails_by_the_sweep(bench: Bench) -> None:
    """The event that says so may be lost."""
    task = bench.send(skill="ask")
    bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    assert head.execution is not None
    bench.executions.stop(head.execution["arn"])
    bench.store.update_head(replace(head, due=int(bench.store.clock()) // 60))
    asyncio.run(bench.worker.sweep())
    assert bench.get(task["id"])["status"]["state"] == TaskState.FAILED


def test_an_execution_that_ended_before_its_first_run_ends_its_task(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.turns, "run", unreachable)
    monkeypatch.setattr(bench.executions, "is_running", lambda _: False)
    task = bench.send(skill="nap")
    bench.sweep(task["id"])
    assert bench.get(task["id"])["status"]["state"] == TaskState.FAILED


def test_a_turn_pauses_after_its_branches(bench: Bench) -> None:
    task = bench.send(skill="pair")
    assert texts(bench.wait_for(task["id"], TaskState.COMPLETED)) == {"": "12"}


def test_an_operation_after_a_canceled_one_is_a_mistake(bench: Bench) -> None:
    task = bench.send(skill="hasty")
    failed = bench.wait_for(task["id"], TaskState.FAILED)
    assert text_of(failed["status"]["message"]) == "The agent could not finish this request."


def test_a_wait_that_timed_out_takes_no_reply(bench: Bench) -> None:
    task = bench.send(skill="late")
    bench.wait(task["id"], lambda head: waits_of(head) == ["second"])
    head = bench.head(task["id"])
    with pytest.raises(WaitIsOver):
        bench.reply(f"https://x/callbacks/{callback_token(head, 'first')}", {})


def test_a_message_to_a_turn_that_pauses_is_refused_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.executions, "start", lambda _: "")
    task = bench.send(skill="nap")
    head = bench.head(task["id"])
    assert head.execution is not None
    bench.store.update_head(replace(head, execution={**head.execution, "arn": "x", "is_suspended": True}))
    with pytest.raises(UnsupportedOperation, match="pauses"):
        bench.send("hurry", taskId=task["id"])


def test_a_client_that_can_name_no_task_begins_no_second_one_meanwhile(bench: Bench) -> None:
    """Alibaba's: what its user says while the task sleeps is refused. Other clients may have two tasks."""
    task = bench.send(skill="pay")
    bench.wait_until_open(task["id"])
    same: dict[str, Any] = {"contextId": task["contextId"], "metadata": intent("count")}
    with pytest.raises(UnsupportedOperation, match="a task of this conversation pauses"):
        bench.send("hello?", names_tasks=False, **same)
    assert bench.send("hello?", **same)["id"] != task["id"]
    other = bench.send("hello?", names_tasks=False, contextId="another", metadata=intent("count"))
    assert other["id"] != task["id"]


def test_a_run_that_loses_its_lease_is_made_again(bench: Bench) -> None:
    """Else its execution would end, and its task would not."""
    task = bench.send(skill="pay")
    bench.wait_until_open(task["id"])
    head = bench.head(task["id"])
    assert head.execution is not None

    def steal(*_: Any) -> Any:
        held = bench.head(task["id"])
        bench.store.update_head(replace(held, holder="another"))
        raise Conflict

    with pytest.raises(StoreError, match="lost its task"):
        asyncio.run(bench.turns.run(QueuedTurn.of(head), head.execution["arn"], Thief(steal), None))


class Thief:
    """An engine whose wait is when the run loses its task."""

    keys = Keys()
    suspension = None

    def __init__(self, steal: Callable[[], Any]) -> None:
        self._steal = steal

    def __call__(self, _: Any, url: Callable[[str], str]) -> Any:
        self.callback_url = url  # the same as before: the turn puts it out
        return self

    def observe(self, _: Any) -> None:
        """It says nothing."""

    async def wait_for(self, _: Any) -> Any:
        self._steal()
