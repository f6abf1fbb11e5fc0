"""templates/deploy-role.yaml: who may deploy cannot become more than that."""

import re
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from tests.conftest import ROOT
from tools.deployment.deploy import stages

Json = Any


@pytest.fixture(scope="module")
def resources() -> Json:
    found: Json = yaml_parse((ROOT / "templates" / "deploy-role.yaml").read_text())["Resources"]
    return found


def statements(role: Json) -> dict[str, Json]:
    [policy] = role["Properties"]["Policies"]
    return {item["Sid"]: item for item in plain(policy["PolicyDocument"]["Statement"])}


def plain(items: list[Json]) -> list[Json]:
    """Statements, those of a condition too."""
    return [item["Fn::If"][1] if "Fn::If" in item else item for item in items]


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


WITHOUT_NAME = {"Mappings", "WithoutResources", "MappingTags", "Apis", "Transform", "NotItself"}
"""Statements whose resources cannot bear the stack's name; what they may do is spelled out."""


def test_all_else_it_makes_bears_the_stacks_name(resources: Json) -> None:
    for sid, item in statements(resources["ExecutionRole"]).items():
        if sid in WITHOUT_NAME:
            assert not [action for action in item["Action"] if action.endswith("*")] or sid == "NotItself"
            continue
        given = item["Resource"] if isinstance(item["Resource"], list) else [item["Resource"]]
        for resource in given:
            named = "${StackName}" in str(resource) or "${HostedZoneId}" in str(resource)
            assert named or "Ref" in resource or sid == "WebAcl", (sid, resource)
    found = statements(resources["ExecutionRole"])
    assert "${StackName}-*" in str(found["Mappings"]["Condition"]["ArnLike"]["lambda:FunctionArn"])


def test_a_stage_cannot_change_what_another_deploys(resources: Json) -> None:
    """Both keep artifacts in sam's bucket, each below its own name."""
    [bucket] = [statements(resources["DeployRole"])["Artifacts"]["Resource"]["Fn::Sub"]]
    assert bucket.endswith("/${StackName}/*")
    for given in stages(ROOT / "samconfig.toml").values():
        assert given.get("s3_prefix") == given["stack_name"], (
            "templates/deploy-role.yaml allows no other prefix"
        )


def test_no_key_but_the_stacks_own(resources: Json) -> None:
    boundary = resources["Boundary"]["Properties"]["PolicyDocument"]["Statement"]
    for item in [*plain(boundary), *statements(resources["ExecutionRole"]).values()]:
        if item["Sid"] == "Secrets":  # of whatever key encrypts the stack's own parameters
            assert item["Action"] == ["kms:Decrypt"]
            [own] = item["Condition"]["StringLike"].values()
            assert own["Fn::Sub"].endswith("parameter/a2a/${StackName}/*")
        elif any(action.startswith("kms:") for action in item["Action"]):
            assert item["Resource"] in ({"Ref": "SigningKey"}, {"Ref": "TableKeyArn"})
            assert ("Condition" in item) is (item["Resource"] == {"Ref": "TableKeyArn"})


def test_the_boundary_admits_what_the_templates_roles_do(resources: Json, source: str) -> None:
    """Each action of a role of template.yaml is one that the boundary has."""
    allowed = [
        action
        for item in plain(resources["Boundary"]["Properties"]["PolicyDocument"]["Statement"])
        if isinstance(item["Action"], list)
        for action in item["Action"]
    ]
    template = yaml_parse(source)["Resources"]
    for name, resource in template.items():
        if name == "AgentPolicy":  # a fork's: it names its actions in the parameter AgentActions
            continue
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
