"""A Pydantic AI agent (https://ai.pydantic.dev) with a tool."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

from pydantic_ai import (
    Agent,
    AgentRunResultEvent,
    FunctionToolCallEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    UsageLimits,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from a2a_lambda import Progress, SkillError, Turn, skill

MAX_ROUNDS = 5
"""Maximum calls of the model in a turn: each may ask for tools."""

assistant = Agent(
    instructions="You are a helpful assistant. Answer briefly, in the language of the question."
)


@assistant.tool_plain
def today() -> str:
    """The date in UTC."""
    return datetime.now(UTC).date().isoformat()


@skill
async def chat(turn: Turn) -> AsyncIterator[str | Progress]:
    provider = OpenAIProvider(
        api_key=turn.secret("openai"), base_url=turn.setting("openai-url", "https://api.openai.com/v1")
    )
    model = OpenAIChatModel(turn.setting("openai-model", "gpt-5-mini"), provider=provider)
    *history, question = turn.messages()
    # Not run_stream: it takes the first text for the answer, though the model may call tools after it.
    async with assistant.run_stream_events(
        question["content"],
        model=model,
        message_history=[model_message(message) for message in history],
        usage_limits=UsageLimits(request_limit=MAX_ROUNDS),
    ) as events:
        async for event in events:
            match event:
                case PartStartEvent(part=TextPart(content=text)) if text:
                    yield text
                case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                    yield text
                case FunctionToolCallEvent(part=call):
                    yield Progress(f"calling {call.tool_name}")
                case AgentRunResultEvent(result=result):
                    if result.response.finish_reason in ("length", "content_filter"):
                        raise SkillError("I could not finish the answer.")


def model_message(message: dict[str, str]) -> ModelMessage:
    """A message of the conversation, as Pydantic AI has it."""
    if message["role"] == "user":
        return ModelRequest(parts=[UserPromptPart(message["content"])])
    return ModelResponse(parts=[TextPart(message["content"])])
