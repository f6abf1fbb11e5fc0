"""make e2e, before it starts anything."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools.dev import checks

STAGES = """
version = 0.1
[dev.deploy.parameters]
stack_name = "a-dev"
parameter_overrides = "AgentNames=weather"
[prod.deploy.parameters]
stack_name = "a-prod"
parameter_overrides = "LogDays=many"
"""


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"AWS": "0"}, "AWS='0': write AWS=1"),
        ({"ROLE": "arn"}, "ROLE is used only on AWS"),
        ({"STAGE": "test"}, "name a stage: STAGE=dev or STAGE=prod"),
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
