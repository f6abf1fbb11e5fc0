"""A Strands agent (https://strandsagents.com) with a tool."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import cache

from strands import Agent, tool
from strands.models import BedrockModel
from strands.types.exceptions import MaxTokensReachedException

from a2a_lambda import Progress, SkillError, Turn, skill

MAX_CALLS = 10
"""Maximum calls of tools in a turn. Without a limit, a confused model could run up charges for minutes."""

WHOLE = ("end_turn", "stop_sequence")
"""Reasons for which a model ends a whole answer."""

INSTRUCTIONS = "You are a helpful assistant. Answer briefly, in the language of the question."


@tool
def count_letters(word: str, letter: str) -> int:
    """Count how often a letter is in a word."""
    return word.lower().count(letter.lower())


@cache
def model(name: str) -> BedrockModel:
    """Made in the first turn, not at import, and then kept."""
    return BedrockModel(model_id=name)


@skill
async def chat(turn: Turn) -> AsyncIterator[str | Progress]:
    *history, question = turn.messages(blocks=True)
    agent = Agent(
        model=model(turn.setting("bedrock-model", "us.amazon.nova-lite-v1:0")),
        system_prompt=INSTRUCTIONS,
        tools=[count_letters],
        messages=history,
        callback_handler=None,
    )
    calls: set[str] = set()
    try:
        async with aclosing(agent.stream_async(question["content"])) as events:
            async for event in events:
                if text := event.get("data"):
                    yield text
                elif (use := event.get("current_tool_use")) and use["toolUseId"] not in calls:
                    calls.add(use["toolUseId"])
                    if len(calls) > MAX_CALLS:
                        raise SkillError("I could not find an answer.")
                    yield Progress(f"calling {use['name']}")
                elif (result := event.get("result")) and result.stop_reason not in WHOLE:
                    raise SkillError("I could not finish the answer.")
    except MaxTokensReachedException:
        raise SkillError("I could not finish the answer.") from None
    finally:
        agent.cancel()  # otherwise, the thread that reads the model continues after a canceled turn
