"""make rename: the fork's names, and nothing else."""

import shutil
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.helpers.project import SAMCONFIG
from tools.docs import translations
from tools.fork import rename
from tools.fork.owned import README_MARK


@pytest.fixture(autouse=True)
def fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "samconfig.toml").write_text(SAMCONFIG + "# a comment of its owner's\n")
    (tmp_path / "README.md").write_text(f"# A2A Lambda Kit\n\n{README_MARK}\n\nFork it.\n")
    for name in ("pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_fork_is_named(fork: Path) -> None:
    assert rename.main({"NAME": "acme-agents"}) == 0
    text = (fork / "samconfig.toml").read_text()
    assert "# a comment of its owner's" in text
    deploy = tomllib.loads(text)["dev"]["deploy"]["parameters"]
    assert (deploy["stack_name"], deploy["s3_prefix"]) == ("acme-agents-dev", "acme-agents-dev")
    assert deploy["parameter_overrides"]
    readme = (fork / "README.md").read_text()
    assert readme.startswith("# Acme agents\n")
    assert "ours is `acme-agents-dev`" in readme
    assert readme.endswith(f"{README_MARK}\n\nFork it.\n"), "the kit's part stays"
    assert tomllib.loads((fork / "pyproject.toml").read_text())["project"]["name"] == "acme-agents"
    packages = tomllib.loads((fork / "uv.lock").read_text())["package"]
    assert [package["name"] for package in packages if "editable" in package["source"]] == ["acme-agents"]


def test_the_chinese_readme_is_still_compared_with_the_kits_part(fork: Path) -> None:
    digest = translations.digest_of(fork / "README.md")
    rename.main({"NAME": "acme-agents"})
    assert translations.digest_of(fork / "README.md") == digest
    path = fork / "README.md"
    path.write_text(path.read_text() + "More.")
    assert translations.digest_of(path) != digest


def test_a_fork_without_a_lock_file_is_renamed(fork: Path) -> None:
    (fork / "uv.lock").unlink()
    assert rename.main({"NAME": "acme-agents"}) == 0
    assert 'name = "acme-agents"' in (fork / "pyproject.toml").read_text()
    assert not (fork / "uv.lock").exists()


def test_a_fork_without_a_readme_is_not_half_renamed(fork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fork / "README.md").unlink()
    samconfig = (fork / "samconfig.toml").read_text()
    assert rename.main({"NAME": "acme-agents"}) == 1
    assert "README.md is missing: git checkout HEAD -- README.md" in capsys.readouterr().err
    assert (fork / "samconfig.toml").read_text() == samconfig


def test_a_second_time_the_owners_words_stay(fork: Path) -> None:
    rename.main({"NAME": "acme-agents"})
    path = fork / "README.md"
    path.write_text(path.read_text().replace("Our agents, on AWS Lambda.", "Agents that sell anvils."))
    rename.main({"NAME": "acme"})
    assert path.read_text().startswith("# Acme\n\nAgents that sell anvils.")
    assert "ours is `acme-dev`" in path.read_text()
    assert 'stack_name = "acme-dev"' in (fork / "samconfig.toml").read_text()


ODD = """
["prod.eu".deploy.parameters]
  stack_name = 'kit-prod'
tags = "project=\\"a2a-lambda-kit\\" stage=\\"guided\\""
[ind.deploy.parameters]
stack_name = "kit-ind"
tags = "project=a2a-lambda-kit stage=ind"
# the tag project=kit is for the bill
[us.deploy.parameters]
stack_name = "kit-us"
tags = ["project=my shop"]
"""


def test_other_forms_of_samconfig_are_understood(fork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fork / "samconfig.toml").write_text(ODD)
    assert rename.main({"NAME": "acme"}) == 0
    assert "Next: make deploy STAGE=prod.eu makes the stack acme-prod-eu." in capsys.readouterr().out
    stages = {
        name: each["deploy"]["parameters"]
        for name, each in tomllib.loads((fork / "samconfig.toml").read_text()).items()
    }
    assert stages == {
        "prod.eu": {"stack_name": "acme-prod-eu", "tags": 'project="acme" stage="guided"'},
        "ind": {"stack_name": "acme-ind", "tags": "project=acme stage=ind"},
        "us": {"stack_name": "acme-us", "tags": ["project=acme"]},
    }
    assert "# the tag project=kit is for the bill" in (fork / "samconfig.toml").read_text()


def test_stacks_that_it_cannot_name_stay(fork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fork / "samconfig.toml").write_text('dev = { deploy = { parameters = { stack_name = "kit-dev" } } }')
    assert rename.main({"NAME": "acme"}) == 1
    assert "would be named kit-dev: write the stack_name of each stage by hand" in capsys.readouterr().err
    assert (fork / "README.md").read_text().startswith("# A2A Lambda Kit")


def test_nothing_is_renamed_while_samconfig_cannot_be_read(
    fork: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fork / "samconfig.toml").write_text("[dev")
    assert rename.main({"NAME": "acme"}) == 1
    assert "error: samconfig.toml: " in capsys.readouterr().err
    assert (fork / "README.md").read_text().startswith("# A2A Lambda Kit")


@pytest.mark.parametrize("name", ["", "Acme", "a b", "1st", "aws-agents", "x" * 25, "acme-"])
def test_a_name_that_no_stack_may_have(fork: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rename.main({"NAME": name}) == 1
    assert "make rename NAME=" in capsys.readouterr().err
    assert 'stack_name = "a2a-dev"' in (fork / "samconfig.toml").read_text()


@pytest.mark.parametrize("name", ["rich", "pydantic", "anvil"])
def test_the_name_of_a_package_is_refused(fork: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (fork / "uv.lock").write_text((ROOT / "uv.lock").read_text())
    (fork / "layers" / "agents").mkdir(parents=True, exist_ok=True)
    (fork / "layers" / "agents" / "requirements.txt").write_text("anvil==1.0\n")
    assert rename.main({"NAME": name}) == 1
    assert f"{name} is a package that this project installs" in capsys.readouterr().err
    assert 'stack_name = "a2a-dev"' in (fork / "samconfig.toml").read_text()


def test_a_stage_in_single_quotes_is_named_too(fork: Path) -> None:
    text = SAMCONFIG.replace("tags = [", 'tags = ["project=a2a-lambda-kit", ')
    (fork / "samconfig.toml").write_text(text.replace('"', "'"))
    assert rename.main({"NAME": "acme"}) == 0
    stage = tomllib.loads((fork / "samconfig.toml").read_text())["dev"]["deploy"]["parameters"]
    assert (stage["stack_name"], stage["tags"]) == ("acme-dev", ["project=acme", "stage=dev"])


@pytest.mark.parametrize(
    ("stages", "name", "words"),
    [
        (["dev", "staging"], "acme-platform-agents-eu", "has 31 characters"),
        (["dev", "dev-eu"], "acme", "the deploy role of acme-dev could change the stack acme-dev-eu"),
    ],
)
def test_stacks_that_a_deploy_role_could_not_tell_apart_are_refused(
    fork: Path, stages: list[str], name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    samconfig = "".join(f'[{stage}.deploy.parameters]\nstack_name = "a2a-{stage}"\n' for stage in stages)
    (fork / "samconfig.toml").write_text(samconfig)
    assert rename.main({"NAME": name}) == 1
    assert words in capsys.readouterr().err
    assert (fork / "samconfig.toml").read_text() == samconfig
