"""An Anthropic model, by its own API."""

from collections.abc import AsyncIterator

from anthropic import AsyncAnthropic

from a2a_lambda import SkillError, Turn, skill

INSTRUCTIONS = "You are a helpful assistant. Answer briefly, in the language of the question."

MAX_TOKENS = 2048
"""Maximum tokens of an answer."""


@skill
async def chat(turn: Turn) -> AsyncIterator[str]:
    url = turn.setting("anthropic-url", "https://api.anthropic.com")
    async with (
        AsyncAnthropic(api_key=turn.secret("anthropic"), base_url=url) as client,
        client.messages.stream(
            model=turn.setting("anthropic-model", "claude-sonnet-5-5"),
            system=INSTRUCTIONS,
            messages=turn.messages(),
            max_tokens=MAX_TOKENS,
        ) as stream,
    ):
        async for text in stream.text_stream:
            yield text
        if (await stream.get_final_message()).stop_reason != "end_turn":  # max_tokens, refusal
            raise SkillError("I could not finish the answer.")
