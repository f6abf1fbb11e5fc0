"""What cfn-lint finds in the templates."""

import json
from pathlib import Path

import pytest
from samtranslator.yaml_helper import yaml_parse

from tests.conftest import ROOT
from tools.build import lint

pytestmark = pytest.mark.slow(seconds=40)


@pytest.mark.parametrize("state", lint.RELEASE_PARAMETERS, ids=["plain", "rollout"])
def test_the_translated_template_has_no_fault(source: str, state: dict[str, str]) -> None:
    assert list(lint.faults(json.dumps(lint.translate(source, state)))) == []


@pytest.mark.parametrize("path", sorted((ROOT / "templates").glob("*.yaml")), ids=lambda path: path.name)
def test_the_other_templates_have_no_fault(path: Path) -> None:
    assert list(lint.faults_of(path)) == []


def test_only_iam_is_looked_at_in_one_region() -> None:
    for name in lint.WITHOUT_REGION:
        resources = yaml_parse((ROOT / "templates" / name).read_text())["Resources"].values()
        assert {each["Type"].split("::")[1] for each in resources} == {"IAM"}


def test_a_dependency_on_what_a_condition_removes_is_a_fault(source: str) -> None:
    """Such a template validates, and fails in an account: "Unresolved resource dependencies"."""
    wrong = source.replace(
        "    Type: AWS::Serverless::Api\n", "    Type: AWS::Serverless::Api\n    DependsOn: WebAcl\n"
    )
    found = list(lint.faults(json.dumps(lint.translate(wrong))))
    assert any("WebAcl" in fault and "HasWebAcl" in fault for fault in found), found


def test_the_filter_hides_no_fault_of_its_kind(source: str) -> None:
    wrong = source.replace("Outputs:\n", "Outputs:\n  Role: { Value: !GetAtt RolloutRole.Arn }\n")
    assert any("RolloutRole" in fault for fault in lint.faults(json.dumps(lint.translate(wrong))))
