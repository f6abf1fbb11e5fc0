import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from a2a_lambda import Agent, SkillError

agent = Agent.load(Path(__file__).parents[1])


def stream_of(*texts: str, finish: str = "stop") -> str:
    """A stream of the chat completions API."""
    chunks: list[dict[str, Any]] = [{"delta": {"role": "assistant", "content": text}} for text in texts]
    chunks.append({"delta": {}, "finish_reason": finish})
    common = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events = [json.dumps({**common, "choices": [{"index": 0, **chunk}]}) for chunk in chunks]
    return "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])


@pytest.fixture
def model(httpserver: HTTPServer) -> HTTPServer:
    for texts in (("Hello, ", "Ann."), ("You are ", "Ann.")):
        httpserver.expect_ordered_request("/v1/chat/completions").respond_with_data(
            stream_of(*texts), content_type="text/event-stream"
        )
    return httpserver


def test_the_agent_streams_and_remembers(model: HTTPServer) -> None:
    async def talk() -> None:
        fields: dict[str, Any] = {
            "secrets": {"openai": "sk-test"},
            "settings": {"openai-url": model.url_for("/v1"), "openai-model": "tiny"},
        }
        first = await agent.run("I am Ann.", **fields)
        assert first.text == "Hello, Ann."
        second = await agent.run("Who am I?", after=first, **fields)
        assert second.text == "You are Ann."

    asyncio.run(talk())
    request, _ = model.log[-1]
    assert request.headers["Authorization"] == "Bearer sk-test"
    sent = request.get_json()
    assert sent["model"] == "tiny"
    conversation = [
        (message["role"], message["content"]) for message in sent["messages"] if message["role"] != "system"
    ]
    assert conversation == [("user", "I am Ann."), ("assistant", "Hello, Ann."), ("user", "Who am I?")]


def tool_call() -> str:
    """A recorded answer: text, and then a call of the tool."""
    call = {"index": 0, "id": "t1", "type": "function", "function": {"name": "today", "arguments": "{}"}}
    choices: list[dict[str, Any]] = [
        {"delta": {"role": "assistant", "content": "Let me look. "}},
        {"delta": {"tool_calls": [call]}},
        {"delta": {}, "finish_reason": "tool_calls"},
    ]
    common = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events = [json.dumps({**common, "choices": [{"index": 0, **choice}]}) for choice in choices]
    return "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])


def test_the_agent_calls_the_tool_after_its_first_words(httpserver: HTTPServer) -> None:
    for body in (tool_call(), stream_of("It is ", "Sunday.")):
        httpserver.expect_ordered_request("/v1/chat/completions").respond_with_data(
            body, content_type="text/event-stream"
        )
    settings = {"openai-url": httpserver.url_for("/v1")}
    answer = asyncio.run(agent.run("Which day is it?", secrets={"openai": "k"}, settings=settings))
    assert answer.text == "Let me look. It is Sunday."
    sent = httpserver.log[-1][0].get_json()["messages"]
    assert sent[-1]["role"] == "tool"


def test_the_agent_gives_up_a_loop_of_tool_calls(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/v1/chat/completions").respond_with_data(
        tool_call(), content_type="text/event-stream"
    )
    settings = {"openai-url": httpserver.url_for("/v1")}
    with pytest.raises(Exception, match="limit"):
        asyncio.run(agent.run("Again?", secrets={"openai": "k"}, settings=settings))
    assert len(httpserver.log) == 5


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_an_answer_that_is_cut_off_fails(httpserver: HTTPServer, finish: str) -> None:
    httpserver.expect_request("/v1/chat/completions").respond_with_data(
        stream_of("Half an", finish=finish), content_type="text/event-stream"
    )
    settings = {"openai-url": httpserver.url_for("/v1")}
    with pytest.raises(SkillError, match="could not finish"):
        asyncio.run(agent.run("Go on.", secrets={"openai": "k"}, settings=settings))
