"""Parameters, stages, locks and workflows."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from a2a_lambda.settings import Settings
from tests.conftest import ROOT, UV
from tools.agents.stages import overrides_of, read_stages
from tools.checks import lab
from tools.deployment.account import REGIONS

KITS = "# === The kit's ="
"""What divides template.yaml."""


def test_the_kits_part_of_the_template_is_short(source: str) -> None:
    """The kit's part: a fork's may be as long as it likes."""
    _, kits = source.split(KITS)
    assert len(kits.splitlines()) <= 950


def test_a_new_account_has_room(parameters: Any) -> None:
    """Of the 10 functions that may run there at once, background work takes no more than six."""
    assert sum(parameters[f"{name}Concurrency"]["Default"] for name in ("Worker", "Notifier")) <= 6
    assert parameters["AccessLogs"]["Default"] == "false", "API Gateway may have no role to write logs with"
    assert parameters["ApiConcurrency"]["Default"] == parameters["RpcConcurrency"]["Default"] == 0


def test_regions_are_named() -> None:
    page = (ROOT / "docs" / "deploying.md").read_text()
    for region in REGIONS:
        assert f"`{region}`" in page, region


def test_settings_are_documented() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    for name in Settings.model_fields:
        assert f"`A2A_{name.upper()}`" in page, name


def test_samconfig_names_parameters_there_are(parameters: Any) -> None:
    """In each stage, whichever stages a fork has."""
    for stage in read_stages(ROOT).values():
        for override in overrides_of(stage):
            name, _, value = override.partition("=")
            assert value in map(str, parameters[name].get("AllowedValues", [value]))


def test_parameters_have_bounds_and_words(parameters: Any) -> None:
    for name, parameter in parameters.items():
        assert parameter["Description"].endswith("."), name
        assert "Default" in parameter, name
        if parameter["Type"] == "Number":
            assert "AllowedValues" in parameter or {"MinValue", "MaxValue"} <= set(parameter), name


def test_the_dependencies_are_built_from_their_lock_alone() -> None:
    """When anything else changes, sam finds the layer in its cache."""
    paths = (ROOT / "layers" / "dependencies").iterdir()
    assert {path.name for path in paths if not path.name.startswith(".")} == {  # Finder writes .DS_Store
        "Makefile",
        "requirements.txt",
        "tracing.txt",
        "trim.py",
    }


def kits_workflows() -> list[Path]:
    """All workflows here; in a fork, those of the kit that it has kept."""
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    is_fork = not lab.FOLDER.exists()
    return [path for path in workflows if path.stem in ("aws", "check", "deploy") or not is_fork]


@pytest.mark.parametrize("path", kits_workflows(), ids=lambda path: path.name)
def test_the_kits_workflows_pin_what_they_use_and_keep_no_secret_of_aws(path: Path) -> None:
    """A fork's deploy.yml may have the secrets of a package index."""
    text = path.read_text()
    for used in re.findall(r"uses: (\S+)", text):
        assert used.startswith("./") or re.search(r"@[0-9a-f]{40}$", used), used
    assert not re.search(r"secrets\W+aws", text, re.IGNORECASE)
    assert "\npermissions:\n  contents: read\n" in text


def test_a_fork_proves_nothing_on_aws_until_it_says_so() -> None:
    """Its nightly run is no failure. What a proof leaves is deleted in any case."""
    workflow = ROOT / ".github" / "workflows" / "aws.yml"
    if not workflow.exists():
        pytest.skip("the fork has deleted it")
    job = yaml_parse(workflow.read_text())["jobs"]["proof"]
    assert job["if"] == "vars.AWS_PROOF == 'true'"
    *_, last = job["steps"]
    assert (last["if"], "AWS=delete" in last["run"]) == ("always()", True)


def test_the_layer_has_what_the_lock_says() -> None:
    """layers/dependencies/requirements.txt is what `make lock` writes."""
    requirements = (ROOT / "layers/dependencies/requirements.txt").read_text()
    uv = subprocess.run(
        [
            *(UV, "export", "--locked", "--quiet", "--no-dev", "--no-emit-project"),
            *("--no-annotate", "--no-header", "--format", "requirements-txt"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert uv.stdout == requirements
