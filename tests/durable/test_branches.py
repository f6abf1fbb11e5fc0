"""Branches of a durable turn, and task groups that are suspended."""

from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import Agent, StepFailed
from a2a_lambda.errors import CodeChanged
from tests.durable.agents import run, written


def test_branches_may_have_several_operations(tmp_path: Path) -> None:
    body = """
@skill
async def run(turn):
    async def branch(name):
        first = await turn.step("first", lambda: name)
        await turn.sleep(hours=1)
        reply = await turn.wait_for(f"{name}-reply")
        return [first, *reply.data]
    return {"all": await turn.parallel(lambda: branch("a"), lambda: branch("b"))}
"""
    agent = written(tmp_path, body)
    replies = {"parallel/0/a-reply": "A", "parallel/1/b-reply": "B"}
    assert run(agent, replies=replies).data == [{"all": [["a", "A"], ["b", "B"]]}]
    waiting = run(agent)
    assert waiting.state == "working"


@pytest.mark.parametrize(
    "wait",
    [
        "(await turn.wait_for('ask', Ask('Which?'))).data",
        "(await turn.parallel(turn.wait_for('ask')))[0].data",
        "(await turn.parallel(ask))[0]",
    ],
)
def test_a_reply_may_be_nested_as_deep_as_json_may_be(tmp_path: Path, wait: str) -> None:
    """The skill may return it a little deeper."""
    body = f"""
@skill
async def run(turn):
    async def ask():
        return (await turn.wait_for("ask")).data
    data = {wait}
    yield {{"the answer": data}}
"""
    data: Any = "in here"
    for _ in range(64):
        data = [data]
    key = "parallel/0/ask" if "parallel" in wait else "ask"
    answer = run(written(tmp_path, body), replies={key: data})
    assert answer.data == [{"the answer": [data]}]


def test_a_reply_to_a_branch_has_its_place_in_its_name(tmp_path: Path) -> None:
    body = """
@skill
async def run(turn):
    return await turn.parallel(turn.wait_for("x"), turn.wait_for("y"))
"""
    with pytest.raises(ValueError, match="the wait 'x' of a branch is called 'parallel/0/x' in replies"):
        run(written(tmp_path, body), replies={"x": 1, "y": 2})


def test_a_failed_branch_fails_the_turn_after_all_have_ended(tmp_path: Path) -> None:
    body = """
done = []
@skill
async def run(turn):
    def boom():
        raise OSError
    async def slow():
        await asyncio.sleep(0.05)
        done.append(1)
    await turn.parallel(turn.step("a", boom, retry=Retry(attempts=1)), turn.step("b", slow))
"""
    agent = written(tmp_path, body)
    with pytest.raises(StepFailed, match="'a' failed with OSError"):
        run(agent)
    assert agent.skills["run"].function.__globals__["done"] == [1]


def test_what_a_branch_raises_is_a_failed_step_as_on_aws(tmp_path: Path) -> None:
    body = """
async def book():
    raise ValueError("no room")
@skill
async def run(turn):
    try:
        await turn.parallel(book)
    except StepFailed as error:
        yield [error.name, error.kind, error.text]
"""
    assert run(written(tmp_path, body)).data == [["parallel/0", "ValueError", "no room"]]


def test_branches_return_what_json_can_say_of_their_types(tmp_path: Path) -> None:
    body = """
from dataclasses import dataclass
from datetime import date
@dataclass
class Plan:
    city: str
def make(city: str) -> Plan:
    return Plan(city)
def day() -> date:
    return date(2026, 1, 31)
@skill
async def run(turn):
    yield await turn.parallel(turn.step("a", make, "Rome"), turn.step("b", day))
"""
    assert run(written(tmp_path, body)).data == [[{"city": "Rome"}, "2026-01-31"]]


def test_steps_and_waits_in_branches_return_the_types_that_they_return_alone(tmp_path: Path) -> None:
    body = """
from typing import Annotated
from pydantic import AfterValidator, BaseModel
class Plan(BaseModel):
    city: Annotated[str, AfterValidator(lambda city: city + "!")]
def make_plan() -> Plan:
    return Plan.model_construct(city="Rome")
@skill
async def run(turn):
    plan, reply, pause, count = await turn.parallel(
        turn.step("plan", make_plan),
        turn.wait_for("x", Ask("?")),
        turn.sleep(hours=1),
        turn.step("count", lambda: 2),
    )
    return f"{plan.city}, {reply.text}, {reply.is_callback}, {pause}, {count}"
"""
    replies = {"parallel/1/x": "yes"}
    assert run(written(tmp_path, body), replies=replies).text == "Rome!, yes, False, None, 2"


def test_a_task_group_may_be_suspended(tmp_path: Path) -> None:
    body = """
@skill
async def run(turn):
    async with asyncio.TaskGroup():
        await turn.sleep(hours=1)
        reply = await turn.wait_for("go")
    yield reply.data
"""
    agent = written(tmp_path, body)
    waiting = run(agent)
    assert (waiting.state, waiting.steps) == ("working", ["sleep"])
    assert run(agent, after=waiting, replies={"go": 7}).data == [[7]]


def test_a_task_group_of_a_branch_may_be_suspended(tmp_path: Path) -> None:
    body = """
@skill
async def run(turn):
    async def branch():
        async with asyncio.TaskGroup():
            await turn.sleep(hours=1)
        return "done"
    yield await turn.parallel(branch)
"""
    assert run(written(tmp_path, body)).data == [["done"]]


def test_an_error_beside_a_suspension_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It would never be seen if the turn does not continue."""
    body = """
@skill
async def run(turn):
    try:
        await turn.wait_for("never")
    finally:
        raise ValueError("a mistake")
"""
    assert run(written(tmp_path, body)).state == "working"
    [record] = [each for each in caplog.records if "while it was suspended" in each.getMessage()]
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "a mistake"


def test_an_error_beside_the_suspension_of_a_branch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It does not replace the suspension. It would end the turn, which has more to wait for."""
    body = """
@skill
async def run(turn):
    async def branch():
        try:
            await turn.sleep(hours=1)
            return "slept"
        finally:
            if len(runs) == 1:
                raise ValueError("a mistake")
    runs.append(1)
    yield await turn.parallel(branch)
runs = []
"""
    assert run(written(tmp_path, body)).data == [["slept"]]
    [record] = [each for each in caplog.records if "while it was suspended" in each.getMessage()]
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "a mistake"


def test_a_branch_that_its_own_code_cancels_has_failed(traveler: Agent) -> None:
    assert run(traveler, skill="giving-up").text == "caught CancelledError"


def test_a_branch_does_not_change_the_memory(tmp_path: Path) -> None:
    """A replay that knows its result does not call it, so the change would be lost."""
    body = """
@skill
async def run(turn):
    async def branch():
        turn.memory.set("key", 1)
    await turn.parallel(branch)
"""
    with pytest.raises(
        StepFailed, match=r"^branch 'parallel/0' failed .*change the memory outside of steps and branches"
    ):
        run(written(tmp_path, body))


@pytest.mark.parametrize(("raised", "text"), [("NoRoom('full')", "full"), ("Late('late')", "late")])
def test_the_error_of_a_branch_has_the_class_that_a_deployment_keeps(
    tmp_path: Path, raised: str, text: str
) -> None:
    """A deployment keeps only SkillError and TimeoutError themselves, and the text."""
    body = f"""
class NoRoom(SkillError): ...
class Late(TimeoutError): ...
@skill
async def run(turn):
    async def branch():
        raise {raised}
    try:
        await turn.parallel(branch)
    except (NoRoom, Late):
        return "its own class"
    except (SkillError, TimeoutError) as error:
        return str(error)
"""
    assert run(written(tmp_path, body)).text == text


@pytest.mark.parametrize(
    "place",
    [
        "await turn.step('end', end, retry=Retry(attempts=1))",
        "await turn.step('end', lambda: end(), retry=Retry(attempts=1))",
        "await turn.parallel(end)",
        "await turn.parallel(lambda: end.now())",
    ],
)
@pytest.mark.parametrize("error", ["SystemExit(4)", "Panic()", "BaseExceptionGroup('x', [Panic()])"])
def test_code_that_exits_fails_alone(tmp_path: Path, place: str, error: str) -> None:
    """It must not end the loop that it shares with other agents, nor pass for a suspension, as the panic
    of an extension in Rust could, which is no Exception."""
    body = f"""
class Panic(BaseException): ...
def now():
    raise {error}
async def end():
    now()
end.now = now
@skill
async def run(turn):
    {place}
"""
    agent = written(tmp_path, body)
    with pytest.raises(StepFailed, match=f"ended with {error.partition('(')[0]}"):
        run(agent)
    plain = written(tmp_path, "@skill\nasync def run(turn): return 'still here'")
    assert run(plain).text == "still here"


def test_a_message_answers_the_question_first(tmp_path: Path) -> None:
    body = """
@skill
async def run(turn):
    async def free(): return (await turn.wait_for("free", messages=True)).text
    async def ask(number): return (await turn.wait_for("ask", Ask(f"{number}?"))).text
    branches = [lambda number=number: ask(number) for number in range(11)]
    return {"all": await turn.parallel(free, *branches)}
"""
    agent = written(tmp_path, body)
    answer = run(agent)
    for number in range(11):
        assert answer.text == f"{number}?", "in the order of the branches"
        answer = run(agent, f"reply {number}", after=answer)
    answer = run(agent, "free", after=answer)
    assert answer.data == [{"all": ["free", *(f"reply {number}" for number in range(11))]}]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a b", "b a"),
        ("a b", "a"),
        ("a", "a b"),
        ("a", ""),
    ],
)
def test_branches_that_a_replay_has_in_another_order_fail_clearly(
    tmp_path: Path, first: str, second: str
) -> None:
    """They would get each other's results."""
    body = f"""
runs = iter([{first!r}, {second!r}])
@skill
async def run(turn):
    names = next(runs).split()
    await turn.parallel(*[turn.step(name, int) for name in names])
    await turn.sleep(hours=1)
"""
    earlier = ", ".join(f"step {name}" for name in first.split())
    with pytest.raises(CodeChanged, match=f"where the earlier run had the parallel '{earlier}'"):
        run(written(tmp_path, body))


@pytest.mark.parametrize(
    "branch",
    [
        "functools.partial(visit, city)",
        "functools.partial(visit, turn, city=city)",
        "lambda city=city: visit(turn, city)",
        "lambda *, city=city: visit(turn, city)",
        "oslo if city == 'Oslo' else rome",
    ],
)
def test_branches_of_functions_are_told_apart_by_their_arguments(tmp_path: Path, branch: str) -> None:
    body = f"""
import functools
runs = itertools.count()
async def visit(turn, city=""): return city
async def oslo(): return "Oslo"
async def rome(): return "Rome"
@skill
async def run(turn):
    cities = ["Oslo", "Rome"][:: (-1) ** next(runs)]
    await turn.parallel(*[{branch} for city in cities])
    await turn.sleep(hours=1)
"""
    with pytest.raises(CodeChanged, match=r"Rome|rome"):
        run(written(tmp_path, body))


def test_the_arguments_of_branches_may_be_anything(tmp_path: Path) -> None:
    """A turn, or another object, shows nothing that would be the same in each run."""
    body = """
import functools
async def visit(turn, client, city): return city
@skill
async def run(turn):
    results = await turn.parallel(functools.partial(visit, turn, object(), "Oslo"), turn.step("b", int))
    await turn.sleep(hours=1)
    return {"results": results}
"""
    answer = run(written(tmp_path, body))
    assert answer.data == [{"results": ["Oslo", 0]}]
    assert answer.steps == ["sleep", "b"], "branches are no steps"
