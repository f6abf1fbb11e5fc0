"""The example with all that is durable."""

from collections.abc import Iterator

import pytest

from a2a_lambda import Agent
from tests.conftest import AGENTS
from tests.durable.agents import calls


@pytest.fixture
def traveler() -> Iterator[Agent]:
    agent = Agent.load(AGENTS / "traveler")
    yield agent
    calls(agent).clear()
