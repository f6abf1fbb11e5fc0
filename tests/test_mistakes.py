"""Mistakes in an agent's files: file, line, what is wrong, and what to write instead."""

import asyncio
import re
from pathlib import Path

import pytest

import a2a_lambda
from a2a_lambda import Agent, mistakes
from a2a_lambda.errors import AgentMistake, ConfigurationError
from tests.agent.folders import CARD, write

GOOD = "@skill\ndef hello(turn): return 'x'"


def mistake(folder: Path, code: str = GOOD, card: str = CARD) -> str:
    """What is said of an agent, with the folder's path taken off."""
    with pytest.raises(ConfigurationError) as error:
        Agent.load(write(folder, code, card))
    reason = str(error.value)
    assert "Traceback" not in reason
    without_package = reason.replace("layers/a2a/a2a_lambda/__init__.py", "")
    assert "a2a_lambda/" not in without_package, "no frame of the kit's"
    return reason.replace(f"{folder.resolve()}/", "")


def test_a_folder_that_agents_share_is_imported_with_two_dots(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "prices.py").write_text("")
    text = mistake(tmp_path, "from shared.prices import price_of")
    assert "It is a folder beside this agent: write `from .. import shared`, or `from ..shared import" in text


def test_a_file_of_the_agent_is_nearer_than_a_folder_beside_it(tmp_path: Path) -> None:
    (tmp_path / "prices").mkdir()
    folder = write(tmp_path, "import prices")
    (folder / "prices.py").write_text("")
    with pytest.raises(
        ConfigurationError, match=r"It is a file of this agent: write `from [.] import prices`"
    ):
        Agent.load(folder)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "import httpxx",
            "hello/agent.py:2: there is no module 'httpxx'. If it comes from a package, add it: make add",
        ),
        (
            "import helper",
            "hello/agent.py:2: there is no module 'helper'. It is a file of this agent: write `fr",
        ),
        ("import os.nothing", "there is no module 'os.nothing'. Correct the part after `os.`."),
        ("import time.sleep", "Correct the part after `time.`."),
        ("import winreg", "This system's Python does not have it: import it only where it exists"),
        (
            "import pydantic.nothing",
            "Correct the part after `pydantic.`. If your code does not name it, the package is incomplete",
        ),
        ("from hello import helper", "A module of this agent is imported with a dot: write `from .module"),
        (
            "import hello.helper",
            "write `from .module import name`. If it is a package, add it: make add PACKAGE=hello",
        ),
        ("from a2a_lambda.nothing import x", "The kit does not have that name"),
        ("x = (", "hello/agent.py:2: '(' was never closed\n    x = ("),
        ("if True:\nx = 1", "hello/agent.py:3: expected an indented block"),
        (
            "import os\nx = os.environ['NO_SUCH_VARIABLE']",
            "hello/agent.py:3: there is no environment variable NO_SUCH_VARIABLE. On AWS, agents get those",
        ),
        (
            "from collections import UserDict\nx = UserDict(a=1)['b']",
            "hello/agent.py:3: KeyError: 'b'",
        ),
        ("x = {}['NO_SUCH_KEY']", "hello/agent.py:2: KeyError: 'NO_SUCH_KEY'"),
        (
            "x = 1\ny = x.foo",
            "hello/agent.py:3: AttributeError: 'int' object has no attribute 'foo'\n    y = x",
        ),
        ("raise SystemExit(3)", "hello/agent.py:2: SystemExit: 3"),
        ("from . import helper\nhelper.broken()", "hello/helper.py:2: ZeroDivisionError: division by zero"),
        ("@skill\nclass Hello: ...", "@skill is for functions, but Hello is a class"),
        (
            "@skill\ndef hello(t): ...",
            "hello/agent.py:3: skill hello: parameter t has no type: write `t: str`, or",
        ),
        ("@skill\ndef hello(turn, n=3): ...", "parameter n has no type: write `n: str`"),
        (
            "@skill\ndef hello(turn, *more): ...",
            "parameter more must be a plain named parameter: remove the `*`",
        ),
        (
            "@skill\ndef hello(turn, x: 'Nowhere'): ...",
            "hello/agent.py:3: skill hello: its type hints raise NameError: name 'Nowhere' is not def",
        ),
        (
            "@skill\ndef helo(turn): ...",
            "hello/agent.py: card.yaml has the skill 'hello', but no function at the top level of agent.py"
            " has that id; did you mean helo? The functions have the ids: helo. Correct the"
            " id in card.yaml, or write @skill(",
        ),
        ("", "hello/agent.py: no function has @skill: write it above each skill's `def`, at the top level"),
        (
            "@skill\ndef hello(turn: str): ...",
            "the parameter turn always gets the turn: write `turn: Turn`, and read the message's text from",
        ),
        *(
            (f"{imports}\n@skill\ndef hello(turn: {hint}): ...", "the parameter turn always gets the turn")
            for imports, hint in (
                ("", "list[str]"),
                ("", "'int | None'"),
                ("import datetime", "datetime.date"),
                ("from typing import Literal", "Literal['a', 'b']"),
                ("from typing import Annotated", "Annotated[str, 'x']"),
                ("from collections.abc import Sequence", "Sequence[str]"),
            )
        ),
        (
            "import pydantic\nclass M(pydantic.BaseModel): ...\n@skill\ndef hello(turn: M): ...",
            "the parameter turn always gets the turn",
        ),
        ("from json import nothing", "hello/agent.py:2: cannot import name 'nothing' from 'json'"),
    ],
)
def test_code(tmp_path: Path, code: str, said: str) -> None:
    folder = tmp_path / "hello"
    folder.mkdir()
    (folder / "helper.py").write_text("def broken():\n    1 / 0\n")
    (folder / "card.yaml").write_text(CARD.format(name="hello"))
    (folder / "agent.py").write_text("from a2a_lambda import *\n" + code)
    with pytest.raises(ConfigurationError) as error:
        Agent.load(folder)
    text = str(error.value).replace(f"{tmp_path.resolve()}/", "")
    assert said in text
    assert "Traceback" not in text
    assert "exec_module" not in text


@pytest.mark.parametrize("is_file", [True, False])
def test_a_file_of_the_agent_may_have_the_name_of_another_module(tmp_path: Path, *, is_file: bool) -> None:
    """The repository has a package called tools."""
    folder = tmp_path / "hello"
    folder.mkdir()
    (folder / "card.yaml").write_text(CARD.format(name="hello"))
    place = folder / "tools.py" if is_file else folder / "tools" / "weather.py"
    place.parent.mkdir(exist_ok=True)
    place.write_text("def weather(): ...")
    (folder / "agent.py").write_text("from tools import weather")
    advice = "'weather' from 'tools'. It is a file of this agent: write `from . import tools`"
    with pytest.raises(ConfigurationError, match=advice):
        Agent.load(folder)


@pytest.mark.parametrize("hint", ["Any", "object", "Texted", "Turn", "'Turn | None'", "Annotated[Turn, 'x']"])
def test_a_turn_may_have_any_hint_that_fits_it(tmp_path: Path, hint: str) -> None:
    protocol = "from typing import *\n\nclass Texted(Protocol):\n    text: str\n\n"
    agent = Agent.load(write(tmp_path, f"{protocol}@skill\ndef hello(turn: {hint}): return turn.text"))
    assert asyncio.run(agent.run("hi")).text == "hi"


def test_every_mistake_of_a_card_at_once(tmp_path: Path) -> None:
    card = (
        "name: yes\ndescripton: For a test.\nversion: 1.0\nskills:\n"
        "  - id: hello\n    nam: Hello\n    description: Says hello.\n    colour: red\n"
    )
    problem = mistake(tmp_path, card=card)
    assert problem.splitlines() == [
        "hello/card.yaml: 5 mistakes:",
        '  line 1: name must be a string, but YAML reads yes as true or false: write "yes"',
        "  line 2: descripton is not a field of a card; did you mean description?",
        '  line 3: version must be a string, but YAML reads 1.0 as a number: write "1.0"',
        "  line 6: skills.0.nam is not a field of skills; did you mean name?",
        "  line 8: skills.0.colour is not a field of skills.",
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tags: [a]", "tags is not a field of a card; it belongs in skills."),
        ("iconURL: x", "iconURL is not a field of a card; did you mean iconUrl?"),
        (
            "documentationUrl: 2026-01-01",
            "documentationUrl must be a string, but YAML reads 2026-01-01 as a date",
        ),
        ("iconUrl:\nprovider: x", "provider must have fields, each on a line below it"),
        ("defaultInputModes: text/plain", "defaultInputModes must be a list: write [text/plain]"),
        ("defaultInputModes: text", "defaultInputModes must be a list: write [text/plain]"),
        (
            "documentationUrl: a: b",
            "mapping values are not allowed here; put the text of this line in quotes",
        ),
        ("documentationUrl: * * *", "found ' '; put the text of this line in quotes"),
        ("documentationUrl: @a", "cannot start any token; put the text of this line in quotes"),
        ("1: x", "1 is not the name of a field."),
        (
            "iconUrl: x\n  documentationUrl: y",
            "mapping values are not allowed here; begin this line in the column of the field above",
        ),
        (
            "capabilities:\n  - a: 1\n- b: 2",
            "expected <block end>, but found '-'; begin this line in the column of the `-` above it",
        ),
        ("skills2: [What?]", "expected ',' or ']', but got '?'; put the strings of this list in quotes"),
        ("iconUrl:x", "could not find expected ':'; write a colon and a space after the field's name"),
        ("iconUrl: 'It's mine'", "found '<scalar>'; put the text of this line in the other kind of quotes"),
        ('iconUrl: "mine', "found unexpected end of stream; the quote that begins here is not closed"),
        ('iconUrl: "W",', "found ','; remove the comma"),
        ("# a\u0085# b\u0085# c\niconUrl: W: x", "put the text of this line in quotes"),
        ("public: nope", "public must be true or false"),
        ('default: "true"', "default must be true or false"),
        (
            "schedules: [{{ id: a, cron: '* * * * *', message: m, catch_up_minutes: '5' }}]",
            "catch_up_minutes must be a whole number",
        ),
        ("capabilities: streaming", "capabilities must have fields, each on a line below it"),
        ("scopes: [读取]", "scopes.0 is wrong: String should match pattern"),
        ("scopes: {{ a: b }}", "scopes must be a list: begin each entry with `- `"),
        (
            "schedules: [{{ id: a, cron: '* * * * *', message: m, arguments: {{ n: 3 }} }}]",
            'schedules.0.arguments.n must be a string, but YAML reads 3 as a number: write "3"',
        ),
        (
            "schedules: [{{ id: a, cron: '* * * * *', message: m, arguments: {{ n: [a] }} }}]",
            "n must be a string, but YAML reads … as a list: write its JSON in quotes, such as '[1, 2]'",
        ),
        (
            "schedules: [{{ id: a, cron: '* * * * *', message: m, token: 12345 }}]",
            "token must be a string, but YAML reads … as",
        ),
    ],
)
def test_odd_lines_of_a_card(tmp_path: Path, line: str, said: str) -> None:
    assert said in mistake(tmp_path, card=CARD + line + "\n")


def test_a_card_that_is_no_yaml(tmp_path: Path) -> None:
    problem = mistake(tmp_path, card=CARD + "extended:\n\tdescription: x\n")
    assert problem.startswith("hello/card.yaml:8: not valid YAML: found character '\\t'")
    assert problem.endswith("YAML indents with spaces")


def test_an_empty_field(tmp_path: Path) -> None:
    assert "hello/card.yaml:2: name is empty" in mistake(tmp_path, card=CARD.replace("name: {name}", "name:"))


def test_a_package_is_named_as_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork may have any real package, so this one is none."""
    monkeypatch.setitem(mistakes.DISTRIBUTIONS, "httpxx", "http-xx")
    with pytest.raises(ConfigurationError, match="add it: make add PACKAGE=http-xx"):
        Agent.load(write(tmp_path, "import httpxx"))


def test_one_mistake_is_one_line(tmp_path: Path) -> None:
    card = CARD.replace("version: 0.1.0", "version: 1")
    problem = mistake(tmp_path, card=card)
    assert problem == 'hello/card.yaml:4: version must be a string, but YAML reads 1 as a number: write "1"'


@pytest.mark.parametrize("card", ["", "- a\n- b", "just text"])
def test_a_card_that_is_none(tmp_path: Path, card: str) -> None:
    assert "write one `field: value` on each line" in mistake(tmp_path, card=card)


def test_a_skill_or_a_slot_that_there_is_not(tmp_path: Path) -> None:
    agent = Agent.load(write(tmp_path, "@skill\ndef hello(city: str): return city"))
    with pytest.raises(ValueError, match="no skill 'helo'; did you mean hello\\? Skills: hello"):
        asyncio.run(agent.run(skill="helo"))
    with pytest.raises(ValueError, match="no parameter 'citty'; did you mean city\\? It has: city"):
        asyncio.run(agent.run(skill="hello", slots={"citty": "Paris"}))


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ("Ask('Which?', fills='citty')", "Ask: skill hello has no parameter 'citty'"),
        # The name may be a user's word, and the text is logged.
        (
            "Ask('Which?', known={'city': 'x', 'citty': 'x'})",
            "Ask: name 2 in known is not a parameter of skill hello",
        ),
    ],
)
def test_a_question_for_a_parameter_that_there_is_not(tmp_path: Path, asked: str, problem: str) -> None:
    agent = Agent.load(write(tmp_path, f"@skill\ndef hello(city: str = ''): return {asked}"))
    with pytest.raises(AgentMistake) as mistake:
        asyncio.run(agent.run())
    assert str(mistake.value).endswith(f": {problem}; did you mean city? It has: city")


def test_a_wrong_output_names_every_right_one(tmp_path: Path) -> None:
    agent = Agent.load(write(tmp_path, "@skill\ndef hello(turn): return object()"))
    with pytest.raises(AgentMistake) as error:
        asyncio.run(agent.run())
    reason = str(error.value)
    of_outputs = a2a_lambda.Ask.__module__
    names = [name for name in a2a_lambda.__all__ if getattr(a2a_lambda, name).__module__ == of_outputs]
    assert len(names) == 8
    for name in names:
        assert re.search(rf"\b{name}\b", reason), name


def test_a_long_word_is_compared_by_its_beginning() -> None:
    """A client may have written it, and the comparison takes time with its length."""
    assert mistakes.did_you_mean("a" * 10_000, ["a" * 100]) == f"; did you mean {'a' * 100}?"
