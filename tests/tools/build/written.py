"""An agent that a test writes."""

from pathlib import Path


def agent(folder: Path, code: str, name: str = "bad") -> Path:
    """A folder of agents, in which one has this code."""
    place = folder / "agents" / name
    place.mkdir(parents=True)
    (place / "card.yaml").write_text("name: Bad")
    (place / "agent.py").write_text(code)
    return folder / "agents"
