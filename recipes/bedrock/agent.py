"""A model on Amazon Bedrock that calls tools: ConverseStream.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
"""

import json
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import cache
from typing import Any

import boto3

from a2a_lambda import Progress, SkillError, Turn, skill

MAX_TOKENS = 2048
"""Maximum tokens of an answer."""

INSTRUCTIONS = "You are a helpful assistant. Answer briefly, in the language of the question."

MAX_ROUNDS = 5
"""Maximum calls of the model in a turn: each may ask for tools."""


def weather(city: str) -> dict[str, Any]:
    """Replace this with a call of a real service."""
    return {"city": city, "sky": "rain", "celsius": 12}


TOOLS = {"weather": weather}

TOOL_CONFIG = {
    "tools": [
        {
            "toolSpec": {
                "name": "weather",
                "description": "The weather of a city now.",
                "inputSchema": {
                    "json": {
                        "type": "object",
                        "properties": {"city": {"type": "string"}},
                        "required": ["city"],
                    }
                },
            }
        }
    ]
}


@cache
def bedrock() -> Any:
    """The client: made in the first turn, not at import, and then kept."""
    return boto3.client("bedrock-runtime")


@skill
def chat(turn: Turn) -> Iterator[str | Progress]:
    messages: list[Any] = turn.messages(blocks=True)
    for _ in range(MAX_ROUNDS):
        answer = bedrock().converse_stream(
            modelId=turn.setting("bedrock-model", "us.amazon.nova-lite-v1:0"),
            system=[{"text": INSTRUCTIONS}],
            messages=messages,
            toolConfig=TOOL_CONFIG,
            inferenceConfig={"maxTokens": MAX_TOKENS},
        )
        # If the turn is cancelled, the connection is closed, and the model stops.
        with closing(answer["stream"]) as stream:
            content, stop = yield from read(stream)
        if stop == "end_turn":
            return
        if stop != "tool_use":  # max_tokens, guardrail_intervened, content_filtered
            raise SkillError("I could not finish the answer.")
        uses = [block["toolUse"] for block in content if "toolUse" in block]
        results = []
        for use in uses:
            yield Progress(f"calling {use['name']}")
            results.append(run_tool(use))
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    raise SkillError("I could not find an answer.")


def read(stream: Any) -> Generator[str, None, tuple[list[Any], str]]:
    """Yield the text of an answer; return its content blocks, and why it stopped."""
    blocks: dict[int, Any] = {}
    inputs: dict[int, str] = {}
    stop = ""
    for event in stream:
        if "contentBlockStart" in event:
            start = event["contentBlockStart"]
            blocks[start["contentBlockIndex"]] = {"toolUse": dict(start["start"]["toolUse"])}
        elif "contentBlockDelta" in event:
            index, delta = (
                event["contentBlockDelta"]["contentBlockIndex"],
                event["contentBlockDelta"]["delta"],
            )
            if "text" in delta:
                blocks.setdefault(index, {"text": ""})["text"] += delta["text"]
                yield delta["text"]
            elif "toolUse" in delta:
                inputs[index] = inputs.get(index, "") + delta["toolUse"]["input"]
        elif "messageStop" in event:
            stop = event["messageStop"]["stopReason"]
    if stop == "tool_use":  # otherwise an input may be cut off
        for index, block in blocks.items():
            if "toolUse" in block:
                block["toolUse"]["input"] = json.loads(inputs.get(index) or "{}")
    # A model may begin a call of a tool with a blank text, which Converse refuses when it is sent back.
    content = [block for _, block in sorted(blocks.items()) if "text" not in block or block["text"].strip()]
    return content, stop


def run_tool(use: dict[str, Any]) -> dict[str, Any]:
    """What a tool returns, or its error: the model can then ask differently."""
    try:
        result: dict[str, Any] = {"content": [{"json": TOOLS[use["name"]](**use["input"])}]}
    except Exception as error:  # a tool is the agent's own code
        result = {"content": [{"text": f"{type(error).__name__}: {error}"}], "status": "error"}
    return {"toolResult": {"toolUseId": use["toolUseId"], **result}}
