"""What an author is told of a skill's parameters when the agent is loaded."""

from pathlib import Path

import pytest

from a2a_lambda import Agent
from a2a_lambda.errors import ConfigurationError
from tests.agent.folders import write


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("turn, n: int, v: any", "parameter v: `any` is a function: write `Any`"),
        ("turn, v: 5", "parameter v has no JSON Schema"),
        ("self, turn", "a skill is a function, not a method: write it outside of its class"),
    ],
)
def test_a_type_that_is_none_is_named_with_its_parameter(tmp_path: Path, parameters: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        _ = Agent.load(write(tmp_path, f"@skill\ndef hello({parameters}): return 'hi'")).profile


@pytest.mark.parametrize(
    ("parameters", "is_hinted"),
    [("message: str", True), ("text: str", True), ("turn: Turn, text: str", False), ("city: str", False)],
)
def test_an_argument_that_is_meant_as_the_messages_text_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, parameters: str, is_hinted: bool
) -> None:
    """The agent asks for it again and again."""
    caplog.set_level("INFO", logger="a2a_lambda.hints")
    Agent.load(write(tmp_path, f"@skill\ndef hello({parameters}): return 'x'"))
    assert ("read turn.text" in caplog.text) is is_hinted


@pytest.mark.parametrize(
    ("parameters", "is_hinted"), [("n: int | None", True), ("n: int | None = None", False), ("n: int", False)]
)
def test_an_optional_argument_without_a_default_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, parameters: str, is_hinted: bool
) -> None:
    caplog.set_level("INFO", logger="a2a_lambda.hints")
    Agent.load(write(tmp_path, f"@skill\ndef hello({parameters}): return 'x'"))
    assert ("the kit asks for n, because it has no default: write `= None`" in caplog.text) is is_hinted
