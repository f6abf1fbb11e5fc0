"""Answers to the kit's question for an argument, and arguments that are too large."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, Json, WrapValidator
from typing_extensions import TypeAliasType

from a2a_lambda import Agent
from a2a_lambda.agent.skills import parameters
from a2a_lambda.agent.skills.parameters import Parameter
from a2a_lambda.errors import LimitExceeded
from tests.agent.folders import write


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, 2], "[1, 2]"),
        (5, "5"),
        ({"x": 1}, "{'x': 1}"),
        (None, "Please tell me: n."),
        ("no", "“no” cannot be used. Please"),
        ({"x": "y"}, '“{"x":"y"}” cannot be used. Please'),
    ],
)
def test_a_data_part_may_be_the_answer(tmp_path: Path, value: Any, text: str) -> None:
    code = "@skill\ndef hello(n: list[int] | int | dict[str, int]): return repr(n)"
    agent = Agent.load(write(tmp_path, code))
    answer = asyncio.run(agent.run(parts=[{"data": value}], after=asyncio.run(agent.run(""))))
    assert answer.text.startswith(text)


@pytest.mark.parametrize("value", ["[1, 2]", " [1, 2]", [1, 2], ["1", "2"]])
def test_a_list_may_be_written_as_a_string(tmp_path: Path, value: Any) -> None:
    """Models write lists so."""
    agent = Agent.load(write(tmp_path, "@skill\ndef hello(items: list[int]): return repr(items)"))
    assert asyncio.run(agent.run(parts=[{"data": {"items": value}}])).text == "[1, 2]"


@pytest.mark.parametrize(("hint", "text"), [("str", "Please tell me: n."), ("int", "Please tell me: n.")])
def test_an_object_is_no_answer_for_a_text_or_a_number(tmp_path: Path, hint: str, text: str) -> None:
    """It may be about something else, such as the client's locale."""
    agent = Agent.load(write(tmp_path, f"@skill\ndef hello(n: {hint}): return repr(n)"))
    answer = asyncio.run(agent.run(parts=[{"data": {"locale": "en"}}], after=asyncio.run(agent.run(""))))
    assert answer.text.startswith(text)


def test_a_skill_that_asks_may_read_the_data_itself(tmp_path: Path) -> None:
    code = """
        @skill
        def hello(turn, n: int = 0):
            return f"{n} {turn.data}" if turn.answering else Ask("Which?", fills="n")
    """
    agent = Agent.load(write(tmp_path, code))
    question = asyncio.run(agent.run("hi"))
    for value, text in ((["a"], "0 [['a']]"), (7, "7 [7]")):
        assert asyncio.run(agent.run(parts=[{"data": value}], after=question)).text == text


@pytest.mark.parametrize("hint", [Any, list[Any] | str])
def test_more_lists_than_memory_holds_fail_the_turn(hint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameters, "MAX_CONTAINERS", 2)
    lists: list[Any] = [[], []]
    parameter, texts = Parameter("x", hint, ""), ["[[[", '\\"[{']
    assert parameter.read([json.dumps(texts)], texts) == texts
    for value in (lists, None):
        with pytest.raises(LimitExceeded, match="The argument x may have at most 2 lists and objects"):
            parameter.read([json.dumps(lists)], value)


def test_a_string_that_is_never_closed_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time would grow with the square of its quotes: an hour for this text."""
    monkeypatch.setattr(parameters, "MAX_CONTAINERS", 2)
    text = '[[["' + '\\"' * 500_000
    with pytest.raises(LimitExceeded):
        Parameter("x", list[Any] | str, "").read([text], text)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (19.999, "Decimal input should have no more than 2 decimal places"),
        (123456, "Decimal input should have no more than 5 digits in total"),
        (1234, "Decimal input should have no more than 3 digits before the decimal point"),
    ],
)
def test_a_refusal_says_how_many_digits_a_decimal_may_have(tmp_path: Path, value: Any, words: str) -> None:
    code = (
        "from decimal import Decimal\nfrom typing import Annotated\nfrom pydantic import Field\n@skill\n"
        "def hello(turn, x: Annotated[Decimal, Field(max_digits=5, decimal_places=2)]): return str(x)"
    )
    agent = Agent.load(write(tmp_path, code))
    assert asyncio.run(agent.run(parts=[{"data": {"x": 19.99}}])).text == "19.99"
    refusal = asyncio.run(agent.run(parts=[{"data": {"x": value}}])).text
    assert refusal == f"“{value}” cannot be used ({words}). Please tell me: x. It must be a number."


VALIDATED = """
import argparse, asyncio
from typing import Annotated
from pydantic import BeforeValidator
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int)
def options(text):
    size = parser.parse_args(text.split()).size
    return asyncio.run(asyncio.sleep(0, f"size {size}"))
@skill
def hello(line: Annotated[str, BeforeValidator(options)]) -> str:
    return line
"""


def test_a_validator_does_not_run_on_the_servers_loop(tmp_path: Path) -> None:
    """It is the agent's code: it may block, as `asyncio.run` does, or end as a program does that cannot read
    its options."""
    agent = Agent.load(write(tmp_path, VALIDATED))
    assert asyncio.run(agent.run(parts=[{"data": {"line": "--size 3"}}])).text == "size 3"
    with pytest.raises(RuntimeError, match="skill hello ended with SystemExit"):
        asyncio.run(agent.run(parts=[{"data": {"line": "--size x"}}]))


class Wrapped(BaseModel):
    ids: Json[set[int]]


@pytest.mark.parametrize(
    ("hint", "of_numbers"),
    [
        (set[int], list),
        (frozenset[UUID], lambda numbers: [str(UUID(int=number)) for number in numbers]),
        (dict[int, str], lambda numbers: {str(number): "" for number in numbers}),
        (list[set[Decimal]], lambda numbers: [list(numbers)]),
        (Wrapped, lambda numbers: {"ids": json.dumps(list(numbers))}),
        (Annotated[set[int], BeforeValidator(json.loads)], lambda numbers: json.dumps(list(numbers))),
    ],
)
def test_values_whose_hashes_can_collide_are_few(
    hint: Any, of_numbers: Callable[[Iterable[int]], Any]
) -> None:
    """A client can choose numbers of one hash, and the time would grow with the square of their count."""
    parameter = Parameter("x", hint, "")
    value = of_numbers(range(5_000))
    assert parameter.read([json.dumps(value)], value)
    more = json.dumps(of_numbers(range(5_001)))
    with pytest.raises(LimitExceeded, match="The argument x may have at most 5,000 elements"):
        parameter.read([more], None)


def test_a_comma_in_a_text_that_is_json_may_be_escaped() -> None:
    text = json.dumps(json.dumps(list(range(5_001)))).replace(",", "\\u002c")
    with pytest.raises(LimitExceeded, match="The argument x may have at most 5,000 elements"):
        Parameter("x", Json[set[int]], "").read([text], None)


def test_lists_in_a_text_that_is_json_count() -> None:
    """They take as much memory as others."""
    text = json.dumps(json.dumps([[]] * 1_000_001))
    with pytest.raises(LimitExceeded, match="The argument x may have at most 1,000,000 lists and objects"):
        Parameter("x", Json[list[Any]], "").read([text], None)


@pytest.mark.parametrize("hint", [list[int], set[str], set[str | None], dict[str, int], Any])
def test_other_values_may_be_many(hint: Any) -> None:
    numbers = list(range(20_000))
    value: Any = {str(number): number for number in numbers} if hint == dict[str, int] else numbers
    value = list(map(str, numbers)) if hint in (set[str], set[str | None]) else value
    assert len(Parameter("x", hint, "").read([json.dumps(value)], value)) == 20_000


class Notes(BaseModel):
    text: str = ""
    ids: set[int] = set()


def test_a_text_beside_a_set_may_be_long() -> None:
    """Its commas are no elements."""
    value = {"text": "a, " * 20_000, "ids": [1]}
    assert Parameter("x", Notes, "").read([json.dumps(value)], value).ids == {1}
    assert Parameter("x", str | set[int], "").read(["a, " * 20_000], None) == "a, " * 20_000
    wrapped = {"text": "a, " * 20_000, "ids": "[1]"}
    assert Parameter("x", Wrapped, "").read([json.dumps(wrapped)], wrapped).ids == {1}


Tag = TypeAliasType("Tag", str)

OptionalTag = TypeAliasType("OptionalTag", Tag | None)

Numbers = TypeAliasType("Numbers", "int | list[Numbers]")


class Tags(BaseModel):
    a: set[Tag]
    b: dict[Tag, list[float]]
    c: set[OptionalTag]
    d: set[OptionalTag]


class Deferred(BaseModel, defer_build=True):
    ids: set[int]


@pytest.mark.parametrize(
    ("hint", "is_chosen"),
    [
        (Tags, False),
        (set[Literal["a", "b"]], False),
        (dict[Literal["a", "b"], list[float]], False),
        (set[bool], False),
        (dict, False),
        (Mapping[Any, Any], False),
        (dict[Any, list[dict[Any, Any]]], False),
        (dict[float, int], True),
        (set[tuple[str, str]], False),
        (dict[Annotated[str, BeforeValidator(str.lower)], int], False),
        (set[Annotated[str, AfterValidator(int)]], True),
        (set[Annotated[str, WrapValidator(lambda text, _: int(text))]], True),
        (set[Json[int]], True),
        (set[Numbers], True),
        (set[float], True),
        (set[tuple[str, int]], True),
        (set[str | int], True),
        (set[Any], True),
        (list[Notes], True),
        (Deferred, True),
    ],
)
def test_which_values_have_hashes_that_a_client_can_choose(hint: Any, *, is_chosen: bool) -> None:
    assert Parameter("x", hint, "").has_chosen_hashes is is_chosen
