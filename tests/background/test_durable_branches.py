"""Branches of durable turns: what happens in one does not disturb the others, nor the turn."""

import asyncio
import json
import time
from collections import Counter
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aws_durable_execution_sdk_python.config import Duration
from aws_durable_execution_sdk_python.retries import RetryDecision

from a2a_lambda.durable.engine import Retry
from a2a_lambda.errors import WriteRefused
from a2a_lambda.lambda_ import sdk_engine
from a2a_lambda.lambda_.sdk_engine import OperationThread, OutOfTime, RunState
from a2a_lambda.protocol.model import TaskState
from a2a_lambda.tasks.head import Head
from a2a_lambda.turns import run
from a2a_lambda.turns.ending import MANY_WAITS
from tests.background.durable_bench import DurableBench, operations, text_of, texts


def test_a_step_that_begins_late_in_a_branch_moves_once(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the step of another branch runs, the SDK would continue the branch again and again."""
    moves = 0
    decide_retry = sdk_engine.decide_retry

    def count_moves(retry: Any, at_most_once: bool, error: Exception, attempt: int) -> Any:
        nonlocal moves
        if isinstance(error, OutOfTime):
            moves += 1
            if all(step.done() for step in list(first_runs[0].steps)):
                # The other branch still has to end, which takes a busy machine more than a second.
                return RetryDecision.retry(Duration(seconds=60))
        return decide_retry(retry, at_most_once, error, attempt)

    first_runs: list[RunState] = []

    def time_left(state: RunState) -> float:
        """Little in the first run, after the first step of the branch."""
        first_runs.append(state)
        return 100.0 if state is first_runs[0] and bench.calls["first"] else 800.0

    monkeypatch.setattr(sdk_engine, "decide_retry", count_moves)
    monkeypatch.setattr(RunState, "time_left", property(time_left))
    task = bench.send(skill="rush")
    assert texts(bench.wait_for(task["id"], TaskState.COMPLETED)) == {"": "at last"}
    assert (moves, bench.calls["retry"]) == (1, 2)


def test_a_step_that_begins_late_in_every_run_fails(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The code before it takes half of each run, and would run, and cost, until the execution ends."""
    monkeypatch.setattr(sdk_engine, "MAX_MOVES", 0)
    monkeypatch.setattr(RunState, "time_left", property(lambda state: 0.1 * state.seconds))
    task = bench.send(skill="count")
    bench.wait_for(task["id"], TaskState.FAILED)
    assert bench.calls["a"] == 0
    assert "step 'a' begins too late in each run" in caplog.text


@pytest.mark.parametrize("is_one_run", [True, False])
def test_tries_of_a_late_step_in_one_run_are_one_move(is_one_run: bool) -> None:
    """While code of another branch runs, the SDK tries it again every second."""
    decisions: list[bool] = []

    class LateRun:
        """The SDK's context of a run in which too little time is left."""

        def __init__(self, attempts: range) -> None:
            self.attempts = attempts

        def step(self, body: Any, *, name: str, config: Any) -> str:
            for attempt in self.attempts:
                with pytest.raises(OutOfTime) as late:
                    body(None)
                decisions.append(config.retry_strategy(late.value, attempt).should_retry)
            return "the end"

    async def run_once(attempts: range) -> None:
        context: Any = LateRun(attempts)
        engine = OperationThread(context, RunState(deadline=time.monotonic(), seconds=10.0))
        step = engine.step("a", AsyncMock(), Retry(attempts=1), at_most_once=False)
        loop = asyncio.get_running_loop()
        start = partial(asyncio.run_coroutine_threadsafe, step, loop)
        assert await asyncio.to_thread(engine.run_operations, start) == b"the end"

    for attempts in [range(1, 21)] if is_one_run else [range(count, count + 1) for count in range(1, 7)]:
        asyncio.run(run_once(attempts))
    assert decisions == ([True] * 20 if is_one_run else [True, True, True, True, False, False])


def test_a_question_is_the_same_message_after_another_systems_call(bench: DurableBench) -> None:
    """A client that shows it in a form answers it by its id, as MCP's clients do."""
    task = bench.send("a book", skill="checkout")
    asking = bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    bench.reply(bench.variable("PAY_AT")[-1], {"paid": 9})
    bench.wait_for_runs(2)
    again = bench.wait_for(task["id"], TaskState.INPUT_REQUIRED)
    assert again["status"]["message"] == asking["status"]["message"]
    bench.send("yes", taskId=task["id"])
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert [text_of(message) for message in result["history"]] == ["a book", "Gift wrap?", "yes"]


def test_a_branch_that_a_replay_cannot_repeat_fails_clearly(bench: DurableBench) -> None:
    task = bench.send(skill="stray")
    task_at_end = bench.wait_for(task["id"], TaskState.FAILED)
    assert "the replay took a different path" in text_of(task_at_end["status"]["message"])


def test_branches_in_another_order_do_not_get_each_others_results(bench: DurableBench) -> None:
    """A replay that has all results calls no branch."""
    task = bench.send('{"how": "order"}', skill="stray")
    task_at_end = bench.wait_for(task["id"], TaskState.FAILED)
    assert "the replay took a different path" in text_of(task_at_end["status"]["message"])


@pytest.mark.parametrize(("how", "error"), [("no file", "FilesUnavailable"), ("exit", "GeneratorExit")])
def test_a_branch_that_ends_with_an_error_has_failed(bench: DurableBench, how: str, error: str) -> None:
    """It has no files, or raises what Python closes generators with."""
    task = bench.send(json.dumps({"how": how}), skill="stray")
    assert texts(bench.wait_for(task["id"], TaskState.COMPLETED)) == {"": f"caught {error}"}


def test_what_branches_do_is_told_once(bench: DurableBench) -> None:
    """A timer, or a reply to another branch, may replay them any number of times."""
    task = bench.send(skill="naps")
    untils = set[float]()

    def told() -> Counter[str]:
        return Counter(operations([event for _, event in bench.store.get_events(bench.head(task["id"]))]))

    def has_slept(head: Head) -> bool:
        if head.is_suspended and head.execution is not None:
            untils.update(wait.until for wait in head.execution.waits)
        return head.is_suspended and "sleep parallel/2/sleep#3 ended" in told()

    bench.wait(task["id"], has_slept)
    assert len(untils) == 1, "a wait times out when its first run has said"
    bench.send("go on", taskId=task["id"])
    bench.wait_for(task["id"], TaskState.COMPLETED)
    places = ("sleep parallel/0/pause", "wait parallel/1/other", "sleep parallel/2/sleep")
    operations_of_skill = [*places, f"{places[2]}#2", f"{places[2]}#3"]
    assert told() == Counter(
        f"{name} {state}" for name in operations_of_skill for state in ("started", "ended")
    )


def test_a_turn_that_waits_for_more_than_its_head_holds_fails_clearly(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn with a thousand branches that wait is one."""
    update_head = bench.store.update_head

    def refuse_suspended(head: Head) -> Head:
        if head.is_suspended:
            raise WriteRefused("the item is too large")
        return update_head(head)

    monkeypatch.setattr(bench.store, "update_head", refuse_suspended)
    task = bench.send(skill="pay")
    task_at_end = bench.wait_for(task["id"], TaskState.FAILED)
    assert text_of(task_at_end["status"]["message"]) == MANY_WAITS


def test_all_runs_of_a_turn_share_the_limit_of_its_output(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "OUTPUT_BYTES", 3_000)
    task = bench.send('{"size": 2000}', skill="nap")
    task_at_end = bench.wait_for(task["id"], TaskState.FAILED)
    assert text_of(task_at_end["status"]["message"]) == "The agent output more than 3,000 bytes in one turn."
