"""Agents with durable skills, and how a test runs one."""

import asyncio
from pathlib import Path
from typing import Any

from a2a_lambda import Agent, Answer

CARD = """
name: Test
description: A test.
version: 0.1.0
durable: true
skills: [{ id: run, name: Run, description: Runs. }]
"""


def calls(agent: Agent) -> Any:
    return agent.skills["plan-trip"].function.__globals__["CALLS"]


def run(agent: Agent, text: str = "", **options: Any) -> Answer:
    return asyncio.run(agent.run(text, **options))


def written(folder: Path, body: str, card: str = CARD) -> Agent:
    """An agent with this code."""
    place = folder / "test"
    place.mkdir(exist_ok=True)
    (place / "card.yaml").write_text(card)
    (place / "agent.py").write_text("import asyncio, itertools\nfrom a2a_lambda import *\n" + body)
    return Agent.load(place)
