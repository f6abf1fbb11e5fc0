"""The rule in docs/background-work.md, as a fork puts it into its part of the template."""

import json
import re
from typing import Any

import pytest

from a2a_lambda.operations.triggers import StartEvent
from tests.conftest import ROOT
from tests.helpers.project import PLACE, with_place
from tests.template.permissions.conftest import render_roles, statements_of
from tests.template.permissions.iam import is_allowed
from tests.template.permissions.rendering import ACCOUNT, REGION
from tests.template.resources import of_type
from tools.build import lint


@pytest.fixture(scope="module")
def resources() -> Any:
    page = (ROOT / "docs" / "background-work.md").read_text()
    [rule] = re.findall(r"```yaml\n(  NewFile:\n.*?)```", page, re.DOTALL)
    [pipe] = re.findall(r"```yaml\n(  OrdersStartAgent:\n.*?)```", page, re.DOTALL)
    queue = "  Orders:\n    Type: AWS::SQS::Queue\n"
    template = with_place((ROOT / "template.yaml").read_text(), f"{PLACE}{rule}\n{pipe}\n{queue}\n")
    return lint.translate(template)["Resources"]


def test_a_rule_may_call_the_worker_and_nothing_else(resources: Any) -> None:
    [rule] = [each for name, each in of_type(resources, "AWS::Events::Rule").items() if name == "NewFile"]
    [target] = rule["Properties"]["Targets"]
    permission = resources["NewFileStartsAgent"]["Properties"]
    assert target["Arn"] == permission["FunctionName"]
    [alias] = permission["FunctionName"].values()
    assert resources[alias]["Type"] == "AWS::Lambda::Alias"
    assert "WorkerFunction" in json.dumps(resources[alias]["Properties"]["FunctionName"])
    assert permission["SourceArn"] == {"Fn::GetAtt": ["NewFile", "Arn"]}


def test_the_input_of_a_rule_is_what_the_worker_reads(resources: Any) -> None:
    transformer = resources["NewFile"]["Properties"]["Targets"][0]["InputTransformer"]
    event = {"id": "e-1", "detail": {"bucket": {"name": "my-bucket"}, "object": {"key": 'a "file".csv'}}}
    assert transformer["InputPathsMap"] == {name: f"$.{name}" for name in event}
    text = transformer["InputTemplate"].replace("<id>", event["id"])
    text = text.replace("<detail>", json.dumps(event["detail"]))
    start = StartEvent.model_validate(json.loads(text)["start"])
    assert (start.agent, start.id, start.data) == ("reports", "e-1", event["detail"])


def test_a_pipe_reads_its_queue_and_calls_the_worker(resources: Any) -> None:
    pipe, role = resources["OrdersStartAgent"]["Properties"], resources["OrdersPipeRole"]["Properties"]
    [policy] = role["Policies"]
    read, call = policy["PolicyDocument"]["Statement"]
    assert pipe["Source"] == read["Resource"] == {"Fn::GetAtt": ["Orders", "Arn"]}
    assert pipe["Target"] == call["Resource"]
    [alias] = pipe["Target"].values()
    assert "WorkerFunction" in json.dumps(resources[alias]["Properties"]["FunctionName"])
    roles = render_roles(StackName="a2a-prod")
    deployer = statements_of(roles, "ExecutionRole")
    boundary = roles.resources["Boundary"]["Properties"]["PolicyDocument"]["Statement"]
    name = pipe["Name"]["Fn::Sub"].replace("${AWS::StackName}", "a2a-prod")
    place = f"{REGION}:{ACCOUNT}"
    assert is_allowed(deployer, "pipes:CreatePipe", f"arn:aws:pipes:{place}:pipe/{name}")
    pass_condition = {"iam:PassedToService": "pipes.amazonaws.com"}
    own_role = f"arn:aws:iam::{ACCOUNT}:role/a2a-prod-OrdersPipeRole-X"
    assert is_allowed(deployer, "iam:PassRole", own_role, pass_condition)
    for action in read["Action"]:
        assert is_allowed(boundary, action, f"arn:aws:sqs:{place}:a2a-prod-Orders-X")
    assert is_allowed(
        boundary, call["Action"], f"arn:aws:lambda:{place}:function:a2a-prod-WorkerFunction-X:live"
    )
    text = (
        pipe["TargetParameters"]["InputTemplate"].replace("<$.messageId>", "m-1").replace("<$.body>", "[1]")
    )
    start = StartEvent.model_validate(json.loads(text)["start"])
    assert (start.agent, start.id, start.data) == ("reports", "m-1", [1])
