"""A call that lacks an argument: once that is answered, its skill gets the message that called it, wherever
the turn runs."""

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda.agent.agent import Agent
from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.background.worker import Worker
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.files.files import Files
from a2a_lambda.operations.messages import Messages
from a2a_lambda.protocol.model import Part, Task, TaskState, text_of
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.head import Place
from a2a_lambda.tasks.identity import Namespace
from tests.agent.folders import CARD, write
from tests.background.worker_bench import WorkerBench

CODE = """
from typing import Literal

@skill
def hello(turn: Turn, language: Literal["en", "de"]):
    yield {"text": turn.text, "files": [len(file.read()) for file in turn.files], "language": language}
"""

PARTS = [Part(text="Good day"), Part(raw=base64.b64encode(bytes(80_000)).decode(), filename="a.bin")]

CALLED = {"text": "Good day", "files": [80_000], "language": "de"}


@pytest.fixture(params=["request", "worker"])
def bench(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> WorkerBench:
    is_background = str(request.param == "worker").lower()
    card = CARD + f"background: {is_background}\ndefaultInputModes: ['*/*']\n"
    worker_bench = WorkerBench(settings)
    worker_bench.agents = Agents.of(Agent.load(write(tmp_path, CODE, card)))
    dispatcher = Dispatcher(worker_bench.queue)
    worker_bench.messages = Messages(
        worker_bench.store, worker_bench.agents, dispatcher=dispatcher, repeat_seconds=60, files=Files()
    )
    worker_bench.worker = Worker(worker_bench.store, worker_bench.agents, files=Files())
    worker_bench.namespace = Namespace(worker_bench.namespace.owner, "hello")
    return worker_bench


def send(bench: WorkerBench, **fields: Any) -> Task:
    """Send a message, and let its turn end."""
    call, request = bench.sent("hello", **fields)
    if bench.agents["hello"].card.background is False:
        request["configuration"].pop("returnImmediately")
    task = asyncio.run(bench.messages.send(call, request))["task"]
    bench.work()
    return bench.get(task["id"])


def output(task: Task) -> Any:
    assert task["status"]["state"] == TaskState.COMPLETED, task["status"]
    [artifact] = task["artifacts"]
    return artifact["parts"][0]["data"]


def test_the_skill_gets_the_message_that_called_it(bench: WorkerBench) -> None:
    question = send(bench, parts=PARTS)
    assert "Please tell me: language." in text_of(question["status"]["message"]["parts"])
    refusal = send(bench, taskId=question["id"], parts=[Part(text="French")])
    assert "“French” cannot be used" in text_of(refusal["status"]["message"]["parts"])
    assert output(send(bench, taskId=question["id"], parts=[Part(text="de")])) == CALLED


def test_a_stream_runs_in_its_request_even_if_a_send_would_not_wait(bench: WorkerBench) -> None:
    call, request = bench.sent("hello", parts=PARTS)
    request["configuration"]["returnImmediately"] = True
    place = asyncio.run(bench.messages.placement.choose(replace(call, is_streamed=True), request, None))
    is_background = bench.agents["hello"].card.background
    assert place is (Place.WORKER if is_background else Place.REQUEST)
    assert asyncio.run(bench.messages.placement.choose(call, request, None)) is Place.WORKER


def test_a_run_that_dies_with_the_answer_loses_nothing(bench: WorkerBench) -> None:
    question = send(bench, parts=PARTS)
    call, request = bench.sent("hello", "the answer", taskId=question["id"], parts=[Part(text="de")])
    asyncio.run(bench.messages.start(call, request))
    if bench.queue.waiting:
        bench.queue.waiting.clear()
        bench.died(question["id"])
        bench.clock.now += 120
        asyncio.run(bench.sweep.run())
    else:  # the run that has claimed the turn never works, and the client repeats its answer
        bench.clock.now += 31
        asyncio.run(bench.messages.send(call, request))
    bench.work()
    assert output(bench.get(question["id"])) == CALLED


def test_a_call_that_no_head_can_hold_fails_in_words(bench: WorkerBench) -> None:
    task = send(bench, contextId="c", parts=[Part(text="x" * 300_000)])
    assert task["status"]["state"] == TaskState.FAILED
    assert "Send it again with language." in text_of(task["status"]["message"]["parts"])
    [*conversation] = bench.store.get_context(bench.namespace, "c").conversation
    assert all("Please tell me" not in text_of(entry.parts) for entry in conversation)


def test_arguments_that_no_head_can_hold_fail_in_words(bench: WorkerBench, tmp_path: Path) -> None:
    code = "@skill\ndef hello(turn, x: str = ''): return Ask('?', known={'x': turn.text})"
    bench.agents = Agents.of(Agent.load(write(tmp_path / "asking", code)))
    bench.messages = Messages(
        bench.store, bench.agents, dispatcher=Dispatcher(bench.queue), repeat_seconds=60, files=Files()
    )
    bench.worker = Worker(bench.store, bench.agents, files=Files())
    task = send(bench, parts=[Part(text="x" * 100_000)])
    assert "turn.memory" in text_of(task["status"]["message"]["parts"])
