"""templates/deploy-role.yaml: who may deploy cannot become more than that."""

from itertools import product
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from a2a_lambda.store import items
from a2a_lambda.tasks.identity import Namespace
from tests.conftest import ROOT
from tests.template.permissions.conftest import NETWORK, OPTIONS, STACK, render_roles, statements_of
from tests.template.permissions.iam import is_allowed
from tests.template.permissions.rendering import ACCOUNT, REGION, Rendered
from tools.agents.stages import read_stages
from tools.build import lint


@pytest.fixture(scope="module")
def resources() -> Any:
    all_resources: Any = yaml_parse((ROOT / "templates" / "deploy-role.yaml").read_text())["Resources"]
    return all_resources


def statements(resources: Any, role: str) -> dict[str, Any]:
    """Of a role's own policy, and of those that name it."""
    [policy] = resources[role]["Properties"]["Policies"]
    policies = [
        resource["Properties"]
        for resource in resources.values()
        if resource["Type"] == "AWS::IAM::Policy" and {"Ref": role} in resource["Properties"]["Roles"]
    ]
    items = [item for each in (policy, *policies) for item in plain(each["PolicyDocument"]["Statement"])]
    return {item["Sid"]: item for item in items}


def plain(items: list[Any]) -> list[Any]:
    """Statements, those of a condition too."""
    return [item["Fn::If"][1] if "Fn::If" in item else item for item in items]


@pytest.mark.parametrize(
    ("ids", "subject"),
    [
        ({}, "repo:octo/agents:environment:prod"),
        ({"OwnerId": "12", "RepositoryId": "345"}, "repo:octo@12/agents@345:environment:prod"),
    ],
)
def test_only_jobs_of_the_environment_take_the_role(ids: dict[str, str], subject: str) -> None:
    """GitHub's subject is of one form or the other, as the repository is newer or older: each is exact."""
    roles = render_roles(Repository="octo/agents", **ids)
    [trust] = roles.resources["DeployRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Action"] == "sts:AssumeRoleWithWebIdentity"
    service = "token.actions.githubusercontent.com"
    assert trust["Condition"] == {
        "StringEquals": {f"{service}:aud": "sts.amazonaws.com", f"{service}:sub": subject}
    }


def test_the_workflow_may_only_start_a_deployment(resources: Any) -> None:
    policies = statements(resources, "DeployRole")
    actions = [action for item in policies.values() for action in item["Action"]]
    assert not [action for action in actions if "*" in action]
    assert {action for action in actions if action.startswith("iam:")} == {"iam:PassRole"}
    assert policies["DeployAs"]["Resource"] == {"Fn::GetAtt": ["ExecutionRole", "Arn"]}
    pass_condition = {"StringEquals": {"iam:PassedToService": "cloudformation.amazonaws.com"}}
    assert policies["DeployAs"]["Condition"] == pass_condition


def test_the_workflow_reads_what_the_account_logs_with_and_no_key_of_an_api() -> None:
    workflow = statements_of(render_roles(), "DeployRole")
    assert is_allowed(workflow, "apigateway:GET", "arn:aws:apigateway:eu-central-1::/account")
    assert not is_allowed(workflow, "apigateway:GET", "arn:aws:apigateway:eu-central-1::/apikeys")


def test_operators_may_stop_the_worker_as_make_redrive_says() -> None:
    roles = render_roles()
    operators = roles.resources["OperatorPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    mapping = "arn:aws:lambda:eu-central-1:123456789012:event-source-mapping:7f3c"
    for function, is_own in ((f"{STACK}-WorkerFunction-X", True), ("other-WorkerFunction-X", False)):
        context = {"lambda:FunctionArn": f"arn:aws:lambda:eu-central-1:123456789012:function:{function}"}
        assert is_allowed(operators, "lambda:UpdateEventSourceMapping", mapping, context) is is_own
        function_arn = context["lambda:FunctionArn"]
        assert not is_allowed(operators, "lambda:UpdateEventSourceMapping", function_arn, context)


def test_no_role_is_made_without_the_boundary(resources: Any) -> None:
    policies = statements(resources, "ExecutionRole")
    grows = {
        *("iam:CreateRole", "iam:PutRolePolicy", "iam:AttachRolePolicy", "iam:PutRolePermissionsBoundary"),
        *("iam:DeleteRolePermissionsBoundary", "iam:PassRole", "iam:CreateUser", "iam:CreateAccessKey"),
    }
    boundary_condition = {"StringEquals": {"iam:PermissionsBoundary": {"Ref": "Boundary"}}}
    for sid, item in policies.items():
        if item["Effect"] == "Allow":
            assert not [action for action in item["Action"] if action in ("*", "iam:*", "sts:*")], sid
            if sid == "RolesWithinTheBoundary":
                assert item["Condition"] == boundary_condition
            elif sid in ("PassRoles", "PassItself"):
                assert item["Condition"]["StringEquals"]["iam:PassedToService"]
            else:
                assert not grows & set(item["Action"]), sid


def test_the_role_cannot_change_itself_nor_its_boundary() -> None:
    """It cannot, either, where the name of one of the two stacks begins that of the other."""
    for name, own_stack in ((STACK, "deploy"), ("a2a", "a2a-deploy-prod"), (STACK, "a2a")):
        roles = render_roles(own_stack, StackName=name, Proof="true")
        statements = statements_of(roles, "ExecutionRole")
        itself, boundary = roles.arn_of("ExecutionRole"), roles.arn_of("Boundary")
        boundary_condition = {"iam:PermissionsBoundary": boundary}
        for role in (itself, roles.arn_of("DeployRole")):
            for action in ("PutRolePolicy", "UpdateAssumeRolePolicy", "DeleteRole", "AttachRolePolicy"):
                assert not is_allowed(statements, f"iam:{action}", role, boundary_condition)
        policies = ("Boundary", "OperatorPolicy", "ErasurePolicy", "ProofPolicy")
        for policy in map(roles.arn_of, policies):
            for action in ("CreatePolicyVersion", "DeletePolicy"):
                assert not is_allowed(statements, f"iam:{action}", policy)
        for service, may_pass in (("cloudformation", True), ("lambda", False), ("codedeploy", False)):
            pass_condition = {"iam:PassedToService": f"{service}.amazonaws.com"}
            assert is_allowed(statements, "iam:PassRole", itself, pass_condition) is may_pass
            deploy = roles.arn_of("DeployRole")
            assert not is_allowed(statements, "iam:PassRole", deploy, pass_condition)
        theirs = "arn:aws:iam::123456789012:role/a2a-prod-RpcRole-X"
        assert is_allowed(statements, "iam:PutRolePolicy", theirs, boundary_condition)
        assert not is_allowed(statements, "iam:PutRolePolicy", theirs, {"iam:PermissionsBoundary": "other"})


def test_who_erases_data_writes_owners_items_only() -> None:
    """With a copy of the keys, they could call as any owner."""
    roles = render_roles(StackName=STACK)
    statements = roles.resources["ErasurePolicy"]["Properties"]["PolicyDocument"]["Statement"]
    table = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{STACK}-Table-X"
    path = f"/a2a/{STACK}/keys"
    for key, may_write in (
        (items.context_key(Namespace("alice", "a"), "c"), True),
        (items.keys_key(path, "copy"), False),
        (items.secret_key(path, "seal"), False),
    ):
        context = {"dynamodb:LeadingKeys": key["pk"]["S"]}
        for action in ("dynamodb:PutItem", "dynamodb:BatchWriteItem"):
            assert is_allowed(statements, action, table, context) is may_write


DESCRIPTIONS = {
    "Boundary": "The most that a role of the stack can do.",
    "OperatorPolicy": "What the stack's operators may do.",
    "ErasurePolicy": "What those who erase data may do.",
    "ProofPolicy": "What the proof on AWS may do.",
}


def test_no_update_replaces_a_policy(resources: Any) -> None:
    """Another description replaces a managed policy. The boundary's new ARN would be in no role, and a
    deployment from GitHub could not roll back. These texts never change.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-iam-managedpolicy.html
    """
    policies = {name: item for name, item in resources.items() if item["Type"] == "AWS::IAM::ManagedPolicy"}
    assert {name: item["Properties"]["Description"] for name, item in policies.items()} == DESCRIPTIONS


WITHOUT_NAME = {
    *("Mappings", "WithoutResources", "MappingTags", "Apis", "Transform", "DomainRole"),
    *("PassItself", "NotItself", "PassItselfToNoOther", "LayersOfOthers"),
}
"""Statements whose resources cannot bear the stack's name; what they may do is spelled out."""


def test_all_else_it_makes_bears_the_stacks_name(resources: Any) -> None:
    for sid, item in statements(resources, "ExecutionRole").items():
        if sid in WITHOUT_NAME:
            assert not [action for action in item.get("Action", []) if action.endswith("*")]
            continue
        resource_list = item["Resource"] if isinstance(item["Resource"], list) else [item["Resource"]]
        for resource in resource_list:
            is_of_stack = "${StackName}" in str(resource) or "${HostedZoneId}" in str(resource)
            assert is_of_stack or "Ref" in resource or sid == "WebAcl", (sid, resource)
    policies = statements(resources, "ExecutionRole")
    assert "${StackName}-*" in str(policies["Mappings"]["Condition"]["ArnLike"]["lambda:FunctionArn"])


def test_a_stage_cannot_change_what_another_deploys(resources: Any) -> None:
    """Both keep artifacts in sam's bucket, each below its own name."""
    [bucket] = [statements(resources, "DeployRole")["Artifacts"]["Resource"]["Fn::Sub"]]
    assert bucket.endswith("/${StackName}/*")
    for stage in read_stages(ROOT).values():
        assert stage.get("s3_prefix") == stage["stack_name"], (
            "templates/deploy-role.yaml allows no other prefix"
        )


def test_no_key_but_the_stacks_own(resources: Any) -> None:
    boundary = resources["Boundary"]["Properties"]["PolicyDocument"]["Statement"]
    for item in [*plain(boundary), *statements(resources, "ExecutionRole").values()]:
        if item["Sid"] == "Secrets":  # of whatever key encrypts the stack's own parameters
            assert item["Action"] == ["kms:Decrypt"]
            [own] = item["Condition"]["StringLike"].values()
            assert own["Fn::Sub"].endswith("parameter/a2a/${StackName}/*")
        elif any(action.startswith("kms:") for action in item.get("Action", [])):
            assert item["Resource"]["Ref"] in ("SigningKey", "TableKeyArn", "DurableKeyArn")
            assert ("Condition" in item) is (item["Resource"] != {"Ref": "SigningKey"})


def test_the_boundary_admits_what_the_roles_of_a_stack_may_do(
    stacks: list[Rendered], roles: Rendered
) -> None:
    """Each statement of a role is evaluated against the boundary, on resources as they are named."""
    boundary = roles.resources["Boundary"]["Properties"]["PolicyDocument"]["Statement"]
    documents = [
        document
        for name, resource in stacks[0].resources.items()
        # AgentPolicy is a fork's, which names its actions in AgentActions. A bucket's policy is no role's.
        if name not in ("AgentPolicy", "FileBucketPolicy")
        for document in documents_of(resource["Properties"])
    ]
    assert len(documents) >= 6
    allowing = [each for document in documents for each in document["Statement"] if each["Effect"] == "Allow"]
    for statement in allowing:
        resources = statement["Resource"]
        for resource in resources if isinstance(resources, list) else [resources]:
            for action, context in product(statement["Action"], contexts_of(statement)):
                resource_name = resource if resource == "*" else resource.replace("*", "x")
                assert is_allowed(boundary, action, resource_name, context), (action, resource_name)


@pytest.mark.parametrize("function", ["RpcFunction", "WorkerFunction", "DurableFunction"])
@pytest.mark.parametrize("has_subnets", [False, True])
@pytest.mark.parametrize("is_boundary", [False, True])
def test_only_lambda_itself_changes_network_interfaces(
    source: str, roles: Rendered, *, function: str, has_subnets: bool, is_boundary: bool
) -> None:
    """Agents' code has the functions' roles, too, and a policy of the fork may grant it anything. A
    function's name does not tell its stack, because CloudFormation cuts long ones.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
    """
    if is_boundary:
        [document] = documents_of(roles.resources["Boundary"]["Properties"])
    else:
        release = {"Release": "0" * 64}
        options = {**OPTIONS, **release} | ({} if has_subnets else {"SubnetIds": ""})
        stack = Rendered(lint.translate(source, release), options, STACK)
        [document] = documents_of(stack.resources[function.replace("Function", "Role")]["Properties"])
    statements, grant = document["Statement"], {"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}
    name = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{STACK[:3]}-{function}-X"
    code = {"lambda:SourceFunctionArn": name}
    actions_of_lambda = [f"ec2:{action}" for action in NETWORK.split()]
    for action in actions_of_lambda:
        assert is_allowed(statements, action, "*") is (has_subnets or is_boundary)
    others = ("ModifyNetworkInterfaceAttribute", "AttachNetworkInterface", "UnassignIpv6Addresses")
    for action in (*actions_of_lambda, *(f"ec2:{other}" for other in others)):
        assert not is_allowed([*statements, grant], action, "*", code), action
    for action in ("DescribeInstances", "CreateSubnet"):
        assert is_allowed([*statements, grant], f"ec2:{action}", "*", code)


def contexts_of(statement: Any) -> list[dict[str, str]]:
    """What a request may have for each of a statement's conditions, in every combination."""
    pairs = [pair for tests in statement.get("Condition", {}).values() for pair in tests.items()]
    choices = [value if isinstance(value, list) else [value] for _, value in pairs]
    keys = [key for key, _ in pairs]
    return [
        {key: str(value).replace("*", "x") for key, value in zip(keys, values, strict=True)}
        for values in product(*choices)
    ]


def documents_of(properties: Any) -> list[Any]:
    """Policies' documents of a role, or of a policy."""
    own = [properties["PolicyDocument"]] if "PolicyDocument" in properties else []
    return own + [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
