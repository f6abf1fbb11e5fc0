"""Durable skills in tests of agents: no AWS, no waiting, and every pause is a replay."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import Agent, Reply, Retry, SkillError, StepFailed
from a2a_lambda.durable.engine import Notice
from a2a_lambda.durable.memory import MemoryEngine
from a2a_lambda.durable.outcomes import ERROR_BYTES
from a2a_lambda.errors import AgentMistake, CodeChanged, ConfigurationError
from tests.durable.agents import CARD, calls, run, written


def test_a_trip_asks_and_goes_on(traveler: Agent) -> None:
    asked = run(traveler, "Oslo")
    assert (asked.state, asked.text) == ("input-required", "Shall I book it?")
    assert asked.steps == ["plan", "sleep"]
    booked = run(traveler, "yes", after=asked)
    assert booked.state == "completed"
    assert booked.text == "A plan for Oslo. 3 nights. Booked."
    [report] = [each for each in booked.artifacts if each.get("name") == "report"]
    assert report["parts"] == [{"text": "hotel in Oslo, train in Oslo, table in Oslo"}]
    assert booked.context.memory == {"city": "Oslo"}
    assert calls(traveler) == {"plan": 1, "hotel": 1, "train": 1, "table": 1}


def test_replies_can_be_given_in_advance(traveler: Agent) -> None:
    assert run(traveler, "Oslo", replies={"approval": "no"}).text.endswith("Not booked.")
    with pytest.raises(TimeoutError):
        run(traveler, "Oslo", replies={"approval": TimeoutError})


def test_a_question_that_is_yielded_returns_its_reply(traveler: Agent) -> None:
    first = run(traveler, skill="ask")
    assert (first.state, first.text) == ("input-required", "Which city?")
    second = run(traveler, "Oslo", after=first)
    assert second.text == "How many nights?"
    assert run(traveler, "3", after=second).text == "Well. 3 nights in Oslo"


def test_a_wait_without_a_question_leaves_the_task_working(traveler: Agent) -> None:
    waiting = run(traveler, skill="pay")
    assert waiting.state == "working"
    assert waiting.data == [{"pay at": "https://callbacks.invalid/payment"}]
    paid = run(traveler, skill="pay", replies={"payment": {"amount": 3}})
    assert paid.data[-1] == {"paid": [{"amount": 3}]}
    assert run(traveler, skill="pay", replies={"payment": TimeoutError}).text.endswith("not paid in time.")
    assert run(traveler, skill="pay", after=waiting, replies={"payment": 4}).data[-1] == {"paid": [4]}


def test_a_reply_that_no_wait_takes_is_an_error(traveler: Agent, tmp_path: Path) -> None:
    replies = {"payment": 3, "paymnt": 4}
    with pytest.raises(
        ValueError, match=r"the reply 'paymnt'; did you mean payment\? The turn's waits: payment"
    ):
        run(traveler, skill="pay", replies=replies)
    with pytest.raises(ValueError, match=r"no wait has taken the reply 'x'. The turn's waits: none"):
        run(written(tmp_path, "@skill\nasync def run(turn): ..."), replies={"x": 1})


def test_a_message_ends_only_a_wait_that_takes_messages(traveler: Agent) -> None:
    """As on AWS, so that a test does not pass with a reply that no client can give."""
    with pytest.raises(ValueError, match="'payment' accepts no message, only a call to its URL"):
        run(traveler, "hi", after=run(traveler, skill="pay"))
    waiting = run(traveler, skill="cash")
    said = run(traveler, "hi", after=waiting).data[-1]
    assert said == {"paid": [], "said": "hi", "by url": False}
    by_url = {"payment": Reply([{"data": 3}], is_callback=True)}
    assert run(traveler, after=waiting, replies=by_url).data[-1] == {"paid": [3], "said": "", "by url": True}


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
    """As on AWS."""
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


def test_code_that_a_replay_cannot_repeat_fails_clearly(traveler: Agent) -> None:
    with pytest.raises(
        CodeChanged, match=r"its first output differs from the earlier run.*compute that in a step"
    ):
        run(traveler, skill="drift")


def test_operations_that_a_replay_cannot_repeat_fail_clearly(tmp_path: Path) -> None:
    body = """
runs = itertools.count()
@skill
async def run(turn):
    await turn.step(f"step-{next(runs)}", int)
    await turn.sleep(hours=1)
"""
    with pytest.raises(CodeChanged, match="step 'step-1' where the earlier run had the step 'step-0'"):
        run(written(tmp_path, body))
    body = body.replace('await turn.step(f"step-{next(runs)}", int)', "if next(runs): return")
    with pytest.raises(CodeChanged, match="ended where the earlier run had the sleep 'sleep'"):
        run(written(tmp_path, body))


def test_a_wait_without_a_timeout_never_ends_by_one(tmp_path: Path) -> None:
    body = """
@skill
async def run(turn):
    try:
        await turn.wait_for("reply", Ask("Well?"))
    except TimeoutError:
        return "late"
"""
    with pytest.raises(ValueError, match="'reply' has no timeout"):
        run(written(tmp_path, body), replies={"reply": TimeoutError})


def test_a_turn_has_as_many_operations_as_lambda_keeps(tmp_path: Path) -> None:
    body = """
@skill
async def run(turn, count: int):
    for _ in range(count):
        await turn.step("next", int)
    return "done"
"""
    agent = written(tmp_path, body)
    assert run(agent, slots={"count": "3000"}).text == "done"
    with pytest.raises(RuntimeError, match="may have 3,000 operations"):
        run(agent, slots={"count": "3001"})


@pytest.mark.parametrize(
    ("line", "error", "text"),
    [
        ("await turn.step('a b', int)", ValueError, "cannot name a step"),
        ("Retry(attempts='2')", ValueError, "a number of tries, 1 or more, not '2'"),
        ("Retry(attempts=0)", ValueError, "a number of tries, 1 or more, not 0"),
        ("Retry(pause_seconds=-1)", ValueError, "pause_seconds of Retry is 0 or more, not -1"),
        ("Retry(factor=float('nan'))", ValueError, "factor of Retry is 0 or more, not nan"),
        ("Retry(pause_seconds='5')", TypeError, "pause_seconds of Retry is a number, not a str"),
        ("await turn.step('a', turn.sleep, seconds=1)", StepFailed, "inside step 'a'"),
        ("await turn.step('a', turn.memory.set, 'x', 1)", StepFailed, "changes turn.memory"),
        ("await turn.step('a', lambda: 'x' * 250_000)", StepFailed, "may have 250,000"),
        ("await turn.step('a', object)", StepFailed, "serialize"),
        ("await turn.sleep(days=367)", ValueError, "0 to 31,622,400 seconds"),
        ("await turn.wait_for('a', timeout=-1)", ValueError, "0 to 31,622,400 seconds"),
        ("await turn.parallel(turn.parallel())", TypeError, "must be a function"),
        (
            "await asyncio.gather(turn.step('a', int), turn.step('b', int))",
            RuntimeError,
            "only in `await turn.parallel",
        ),
        ("await turn.step(int, 1)", TypeError, "name"),
        ("await turn.step('a', 1)", TypeError, "a function, not its result: turn.step('a', make_plan"),
        ("await turn.step('a', int, retry=3)", TypeError, "Retry(attempts=5)"),
        ("await turn.wait_for('a', timeout='3 days')", TypeError, "a timedelta or a number of seconds"),
        ("await turn.parallel([])", TypeError, "must be a function"),
        ("await turn.wait_for('a', Ask('x' * 70_000))", SkillError, "at most 64,000 bytes"),
    ],
)
def test_mistakes_say_what_to_write(tmp_path: Path, line: str, error: type[Exception], text: str) -> None:
    agent = written(tmp_path, f"@skill\nasync def run(turn):\n    {line}\n")
    with pytest.raises(error, match=re.escape(text)):
        run(agent)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("turn.sleep(hours=1)", "'sleep' was never awaited"),
        ("turn.step('a', int)", "'a' was never awaited"),
    ],
)
def test_an_operation_that_is_not_awaited_is_a_mistake(tmp_path: Path, line: str, text: str) -> None:
    agent = written(tmp_path, f"@skill\nasync def run(turn):\n    {line}\n")
    with pytest.raises(AgentMistake, match=rf"agent.py:\d+: {text}"):
        run(agent)


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


def test_a_skill_that_is_not_durable_has_no_steps(tmp_path: Path) -> None:
    body = "@skill\nasync def run(turn):\n    await turn.sleep(hours=1)\n"
    with pytest.raises(ConfigurationError, match=r"write `durable: true` in card\.yaml"):
        run(written(tmp_path, body, CARD.replace("durable: true\n", "")))


def test_a_durable_skill_is_asynchronous(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="write `async def run`"):
        written(tmp_path, "@skill\ndef run(turn):\n    return 'x'\n")


def test_a_step_that_raises_stop_iteration_fails(tmp_path: Path) -> None:
    body = """
@skill
async def run(turn):
    await turn.step("pick", lambda: next(iter(())), retry=Retry(attempts=1))
"""
    with pytest.raises(StepFailed, match="StopIteration"):
        run(written(tmp_path, body))


def test_a_question_of_a_durable_skill_fills_no_parameter(tmp_path: Path) -> None:
    body = """
@skill
async def run(turn, size: str = "S"):
    yield Ask("Size?", fills="size")
"""
    with pytest.raises(TypeError, match=r"read reply\.text"):
        run(written(tmp_path, body))


def test_a_router_may_have_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notice of its step is no answer of the router."""

    class TellingEngine(MemoryEngine):
        def observe(self, observer: Callable[[Notice], None]) -> None:
            self.tell = observer

        async def step(self, name: str, *args: Any, **options: Any) -> bytes:
            self.tell(Notice("step", name, "started"))
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


def test_a_skill_that_does_not_end_when_it_is_suspended_is_not_believed(tmp_path: Path) -> None:
    body = """
@skill
async def run(turn):
    try:
        await turn.sleep(hours=1)
    except BaseException:
        return "too early"
    return "after an hour"
"""
    assert run(written(tmp_path, body)).text == "after an hour"


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
    with pytest.raises(SkillError) as raised:
        run(written(tmp_path, body))
    assert str(raised.value) == "?" + "x" * (ERROR_BYTES - 1) + "…"


def test_a_result_that_its_annotation_denies_is_a_failed_step(tmp_path: Path) -> None:
    """At once, not when the turn continues."""
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


def test_pauses_take_no_time(traveler: Agent) -> None:
    assert run(traveler, skill="nap").text == "1 2 3 "


def test_a_url_that_no_one_could_call_is_not_given_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule has started the turn, so no request has named the deployment's url."""
    agent = written(tmp_path, "@skill\nasync def run(turn: Turn) -> str: return turn.callback_url('paid')\n")
    assert run(agent).text.startswith("https://")
    monkeypatch.setattr(MemoryEngine, "callback_url", lambda self, key: f"/callbacks/{key}")
    with pytest.raises(ConfigurationError, match="set BaseUrl or DomainName"):
        run(agent)
