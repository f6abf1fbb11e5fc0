import asyncio
from pathlib import Path

import pytest

from a2a_lambda import Agent

agent = Agent.load(Path(__file__).parents[1])

BOOKED = {"hotel": "H-Oslo-3", "train": "T-Oslo", "table": "R-Oslo"}


@pytest.mark.parametrize("answer", ["yes", "好的"])
def test_the_trip_is_booked_after_a_day_and_an_answer(answer: str) -> None:
    """The pause takes no time."""

    async def talk() -> None:
        question = await agent.run("Oslo")
        assert (question.state, question.text) == ("input-required", "Shall I book it?")
        assert question.steps == ["plan", "sleep"]
        booked = await agent.run(answer, after=question)
        assert booked.state == "completed"
        [bookings] = [artifact for artifact in booked.artifacts if artifact.get("name") == "bookings"]
        assert bookings["parts"] == [{"data": BOOKED}]

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("reply", "text"), [("no", "Nothing is booked."), (TimeoutError, "nothing is booked.")]
)
def test_without_a_yes_nothing_is_booked(reply: object, text: str) -> None:
    answer = asyncio.run(agent.run("Oslo", replies={"approval": reply}))
    assert answer.text.endswith(text)
    assert "hotel" not in answer.steps
