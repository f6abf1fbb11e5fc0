"""Durable skills in tests of agents: no AWS, no waiting, and every pause is a replay."""

import re
from pathlib import Path

import pytest

from a2a_lambda import Agent, Caller, Reply, SkillError, StepFailed
from a2a_lambda.durable.memory import MemoryEngine
from a2a_lambda.errors import AgentMistake, CodeChanged, ConfigurationError
from tests.durable.agents import calls, run, written


def test_a_trip_asks_and_goes_on(traveler: Agent) -> None:
    question = run(traveler, "Oslo")
    assert (question.state, question.text) == ("input-required", "Shall I book it?")
    assert question.steps == ["plan", "sleep"]
    end = run(traveler, "yes", after=question)
    assert end.state == "completed"
    assert end.text == "A plan for Oslo. 3 nights. Booked."
    [report] = [each for each in end.artifacts if each.get("name") == "report"]
    assert report["parts"] == [{"text": "hotel in Oslo, train in Oslo, table in Oslo"}]
    assert end.context.memory == {"city": "Oslo"}
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
    payment = run(traveler, skill="pay", replies={"payment": {"amount": 3}})
    assert payment.data[-1] == {"paid": [{"amount": 3}]}
    assert run(traveler, skill="pay", replies={"payment": TimeoutError}).text.endswith("not paid in time.")
    assert run(traveler, skill="pay", after=waiting, replies={"payment": 4}).data[-1] == {"paid": [4]}


APPROVAL = """
@skill
async def run(turn):
    [reply] = await turn.parallel(turn.wait_for("inner", Ask("May I?")))
    other = await turn.wait_for("outer", Ask("Sure?"))
    by_url = await turn.wait_for("payment")
    return [turn.caller.subject, reply.caller.subject, [*other.caller.scopes], by_url.caller]
"""


def test_a_reply_says_who_sent_it(tmp_path: Path) -> None:
    """Another application of the same person may lack the rights of the one that started the turn."""
    agent = written(tmp_path, APPROVAL)
    first = run(agent, caller=Caller("o", "token", subject="ann"))
    second = run(agent, after=first, caller=Caller("o", "token", subject="bob"))
    chat = Caller("o", "token", scopes=("chat",))
    third = run(agent, after=second, caller=chat, replies={"payment": 3})
    assert third.data == [["ann", "bob", ["chat"], None]]


def test_a_reply_that_no_wait_takes_is_an_error(traveler: Agent, tmp_path: Path) -> None:
    replies = {"payment": 3, "paymnt": 4}
    with pytest.raises(
        ValueError, match=r"the reply 'paymnt'; did you mean payment\? The turn's waits: payment"
    ):
        run(traveler, skill="pay", replies=replies)
    with pytest.raises(ValueError, match=r"no wait has taken the reply 'x'. The turn's waits: none"):
        run(written(tmp_path, "@skill\nasync def run(turn): ..."), replies={"x": 1})


def test_a_message_ends_only_a_wait_that_takes_messages(traveler: Agent) -> None:
    """AWS does the same, so a test does not pass with a reply that no client can give."""
    with pytest.raises(ValueError, match="'payment' accepts no message, only a call to its URL"):
        run(traveler, "hi", after=run(traveler, skill="pay"))
    waiting = run(traveler, skill="cash")
    datum = run(traveler, "hi", after=waiting).data[-1]
    assert datum == {"paid": [], "said": "hi", "by url": False}
    by_url = {"payment": Reply([{"data": 3}], is_callback=True)}
    assert run(traveler, after=waiting, replies=by_url).data[-1] == {"paid": [3], "said": "", "by url": True}


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
        ("Retry(attempts='2')", ValueError, "Retry(attempts=…) must be an integer, 1 or more, not '2'"),
        ("Retry(attempts=0)", ValueError, "Retry(attempts=…) must be an integer, 1 or more, not 0"),
        ("Retry(pause_seconds=-1)", ValueError, "Retry(pause_seconds=…) must be 0 or more, not -1"),
        ("Retry(factor=float('nan'))", ValueError, "Retry(factor=…) must be 0 or more, not nan"),
        ("Retry(pause_seconds='5')", TypeError, "Retry(pause_seconds=…) must be a number, not a str"),
        ("await turn.step('a', turn.sleep, seconds=1)", StepFailed, "inside step 'a'"),
        ("await turn.step('a', turn.memory.set, 'x', 1)", StepFailed, "changes turn.memory"),
        ("await turn.step('a', lambda: 'x' * 250_000)", StepFailed, "at most 250,000 are allowed"),
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
        (
            "await turn.step('a', 1)",
            TypeError,
            "needs the function, not its result: turn.step('a', make_plan",
        ),
        ("await turn.step('a', int, retry=3)", TypeError, "Retry(attempts=5)"),
        ("await turn.wait_for('a', timeout='3 days')", TypeError, "a timedelta or a number of seconds"),
        ("await turn.parallel([])", TypeError, "not a list of them: write `turn.parallel(*branches)`"),
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
        ("return turn.step('a', dict)['x']", "'a' was never awaited"),
        ("return turn.wait_for('b').text", "'b' was never awaited"),
    ],
)
def test_an_operation_that_is_not_awaited_is_a_mistake(tmp_path: Path, line: str, text: str) -> None:
    agent = written(tmp_path, f"@skill\nasync def run(turn):\n    {line}\n")
    with pytest.raises(AgentMistake, match=rf"agent.py:\d+: {text}"):
        run(agent)


def test_a_durable_skill_is_asynchronous(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="write `async def run`"):
        written(tmp_path, "@skill\ndef run(turn):\n    return 'x'\n")


def test_a_question_of_a_durable_skill_fills_no_parameter(tmp_path: Path) -> None:
    body = """
@skill
async def run(turn, size: str = "S"):
    yield Ask("Size?", fills="size")
"""
    with pytest.raises(TypeError, match=r"read reply\.text"):
        run(written(tmp_path, body))


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


def test_a_skill_that_edits_a_reply_leaves_what_was_sent_as_it_is(tmp_path: Path) -> None:
    """Otherwise a replay would get another reply than the first run did."""
    body = """
@skill
async def run(turn):
    reply = await turn.wait_for("order", Ask("What?"))
    amount = reply.data[0].pop("amount")
    reply.parts.append({"text": "more"})
    await turn.sleep(hours=1)
    yield f"{amount} {reply.text}"
"""
    order = {"amount": 3}
    assert run(written(tmp_path, body), replies={"order": order}).text == "3 more"
    assert order == {"amount": 3}


def test_a_wait_that_ends_without_a_reply_says_which_and_when(tmp_path: Path) -> None:
    body = """
@skill
async def run(turn):
    try:
        await turn.wait_for("payment", timeout=60)
    except TimeoutError as error:
        yield str(error)
"""
    answer = run(written(tmp_path, body), replies={"payment": TimeoutError})
    assert answer.text == "no reply to 'payment' came within 60 s"
