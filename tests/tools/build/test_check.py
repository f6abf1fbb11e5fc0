"""What make build refuses before it packs anything."""

from pathlib import Path

import pytest

from tools.build import check, imports
from tools.build.check import find_secrets
from tools.build.imports import find_missing


def agent(folder: Path, code: str, name: str = "bad") -> Path:
    """A folder of agents, in which one has this code."""
    place = folder / "agents" / name
    place.mkdir(parents=True)
    (place / "card.yaml").write_text("name: Bad")
    (place / "agent.py").write_text(code)
    return folder / "agents"


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


@pytest.mark.parametrize("name", [".env", ".env.local", "key.pem", "keys/server.KEY", "bundle.p12"])
def test_files_that_hold_secrets_stop_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    agents = agent(tmp_path, "")
    secret = agents / "bad" / name
    secret.parent.mkdir(exist_ok=True)
    secret.write_text("OPENAI_API_KEY=x")
    monkeypatch.setattr(check, "AGENTS", agents)
    assert check.main(["check"]) == 1
    assert f"these files would be in every function: {secret}. Move them" in capsys.readouterr().err


def test_other_files_are_packed(tmp_path: Path) -> None:
    agents = agent(tmp_path, "")
    for name in ("prices.csv", "environment.py", "monkey.txt", ".prettierrc"):
        (agents / "bad" / name).write_text("")
    (agents / "bad" / "tests").mkdir()
    (agents / "bad" / "tests" / ".env").write_text("")  # tests are left out
    assert find_secrets(agents) == []
