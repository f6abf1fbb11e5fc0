"""Loads every agent, as `make build` does before it packages them; says what is wrong with one."""

import os
import sys
from pathlib import Path

from a2a_lambda.agent.agent import Agent, load_all
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.settings import Settings


def checked(folder: Path) -> dict[str, Agent]:
    """Agents of a folder, their schemas made: a hint without one is named here, not at a card's first
    GET. Raises ConfigurationError."""
    agents = load_all(folder)
    for agent in agents.values():
        _ = agent.input_schemas
    return agents


def main() -> int:
    """Returns the process's exit status."""
    try:
        checked(Settings.of(os.environ).agents)
    except ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
