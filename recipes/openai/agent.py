"""A chat model of any endpoint that speaks OpenAI's API."""

from collections.abc import AsyncIterator

from openai import AsyncOpenAI, BadRequestError

from a2a_lambda import SkillError, Turn, skill

INSTRUCTIONS = "You are a helpful assistant. Answer briefly, in the language of the question."


@skill
async def chat(turn: Turn) -> AsyncIterator[str]:
    url = turn.setting("openai-url", "https://api.openai.com/v1")
    async with AsyncOpenAI(api_key=turn.secret("openai"), base_url=url) as client:
        try:
            stream = await client.chat.completions.create(
                model=turn.setting("openai-model", "gpt-5-mini"),
                messages=[{"role": "system", "content": INSTRUCTIONS}, *turn.messages()],
                stream=True,
            )
        except BadRequestError as error:
            if error.code != "content_filter":  # Azure's, of the question
                raise
            raise SkillError("I may not answer that.") from None
        async for chunk in stream:
            for choice in chunk.choices:
                # Azure sends verdicts of its content filter without a delta.
                if choice.delta and choice.delta.content:
                    yield choice.delta.content
                if choice.delta and choice.delta.refusal:
                    raise SkillError("I may not answer that.")
                if choice.finish_reason in ("length", "content_filter"):
                    raise SkillError("I could not finish the answer.")
