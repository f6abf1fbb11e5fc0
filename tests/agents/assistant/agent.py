"""An agent as users write them: typed parameters, questions, streamed text, memory, a command."""

import re
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Annotated, Literal

from a2a_lambda import Ask, Command, Turn, route, skill

Sport = Literal["basketball", "football"]

ADVICE: dict[Sport, tuple[str, ...]] = {
    "basketball": ("Basketball, then. ", "Dribble low. ", "Shoot from the legs. ", "Move your feet."),
    "football": ("Football, then. ", "Look up before the ball comes. ", "Keep moving."),
}


@route
def by_words(turn: Turn) -> Callable[..., object] | None:
    for pattern, function in (("plus|add", ai_calculate), ("[Cc]ount", ai_count), ("flash", ai_flash)):
        if re.search(pattern, turn.text):
            return function
    return ai_coach if re.search("[Cc]oach|[Tt]each", turn.text) else None


@skill(default=True)
def ai_repeat(turn: Turn) -> str:
    hear(turn)
    return turn.text


@skill
def ai_calculate(
    turn: Turn,
    num1: Annotated[Decimal | None, "The first number"] = None,
    num2: Annotated[Decimal | None, "The second number"] = None,
) -> str | Ask:
    hear(turn)
    numbers = [number for number in (num1, num2) if number is not None]
    if len(numbers) < 2:
        numbers += [Decimal(digits) for digits in re.findall(r"\d+", turn.text)]
    if len(numbers) < 2:
        return Ask("What should I add?", known={"num1": str(numbers[0])} if numbers else {})
    return f"{numbers[0]} plus {numbers[1]} is {numbers[0] + numbers[1]}."


@skill
def ai_count(turn: Turn) -> str:
    return f"You have said {hear(turn)} messages."


@skill
def ai_flash(turn: Turn) -> tuple[str, Command]:
    hear(turn)
    return "Flash!", Command("flash")


@skill
def ai_coach(
    turn: Turn, sport: Annotated[Sport | None, "The sport: basketball or football"] = None
) -> Ask | AsyncIterator[str]:
    hear(turn)
    topic = sport or next((name for name in ADVICE if name in turn.text), None)
    if topic is None:
        return Ask("Which sport should I coach: basketball or football?", choices=list(ADVICE))
    return advise(ADVICE[topic])


async def advise(pieces: tuple[str, ...]) -> AsyncIterator[str]:
    for piece in pieces:
        yield piece


def hear(turn: Turn) -> int | float:
    """Count this message; returns how many there are in its context."""
    return turn.memory.add("messages")
