"""templates/deploy-role.yaml: who may deploy cannot become more than that."""

import re
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from tests.conftest import ROOT

Json = Any


@pytest.fixture(scope="module")
def resources() -> Json:
    found: Json = yaml_parse((ROOT / "templates" / "deploy-role.yaml").read_text())["Resources"]
    return found


def statements(role: Json) -> dict[str, Json]:
    [policy] = role["Properties"]["Policies"]
    return {item["Sid"]: item for item in policy["PolicyDocument"]["Statement"]}


def test_only_jobs_of_the_environment_take_the_role(resources: Json) -> None:
    [trust] = resources["DeployRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert set(trust["Condition"]) == {"StringEquals"}, "no wildcard"
    assert trust["Condition"]["StringEquals"] == {
        "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
        "token.actions.githubusercontent.com:sub": {
            "Fn::Sub": "repo:${Repository}:environment:${Environment}"
        },
    }


def test_the_workflow_may_only_start_a_deployment(resources: Json) -> None:
    found = statements(resources["DeployRole"])
    actions = [action for item in found.values() for action in item["Action"]]
    assert not [action for action in actions if "*" in action]
    assert {action for action in actions if action.startswith("iam:")} == {"iam:PassRole"}
    assert found["DeployAs"]["Resource"] == {"Fn::GetAtt": ["ExecutionRole", "Arn"]}
    passed = {"StringEquals": {"iam:PassedToService": "cloudformation.amazonaws.com"}}
    assert found["DeployAs"]["Condition"] == passed


def test_no_role_is_made_without_the_boundary(resources: Json) -> None:
    found = statements(resources["ExecutionRole"])
    grows = {
        *("iam:CreateRole", "iam:PutRolePolicy", "iam:AttachRolePolicy", "iam:PutRolePermissionsBoundary"),
        *("iam:DeleteRolePermissionsBoundary", "iam:PassRole", "iam:CreateUser", "iam:CreateAccessKey"),
    }
    bounded = {"StringEquals": {"iam:PermissionsBoundary": {"Ref": "Boundary"}}}
    for sid, item in found.items():
        if item["Effect"] == "Allow":
            assert not [action for action in item["Action"] if action in ("*", "iam:*", "sts:*")], sid
            if sid == "RolesWithinTheBoundary":
                assert item["Condition"] == bounded
            elif sid == "PassRoles":
                assert item["Condition"]["StringEquals"]["iam:PassedToService"]
            else:
                assert not grows & set(item["Action"]), sid
    denied = found["NotItself"]
    assert (denied["Effect"], denied["Action"]) == ("Deny", ["iam:*"])
    assert {"Ref": "Boundary"} in denied["Resource"]


def test_everything_it_makes_bears_the_stacks_name(resources: Json) -> None:
    for item in statements(resources["ExecutionRole"]).values():
        if any(action.endswith(":*") for action in item["Action"]) and item["Effect"] == "Allow":
            for resource in item["Resource"]:
                assert "${StackName}" in resource["Fn::Sub"], resource


def test_the_boundary_admits_what_the_templates_roles_do(resources: Json) -> None:
    """Each action of a role of template.yaml is one that the boundary has."""
    allowed = [
        action
        for item in resources["Boundary"]["Properties"]["PolicyDocument"]["Statement"]
        if isinstance(item["Action"], list)
        for action in item["Action"]
    ]
    template = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]
    for resource in template.values():
        documents = [
            policy["PolicyDocument"]
            for policy in resource.get("Properties", {}).get("Policies", [])
            if resource["Type"] == "AWS::IAM::Role"
        ]
        if resource["Type"] == "AWS::IAM::ManagedPolicy":
            documents.append(resource["Properties"]["PolicyDocument"])
        for document in documents:
            for item in document["Statement"]:
                for action in (item["Fn::If"][1] if "Fn::If" in item else item)["Action"]:
                    assert any(re.fullmatch(pattern.replace("*", ".*"), action) for pattern in allowed), (
                        action
                    )
