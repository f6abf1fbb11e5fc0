"""make deploy: what sam is called with."""

import re
from pathlib import Path

import pytest

from a2a_lambda.errors import ConfigurationError
from a2a_lambda.local import deploy, table
from tests.conftest import ROOT

ASKED = {"STAGE": "prod", "ARCH": "x86_64", "BUILD_DIR": "built"}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def parameters(**more: str) -> dict[str, str]:
    call = deploy.command(ASKED | more)
    given = call[call.index("--parameter-overrides") + 1 :]
    pairs = [re.fullmatch(r'(\w+)="([^"]*)"', one) for one in given]
    return {pair[1]: pair[2] for pair in pairs if pair}


def test_every_parameter_is_given() -> None:
    """CloudFormation keeps the value of one that is not."""
    found = parameters()
    assert set(found) == set(table.defaults(Path("template.yaml")))
    assert found["LogDays"] == "90"
    assert found["Tracing"] == "false"
    assert found["DomainName"] == ""


def test_the_architecture_is_what_was_built() -> None:
    assert parameters()["Architecture"] == "x86_64"


def test_parameters_of_the_call_count_most() -> None:
    assert parameters(PARAMETERS="LogDays=7 Tracing=true")["LogDays"] == "7"


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_values_may_stand_in_quotes(quote: str) -> None:
    arn = "arn:aws:sns:us-east-1:123456789012:alarms"
    assert parameters(PARAMETERS=f"AlarmTopicArn={quote}{arn}{quote}")["AlarmTopicArn"] == arn
    given = "CorsOrigins='https://a.example, https://b.example' LogDays=7"
    assert parameters(PARAMETERS=given)["CorsOrigins"] == "https://a.example, https://b.example"


def test_what_guided_wrote_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = r"""
        [guided.deploy.parameters]
        stack_name = "mine"
        parameter_overrides = "LogDays=\"7\" DomainName=\"agents.example.com\" WebAclArn=\"\""
        [odd]
        deploy = 3
    """
    monkeypatch.setattr(deploy, "CONFIG", tmp_path / "samconfig.toml")
    deploy.CONFIG.write_text(written)
    assert parameters(STAGE="guided")["DomainName"] == "agents.example.com"
    deploy.CONFIG.write_text("version = 0.1")
    with pytest.raises(ConfigurationError, match="no stage"):
        parameters()


@pytest.mark.parametrize(
    "wrong",
    [
        {"STAGE": ""},
        {"STAGE": "staging"},
        {"PARAMETERS": "LogDay=7"},
        {"PARAMETERS": "LogDays='7"},
        {"PARAMETERS": "LogDays='7\"'"},
    ],
)
def test_mistakes_are_told_before_anything_is_built(wrong: dict[str, str]) -> None:
    with pytest.raises(
        ConfigurationError, match=r"STAGE=dev or STAGE=prod|LogDay=7|No closing|no value like"
    ):
        deploy.command(ASKED | wrong)
