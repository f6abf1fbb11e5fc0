"""What cfn-lint finds in a template. `make check` lets it look at the kit's own: they have no fault."""

import json

import pytest
from samtranslator.yaml_helper import yaml_parse

from tests.conftest import ROOT
from tools.build import lint
from tools.deployment.account import REGIONS

pytestmark = pytest.mark.slow(seconds=40)


def test_a_forks_lines_fit_into_the_template(source: str) -> None:
    faults = lint.faults(json.dumps(lint.translate(source)), REGIONS[:1])
    assert list(faults) == []


def test_only_iam_is_looked_at_in_one_region() -> None:
    for name in lint.WITHOUT_REGION:
        resources = yaml_parse((ROOT / "templates" / name).read_text())["Resources"].values()
        assert {each["Type"].split("::")[1] for each in resources} == {"IAM"}


TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Globals: { Function: {} }
Parameters: { WebAclArn: { Type: String, Default: "" } }
Conditions: { HasWebAcl: !Not [!Equals [!Ref WebAclArn, ""]] }
Resources:
  WebAcl:
    Type: AWS::SQS::Queue
    Condition: HasWebAcl
  Api:
    Type: AWS::Serverless::Api
    Properties: { StageName: live }
"""


def test_a_dependency_on_what_a_condition_removes_is_a_fault() -> None:
    """Such a template validates, and fails in an account: "Unresolved resource dependencies"."""
    wrong = TEMPLATE.replace(
        "    Type: AWS::Serverless::Api\n", "    Type: AWS::Serverless::Api\n    DependsOn: WebAcl\n"
    )
    faults = list(lint.faults(json.dumps(lint.translate(wrong))))
    assert any("WebAcl" in fault and "HasWebAcl" in fault for fault in faults), faults
    assert not any("WebAcl" in fault for fault in lint.faults(json.dumps(lint.translate(TEMPLATE))))


def test_the_filter_hides_no_fault_of_its_kind() -> None:
    """It leaves out the role of a rollout's deployment groups alone."""
    role = "  RolloutRole:\n    Type: AWS::SQS::Queue\n    Condition: HasWebAcl\n"
    output = "Outputs: { Role: { Value: !GetAtt RolloutRole.Arn } }\n"
    wrong = TEMPLATE.replace("Resources:\n", f"Resources:\n{role}") + output
    assert any("RolloutRole" in fault for fault in lint.faults(json.dumps(lint.translate(wrong))))


def test_a_template_that_is_no_yaml_is_a_fault() -> None:
    [fault] = lint.faults("Resources:\n  Queue:\n    Type: AWS::SQS::Queue\n    Metadata: two: values\n")
    assert fault == "line 4: E0000 mapping values are not allowed in this context"
