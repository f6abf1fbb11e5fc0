"""make test and make e2e, before they start anything."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools.build import invoke
from tools.checks import main as checks

STAGES = """
version = 0.1
[dev.deploy.parameters]
stack_name = "a-dev"
parameter_overrides = "AgentNames=weather"
[prod.deploy.parameters]
stack_name = "a-prod"
parameter_overrides = "LogDays=many"
"""


def test_what_is_built_for_lambda_needs_linux(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert checks.main(["a2a", "e2e"], {}) == invoke.main({"EVENT": "events/send.json"}) == 1
    errors = capsys.readouterr().err
    for command in ("make e2e", "make invoke"):
        assert f"{command} runs what is built for Lambda, which needs Linux" in errors


def test_an_agent_without_a_test_is_told_where_one_belongs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "functions" / "agents" / "my-shop").mkdir(parents=True)
    monkeypatch.setattr(checks, "_run", lambda *_: checks.NO_TESTS)
    assert checks.test(["functions/agents/my-shop/"]) == checks.NO_TESTS
    assert "write functions/agents/my-shop/tests/test_my_shop.py" in capsys.readouterr().err
    test = tmp_path / "functions/agents/my-shop/tests/test_my_shop.py"
    test.parent.mkdir()
    test.touch()
    for path in ("functions/agents/my-shop/", "functions/agents/my-shop/tests/test_my_shop.py"):
        assert checks.test([path, "-k", "nothing"]) == checks.NO_TESTS
        assert capsys.readouterr().err == "", "pytest says that no test has such a name"


def test_an_agent_is_tested_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("shop", "left"):
        (tmp_path / "functions" / "agents" / name).mkdir(parents=True)
    (tmp_path / "functions" / "agents" / "shop" / "card.yaml").touch()
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(checks, "_run", lambda *words: calls.append(words))
    checks.main(["a2a", "test"], {"AGENT": "shop", "ARGS": "-k 'a b'"})
    assert calls == [("-m", "pytest", "-n", "0", "functions/agents/shop", "-k", "a b")]
    # git leaves a folder in which there is a __pycache__
    hints = {"shoe": "; did you mean shop?", "left": ".", "../agents/shop": "."}
    for name, hint in hints.items():
        assert checks.main(["a2a", "test"], {"AGENT": name}) == 1
        assert f"there is no agent {name!r}{hint} Agents: shop" in capsys.readouterr().err
    assert checks.main(["a2a", "test"], {"AGENT": ""}) == 1
    assert "AGENT is empty" in capsys.readouterr().err
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"AWS": "0"}, "AWS='0': write AWS=1"),
        ({"ROLE": "arn"}, "ROLE is used only on AWS"),
        ({"STAGE": "test"}, "has no stage 'test': write STAGE=dev or STAGE=prod"),
        ({"STAGE": "prod"}, "LogDays"),
        ({}, "AgentNames: there is no agent 'weather'"),
        ({"STAGE": "dev"}, "AgentNames: there is no agent 'weather'"),
    ],
)
def test_a_call_that_would_test_nothing_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: dict[str, str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "samconfig.toml").write_text(STAGES)
    shutil.copy(ROOT / "template.yaml", tmp_path)
    assert checks.main(["a2a", "e2e"], variables) == 1
    assert words in capsys.readouterr().err
