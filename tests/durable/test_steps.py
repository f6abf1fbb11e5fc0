"""Steps of durable skills in tests of agents: tries, results and failures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import Agent, Retry, SkillError, StepFailed
from a2a_lambda.durable.engine import OperationNotice
from a2a_lambda.durable.memory import MemoryEngine
from a2a_lambda.durable.outcomes import ERROR_BYTES
from a2a_lambda.errors import ConfigurationError
from tests.durable.agents import CARD, calls, run, written


def test_a_step_is_tried_again_and_its_failure_is_kept(traveler: Agent) -> None:
    with pytest.raises(StepFailed, match="OSError"):
        run(traveler, skill="fail")
    assert calls(traveler)["boom"] == 2
    assert run(traveler, '{"how": "catch"}', skill="fail").text == "caught OSError 6"


def test_a_refusal_is_not_tried_again(traveler: Agent) -> None:
    with pytest.raises(SkillError, match="The client may read this"):
        run(traveler, '{"how": "refuse"}', skill="fail")
    assert calls(traveler)["boom"] == 1


def test_a_step_that_may_start_once_is_not_tried_again(tmp_path: Path) -> None:
    """AWS does the same."""
    agent = written(
        tmp_path,
        """
TRIES = itertools.count()

def charge():
    next(TRIES)
    raise OSError

@skill
async def run(turn):
    try:
        await turn.step("charge", charge, at_most_once=True)
    except StepFailed as error:
        return f"{error.kind} after {next(TRIES)}"
""",
    )
    assert run(agent).text == "OSError after 1"


def test_a_mistake_in_a_step_is_not_tried_again(tmp_path: Path) -> None:
    body = """
tries = []
@skill
async def run(turn):
    await turn.step("a", lambda: tries.append(1) or object())
"""
    agent = written(tmp_path, body)
    with pytest.raises(StepFailed, match="cannot be kept as JSON"):
        run(agent)
    assert agent.skills["run"].function.__globals__["tries"] == [1]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("File('a.csv', b'1')", r"step 'a' returned File\(…\), of which only JSON would be kept"),
        ("'text', File('a.csv', b'1')", r"step 'a' returned File\(…\)"),
        ("Ask('Which?')", r"step 'a' returned Ask\(…\).*annotate the step's function with `-> Ask`"),
        ("b'\\x89PNG'", "the result of step 'a' has bytes that are not UTF-8.*: return base64, or keep"),
    ],
)
def test_an_output_is_no_result_of_a_step_or_a_branch(tmp_path: Path, result: str, reason: str) -> None:
    body = f"""
async def plan():
    return {result}

@skill
async def run(turn):
    if turn.text == "step":
        return await turn.step("a", plan)
    return await turn.parallel(plan)
"""
    with pytest.raises(StepFailed, match=reason):
        run(written(tmp_path, body), "step")
    with pytest.raises(StepFailed, match=reason.replace("step 'a'", "a branch")):
        run(written(tmp_path, body), "branch")


@pytest.mark.parametrize("hint", ["Ask", "Ask | str", "tuple[str, Ask]"])
def test_an_output_that_a_steps_annotation_names_comes_back(tmp_path: Path, hint: str) -> None:
    result = "Ask('Which?')" if not hint.startswith("tuple") else "('Well.', Ask('Which?'))"
    body = f"""
def decide() -> {hint}:
    return {result}

@skill
async def run(turn):
    return await turn.step("decide", decide)
"""
    answer = run(written(tmp_path, body), "hi")
    assert (answer.state, answer.text.endswith("Which?")) == ("input-required", True)


def test_a_skill_that_is_not_durable_has_no_steps(tmp_path: Path) -> None:
    body = "@skill\nasync def run(turn):\n    await turn.sleep(hours=1)\n"
    with pytest.raises(ConfigurationError, match=r"write `durable: true` in card\.yaml"):
        run(written(tmp_path, body, CARD.replace("durable: true\n", "")))


def test_a_step_that_raises_stop_iteration_fails(tmp_path: Path) -> None:
    body = """
@skill
async def run(turn):
    await turn.step("pick", lambda: next(iter(())), retry=Retry(attempts=1))
"""
    with pytest.raises(StepFailed, match="StopIteration"):
        run(written(tmp_path, body))


def test_a_router_may_have_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notice of its step is no answer of the router."""

    class TellingEngine(MemoryEngine):
        def observe(self, observer: Callable[[OperationNotice], None]) -> None:
            self.observer = observer

        async def step(self, name: str, *args: Any, **options: Any) -> bytes:
            self.observer(OperationNotice("step", name, "started"))
            return await super().step(name, *args, **options)

    monkeypatch.setattr("a2a_lambda.agent.trial.MemoryEngine", TellingEngine)
    body = """
@route
async def choose(turn):
    return await turn.step("classify", lambda: "run")
@skill
async def run(turn):
    return "routed"
"""
    assert run(written(tmp_path, body)).text == "routed"


def test_steps_return_their_types(tmp_path: Path) -> None:
    body = """
from datetime import date
from pydantic import BaseModel
class Plan(BaseModel):
    day: date
def make() -> Plan:
    return Plan(day=date(2030, 1, 2))
async def list_all() -> list[Plan]:
    return [make()]
@skill
async def run(turn):
    one, all = await turn.step("one", make), await turn.step("all", list_all)
    await turn.sleep(hours=1)
    return f"{one.day.year} {all[0].day.month}"
"""
    assert run(written(tmp_path, body)).text == "2030 1"


def test_a_long_refusal_is_kept_in_part(tmp_path: Path) -> None:
    """Lambda would refuse to keep all of it, and end the turn for good."""
    body = """
def book():
    raise SkillError("\\ud800" + "x" * 50_000)
@skill
async def run(turn):
    await turn.step("book", book)
"""
    with pytest.raises(SkillError) as error:
        run(written(tmp_path, body))
    assert str(error.value) == "?" + "x" * (ERROR_BYTES - 1) + "…"


def test_a_result_that_its_annotation_denies_is_a_failed_step(tmp_path: Path) -> None:
    """It fails at once, and not when the turn continues."""
    body = """
class Hotel:
    def __init__(self, name): self.name = name
from dataclasses import dataclass
from typing import Iterator
@dataclass
class Room:
    number: int
def book() -> Room: return None
def count() -> Iterator[int]: yield from (1, 2)
def own() -> Hotel: return "Ritz"
calls = []
@dataclass
class Paid:
    amount: int
    def __post_init__(self): raise KeyError("a validator is code")
def pay() -> Paid:
    calls.append(1)
    return {"amount": 1}
@skill
async def run(turn):
    try:
        await turn.step("book", book)
    except StepFailed as failed:
        yield failed.text
    yield await turn.step("count", count)
    yield await turn.step("own", own)
    try:
        await turn.step("pay", pay, retry=Retry(attempts=5))
    except StepFailed:
        yield len(calls)
"""
    answer = run(written(tmp_path, body))
    assert answer.data == [[1, 2], 1], "what has been paid is not paid again"
    assert answer.text.startswith("the result of step 'book', of type NoneType, does not fit the return")
    assert "Ritz" in answer.text


def test_pauses_between_tries_do_not_overflow() -> None:
    poll = Retry(attempts=5000, pause_seconds=5, longest_seconds=10)
    assert [poll.pause_after(attempt) for attempt in (1, 2, 1025, 4999, 5000)] == [5, 10, 10, 10, None]
    assert Retry(attempts=400, factor=10).pause_after(399) == 300


OPERATIONS = ["turn.step('other', print)", "turn.sleep(hours=1)", "turn.wait_for('reply')"]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("canceled", [*OPERATIONS, "turn.parallel(turn.step('long', asyncio.sleep, 600))"])
def test_nothing_begins_after_an_operation_was_canceled(
    tmp_path: Path, canceled: str, operation: str
) -> None:
    """A client's cancellation, too, so a step that cleans up would fail in a stack."""
    code = f"""
@skill
async def run(turn: Turn):
    try:
        async with asyncio.timeout(0):
            await {canceled}
    except TimeoutError:
        await {operation}
"""
    with pytest.raises(RuntimeError, match="clean up without a step"):
        run(written(tmp_path, code))


def test_a_canceled_step_is_not_tried_again(tmp_path: Path) -> None:
    code = """
@skill
async def run(turn: Turn) -> str:
    try:
        async with asyncio.timeout(0.05):
            await turn.step("long", asyncio.sleep, 600)
    except TimeoutError:
        return "late"
"""
    assert run(written(tmp_path, code)).text == "late"


@pytest.mark.parametrize("cancel", ["raise asyncio.CancelledError", "asyncio.current_task().cancel()"])
def test_a_step_that_cancels_itself_fails(tmp_path: Path, cancel: str) -> None:
    """AWS does the same, and the turn continues."""
    code = f"""
async def cancel():
    {cancel}
    await asyncio.sleep(0)

@skill
async def run(turn: Turn) -> str:
    try:
        await turn.step("cancel", cancel)
    except StepFailed as error:
        return await turn.step("fallback", str, error.kind)
"""
    assert run(written(tmp_path, code)).text == "InterruptedError"
