"""Annotations that name what is imported only for the type checker, aliases, and defaults that can change."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pytest
from typing_extensions import TypeAliasType

from a2a_lambda import Turn, skill
from a2a_lambda.agent.outputs import AskArgument
from a2a_lambda.agent.skills.annotations import return_hint
from a2a_lambda.agent.skills.skill import Skill
from tests.durable.agents import run, written


class Plan:
    def __call__(self, city: "Absent") -> int:  # type: ignore[name-defined]  # noqa: F821
        raise NotImplementedError


def plan(turn: "Absent", city: str) -> int:  # type: ignore[name-defined]  # noqa: F821
    raise NotImplementedError


def plan_elsewhere(city: str) -> "Absent":  # type: ignore[name-defined]  # noqa: F821
    raise NotImplementedError


@pytest.mark.parametrize("function", [plan, partial(plan, city="Oslo"), Plan(), Plan().__call__])
def test_a_result_has_its_type_whatever_the_parameters_are(function: Any) -> None:
    assert return_hint(function) is int


@pytest.mark.parametrize("function", [plan_elsewhere, lambda: 1, print, Plan, 5, asyncio.sleep(0)])
def test_a_result_without_a_known_type_has_any(function: Any) -> None:
    assert return_hint(function) is Any
    if asyncio.iscoroutine(function):
        function.close()


def test_a_step_returns_what_its_function_says(tmp_path: Path) -> None:
    """Although another annotation of the function cannot be resolved."""
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
    plan = await turn.step("plan", make_plan, None, "Oslo")
    return plan.city
"""
    assert run(written(tmp_path, code)).text == "Oslo"


def test_an_alias_stands_for_its_type() -> None:
    """As `type Count = Annotated[int, "the number of guests"]` does from Python 3.12 on."""

    def tell(me: Any, count: Any) -> None: ...

    count = TypeAliasType("count", Annotated[int, "the number of guests"])
    tell.__annotations__ = {"me": TypeAliasType("me", Turn), "count": count}
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
    def collect(tags: list[str] = []) -> None: ...  # noqa: B006

    tool = Skill(skill(collect))
    first: Any = tool.arguments({})
    first["tags"].append("mine")
    assert tool.arguments({}) == {"tags": []}
