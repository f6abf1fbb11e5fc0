"""What a type checker says to an author: nothing of a correct agent, and where a wrong one is wrong."""

import subprocess
import sys
from pathlib import Path
from shutil import copy

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow(seconds=20)

AGENT = """
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import assert_type

from a2a_lambda import Ask, Caller, Message, Reply, Retry, Turn, route, skill
from a2a_lambda import Artefact  # wrong
from a2a_lambda.client import Client

@dataclass
class Plan:
    city: str

async def make_plan(city: str) -> Plan:
    return Plan(city)

def count(turn: Turn) -> int:
    turn.memory["count"] = 1  # wrong
    turn.memory.set("count", 1)
    return turn.memory.add("count").real  # wrong

@skill
async def travel(turn: Turn, city: str = "Oslo") -> AsyncGenerator[str | Ask, Reply]:
    plan = await turn.step("plan", make_plan, city, retry=Retry(attempts=2))
    assert_type(plan, Plan)
    assert_type(await turn.step("count", count, turn), int)
    plan.country  # wrong
    turn.step("plan", make_plan, city).city  # wrong
    reply = yield Ask("May I?")
    yield reply.text
    if turn.caller.kind == "triger":  # wrong
        yield "It is time."

@route
def choose(turn: Turn) -> str | None:
    return "travel"

@route  # wrong
def count_words(turn: Turn) -> int:
    return 5

async def answer(turn: Turn) -> str:
    async with Client("https://agents.example") as other:
        task = await other.send(turn.text)
    return task["status"]["state"] if "status" in task else task["messageId"]
"""


RECIPES = [
    path for path in (ROOT / "recipes").glob("*/agent.py") if not path.with_name("packages.txt").exists()
]
"""Those that need no packages."""


def check(folder: Path) -> str:
    """What mypy says of the modules in a folder."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file", ""]
    command += ["--cache-dir", str(folder / "cache"), *map(str, folder.glob("*.py"))]
    environment = {"MYPYPATH": str(ROOT / "layers" / "a2a"), "PATH": ""}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


def test_a_type_checker_accepts_the_recipes(tmp_path: Path) -> None:
    for path in RECIPES:
        copy(path, tmp_path / f"{path.parent.name.replace('-', '_')}.py")
    assert check(tmp_path) == ""


def test_a_type_checker_finds_the_mistakes_of_an_agent(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    output = check(tmp_path)
    lines = [number for number, line in enumerate(AGENT.split("\n"), 1) if line.endswith("# wrong")]
    assert [int(line.split(":")[1]) for line in output.splitlines() if ": error:" in line] == lines, output
