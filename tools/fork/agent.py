"""make agent NAME=weather: a new agent, with a card, a skill and a test that passes."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from a2a_lambda.agent.agent import Agent
from a2a_lambda.agent.agents import read_cards
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.protocol.card import check_name
from a2a_lambda.settings import Settings
from tools.command import reports_errors

CARD = """name: "{title}"
description: Repeats the message. Write here what your agent does. Other agents read this to choose one.
version: 0.1.0
skills:
  - id: answer
    name: Answer
    description: Answers a message.
    tags: ["{name}"]
    examples: ["Hello!"]
"""

CODE = """from a2a_lambda import Turn, skill


@skill
def answer(turn: Turn) -> str:
    return f"You said: {turn.text}"
"""

TEST = """import asyncio
from pathlib import Path

from a2a_lambda import Agent

agent = Agent.load(Path(__file__).parents[1])


def test_it_answers() -> None:
    answer = asyncio.run(agent.run("Hello!"))
    assert answer.state == "completed"
    assert answer.text == "You said: Hello!"
"""

DEFAULT = "default: true # answers at the root of the API; the others answer at /a2a/<name>\n"


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    name = environ.get("NAME", "")
    if not name:
        raise ConfigurationError("name the agent: make agent NAME=weather")
    for line in create(Settings.of(environ).agents, name):
        print(line)
    return 0


def create(agents: Path, name: str) -> list[str]:
    """Write an agent's files; returns what to print. Raises ConfigurationError: then there is nothing new."""
    check_name(name, str(agents))
    folder = agents / name
    if folder.exists():
        raise ConfigurationError(f"{folder} exists already. Choose another name, or delete that folder")
    before = read_cards(agents)[0] if any(agents.glob("*/card.yaml")) else {}
    files = {
        folder / "card.yaml": CARD.format(name=name, title=name.replace("-", " ").replace("_", " ").title()),
        folder / "agent.py": CODE,
        folder / "tests" / f"test_{name.replace('-', '_')}.py": TEST,
    }
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        Agent.load(folder)
    except (ConfigurationError, OSError):
        for path in files:
            path.unlink(missing_ok=True)
        for made in (folder / "tests", folder):
            if made.is_dir():
                made.rmdir()
        raise
    said = [f"wrote {path}" for path in files]
    if len(before) == 1 and not any(card.default for card in before.values()):
        [other] = before
        card = agents / other / "card.yaml"
        lines = [line for line in card.read_text("utf-8").splitlines() if not line.startswith("default:")]
        card.write_text("\n".join([*lines, DEFAULT]), "utf-8")
        said.append(f"changed {card}: with several agents, one says `default: true`")
    return [*said, "", f"Next: make run, and edit {folder / 'agent.py'}. Its test: make test ARGS={folder}"]


if __name__ == "__main__":
    sys.exit(main())
