import asyncio
from pathlib import Path

from a2a_lambda import Agent, Caller

agent = Agent.load(Path(__file__).parents[1])

METADATA = {"schedule": {"id": "nightly", "time": "2026-03-02T14:00:00.000Z"}}


def test_a_schedule_names_its_time() -> None:
    caller = Caller("reports", "trigger")
    answer = asyncio.run(agent.run("Summarize the day.", metadata=METADATA, caller=caller))
    assert answer.text == "Until 2026-03-02 14:00 UTC, all was quiet."


def test_a_client_cannot_name_the_time() -> None:
    answer = asyncio.run(agent.run("Summarize the day.", metadata=METADATA))
    assert "2026-03-02" not in answer.text


def test_a_client_may_ask_at_any_time() -> None:
    assert "all was quiet" in asyncio.run(agent.run("What happened today?")).text
