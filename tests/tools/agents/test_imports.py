"""What an agent imports, and Lambda does not have."""

from pathlib import Path

import pytest

from tests.tools.build.test_check import agent
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
        ("import nothing_has_this_name", "PACKAGE=nothing_has_this_name"),
    ],
)
def test_a_package_that_only_this_environment_has_is_named(tmp_path: Path, line: str, said: str) -> None:
    [sentence] = find_missing(agent(tmp_path, line))
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
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import requests",
        "import other",  # a file of the agent: its import says how to write it
        "def broken(",  # so does this
    ],
)
def test_what_lambda_has_is_not_named(tmp_path: Path, line: str) -> None:
    agents = agent(tmp_path, line)
    (agents / "bad" / "other.py").write_text("x = 1")
    (agents / "bad" / "tests").mkdir()
    (agents / "bad" / "tests" / "test_bad.py").write_text("import pytest, moto")
    assert find_missing(agents) == []


def test_a_package_of_the_fork_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = tmp_path / "requirements.txt"
    locked.write_text("Requests==2.32.5 \\\n    --hash=sha256:00\n")
    monkeypatch.setattr(imports, "LAYERS", (locked,))
    assert find_missing(agent(tmp_path, "import requests")) == []
