import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import pytest

from a2a_lambda import Agent, SkillError

USAGE = {
    "metadata": {
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "metrics": {"latencyMs": 1},
    }
}


def text(*pieces: str, stop: str = "end_turn") -> list[dict[str, Any]]:
    """A recorded answer of ConverseStream."""
    deltas = [{"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": piece}}} for piece in pieces]
    end = [{"contentBlockStop": {"contentBlockIndex": 0}}, {"messageStop": {"stopReason": stop}}, USAGE]
    return [{"messageStart": {"role": "assistant"}}, *deltas, *end]


def tool_use(arguments: str, identity: str = "t1") -> list[dict[str, Any]]:
    start = {"toolUse": {"toolUseId": identity, "name": "count_letters"}}
    return [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockStart": {"contentBlockIndex": 0, "start": start}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": arguments}}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "tool_use"}},
        USAGE,
    ]


class Bedrock:
    def __init__(self, *streams: list[dict[str, Any]]) -> None:
        self._streams = iter(streams)
        self.sent: list[list[Any]] = []
        self.meta = type("Meta", (), {"region_name": "us-east-1"})

    def converse_stream(self, **request: Any) -> dict[str, Iterator[Any]]:
        self.sent.append(list(request["messages"]))
        return {"stream": iter(next(self._streams))}


def test_the_agent_calls_the_tool_and_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    first_answer = tool_use('{"word": "strawberry", "letter": "r"}')
    bedrock = Bedrock(first_answer, text("There ", "are 3."), text("You are welcome."))
    monkeypatch.setattr(boto3.Session, "client", lambda *_, **__: bedrock)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    agent = Agent.load(Path(__file__).parents[1])

    async def talk() -> None:
        first = await agent.run("How many r are in strawberry?")
        assert first.text == "There are 3."
        second = await agent.run("Thank you.", after=first)
        assert second.text == "You are welcome."

    asyncio.run(talk())
    _, tool, later = bedrock.sent
    assert tool[-1]["content"][0]["toolResult"]["content"] == [{"text": "3"}]
    assert [message["role"] for message in later] == ["user", "assistant", "user"]


def test_a_turn_that_is_cancelled_stops_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread reads it."""
    is_reading, has_ended = threading.Event(), threading.Event()

    def pieces() -> Iterator[Any]:
        first, *rest = text(*["word "] * 10_000)
        try:
            yield first
            for piece in rest:
                is_reading.set()
                yield piece
                time.sleep(0.01)
        finally:
            has_ended.set()

    bedrock = Bedrock()
    bedrock.converse_stream = lambda **_: {"stream": pieces()}  # type: ignore[method-assign]
    monkeypatch.setattr(boto3.Session, "client", lambda *_, **__: bedrock)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")

    async def cancel() -> None:
        turn = asyncio.create_task(Agent.load(Path(__file__).parents[1]).run("Write a book."))
        await asyncio.to_thread(is_reading.wait, 60)
        turn.cancel()
        with suppress(asyncio.CancelledError):
            await turn
        assert await asyncio.to_thread(has_ended.wait, 30)

    asyncio.run(cancel())


def test_the_agent_gives_up_a_loop_of_tool_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = '{"word": "a", "letter": "a"}'
    bedrock = Bedrock(*(tool_use(arguments, f"t{number}") for number in range(20)))
    monkeypatch.setattr(boto3.Session, "client", lambda *_, **__: bedrock)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with pytest.raises(SkillError):
        asyncio.run(Agent.load(Path(__file__).parents[1]).run("Again?"))
    assert len(bedrock.sent) == 11


@pytest.mark.parametrize("reason", ["content_filtered", "max_tokens"])
def test_half_an_answer_is_none(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    bedrock = Bedrock(text("It ", stop=reason))
    monkeypatch.setattr(boto3.Session, "client", lambda *_, **__: bedrock)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with pytest.raises(SkillError, match="could not finish"):
        asyncio.run(Agent.load(Path(__file__).parents[1]).run("Go on."))
