"""What an agent's author reads of an output that the kit cannot use: one sentence, with the agent's line."""

import asyncio
import logging
from pathlib import Path

import pytest

from a2a_lambda import Agent
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.errors import AgentMistake
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import TaskState
from a2a_lambda.settings import Settings
from tests.agent.folders import CARD, write
from tests.turns.run_bench import RunBench, within
from tools.dev.console import ConsoleFormatter

WRONG = {
    "return object()": "a skill cannot return or yield a value of type object. Use text",
    "yield 'x', {1, 2}": "a skill cannot return or yield a value of type set. Use text",
    "return Ask('Which?', fills='citty')": "names the parameter 'citty', which skill hello does not have",
}

CODE = "from a2a_lambda import Ask, route, skill\n\n\n@skill\ndef hello(turn, city: str = ''):\n    {line}\n"

ROUTED = CODE.format(line="return 'routed'") + "\n\n@route\ndef choose(turn):\n    return {chosen}\n"


@pytest.fixture
def bench(kit: Kit, settings: Settings) -> RunBench:
    return RunBench(kit, settings)


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_output_is_one_sentence_with_its_line(tmp_path: Path, line: str) -> None:
    agent = Agent.load(write(tmp_path, CODE.format(line=line)))
    with pytest.raises(AgentMistake) as raised:
        asyncio.run(agent.run("hi"))
    assert WRONG[line] in str(raised.value)
    assert "hello/agent.py:6: " in str(raised.value)


@pytest.mark.parametrize("line", WRONG)
def test_a_log_has_the_sentence_and_no_frames(
    tmp_path: Path, bench: RunBench, caplog: pytest.LogCaptureFixture, line: str
) -> None:
    bench.messages.agents = Agents.of(
        Agent.load(write(tmp_path, CODE.format(line=line), name=bench.scope.agent))
    )
    task = within(bench.send("hello"))
    assert task["status"]["state"] == TaskState.FAILED
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert WRONG[line] in record.getMessage()
    assert "/agent.py:6: " in record.getMessage()
    assert "\n" not in ConsoleFormatter(colored=False).format(record)


@pytest.mark.parametrize("chosen", ["hello", "'hello'", "None"])
def test_a_router_returns_a_skill_or_its_id(tmp_path: Path, chosen: str) -> None:
    agent = Agent.load(write(tmp_path, ROUTED.format(chosen=chosen)))
    assert asyncio.run(agent.run("hi")).text == "routed"


@pytest.mark.parametrize("chosen", ["'helo'", "7", "turn"])
def test_another_value_of_a_router_is_one_sentence(tmp_path: Path, chosen: str) -> None:
    agent = Agent.load(write(tmp_path, ROUTED.format(chosen=chosen)))
    with pytest.raises(
        AgentMistake, match=r"agent.py:11: @route must return a skill, or the id of one \(hello\)"
    ):
        asyncio.run(agent.run("hi"))


def test_a_skill_that_puts_out_nothing_is_a_hint(
    tmp_path: Path, bench: RunBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    code = CODE.format(line="'no return'")
    bench.messages.agents = Agents.of(Agent.load(write(tmp_path, code, CARD, name=bench.scope.agent)))
    assert within(bench.send("hello"))["status"]["state"] == TaskState.COMPLETED
    [hint] = [each for each in caplog.records if each.name == "a2a_lambda.hints"]
    said = ConsoleFormatter(colored=False).format(hint)
    assert "WARNING" in said
    assert "skill hello returned nothing" in said
