"""Agents that a test writes to a folder."""

import asyncio
import textwrap
from pathlib import Path
from typing import Any

from a2a_lambda import Agent, Answer

CARD = """
name: {name}
description: For a test.
version: 0.1.0
skills:
  - {{ id: hello, name: Hello, description: Says hello. }}
"""


def write(folder: Path, code: str, card: str = CARD, name: str = "hello") -> Path:
    path = folder / name
    path.mkdir(parents=True)
    (path / "card.yaml").write_text(card.format(name=name))
    (path / "agent.py").write_text("from a2a_lambda import *\n" + textwrap.dedent(code))
    return path


def write_among(agents: Path, code: str, name: str = "bad") -> Path:
    """Write an agent with exactly this code into a folder of agents; returns the folder."""
    (agents / name).mkdir(parents=True)
    (agents / name / "card.yaml").write_text("name: Bad")
    (agents / name / "agent.py").write_text(code)
    return agents


def run(folder: Path, code: str, text: str = "hi", **options: Any) -> Answer:
    return asyncio.run(Agent.load(write(folder, code)).run(text, **options))
