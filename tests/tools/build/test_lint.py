"""What cfn-lint finds in a template. `make check` lets it look at the kit's own: they have no fault."""

import json
from pathlib import Path

import pytest
from samtranslator.yaml_helper import yaml_parse

from a2a_lambda.errors import ConfigurationError
from tests.conftest import ROOT
from tools.build import check, lint
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


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("    Type: AWS::SQS::Queue\n    Condition: HasWebAcl\n", "", "the resource WebAcl: it has no Type"),
        (
            "WebAcl:\n    Type: AWS::SQS::Queue\n    Condition: HasWebAcl\n",
            "WebAcl: AWS::SQS::Queue\n",
            "WebAcl: it has no Type",
        ),
        (
            "    Properties: { StageName: live }",
            "    Properties:\n    StageName: live",
            "resource Api: it has no Properties",
        ),
        ("Globals:", "Globbals:", "needs its lines Globals, Function and Resources"),
        (TEMPLATE, "", "needs its lines Globals, Function and Resources"),
        (
            "    Type: AWS::SQS::Queue\n",
            "    Type: AWS::Serverless::Function\n    Properties: { Events: { A: { Type: Shedule } } }\n",
            "SAM refuses the template: .*WebAcl",
        ),
    ],
)
def test_a_slip_in_a_forks_lines_is_a_sentence(old: str, new: str, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        lint.translate(TEMPLATE.replace(old, new))


def test_the_filter_hides_no_fault_of_its_kind() -> None:
    """It leaves out the role of a rollout's deployment groups alone."""
    role = "  RolloutRole:\n    Type: AWS::SQS::Queue\n    Condition: HasWebAcl\n"
    output = "Outputs: { Role: { Value: !GetAtt RolloutRole.Arn } }\n"
    wrong = TEMPLATE.replace("Resources:\n", f"Resources:\n{role}") + output
    assert any("RolloutRole" in fault for fault in lint.faults(json.dumps(lint.translate(wrong))))


POLICY = """
Resources:
  AgentPolicy:
    Type: AWS::IAM::ManagedPolicy
    Metadata: { Environment: { NAME: x } }
    Properties:
      PolicyDocument:
        Version: "2012-10-17"
        Statement: [{ Effect: Allow, Action: [sts:GetCallerIdentity], Resource: "*" }]
"""


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("ON: x", "ON: YAML does not read this name as text: put it in quotes"),
        ("MY-VAR: x", "MY-VAR: a name begins with a letter, and has two or more letters"),
        ("L: x", "L: a name begins with a letter"),
        ("A2A_TABLE: mine", "A2A_TABLE: names that begin with A2A_ are the kit's"),
        ("SECRET_OPENAI: sk", "SECRET_OPENAI: it is not read on AWS: use make secret STACK="),
        ("DAY: 2026-01-01", "DAY: YAML does not read its value as text: put 2026-01-01 in quotes"),
        ("TIME: 12:30", "TIME: YAML does not read its value as text: put 12:30 in quotes"),
        ("CODE: 0123", "put 0123 in quotes"),
        ("VERSION: 1.10", "put 1.10 in quotes"),
        ("FLAG: yes", "put yes in quotes"),
        ("DAY: 2024-13-45", "put 2024-13-45 in quotes"),
        ("SEP: =", "put = in quotes"),
        ("NAME: null", "put null in quotes"),
        ("<<: { A2A_TABLE: mine }", "A2A_TABLE: names that begin with A2A_ are the kit's"),
        ("<<: [{ NAME: x }, { L: x }]", "L: a name begins with a letter"),
        ("AA: x, AA: 1.10", "put 1.10 in quotes"),
        ("<<: { AA: x }, <<: { AA: 1.10 }", "put 1.10 in quotes"),
        ("NAME:", 'NAME: YAML does not read its value as text: write "" if it is to be empty'),
        ("NAMES: [a, b]", "NAMES: its value must be a text or one function, such as !Ref"),
        ("NAME: { a: b }", "NAME: its value must be a text or one function"),
        ("NAME: { Ref: A, b: c }", "NAME: its value must be a text or one function"),
        ("NAME: {}", "NAME: its value must be a text or one function"),
    ],
)
def test_an_environment_variable_that_aws_would_not_take_is_a_fault(line: str, problem: str) -> None:
    [fault] = lint.faults_of_environment(POLICY.replace("NAME: x", line))
    assert problem in fault


@pytest.mark.parametrize(
    "template",
    [
        TEMPLATE,
        POLICY,
        POLICY.replace("NAME: x", "AA: !Ref B, BB: !Sub b, CC: 1, DD: true, EE: 1.5, FF: '', GG: { Ref: A }"),
        POLICY.replace("NAME: x", "<<: { NAME: x }"),
        POLICY.replace("NAME: x", "<<: { TIME: 12:30 }, TIME: '12:30'"),
        POLICY.replace("NAME: x", "<<: &own { <<: *own, AA: b }"),
        POLICY.replace("NAME: x", "AA: 1.10, AA: x"),
    ],
)
def test_an_environment_variable_may_be_a_value_or_a_function(template: str) -> None:
    assert list(lint.faults_of_environment(template)) == []


@pytest.mark.parametrize(
    ("own_lines", "fault"),
    [
        ("Environment: { ON: x }", "environment variable ON: YAML does not read this name as text"),
        ("Environment: { DAY: 2026-01-01 }", "environment variable DAY: YAML does not read its value"),
        ("Environment: [NAME]", "AgentPolicy.Metadata.Environment must have lines of NAME: value, or be {}"),
        ("Environment:", "AgentPolicy.Metadata.Environment must have lines of NAME: value, or be {}"),
        ("Day: 2026-13-01", "template.yaml has a name or a value that YAML does not read as text"),
        ("Day: 2026-01-01", "template.yaml has a name or a value that YAML does not read as text"),
        ("Day: a: b", "template.yaml:6: not valid YAML"),
    ],
)
def test_a_mistake_in_a_forks_lines_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    own_lines: str,
    fault: str,
) -> None:
    """SAM would fail with a traceback."""
    template = tmp_path / "template.yaml"
    template.write_text(
        POLICY.replace("Metadata: { Environment: { NAME: x } }", f"Metadata:\n      {own_lines}")
    )
    monkeypatch.setattr(lint, "TEMPLATE", template)
    monkeypatch.setattr(lint, "PLAIN_TEMPLATES", ())
    monkeypatch.setattr(lint, "faults_of_stages", lambda **_: [])
    monkeypatch.setattr(check, "main", lambda _: 0)
    assert lint.main() == 1
    [line] = capsys.readouterr().err.splitlines()
    assert fault in line


@pytest.mark.parametrize("agent_status", [0, 1])
def test_a_fault_of_one_state_of_the_template_is_enough(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], agent_status: int
) -> None:
    """A stage's fault is named, too, even if an agent is wrong."""
    texts = iter([["without a rollout"], [], *([] for _ in lint.PLAIN_TEMPLATES)])
    monkeypatch.setattr(lint, "faults", lambda *_: next(texts))
    loads_agents: list[bool] = []

    def faults_of_stages(*, with_agents: bool) -> list[str]:
        loads_agents.append(with_agents)
        return ["stage dev: no agent helo"]

    monkeypatch.setattr(lint, "faults_of_stages", faults_of_stages)
    monkeypatch.setattr(check, "main", lambda _: agent_status)
    assert lint.main() == 1
    assert capsys.readouterr().err.splitlines() == [
        "stage dev: no agent helo",
        "template.yaml, translated: without a rollout",
    ]
    assert loads_agents == [agent_status == 0], "an agent that is wrong is named once"


def test_a_type_that_no_region_has_is_named_once() -> None:
    text = POLICY.replace("AWS::IAM::ManagedPolicy", "AWS::IAM::ManagdPolicy")
    [fault] = {fault for fault in lint.faults(text, REGIONS[:2]) if "E3006" in fault}
    assert "Resource type AWS::IAM::ManagdPolicy is unknown; did you mean AWS::IAM::ManagedPolicy?" in fault


def test_an_action_that_iam_does_not_have_is_named_with_one_that_is_meant() -> None:
    wrong = POLICY.replace("sts:GetCallerIdentity", "bedrock:InvokModel")
    faults = list(lint.faults(wrong, REGIONS[:1]))
    assert [fault.partition("W3037 ")[2] for fault in faults] == [
        "'invokmodel' is unknown; did you mean invokemodel?"
    ]


def test_a_template_that_is_no_yaml_is_a_fault() -> None:
    [fault] = lint.faults("Resources:\n  Queue:\n    Type: AWS::SQS::Queue\n    Metadata: two: values\n")
    assert fault == "line 4: E0000 mapping values are not allowed in this context"
