"""An agent of Pydantic AI (https://ai.pydantic.dev) with a tool."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

from pydantic_ai import Agent, ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from a2a_lambda import Turn, skill

assistant = Agent(
    instructions="You are a helpful assistant. Answer briefly, in the language of the question."
)


@assistant.tool_plain
def today() -> str:
    """The date in UTC."""
    return datetime.now(UTC).date().isoformat()


@skill
async def chat(turn: Turn) -> AsyncIterator[str]:
    provider = OpenAIProvider(
        api_key=turn.secret("openai"), base_url=turn.setting("openai-url", "https://api.openai.com/v1")
    )
    model = OpenAIChatModel(turn.setting("openai-model", "gpt-5-mini"), provider=provider)
    *history, question = turn.messages()
    async with assistant.run_stream(
        question["content"], model=model, message_history=[recalled(message) for message in history]
    ) as result:
        async for text in result.stream_text(delta=True, debounce_by=None):
            yield text


def recalled(message: dict[str, str]) -> ModelMessage:
    """A message of the conversation, as Pydantic AI has it."""
    if message["role"] == "user":
        return ModelRequest(parts=[UserPromptPart(message["content"])])
    return ModelResponse(parts=[TextPart(message["content"])])
