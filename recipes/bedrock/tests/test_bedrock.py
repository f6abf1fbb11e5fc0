import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from a2a_lambda import Agent, SkillError


def stop(reason: str) -> dict[str, Any]:
    return {"messageStop": {"stopReason": reason}}


def text(*pieces: str) -> list[dict[str, Any]]:
    """Recorded events of an answer in text."""
    deltas = [{"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": piece}}} for piece in pieces]
    return [{"messageStart": {"role": "assistant"}}, *deltas, {"contentBlockStop": {"contentBlockIndex": 0}}]


def tool_use(*pieces: str) -> list[dict[str, Any]]:
    """Recorded events of a call of the tool: its input comes in pieces of JSON."""
    start = {"toolUse": {"toolUseId": "t1", "name": "weather"}}
    return [
        {"contentBlockStart": {"contentBlockIndex": 1, "start": start}},
        *(
            {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": piece}}}}
            for piece in pieces
        ),
        {"contentBlockStop": {"contentBlockIndex": 1}},
    ]


class Bedrock:
    """Answers with recorded streams, and keeps what it was sent."""

    def __init__(self, *streams: list[dict[str, Any]]) -> None:
        self._streams = iter(streams)
        self.sent: list[list[Any]] = []

    def converse_stream(self, **request: Any) -> dict[str, Iterator[Any]]:
        self.sent.append(list(request["messages"]))
        return {"stream": (event for event in next(self._streams))}


def load(monkeypatch: pytest.MonkeyPatch, bedrock: Bedrock) -> Agent:
    monkeypatch.setattr(boto3, "client", lambda *_, **__: bedrock)
    return Agent.load(Path(__file__).parents[1])


def test_the_agent_calls_the_tool_and_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    first_answer = [*text("Let me look. "), *tool_use('{"ci', 'ty": "Paris"}'), stop("tool_use")]
    bedrock = Bedrock(
        first_answer, [*text("It ", "rains."), stop("end_turn")], [*text("12 °C."), stop("end_turn")]
    )
    agent = load(monkeypatch, bedrock)

    async def talk() -> None:
        first = await agent.run("Do I need an umbrella in Paris?")
        assert first.text == "Let me look. It rains."
        second = await agent.run("How warm is it?", after=first)
        assert second.text == "12 °C."

    asyncio.run(talk())
    _, tool, later = bedrock.sent
    assert tool[-2]["content"][1]["toolUse"]["input"] == {"city": "Paris"}
    [result] = tool[-1]["content"]
    assert result["toolResult"]["content"][0]["json"]["sky"] == "rain"
    assert [message["role"] for message in later] == ["user", "assistant", "user"]


@pytest.mark.parametrize("blank", ["", "\n"])
def test_a_blank_text_is_not_sent_back(monkeypatch: pytest.MonkeyPatch, blank: str) -> None:
    first_answer = [*text(blank), *tool_use('{"city": "Paris"}'), stop("tool_use")]
    bedrock = Bedrock(first_answer, [*text("It rains."), stop("end_turn")])
    answer = asyncio.run(load(monkeypatch, bedrock).run("Do I need an umbrella in Paris?"))
    assert answer.text.strip() == "It rains."
    assert [list(block) for block in bedrock.sent[-1][-2]["content"]] == [["toolUse"]]


def test_a_tool_that_fails_is_told_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    first_answer = [*tool_use('{"town": "Paris"}'), stop("tool_use")]
    bedrock = Bedrock(first_answer, [*text("Which city?"), stop("end_turn")])
    answer = asyncio.run(load(monkeypatch, bedrock).run("And there?"))
    assert answer.text == "Which city?"
    assert bedrock.sent[-1][-1]["content"][0]["toolResult"]["status"] == "error"


def test_the_agent_gives_up_a_loop_of_tool_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    bedrock = Bedrock(*[[*tool_use('{"city": "Paris"}'), stop("tool_use")]] * 9)
    with pytest.raises(SkillError):
        asyncio.run(load(monkeypatch, bedrock).run("Again?"))
    assert len(bedrock.sent) == 5


@pytest.mark.parametrize("reason", ["max_tokens", "guardrail_intervened"])
def test_half_an_answer_is_none(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    bedrock = Bedrock([*text("It "), *tool_use('{"ci'), stop(reason)])
    with pytest.raises(SkillError, match="could not finish"):
        asyncio.run(load(monkeypatch, bedrock).run("And there?"))
