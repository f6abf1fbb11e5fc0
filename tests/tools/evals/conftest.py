"""A fork with one agent, for make eval."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.folders import CARD
from tools.evals import main

CODE = """
from a2a_lambda import Ask, skill

COUNT = []

@skill(default=True)
def hello(turn):
    COUNT.append(1)
    if "ask" in turn.text:
        return Ask("Which?")
    if "break" in turn.text:
        raise RuntimeError("broken on purpose")
    if "sometimes" in turn.text and len(COUNT) % 2:
        return "no"
    return f"You said {turn.text}.", {"length": len(turn.text)}
"""

Eval = Callable[..., int]


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Eval:
    """Runs make eval in a fork with one agent; returns its exit status."""
    folder = tmp_path / "functions/agents/hello"
    folder.mkdir(parents=True)
    (folder / "card.yaml").write_text(CARD.format(name="hello"))
    (folder / "agent.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)

    def evaluate(cases: str, code: str = "", **environ: str) -> int:
        (folder / "evals.yaml").write_text(cases)
        if code:
            (folder / "agent.py").write_text(code)
        return main.main({"COLUMNS": "200", **environ})

    monkeypatch.setenv("COLUMNS", "200")
    return evaluate
