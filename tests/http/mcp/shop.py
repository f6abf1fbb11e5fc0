"""A shop whose agent asks its user, and whose calls can overtake each other."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings

CODE = """
from typing import Literal
from a2a_lambda import Ask, Authorize, Turn, skill

@skill(default=True)
def order(turn: Turn, size: Literal["S", "L"] | None = None, count: int = 0, gift: bool | None = None):
    if size is None:
        return Ask("Which size?", fills="size")
    if not count:
        return Ask("How many?", fills="count")
    if gift is None:
        return Ask("Is it a gift?", fills="gift")
    return f"{count} of {size}, gift: {gift}"

@skill
def chat(turn: Turn):
    if turn.text == "hello":
        return Ask("And then?")
    if turn.text == "good morning":
        return "Good morning to you.", Ask("And then?")
    return f"heard: {turn.text}"

@skill
def engrave(turn: Turn, words: str, font: str = "plain"):
    return f"{words!r} in {font}"

users = []

@skill
def fetch(doc: str):
    if doc not in users:
        users.append(doc)
        return Authorize("Sign in at https://login.example.com")
    return f"fetched {doc}"

@skill
def private(turn: Turn):
    return Authorize("Sign in at https://login.example.com")
"""

CARD = """
name: Shop
description: D.
version: 0.1.0
background: {background}
skills:
  - {{ id: order, name: Order, description: Orders. }}
  - {{ id: chat, name: Chat, description: Talks. }}
  - {{ id: engrave, name: Engrave, description: Writes on it. }}
  - {{ id: fetch, name: Fetch, description: Fetches a document. }}
  - {{ id: private, name: Private, description: Asks for a sign-in. }}
"""


def kit_in(folder: Path, settings: Settings, *, background: bool) -> Kit:
    agent = folder / "agents" / "shop"
    agent.mkdir(parents=True)
    (agent / "agent.py").write_text(CODE)
    (agent / "card.yaml").write_text(CARD.format(background=json.dumps(background)))
    return Kit(settings.model_copy(update={"agents": folder / "agents"}))


def delay_next_read(kit: Kit, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Let other calls overtake the next one: call `meanwhile` after it has read its task, and before it
    continues."""
    get, delays = kit.service.get, iter([meanwhile])

    async def get_and_be_late(*args: Any) -> Any:
        record = await get(*args)
        for delay in delays:
            await asyncio.to_thread(delay)
        return record

    monkeypatch.setattr(kit.service, "get", get_and_be_late)
