"""CloudFormation can make, change, read and delete every resource of the templates as ExecutionRole.

CloudFormation publishes, for each type of resource, the actions that its handlers call. Each is evaluated on
the ARN that the resource has in a stack. Source:
https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-schema.html, which cfn-lint
carries along.
"""

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

from tests.template.permissions.conftest import ACL, KEY, STACK, statements_of
from tests.template.permissions.iam import is_allowed
from tests.template.permissions.rendering import ACCOUNT, REGION, Rendered

APIS = f"arn:aws:apigateway:{REGION}::"

API_PATHS = {
    "AWS::ApiGateway::RestApi": "/restapis/a",
    "AWS::ApiGateway::Deployment": "/restapis/a/deployments/d",
    "AWS::ApiGateway::Stage": "/restapis/a/stages/live",
    "AWS::ApiGateway::DomainName": "/domainnames/agents.example.com",
    "AWS::ApiGateway::BasePathMapping": "/domainnames/agents.example.com/basepathmappings/m",
}

UNUSED = {
    "AWS::ApiGateway::RestApi": r"iam:PassRole|s3:GetObject|apigateway:UpdateRestApiPolicy",
    "AWS::CodeDeploy::DeploymentGroup": r"codedeploy:RegisterOnPremisesInstance",
    "AWS::CloudFormation::Stack": r"cloudformation:(SetStackPolicy|GetStackPolicy)",
    "AWS::DynamoDB::Table": r"kinesis:.*|s3:.*|logs:.*|iam:CreateServiceLinkedRole|dynamodb:.*Import.*|"
    r"kms:(ListAliases|RevokeGrant)",
    "AWS::Events::Rule": r"iam:PassRole",
    "AWS::IAM::ManagedPolicy": r"iam:(Attach|Detach)(Group|User)Policy",
    "AWS::IAM::Policy": r"iam:(Get|Put|Delete)(User|Group)Policy",
    "AWS::IAM::Role": r"iam:DeleteRolePermissionsBoundary",
    "AWS::Lambda::EventSourceMapping": r"kms:.*",
    "AWS::Lambda::Function": r"kms:(?!Decrypt|DescribeKey|GenerateDataKey|CreateGrant).*|"
    r"elasticfilesystem:.*|lambda:.*CodeSigningConfig|s3files:.*|"
    r"lambda:(Get|Put|Delete)(Runtime|FunctionScaling|FunctionRecursion).*",
    "AWS::Lambda::Version": r"lambda:PutFunctionScalingConfig",
    "AWS::Logs::LogGroup": r"firehose:.*|s3:.*|kms:.*|"
    r"logs:(CreateLogDelivery|.*ResourcePolic.*|.*BearerToken.*)",
    "AWS::S3::Bucket": r"iam:PassRole|s3tables:.*|s3:(Put|Create|Update|Delete)"
    r"(?!Bucket(CORS|OwnershipControls|PublicAccessBlock|Tagging|)$|(Encryption|Lifecycle)Configuration$).*",
    "AWS::WAFv2::WebACLAssociation": r"(?!wafv2:|apigateway:).*|wafv2:(Put|Get)PermissionPolicy",
}
"""What handlers call for properties that no resource of the templates has, by type."""

ANYWHERE = re.compile(
    r"ec2:Describe.*|logs:DescribeLogGroups|route53:(ListHostedZones|GetChange)|acm:DescribeCertificate|"
    r"lambda:(Get|List)EventSourceMapping.*|cloudwatch:(DescribeAlarms|PutCompositeAlarm)|"
    r"codedeploy:(GetDeployment|GetDeploymentConfig|.*ApplicationRevision)|lambda:ListTags"
)
"""Actions that AWS allows on everything only, or whose resources have no names."""


class Call(NamedTuple):
    logical: str
    action: str
    resource: str
    context: dict[str, str]


def test_every_handler_may_do_its_work(stacks: list[Rendered], roles: Rendered) -> None:
    statements = statements_of(roles, "ExecutionRole")
    calls = [call for stack in stacks for call in calls_of(stack, roles)]
    assert len(calls) > 900
    refusals = [
        call for call in calls if not is_allowed(statements, call.action, call.resource, call.context)
    ]
    assert not {f"{call.action} on {call.resource}" for call in refusals}


def calls_of(stack: Rendered, roles: Rendered) -> Iterator[Call]:
    for logical, resource in stack.resources.items():
        kind = resource["Type"]
        for action in sorted(permissions(kind)):
            if not re.fullmatch(UNUSED.get(kind, "-"), action):
                yield from targets(stack, logical, action, roles)
    if "DomainName" in stack.parameters:
        # API Gateway makes its role at the first domain of an account.
        # https://docs.aws.amazon.com/apigateway/latest/developerguide/using-service-linked-roles.html
        service = "ops.apigateway.amazonaws.com"
        arn = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/{service}/AWSServiceRoleForAPIGateway"
        yield Call("Domain", "iam:CreateServiceLinkedRole", arn, {"iam:AWSServiceName": service})


def permissions(kind: str) -> set[str]:
    """Actions that the handlers of a type call; those that list all of an account are not used."""
    schemas = files("cfnlint") / "data" / "schemas"
    name = json.loads((schemas / "providers" / "us-east-1.json").read_text())[kind]
    handlers = json.loads((schemas / "resources" / f"{name}.json").read_text())["handlers"]
    return {
        action for which, handler in handlers.items() if which != "list" for action in handler["permissions"]
    }


def targets(stack: Rendered, logical: str, action: str, roles: Rendered) -> Iterator[Call]:
    """What a handler's action is called on, and with which keys."""
    resource = stack.resources[logical]
    kind, properties = resource["Type"], resource.get("Properties", {})
    if action == "iam:PassRole":
        yield pass_role(stack, logical, roles)
    elif ANYWHERE.fullmatch(action):
        yield Call(logical, action, "*", {})
    elif kind == "AWS::S3::BucketPolicy":
        yield Call(logical, action, f"arn:aws:s3:::{properties['Bucket']}", {})
    elif action.startswith("s3:") and kind != "AWS::S3::Bucket":
        bucket = f"arn:aws:s3:::aws-sam-cli-managed-default-source-1/{STACK}/0123"
        yield Call(logical, action, bucket, {})
    elif action.startswith("kms:"):
        service = "lambda" if "Lambda" in kind else "dynamodb"
        yield Call(logical, action, KEY, {"kms:ViaService": f"{service}.{REGION}.amazonaws.com"})
    elif action.startswith("apigateway:"):
        path = API_PATHS.get(kind, "/restapis/a/stages/live")
        yield Call(logical, action, f"{APIS}{path}", {})
        if action != "apigateway:SetWebACL":
            yield Call(logical, action, f"{APIS}{path.rpartition('/')[0]}", {})
    elif action.startswith("wafv2:"):
        yield Call(logical, action, ACL, {})
        yield Call(logical, action, f"{APIS}/restapis/a/stages/live", {})
    elif action.startswith("route53:"):
        yield Call(logical, action, "arn:aws:route53:::hostedzone/Z1", {})
    elif kind == "AWS::Lambda::EventSourceMapping":
        function = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{properties['FunctionName']}"
        yield Call(logical, action, stack.arn_of(logical), {"lambda:FunctionArn": function})
    elif kind == "AWS::IAM::Policy":
        for name in properties["Roles"]:
            yield Call(logical, action, f"arn:aws:iam::{ACCOUNT}:role/{name}", boundary_context(roles))
    elif kind == "AWS::IAM::ManagedPolicy" and action.endswith("RolePolicy"):
        yield Call(logical, action, f"arn:aws:iam::{ACCOUNT}:role/{STACK}-RpcRole-X", boundary_context(roles))
    elif action == "lambda:GetLayerVersion" and kind == "AWS::Lambda::Function":
        for layer in properties["Layers"]:
            arn = layer if layer.startswith("arn:") else f"arn:aws:lambda:{REGION}:{ACCOUNT}:layer:{layer}:1"
            yield Call(logical, action, arn, {})
    elif action.startswith("iam:"):
        yield Call(logical, action, stack.arn_of(logical), boundary_context(roles))
    elif action.startswith("codedeploy:"):
        yield Call(logical, action, stack.arn_of(logical), {})
    elif action.startswith("logs:") and re.search(r"Tag", action):
        # "the ARN version that doesn't include a trailing :*"
        # https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoncloudwatchlogs.html
        yield Call(logical, action, stack.arn_of(logical).removesuffix(":*"), {})
    else:
        arn = stack.arn_of(logical)
        yield Call(logical, action, arn, {})
        if "Version" in kind or "Alias" in kind or kind == "AWS::Lambda::LayerVersion":
            yield Call(logical, action, f"{arn}:1", {})


def boundary_context(roles: Rendered) -> dict[str, str]:
    return {"iam:PermissionsBoundary": roles.arn_of("Boundary")}


def pass_role(stack: Rendered, logical: str, roles: Rendered) -> Call:
    """A role that a resource is given. For a nested stack, CloudFormation passes its own role to itself."""
    resource = stack.resources[logical]
    passes = {
        "AWS::CloudFormation::Stack": (roles.arn_of("ExecutionRole"), "cloudformation"),
        "AWS::CodeDeploy::DeploymentGroup": (
            f"arn:aws:iam::{ACCOUNT}:role/{STACK}-RolloutRole-X",
            "codedeploy",
        ),
        "AWS::Lambda::Function": (resource["Properties"].get("Role"), "lambda"),
    }
    role, service = passes[resource["Type"]]
    return Call(logical, "iam:PassRole", role, {"iam:PassedToService": f"{service}.amazonaws.com"})
