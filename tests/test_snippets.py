"""Snippets in the documentation: they compile, and what they name exists. tests/interop runs the programs of
docs/connecting.md, and tests/tools/dev what `make run` prints."""

import ast
import importlib
import json
import re
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.helpers.pages import CHINESE, OTHERS, PAGES, RECIPES, text_of
from tools.commands import COMMANDS

SKILL = ROOT / ".agents" / "skills" / "a2a-agent" / "SKILL.md"


def blocks(page: Path, language: str) -> list[str]:
    found = re.findall(rf"(?m)^( *)```{language}\n(.*?)^ *```$", text_of(page), re.DOTALL)
    return [re.sub(rf"(?m)^{indent}", "", text) for indent, text in found]


@pytest.fixture(
    params=[*PAGES, *CHINESE, *RECIPES, *OTHERS, SKILL], ids=lambda path: str(path.relative_to(ROOT))
)
def page(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def test_python_compiles_and_imports_what_there_is(page: Path) -> None:
    for block in blocks(page, "python"):
        tree = ast.parse(block)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("a2a_lambda"):
                module = importlib.import_module(str(node.module))
                for alias in node.names:
                    assert hasattr(module, alias.name), (page.name, alias.name)


def test_commands_and_their_variables_exist(page: Path) -> None:
    text = text_of(page)
    shown = [
        *re.findall(r"`(make [^`]+)`", text),
        *(line for block in blocks(page, "sh") for line in re.split(r"\n| && ", block)),
    ]
    for line in shown:
        if found := re.match(r"(?:[A-Z_]+=\S+ )*(?:make|uv run a2a) (?:--\S+ )*([a-z][\w-]*)(.*)", line):
            assert found[1] in COMMANDS, (page.name, line)
            rest = re.sub(r'"[^"]*"|#.*', "", found[2])
            for variable in re.findall(r"\b([A-Z]+)=", rest):
                assert variable in COMMANDS[found[1]].variables, (page.name, line)


def test_yaml_and_json_are_valid(page: Path) -> None:
    for block in blocks(page, "yaml"):
        yaml.compose(block)
    for block in blocks(page, "json"):
        decoder, rest = json.JSONDecoder(), block.strip()
        while rest:
            _, end = decoder.raw_decode(rest)
            rest = rest[end:].strip()
