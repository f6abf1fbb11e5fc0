"""Steps of durable turns: tried again, late, canceled, and replayed."""

import base64
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, repeat
from pathlib import Path

import pytest

from a2a_lambda.agent.agent import Agent
from a2a_lambda.background import takeover
from a2a_lambda.durable.outcomes import ERROR_BYTES
from a2a_lambda.lambda_ import sdk_engine
from a2a_lambda.protocol.model import Part, TaskState
from tests.background.durable_bench import (
    DurableBench,
    operations,
    text_of,
    texts,
)
from tests.conftest import AGENTS
from tests.helpers.clock import wait_until
from tests.helpers.rpc import intent
from tools.dev import event_sources


def test_a_step_is_tried_again_and_its_failure_ends_the_turn(bench: DurableBench) -> None:
    task = bench.send(skill="fail")
    failed = bench.wait_for(task["id"], TaskState.FAILED)
    assert text_of(failed["status"]["message"]) == "The agent could not finish this request."
    assert bench.calls["boom"] == 2
    answer = bench.send('{"how": "catch"}', "fail")
    assert texts(bench.wait_for(answer["id"], TaskState.COMPLETED)) == {"": "caught OSError 6"}
    # A durable execution would fail for good, and its task would work for ever.
    long = bench.send('{"how": "long"}', "fail")
    assert texts(bench.wait_for(long["id"], TaskState.COMPLETED)) == {"": f"caught OSError {ERROR_BYTES + 1}"}
    refusal = bench.send('{"how": "refuse"}', "fail")
    result = bench.wait_for(refusal["id"], TaskState.FAILED)
    assert text_of(result["status"]["message"]) == "The client may read this."
    events = [event for _, event in bench.store.get_events(bench.head(refusal["id"]))]
    assert operations(events) == ["step boom started", "step boom failed"]


def test_the_log_of_a_step_that_failed_has_the_frames_of_the_agent_only(
    bench: DurableBench, caplog: pytest.LogCaptureFixture
) -> None:
    task = bench.send(skill="fail")
    bench.wait_for(task["id"], TaskState.FAILED)
    assert "agent.py" in caplog.text
    assert "boom" in caplog.text
    assert "aws_durable_execution_sdk_python/" not in caplog.text


def test_a_branch_that_its_own_code_cancels_has_failed(bench: DurableBench) -> None:
    task = bench.send(skill="giving-up")
    assert texts(bench.wait_for(task["id"], TaskState.COMPLETED)) == {"": "caught CancelledError"}


def test_code_that_a_replay_cannot_repeat_fails_clearly(bench: DurableBench) -> None:
    task = bench.send(skill="drift")
    failed = bench.wait_for(task["id"], TaskState.FAILED)
    assert "its first output differs from the earlier run" in text_of(failed["status"]["message"])


def test_the_memory_is_as_the_turn_first_saw_it(bench: DurableBench) -> None:
    """Another turn changes it while the first one waits."""
    first = bench.send(skill="remember")
    bench.wait_until_open(first["id"])
    second = bench.send(contextId=first["contextId"], metadata=intent("learn"))
    bench.wait_for(second["id"], TaskState.COMPLETED)
    bench.send("go on", taskId=first["id"])
    result = bench.wait_for(first["id"], TaskState.COMPLETED)
    assert texts(result) == {"": "None None"}
    memory = bench.store.get_context(bench.namespace, first["contextId"]).memory
    assert memory == {"learned": "much", "remembered": 1}


def test_a_turn_whose_code_was_changed_fails_clearly(bench: DurableBench, tmp_path: Path) -> None:
    """This happens under make run; on AWS a turn stays on its version."""
    task = bench.send(skill="remember")
    bench.wait_until_open(task["id"])
    place = tmp_path / "traveler"
    shutil.copytree(AGENTS / "traveler", place)
    code = (place / "agent.py").read_text()
    wait = 'await turn.wait_for("go", messages=True)'
    (place / "agent.py").write_text(code.replace(wait, 'await turn.step("go", int)'))
    changed: Future[Agent | str] = Future()
    changed.set_result(Agent.load(place))
    bench.agents._imports["traveler"] = changed
    bench.send("go on", taskId=task["id"])
    failed = bench.wait_for(task["id"], TaskState.FAILED)
    assert "Its agent was changed" in text_of(failed["status"]["message"])


def test_a_step_that_begins_late_moves_to_the_next_run(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function has little time left when the second step begins."""
    left = chain([800, 800, 100], repeat(800))  # the first step asks twice
    monkeypatch.setattr(sdk_engine.RunState, "time_left", property(lambda _: next(left)))
    task = bench.send(skill="count")
    bench.wait_for(task["id"], TaskState.COMPLETED)
    assert bench.calls == {"a": 1, "b": 1, "c": 1}
    bench.wait_for_runs(5)  # one for each of three pauses, one for the second step, and the first


def test_a_step_that_takes_longer_than_its_function_fails(
    bench: DurableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function has three seconds for it, twice."""
    # The step begins even if a busy machine reaches it late.
    monkeypatch.setattr(sdk_engine, "STEP_PART", 0.0)
    seconds = takeover.END_MARGIN_SECONDS + sdk_engine.STEP_END_MARGIN_SECONDS + 3
    monkeypatch.setattr(
        event_sources.LambdaContext, "get_remaining_time_in_millis", lambda _: int(seconds * 1000)
    )
    task = bench.send(skill="slow")
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(result) == {"": "TimeoutError"}
    assert bench.calls["slow"] == 2


def test_a_step_that_cancels_itself_fails(bench: DurableBench) -> None:
    task = bench.send(skill="self-cancel")
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(result) == {"": "InterruptedError"}
    assert bench.calls["self-cancel"] == 1


def test_a_turn_pauses_after_its_branches(bench: DurableBench) -> None:
    task = bench.send(skill="pair")
    assert texts(bench.wait_for(task["id"], TaskState.COMPLETED)) == {"": "12"}


def test_a_question_of_a_branch_is_in_the_conversation(bench: DurableBench) -> None:
    """The branch does not run again, neither after the pause nor for the branch around it."""
    task = bench.send("a party", skill="poll")
    bench.wait_until_open(task["id"])
    bench.send("four", taskId=task["id"])
    assert texts(bench.wait_for(task["id"], TaskState.COMPLETED)) == {"": "[['four'], 'fish']"}
    conversation = bench.store.get_context(bench.namespace, task["contextId"]).conversation
    assert [entry.text for entry in conversation] == [
        "a party",
        "How many guests?",
        "four",
        "[['four'], 'fish']",
    ]


def test_a_question_stays_open_and_is_one_question_while_another_branch_continues(
    bench: DurableBench,
) -> None:
    """The answer comes while a timer has woken the turn, and names only the conversation."""
    gate = bench.variable("GATE")
    gate.clear()
    task = bench.send("hi", skill="watch")
    wait_until(lambda: bench.calls["look"] and bench.head(task["id"]).state == TaskState.WORKING)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(bench.send, "yes", contextId=task["contextId"])
        gate.set()
        assert answer.result()["id"] == task["id"]
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    assert texts(result) == {"": "yes"}
    assert [text_of(message) for message in result["history"]] == ["hi", "Shall I?", "yes"]


def test_an_operation_after_a_canceled_one_is_a_mistake(bench: DurableBench) -> None:
    task = bench.send(skill="hasty")
    failed = bench.wait_for(task["id"], TaskState.FAILED)
    assert text_of(failed["status"]["message"]) == "The agent could not finish this request."


def test_files_are_written_once_however_often_a_turn_is_replayed(bench: DurableBench) -> None:
    part = Part(raw=base64.b64encode(b"3" * 300_000).decode(), filename="third.bin")
    task = bench.send(skill="album", parts=[Part(text="hi"), part])
    result = bench.wait_for(task["id"], TaskState.COMPLETED)
    [artifact] = result["artifacts"]
    first, second, text = artifact["parts"]
    assert (first["filename"], second["filename"]) == ("first.bin", "second.bin")
    assert text == {"text": "[300000]"}
    assert first["url"].startswith("https://files.s3/")
    assert bench.s3.calls["put_object"] == 3
    assert sorted(len(content) for content in bench.s3.objects.values()) == [200_000, 200_000, 300_000]
