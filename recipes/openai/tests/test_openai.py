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


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_an_answer_that_is_cut_off_fails(httpserver: HTTPServer, finish: str) -> None:
    httpserver.expect_request("/v1/chat/completions").respond_with_data(
        stream_of("Half an", finish=finish), content_type="text/event-stream"
    )
    settings = {"openai-url": httpserver.url_for("/v1")}
    with pytest.raises(SkillError, match="could not finish"):
        asyncio.run(agent.run("Go on.", secrets={"openai": "sk-test"}, settings=settings))


def test_a_refusal_is_said(httpserver: HTTPServer) -> None:
    """Of a model, and of Azure's filter of questions."""
    chunk = {"id": "", "object": "", "created": 0, "model": ""}
    chunk |= {"choices": [{"index": 0, "delta": {"refusal": "No."}, "finish_reason": "stop"}]}
    httpserver.expect_ordered_request("/v1/chat/completions").respond_with_data(
        f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n", content_type="text/event-stream"
    )
    error = {"error": {"message": "The prompt was filtered.", "code": "content_filter"}}
    httpserver.expect_ordered_request("/v1/chat/completions").respond_with_json(error, status=400)
    settings = {"openai-url": httpserver.url_for("/v1")}
    for _ in range(2):
        with pytest.raises(SkillError, match="may not answer"):
            asyncio.run(agent.run("Do harm.", secrets={"openai": "sk-test"}, settings=settings))


def test_a_chunk_without_a_delta_is_passed_over(httpserver: HTTPServer) -> None:
    """Azure's, with a verdict of its content filter."""
    chunk = {"id": "", "object": "", "created": 0, "model": ""}
    chunk |= {"choices": [{"index": 0, "finish_reason": None, "content_filter_results": {}}]}
    httpserver.expect_request("/v1/chat/completions").respond_with_data(
        f"data: {json.dumps(chunk)}\n\n{stream_of('Hello.')}", content_type="text/event-stream"
    )
    settings = {"openai-url": httpserver.url_for("/v1")}
    answer = asyncio.run(agent.run("Hi.", secrets={"openai": "sk-test"}, settings=settings))
    assert answer.text == "Hello."
