"""Outputs that no client gets, replies that plain skills never get, and skills that are replaced."""

from pathlib import Path

import pytest

from a2a_lambda.catalog.agents import read_cards
from tests.agent.folders import CARD, write
from tools.agents import imports, lost

DURABLE = CARD.replace("skills:", "durable: true\nskills:")

MIXED = CARD + "  - {{ id: say-bye, name: Bye, description: Says bye., durable: true }}\n"

ONE_OF_TWO = """@skill
async def hello(turn):
    size = yield Ask('Which size?')

@skill
async def say_bye(turn):
    size = yield Ask('Which size?')
"""


@pytest.mark.parametrize(
    ("code", "card", "lines"),
    [
        ("@skill\ndef hello(turn):\n    size = yield Ask('Which size?')\n    yield size", CARD, [4]),
        ("@skill('hello')\nasync def ask(turn):\n    yield (yield Authorize('Who?'))", CARD, [4]),
        (
            "@skill(default=True)\ndef hello(turn):\n    if (yield Ask('Sure?')) == 'yes':\n        pass",
            CARD,
            [4],
        ),
        ("@skill\nasync def hello(turn):\n    size = yield Ask('Which size?')", DURABLE, []),
        ("@skill\ndef hello(turn):\n    yield Ask('Which size?')\n    x = yield 'no question'", CARD, []),
        (ONE_OF_TWO, MIXED, [4]),
        (
            "import a2a_lambda as a\n@a.skill\ndef hello():\n    x = yield a.Ask()\n    y = yield a.Ask()",
            CARD,
            [5, 6],
        ),
        ("@skill\ndef hello(turn):\n    def inner():\n        x = yield Ask('?')", CARD, []),
        ("def helper():\n    size = yield Ask('Which size?')", CARD, []),
        ("def (", CARD, []),
        (
            f"@skill\ndef hello(turn):\n    yield {' + '.join(['1'] * 2000)}\n    x = yield Ask('?')",
            CARD,
            [5],
        ),
    ],
)
def test_a_reply_that_never_comes_is_named(tmp_path: Path, code: str, card: str, lines: list[int]) -> None:
    folder = write(tmp_path, code, card)
    sentences = lost.find_lost(tmp_path, read_cards(tmp_path)[0])
    assert len(sentences) == len(lines)
    for sentence, line in zip(sentences, lines, strict=True):
        assert f"{folder / 'agent.py'}:{line}: this `yield` never returns the reply" in sentence


@pytest.mark.parametrize("card", [CARD, DURABLE])
def test_an_output_that_is_discarded_is_named(tmp_path: Path, card: str) -> None:
    code = """import a2a_lambda as kit
@skill
async def hello(turn):
    if not turn.text:
        Ask('Which size?')
    kit.Reject('No.')
    if turn.files:
        raise Reject('No files.')
    Ask.__doc__
    yield Ask('Which color?')

def helper():
    Ask('This line is in no skill.')
"""
    folder = write(tmp_path, code, card)
    assert lost.find_lost(tmp_path, read_cards(tmp_path)[0]) == [
        f"{folder / 'agent.py'}:6: this Ask is discarded: write `yield` or `return` before it",
        f"{folder / 'agent.py'}:7: this Reject is discarded: write `yield` or `return` before it",
        f"{folder / 'agent.py'}:9: Reject is no exception: write `return` instead of `raise`",
    ]


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("from a2a_lambda.agent.outputs import Ask as Q", "Q"),
        ("import a2a_lambda.agent.outputs", "a2a_lambda.Ask"),
        ("import a2a_lambda.agent.outputs", "a2a_lambda.agent.outputs.Ask"),
        ("import a2a_lambda.agent.outputs as out", "out.Ask"),
    ],
)
def test_an_output_may_be_imported_from_within_the_kit(tmp_path: Path, imports: str, name: str) -> None:
    write(tmp_path, f"{imports}\n@skill\ndef hello(turn):\n    {name}('?')")
    [sentence] = lost.find_lost(tmp_path, read_cards(tmp_path)[0])
    assert "this Ask is discarded" in sentence


def test_another_librarys_class_of_the_same_name_is_none_of_the_kits(tmp_path: Path) -> None:
    code = """import celery, click
from celery.exceptions import Reject as Refusal
from a2a_lambda import Reject as No

@skill
def hello(turn):
    click.Command("x")
    if turn.files:
        raise celery.exceptions.Reject("mine")
    if turn.data:
        raise Refusal("mine")
    raise No("kit's")
"""
    folder = tmp_path / "hello"
    write(tmp_path, code)
    (folder / "agent.py").write_text(f"from a2a_lambda import skill\n{code}")
    assert lost.find_lost(tmp_path, read_cards(tmp_path)[0]) == [
        f"{folder / 'agent.py'}:13: Reject is no exception: write `return` instead of `raise`"
    ]


def test_a_skill_that_another_function_replaces_is_named(tmp_path: Path) -> None:
    code = """@skill
def hello(turn):
    return "one"

def helper(): ...

@skill
def hello(turn):
    return "two"

def helper(): ...
"""
    folder = write(tmp_path, code)
    assert lost.find_lost(tmp_path, read_cards(tmp_path)[0]) == [
        f"{folder / 'agent.py'}:9: this hello replaces the skill of line 3: rename one of them"
    ]


def test_code_that_is_too_deep_to_read_is_left_to_python(tmp_path: Path) -> None:
    for number, statement in enumerate((f"B(){'.add(1)' * 400}", "-" * 20_000 + "1")):
        write(tmp_path / str(number), f"@skill\ndef hello(turn):\n    {statement}\n    Ask('Which?')\n")
        cards = read_cards(tmp_path / str(number))[0]
        assert len(lost.find_lost(tmp_path / str(number), cards)) <= 1
        assert imports.find_missing(tmp_path / str(number)) == []
