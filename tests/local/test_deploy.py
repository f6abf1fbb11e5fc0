"""make deploy: what sam is called with."""

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
    return {name: value.strip('"') for name, _, value in (one.partition("=") for one in given)}


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


@pytest.mark.parametrize("wrong", [{"STAGE": ""}, {"STAGE": "staging"}, {"PARAMETERS": "LogDay=7"}])
def test_mistakes_are_told_before_anything_is_built(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"STAGE=dev or STAGE=prod|LogDay=7"):
        deploy.command(ASKED | wrong)
