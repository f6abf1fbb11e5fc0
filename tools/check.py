"""Loads every agent before `make build` packages them, and reports what is wrong."""

import os
import sys
from pathlib import Path

from a2a_lambda.agent.agent import Agent, load_all
from a2a_lambda.settings import Settings
from tools.command import reports_errors


def check_agents(folder: Path) -> dict[str, Agent]:
    """Load the agents in a folder, and make their schemas: a type without a schema is reported here, not
    at the first GET of a card. Raises ConfigurationError."""
    agents = load_all(folder)
    for agent in agents.values():
        _ = agent.input_schemas
    return agents


@reports_errors
def main() -> int:
    check_agents(Settings.of(os.environ).agents)
    return 0


if __name__ == "__main__":
    sys.exit(main())
