"""The kit's folder, with stages of the tests."""

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.tools.deployment.deployments import SAMCONFIG
from tools.agents import stages


@pytest.fixture
def kit_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(stages, "SAMCONFIG", tmp_path / "samconfig.toml")
    stages.SAMCONFIG.write_text(SAMCONFIG)
