"""Defaults of parameters, which every call without an argument gets."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel

from a2a_lambda import Turn, skill
from a2a_lambda.agent.skills.parameters import Parameter
from a2a_lambda.agent.skills.skill import Skill


@dataclass(frozen=True)
class Filter:
    words: list[str]


class Model(BaseModel, frozen=True):
    words: list[str] = []


def words_of(filter_: Any) -> list[str]:
    words: list[str] = filter_.words
    return words


@pytest.mark.parametrize(
    ("default", "list_in"),
    [([], lambda value: value), (Filter([]), words_of), (Model(), words_of), (([],), itemgetter(0))],
)
def test_a_default_that_one_caller_changes_is_new_for_the_next(
    default: Any, list_in: Callable[[Any], list[str]]
) -> None:
    """Also one that is frozen, and holds a list."""

    def hello(turn: Turn, words=default) -> str:  # type: ignore[no-untyped-def]
        return ""

    hello.__annotations__["words"] = type(default)
    defaults = []
    for _ in range(2):
        arguments = Skill(skill(hello)).arguments({})
        assert isinstance(arguments, dict)
        defaults.append(list_in(arguments["words"]))
    defaults[0].append("x")
    assert defaults[1] == list_in(default) == []


class Unhashable:
    def __hash__(self) -> int:
        raise NotImplementedError


@dataclass(frozen=True)
class Fixed:
    words: MappingProxyType[str, str]


@dataclass(eq=False)
class Hashable:
    words: list[str]


ALL = object()


@pytest.mark.parametrize(
    "default", [ALL, Unhashable(), Fixed(MappingProxyType({})), MappingProxyType({"a": "b"}), None, "x"]
)
def test_a_default_that_cannot_change_or_be_copied_stays(default: Any) -> None:
    assert Parameter("x", Any, default).default_of_call() is default


def test_a_default_that_can_change_is_copied_even_if_it_has_a_hash() -> None:
    default = Hashable(["a"])
    copy = Parameter("x", Any, default).default_of_call()
    assert copy.words == ["a"]
    assert copy.words is not default.words
