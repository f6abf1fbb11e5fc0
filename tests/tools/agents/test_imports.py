"""What an agent imports, and Lambda does not have."""

from pathlib import Path

import pytest

from tests.agent.folders import write_among
from tools.agents import imports
from tools.agents.imports import find_missing


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import requests", "agents/bad/agent.py:1: 'requests' is not among your packages"),
        ("import requests.adapters as x, json", "PACKAGE=requests"),
        ("from moto import mock_aws", "PACKAGE=moto"),
        ("import dotenv", "PACKAGE=python-dotenv"),  # by the name of its distribution
        ("def later():\n    import flask", "agents/bad/agent.py:2: 'flask'"),
        ("try:\n    import flask\nexcept KeyError:\n    pass", "PACKAGE=Flask"),
        ("import nothing_has_this_name", "PACKAGE=<the package with 'nothing_has_this_name'>"),
    ],
)
def test_a_package_that_only_this_environment_has_is_named(tmp_path: Path, line: str, said: str) -> None:
    [sentence] = find_missing(write_among(tmp_path / "agents", line))
    assert said.lower() in sentence.lower()


@pytest.mark.parametrize(
    "line",
    [
        *(
            "import json, os.path, asyncio",
            "import a2a_lambda",
            "from . import other",
            "from .other import x",
        ),
        *("import boto3, yaml, pydantic", "from dateutil import parser", "import httpx2"),
        "try:\n    import requests\nexcept ImportError:\n    requests = None",
        "try:\n    import tomllib\nexcept ImportError:\n    import requests as tomllib",
        "from contextlib import suppress\nwith suppress(ImportError):\n    import requests",
        "import sys\nif sys.version_info < (3, 11):\n    import requests",
        "if __name__ == '__main__':\n    import requests",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import requests",
        "import other",  # a file of the agent: its import says how to write it
        "def broken(",  # so does this
    ],
)
def test_what_lambda_has_is_not_named(tmp_path: Path, line: str) -> None:
    agents = write_among(tmp_path / "agents", line)
    (agents / "bad" / "other.py").write_text("x = 1")
    (agents / "bad" / "tests").mkdir()
    (agents / "bad" / "tests" / "test_bad.py").write_text("import pytest, moto")
    (agents / "bad" / "conftest.py").write_text("import pytest")  # agent.py does not lead there
    (agents / "bad" / ".#agent.py").symlink_to("someone@somewhere")  # an editor's lock
    assert find_missing(agents) == []


def test_code_may_nest_deeply(tmp_path: Path) -> None:
    [sentence] = find_missing(
        write_among(tmp_path / "agents", f"x = {' + '.join(['1'] * 2000)}\nimport requests")
    )
    assert "requests" in sentence


def test_a_package_of_the_fork_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on the list of all agents, or on its agent's own."""
    lock = tmp_path / "requirements.txt"
    monkeypatch.setattr(imports, "LOCK", lock)
    agents = write_among(tmp_path / "agents", "import requests")
    for path, is_there in (
        ("layers/agents/packages.txt", True),
        ("functions/agents/bad/packages.txt", True),
        ("functions/agents/other/packages.txt", False),
    ):
        lock.write_text(f"Requests==2.32.5 \\\n    --hash=sha256:00\n    # via -r {path}\n")
        assert (find_missing(agents) == []) is is_there


@pytest.mark.parametrize(
    "line",
    [
        "from . import other",
        "from .other import x",
        "from agents.bad import other",
        "import agents.bad.other",
    ],
)
def test_modules_that_the_agent_imports_count(tmp_path: Path, line: str) -> None:
    agents = write_among(tmp_path / "agents", line)
    (agents / "bad" / "other.py").write_text("import requests\nx = 1")
    assert ["agents/bad/other.py:1" in sentence for sentence in find_missing(agents)] == [True]
    assert find_missing(agents, {"good"}) == []


@pytest.mark.parametrize(
    "line", ["from agents.other.agent import x", "from agents import other", "from . import near"]
)
def test_an_agent_that_a_build_leaves_out_cannot_be_imported(tmp_path: Path, line: str) -> None:
    agents = write_among(tmp_path / "agents", line)
    (agents / "bad" / "near.py").write_text("from ..other.agent import x\nfrom agents.common import y")
    (agents / "other").mkdir()
    (agents / "other" / "agent.py").write_text("x = 1")
    (agents / "other" / "card.yaml").write_text("name: Other")
    (agents / "common.py").write_text("y = 1")
    [sentence] = find_missing(agents, ["bad"], ["other"])
    assert "agent bad imports agent other, which this build leaves out" in sentence
    assert find_missing(agents, ["bad"]) == find_missing(agents) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("from functions.agents.bad.near import x", "Lambda has no 'functions', a folder of this"),
        ("import tools", "Lambda has no 'tools', a folder of this repository: write `from .module import"),
        ("from .tests.fakes import x", "a build leaves the folder tests out"),
        ("from . import tests", "a build leaves the folder tests out"),
        ("from agents.bad.tests import fakes", "a build leaves the folder tests out"),
    ],
)
def test_what_is_in_the_repository_alone_is_named(tmp_path: Path, line: str, words: str) -> None:
    agents = write_among(tmp_path / "agents", line)
    (agents / "bad" / "tests").mkdir()
    [sentence] = find_missing(agents)
    assert words in sentence
    (agents / "bad" / "agent.py").write_text("from .near import x\nfrom .tests import y")
    (agents / "bad" / "tests").rmdir()
    (agents / "bad" / "tests.py").write_text("y = 1")
    (agents / "bad" / "near.py").write_text("x = 1")
    assert find_missing(agents) == []


def test_a_namespace_of_several_packages_names_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributions = {"google": ["googleapis-common-protos", "google-auth"]}
    monkeypatch.setattr(imports, "_distributions", lambda: distributions)
    [sentence] = find_missing(write_among(tmp_path / "agents", "from google.cloud import storage"))
    assert "make add PACKAGE=<the package with 'google'>" in sentence


def test_a_folder_of_the_agent_hides_no_package(tmp_path: Path) -> None:
    agents = write_among(tmp_path / "agents", "import requests")
    (agents / "bad" / "requests").mkdir()
    assert len(find_missing(agents)) == 1


def test_an_agent_does_not_ship_the_package_whose_name_it_has(tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    (agents / "pytest").mkdir(parents=True)
    (agents / "pytest" / "card.yaml").write_text("name: Bad")
    (agents / "pytest" / "agent.py").write_text("import pytest")
    [sentence] = find_missing(agents)
    assert "make add PACKAGE=pytest" in sentence


def test_openais_agents_sdk_is_a_package_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is called `agents`, as the package of the kit's agents is."""
    agents = write_among(tmp_path / "agents", "from agents import Runner")
    assert find_missing(agents) == [], "its import says what is wrong"
    monkeypatch.setattr(imports, "_distributions", lambda: {"agents": ["openai-agents"]})
    [sentence] = find_missing(agents)
    assert "make add PACKAGE=openai-agents" in sentence
