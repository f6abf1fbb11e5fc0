"""An installed package that is called `agents`, as the package of the agents is."""

import asyncio
import sys
from pathlib import Path

import pytest

from a2a_lambda.agent.agent import Agent
from a2a_lambda.agent.agent_module import join_installed_package
from a2a_lambda.errors import ConfigurationError
from tests.agent.folders import write

CODE = """
from agents import Runner
from agents.tools.search import find

from .prompt import PROMPT

@skill
def hello(turn):
    return Runner().run(PROMPT) + find()
"""


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that is called `agents`, as OpenAI's Agents SDK is."""
    package = tmp_path / "site" / "agents"
    (package / "tools").mkdir(parents=True)
    (package / "__init__.py").write_text("from .runner import Runner")
    (package / "runner.py").write_text("class Runner:\n    def run(self, text):\n        return text.upper()")
    (package / "tools" / "__init__.py").touch()
    (package / "tools" / "search.py").write_text("def find():\n    return 'found'")
    monkeypatch.syspath_prepend(package.parent)
    for name in [name for name in sys.modules if name.partition(".")[0] == "agents"]:
        monkeypatch.delitem(sys.modules, name)
    return package


@pytest.mark.parametrize("others", [0, 1])
def test_an_agent_may_use_an_installed_package_that_is_called_agents(
    sdk: Path, tmp_path: Path, others: int
) -> None:
    agents = tmp_path / "agents"
    for number in range(others):
        Agent.load(write(agents, "@skill\ndef hello(turn):\n    return 'a'", name=f"other{number}"))
    folder = write(agents, CODE, name="mine")
    (folder / "prompt.py").write_text("PROMPT = 'hello'")
    for _ in range(2):
        assert asyncio.run(Agent.load(folder).run("hi")).text == "HELLOfound"
    assert sys.modules["agents.mine.agent"].PROMPT == "hello"


def test_agents_that_are_imported_at_once_share_the_package(sdk: Path, tmp_path: Path) -> None:
    """The import of each has failed before the first has joined the package."""
    folder = write(tmp_path / "agents", CODE, name="mine")
    (folder / "prompt.py").write_text("PROMPT = 'hello'")
    Agent.load(folder)
    package = sys.modules["agents"]
    assert join_installed_package(folder.parent)
    assert sys.modules["agents"] is package


def test_without_such_a_package_a_wrong_import_is_a_mistake(tmp_path: Path) -> None:
    folder = write(tmp_path / "agents", "from agents import Runner")
    with pytest.raises(ConfigurationError, match="Runner"):
        Agent.load(folder)
