"""Annotations that name what is imported only for the type checker, aliases, and defaults that can change."""

import asyncio
import sys
from collections.abc import Awaitable
from functools import partial, update_wrapper, wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel
from typing_extensions import TypeAliasType

from a2a_lambda import Agent, Turn, skill
from a2a_lambda.agent.outputs import AskArgument
from a2a_lambda.agent.skills.annotations import return_hint
from a2a_lambda.agent.skills.skill import Skill
from tests.agent.folders import write
from tests.durable.agents import run, written


class Model(BaseModel):
    city: str


class Planner:
    def __call__(self, city: "Absent") -> int:  # type: ignore[name-defined]  # noqa: F821
        raise NotImplementedError


def plan(turn: "Absent", city: str) -> int:  # type: ignore[name-defined]  # noqa: F821
    raise NotImplementedError


def plan_elsewhere(city: str) -> "Absent":  # type: ignore[name-defined]  # noqa: F821
    raise NotImplementedError


@pytest.mark.parametrize("function", [plan, partial(plan, city="Oslo"), Planner(), Planner().__call__])
def test_a_result_has_its_type_whatever_the_parameters_are(function: Any) -> None:
    assert return_hint(function) is int


@pytest.mark.parametrize("function", [plan_elsewhere, lambda: 1, print, Planner, 5, asyncio.sleep(0)])
def test_a_result_without_a_known_type_has_any(function: Any) -> None:
    assert return_hint(function) is Any
    if asyncio.iscoroutine(function):
        function.close()


def test_what_a_result_stands_for() -> None:
    async def make() -> Awaitable[int]:
        raise NotImplementedError

    assert return_hint(make) is int
    assert return_hint(Model.model_validate) is Model


def test_a_decorated_function_returns_what_its_decorator_says() -> None:
    """Or, if that says nothing, what the function within says, whose names are those of its own module."""

    def wrap_as_text(function: Any) -> Any:
        @wraps(function, assigned=("__name__",))
        def wrapper(city: str) -> str:
            raise NotImplementedError

        return wrapper

    assert return_hint(wrap_as_text(plan)) is str
    assert return_hint(wraps(plan)(lambda: None)) is int
    assert return_hint(update_wrapper(Planner(), plan)) is int


def test_a_step_returns_what_its_function_says(tmp_path: Path) -> None:
    """Another annotation of the function cannot be resolved."""
    code = """
from dataclasses import dataclass
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from elsewhere import Guide

@dataclass
class Plan:
    city: str

def make_plan(guide: "Guide", city: str) -> Plan:
    return Plan(city)

@skill
async def run(turn: Turn) -> str:
    plan = await turn.step("plan", make_plan, None, city="Oslo")
    return plan.city
"""
    assert run(written(tmp_path, code)).text == "Oslo"


COUNT = Annotated[int, "the number of guests"]

ALIASES: dict[str, Any] = {"Count": TypeAliasType("Count", COUNT), "Me": TypeAliasType("Me", Turn)}
"""What `type` makes from Python 3.12 on, where it has a class of its own."""

if sys.version_info >= (3, 12):
    statements = "type Count = COUNT\ntype Me = Turn\ntype Unknown = Absent | str"
    exec(statements, {"COUNT": COUNT, "Turn": Turn}, ALIASES)


@pytest.mark.skipif("Unknown" not in ALIASES, reason="Python 3.11 has no type statement")
def test_an_alias_may_name_what_only_the_type_checker_imports() -> None:
    def tell(turn: Any, city: str = "Oslo") -> Any: ...

    tell.__annotations__ = {**tell.__annotations__, "turn": ALIASES["Unknown"], "return": ALIASES["Unknown"]}
    assert Skill(skill(tell)).turn_name == "turn"


@pytest.mark.parametrize("me", [ALIASES["Me"], ALIASES["Me"] | None])
@pytest.mark.parametrize("count", [ALIASES["Count"], ALIASES["Count"] | None])
def test_an_alias_stands_for_its_type(me: Any, count: Any) -> None:
    def tell(me: Any, count: Any) -> None: ...

    tell.__annotations__ = {"me": me, "count": count}
    tool = Skill(skill(tell))
    question = tool.arguments({})
    assert isinstance(question, AskArgument)
    assert "Please tell me: the number of guests." in question.question
    assert tool.turn_name == "me"


@pytest.mark.parametrize("hint", [Turn | None, Annotated[Turn, "it"]])
def test_a_parameter_that_may_have_the_turn_gets_it(hint: Any) -> None:
    def tell(me: Any) -> None: ...

    tell.__annotations__ = {"me": hint}
    assert Skill(skill(tell)).turn_name == "me"


def test_a_default_that_changes_is_not_the_next_callers() -> None:
    def collect(tags: list[list[str]] = [[]], size: int = 3) -> None: ...  # noqa: B006

    tool = Skill(skill(collect))
    first: Any = tool.arguments({})
    first["tags"][0].append("mine")
    assert tool.arguments({}) == {"tags": [[]]}
    assert tool.arguments({})["tags"] is not collect.__defaults__[0]  # type: ignore[index]


@pytest.mark.parametrize("value", ["dict[str, Tree] | int", dict[str, "Tree"] | int])  # type: ignore[name-defined]  # noqa: F821
def test_an_alias_may_contain_itself(value: Any) -> None:
    """Where there is no `type` statement, it does so in a string."""

    def tell(tree: Any) -> None: ...

    tell.__annotations__ = {"tree": TypeAliasType("Tree", value)}
    tool, value = Skill(skill(tell)), {"a": {"b": 1}}
    assert tool.arguments({}, {"tree": value}) == {"tree": value}
    assert tool.input_schema["properties"]["tree"]


def test_an_alias_may_be_called_as_its_description_or_a_choice() -> None:
    def tell(city: Any, size: Any) -> None: ...

    city, size = TypeAliasType("City", Annotated[str, "City"]), TypeAliasType("Size", Literal["Size", "S"])
    tell.__annotations__ = {"city": city, "size": size | None}
    tool = Skill(skill(tell))
    question = tool.arguments({})
    assert isinstance(question, AskArgument)
    assert question.question == "Please tell me: City."
    assert tool.arguments({"city": ["Oslo"], "size": ["Size"]}) == {"city": "Oslo", "size": "Size"}


@pytest.mark.parametrize("hint", ["JsonValue", "JsonValue | None", "dict[str, JsonValue]"])
def test_a_parameter_may_be_any_json(tmp_path: Path, hint: str) -> None:
    """pydantic's alias names itself by a string, which only pydantic resolves."""
    code = f"from pydantic import JsonValue\n@skill\ndef hello(turn, x: {hint}): return repr(x)"
    agent = Agent.load(write(tmp_path, code))
    assert asyncio.run(agent.run(parts=[{"data": {"x": {"a": [1, None]}}}])).text == "{'a': [1, None]}"
