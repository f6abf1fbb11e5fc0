import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from a2a_lambda import Agent, SkillError

agent = Agent.load(Path(__file__).parents[1])


def stream_of(*texts: str, stop: str = "end_turn") -> str:
    """A stream of the messages API."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
            for text in texts
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def test_the_agent_streams_and_remembers(httpserver: HTTPServer) -> None:
    for texts in (("Hello, ", "Ann."), ("You are ", "Ann.")):
        httpserver.expect_ordered_request("/v1/messages").respond_with_data(
            stream_of(*texts), content_type="text/event-stream"
        )

    async def talk() -> None:
        fields: dict[str, Any] = {
            "secrets": {"anthropic": "key"},
            "settings": {"anthropic-url": httpserver.url_for(""), "anthropic-model": "tiny"},
        }
        first = await agent.run("I am Ann.", **fields)
        assert first.text == "Hello, Ann."
        second = await agent.run("Who am I?", after=first, **fields)
        assert second.text == "You are Ann."

    asyncio.run(talk())
    request, _ = httpserver.log[-1]
    assert request.headers["Authorization"] == "Bearer key"
    conversation = [(message["role"], message["content"]) for message in request.get_json()["messages"]]
    assert conversation == [("user", "I am Ann."), ("assistant", "Hello, Ann."), ("user", "Who am I?")]


@pytest.mark.parametrize("stop", ["max_tokens", "refusal"])
def test_an_answer_that_is_cut_off_fails(httpserver: HTTPServer, stop: str) -> None:
    httpserver.expect_request("/v1/messages").respond_with_data(
        stream_of("Half an", stop=stop), content_type="text/event-stream"
    )
    settings = {"anthropic-url": httpserver.url_for("")}
    with pytest.raises(SkillError, match="could not finish"):
        asyncio.run(agent.run("Go on.", secrets={"anthropic": "key"}, settings=settings))


@pytest.mark.filterwarnings("error::DeprecationWarning")
def test_the_default_model_is_not_about_to_end(httpserver: HTTPServer) -> None:
    """The package warns of a model that is."""
    httpserver.expect_request("/v1/messages").respond_with_data(
        stream_of("Hello."), content_type="text/event-stream"
    )
    settings = {"anthropic-url": httpserver.url_for("")}
    answer = asyncio.run(agent.run("Hi.", secrets={"anthropic": "key"}, settings=settings))
    assert answer.text == "Hello."
