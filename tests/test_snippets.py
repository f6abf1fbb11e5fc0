"""Snippets in the documentation: they compile, skills can be loaded, and what they name exists. tests/interop
runs the programs of docs/connecting.md, and tests/tools/dev what `make run` prints."""

import ast
import asyncio
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from a2a_lambda import Agent
from tests.conftest import ROOT
from tests.helpers.pages import CHINESE, OTHERS, PAGES, RECIPES, text_of
from tests.helpers.project import copy_kit
from tools.commands import COMMANDS

SKILL = ROOT / ".agents" / "skills" / "a2a-agent" / "SKILL.md"


def blocks(page: Path, language: str) -> list[str]:
    matches = re.findall(rf"(?m)^( *)```{language}\n(.*?)^ *```$", text_of(page), re.DOTALL)
    return [re.sub(rf"(?m)^{indent}", "", text) for indent, text in matches]


@pytest.fixture(
    params=[*PAGES, *CHINESE, *RECIPES, *OTHERS, SKILL], ids=lambda path: str(path.relative_to(ROOT))
)
def page(request: pytest.FixtureRequest) -> Path:
    page_path: Path = request.param
    return page_path


def test_python_compiles_and_imports_what_there_is(page: Path) -> None:
    for block in blocks(page, "python"):
        tree = ast.parse(block)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("a2a_lambda"):
                module = importlib.import_module(str(node.module))
                for alias in node.names:
                    assert hasattr(module, alias.name), (page.name, alias.name)


def test_the_payment_of_the_docs_is_ended_by_its_url_alone(tmp_path: Path) -> None:
    """Only a payment of the right amount counts as one."""
    [block] = [block for block in blocks(ROOT / "docs" / "long-running.md", "python") if "def sell" in block]
    (tmp_path / "agent.py").write_text(block)
    skills = "[{ id: sell, name: Sell, description: Sells. }]"
    (tmp_path / "card.yaml").write_text(
        f"{{ name: Shop, description: Sells., version: 0.1.0, durable: true, skills: {skills} }}"
    )
    folder = tmp_path.rename(tmp_path.with_name("shop"))
    agent = Agent.load(folder)
    answer = asyncio.run(agent.run("a book"))
    with pytest.raises(ValueError, match="accepts no message"):
        asyncio.run(agent.run("hi", after=answer))
    for reply, data in (({"amount": 12}, [{"paid": 12}]), ({"amount": 1}, []), ("hi", [])):
        assert asyncio.run(agent.run(after=answer, replies={"payment": reply})).data == data


def test_a_question_of_the_docs_fills_its_parameter(tmp_path: Path) -> None:
    [block] = [text for text in blocks(ROOT / "docs" / "authoring.md", "python") if "fills=" in text]
    folder = tmp_path / "rooms"
    folder.mkdir()
    (folder / "agent.py").write_text(block)
    skills = "[{ id: book, name: Book, description: Books rooms. }]"
    (folder / "card.yaml").write_text(
        f"{{ name: Rooms, description: Books rooms., version: 0.1.0, skills: {skills} }}"
    )
    agent = Agent.load(folder)
    question = asyncio.run(agent.run('{"day": "Monday", "hours": 9}'))
    assert question.state == "input-required"
    assert asyncio.run(agent.run("3", after=question)).text == "Booked for 3 hours on Monday."


def test_commands_and_their_variables_exist(page: Path) -> None:
    text = text_of(page)
    commands = [
        *(line for code in re.findall(r"`(make [^`]+)`", text) for line in code.split(" && ")),
        *(line for block in blocks(page, "sh") for line in re.split(r"\n| && ", block)),
    ]
    for line in commands:
        if match := re.match(r"(?:[A-Z_]+=\S+ )*(?:make|uv run a2a) (?:--\S+ )*([a-z][\w-]*)(.*)", line):
            assert match[1] in COMMANDS, (page.name, line)
            rest = re.sub(r'"[^"]*"|#.*', "", match[2])
            for variable in re.findall(r"\b([A-Z]+)=", rest):
                assert variable in COMMANDS[match[1]].variables, (page.name, line)


def test_commands_can_be_pasted_into_zsh(page: Path) -> None:
    """The shell of macOS. By default it takes a comment for arguments, and `$TASK:s` for a modifier."""
    for block in blocks(page, "sh"):
        assert not re.search(r"(?m)(?:^|\s)#\s", block), block
        assert not re.search(r"\$\w+:[a-z]", block), block


def test_yaml_and_json_are_valid(page: Path) -> None:
    for block in blocks(page, "yaml"):
        yaml.compose(block)
    for block in blocks(page, "json"):
        decoder, rest = json.JSONDecoder(), block.strip()
        while rest:
            _, end = decoder.raw_decode(rest)
            rest = rest[end:].strip()


def test_skills_can_be_loaded(page: Path, tmp_path: Path) -> None:
    """Each with a card that lists them."""
    for number, block in enumerate(block for block in blocks(page, "python") if "@skill\n" in block):
        names = re.findall(r"@skill\n(?:async )?def (\w+)", block)
        skills = [{"id": name.replace("_", "-"), "name": name, "description": name} for name in names]
        card = {"name": "x", "description": "x", "version": "1", "skills": skills}
        folder = tmp_path / f"agent{number}"
        folder.mkdir()
        (folder / "card.yaml").write_text(yaml.safe_dump(card))
        (folder / "agent.py").write_text(block)
        assert [each.id for each in Agent.load(folder).card.skills] == [each["id"] for each in skills]


def test_the_test_in_authoring_passes(tmp_path: Path) -> None:
    [block] = (text for text in blocks(ROOT / "docs" / "authoring.md", "python") if "Agent.load" in text)
    folder = copy_kit(tmp_path / "fork")
    path = folder / "functions" / "agents" / "assistant" / "tests" / "test_coach.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(block)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", str(path)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "layers" / "a2a")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout
