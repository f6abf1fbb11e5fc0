"""Answers to the kit's question for an argument."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import Agent
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


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        ("list", 'a JSON list such as ["a", "b"]'),
        ("dict", 'a JSON object such as {"a": "b"}'),
        ("set[str]", 'a JSON list such as ["a", "b"]'),
        ("list[float]", "a JSON list such as [1, 2]"),
        ("list[bool]", "a JSON list such as [true, false]"),
        ("dict[str, int]", 'a JSON object such as {"a": 1}'),
        ("dict[str, bool]", 'a JSON object such as {"a": true}'),
        (
            "Annotated[list[int], Field(min_length=1, max_length=1)]",
            "a JSON list, exactly 1 entry long",
        ),
        ("list[Annotated[int, WithJsonSchema({'type': ['integer', 'null']})]]", "a JSON list"),
        ("list[date]", "a JSON list"),
        ("list[list[int]]", "a JSON list"),
        ("list[Literal['x', 'y']]", "a JSON list"),
        ("tuple[int, date]", "a JSON list, exactly 2 entries long"),
        ("Place", "a JSON object with city"),
        ("list[Place]", "a JSON list"),
    ],
)
def test_the_example_of_a_question_fits(tmp_path: Path, hint: str, kind: str) -> None:
    code = (
        "from datetime import date\nfrom typing import Annotated, Literal\n"
        "from pydantic import BaseModel, Field, WithJsonSchema\n"
        'class Place(BaseModel):\n    city: str\n    zip: str = ""\n'
        f"@skill\ndef hello(x: {hint}): return 'it fits'"
    )
    agent = Agent.load(write(tmp_path, code))
    question = asyncio.run(agent.run("hi"))
    assert question.text == f"Please tell me: x. It must be {kind}."
    _, _, example = kind.partition(" such as ")
    if example:
        assert asyncio.run(agent.run(example, after=question)).text == "it fits"
