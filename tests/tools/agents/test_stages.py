"""samconfig.toml, and what is said of one that cannot be read."""

import re
from pathlib import Path

import pytest

from a2a_lambda.errors import ConfigurationError
from tools.agents.stages import (
    agents_of_stages,
    deploy_command,
    notes_for_github,
    overrides_of,
    read_stages,
    stage_of,
    values_of_stages,
)
from tools.command import split_names

TWO = """
version = 0.1
[default.build.parameters]
cached = true
[small.deploy.parameters]
stack_name = "a-small"
parameter_overrides = "AgentNames=a,b LogDays=7"
[all.global.parameters]
region = "eu-west-1"
[all.deploy.parameters]
stack_name = "a-all"
parameter_overrides = ["LogDays='7'"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_stage_has_a_stack_and_serves_some_agents_or_all(folder: Path) -> None:
    assert read_stages() == {}
    (folder / "samconfig.toml").write_text(TWO, "utf-8-sig")
    assert list(read_stages()) == ["small", "all"]
    assert read_stages(folder)["all"]["region"] == "eu-west-1"
    assert overrides_of(read_stages()["all"]) == ["LogDays=7"]
    assert agents_of_stages() == {"small": ["a", "b"], "all": []}


def test_two_stages_have_two_stacks(folder: Path) -> None:
    """They would replace each other's agents."""
    (folder / "samconfig.toml").write_text(stages_of_one_name("", ""))
    with pytest.raises(ConfigurationError, match="small and all deploy the same stack, a-small"):
        read_stages()


def stages_of_one_name(small: str, everything: str) -> str:
    """Two stages whose stacks have one name. Each has a further line."""
    text = TWO.replace("a-all", "a-small").replace('region = "eu-west-1"', everything)
    return text.replace("[small.deploy.parameters]", f"[small.deploy.parameters]\n{small}")


@pytest.mark.parametrize(
    ("small", "everything", "are_apart"),
    [
        ('region = "us-east-1"', 'region = "eu-west-1"', True),
        ('profile = "a"', 'profile = "b"', True),
        ('region = "eu-west-1"', 'region = "eu-west-1"', False),
        ("", 'region = "eu-west-1"', False),
        ('profile = "a"', "", False),
        ('region = ""', 'region = "eu-west-1"', False),
    ],
)
def test_stacks_of_one_name_are_apart_in_two_regions_or_accounts(
    folder: Path, small: str, everything: str, are_apart: bool
) -> None:
    """A stage that names no region uses that of the shell, which may be the other's."""
    (folder / "samconfig.toml").write_text(stages_of_one_name(small, everything))
    if are_apart:
        assert list(read_stages()) == ["small", "all"]
    else:
        with pytest.raises(ConfigurationError, match="the same stack"):
            read_stages()


def test_a_stage_without_a_stack_is_not_one_that_is_missing(folder: Path) -> None:
    (folder / "samconfig.toml").write_text(TWO.replace('stack_name = "a-all"\n', ""))
    with pytest.raises(ConfigurationError, match='stage all has no stack_name: write stack_name = "a-all"'):
        stage_of({"STAGE": "all"})


def test_a_key_that_is_no_table_is_no_stage(folder: Path) -> None:
    (folder / "samconfig.toml").write_text(TWO)
    with pytest.raises(ConfigurationError, match="has no stage 'version'"):
        stage_of({"STAGE": "version"})


def test_the_next_step_names_a_stage_that_is_there(folder: Path) -> None:
    assert deploy_command() == "make deploy"
    (folder / "samconfig.toml").write_text(TWO)
    assert deploy_command() == "make deploy STAGE=small"
    (folder / "samconfig.toml").write_text(TWO.replace("[all.", "[dev."))
    assert deploy_command() == "make deploy STAGE=dev"
    assert deploy_command("my stage") == "make deploy STAGE='my stage'"


def test_a_stack_may_be_named_for_all_commands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "samconfig.toml").write_text('["prod eu".global.parameters]\nstack_name = "a-eu"\n')
    assert read_stages()["prod eu"]["stack_name"] == "a-eu"
    with pytest.raises(ConfigurationError, match="has no stage 'prod': write STAGE='prod eu'"):
        stage_of({"STAGE": "prod"})
    with pytest.raises(ConfigurationError, match="name a stage: STAGE='prod eu'"):
        stage_of({})


def test_a_parameter_of_every_stage(folder: Path) -> None:
    (folder / "samconfig.toml").write_text(TWO)
    assert values_of_stages("LogDays") == {"small": "7", "all": "7"}
    assert values_of_stages("Architecture") == {"small": "", "all": ""}


def test_a_name_that_comes_twice_counts_once() -> None:
    assert split_names("a, b a,,b c") == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[dev", "samconfig.toml: "),
        ("# \u00e9".encode("latin-1"), "samconfig.toml is not UTF-8: save it as UTF-8"),
        (
            TWO.replace("[\"LogDays='7'\"]", "[1]").encode(),
            "parameter_overrides of a-all: write a list of strings",
        ),
        (TWO.replace('"eu-west-1"', "5").encode(), 'region of all must be a string: write region = "5"'),
        (TWO.replace("LogDays='7'", "LogDays='7").encode(), "parameter_overrides of a-all: No closing"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_file(folder: Path, content: bytes, words: str) -> None:
    (folder / "samconfig.toml").write_bytes(content)
    with pytest.raises(ConfigurationError, match=words):
        agents_of_stages()


@pytest.mark.parametrize("name", ["acme_agents", "1st", "a" * 129])
def test_a_stacks_name_is_one_that_cloudformation_takes(folder: Path, name: str) -> None:
    (folder / "samconfig.toml").write_text(TWO.replace("a-small", name))
    with pytest.raises(ConfigurationError, match="use letters, digits and hyphens, and begin with a letter"):
        read_stages()


def test_what_the_roles_for_github_would_refuse_is_noted(folder: Path) -> None:
    """A deployment by hand may have such stages."""
    complete = re.sub('stack_name = (".*")', r"stack_name = \1\ns3_prefix = \1", TWO)
    (folder / "samconfig.toml").write_text(complete)
    assert list(notes_for_github(read_stages())) == []
    text = complete.replace("a-small", "a-all-small" + "x" * 20).replace('s3_prefix = "a-all"', "")
    (folder / "samconfig.toml").write_text(text)
    long, prefix, nested = notes_for_github(read_stages())
    assert long == "stage small: for GitHub, shorten its stack_name to 30 characters"
    assert "stage small: for GitHub, choose another stack_name, because the role of all" in nested
    assert 'write s3_prefix = "a-all"' in prefix
