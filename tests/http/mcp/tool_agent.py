"""An agent with five skills, four of which are tools."""

from pathlib import Path

from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings

CODE = """
from dataclasses import dataclass
from typing import Annotated, Literal
from a2a_lambda import File, Turn, skill

@dataclass
class Weather:
    city: str
    degrees: float

@skill(default=True)
def weather(city: Annotated[str, "Name of the city"], unit: Literal["C", "F"] = "C") -> Weather:
    return Weather(city, 21.5)

@skill
def talk(turn: Turn, times: int = 1):
    return turn.text * times

@skill
def media(turn: Turn):
    yield File("a.png", b"png", media_type="image/png")
    yield File("a.wav", b"wav", media_type="audio/wav")
    yield File("ä b.pdf", b"pdf", media_type="application/pdf")
    yield File("far.zip", url="https://example.com/far.zip", media_type="application/zip")

@skill
def now():
    return "12:00"

@skill
def hidden(turn: Turn):
    return "hidden"
"""

CARD = """
name: Tools
description: What it is for.
version: 0.2.0
defaultOutputModes: [text/plain, image/png, audio/wav, application/pdf, application/zip]
skills:
  - id: weather
    name: The weather
    description: Tells the weather.
    examples: ["Is it warm?"]
    annotations: { readOnlyHint: true }
  - { id: talk, name: Talk, description: Says it. }
  - { id: media, name: Media, description: Makes files. }
  - { id: now, name: Now, description: Tells the time. }
  - { id: hidden, name: Hidden, description: Is no tool., mcp: false }
"""


def kit_of(settings: Settings, tmp_path: Path, card: str) -> Kit:
    """A kit whose one agent, `tools`, has a card."""
    folder = tmp_path / "agents" / "tools"
    folder.mkdir(parents=True)
    (folder / "agent.py").write_text(CODE)
    (folder / "card.yaml").write_text(card)
    return Kit(settings.model_copy(update={"agents": tmp_path / "agents"}))
