"""The templates with values, to evaluate who may do what."""

from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from tests.conftest import ROOT
from tests.template.permissions.rendering import ACCOUNT, REGION, Rendered
from tools.build import lint

STACK = "a2a-prod"

KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/k"

NETWORK = (
    "CreateNetworkInterface DeleteNetworkInterface DescribeNetworkInterfaces DescribeSubnets"
    " AssignPrivateIpAddresses UnassignPrivateIpAddresses"
)
"""Actions on network interfaces that Lambda needs in a VPC."""

LAYERS = f"arn:aws:lambda:{REGION}:999999999999:layer"

ACL = f"arn:aws:wafv2:{REGION}:{ACCOUNT}:regional/webacl/a/b"

OPTIONS = {
    "FunctionUrl": "true",
    "SigningKey": KEY,
    "DomainName": "agents.example.com",
    "CertificateArn": f"arn:aws:acm:{REGION}:{ACCOUNT}:certificate/c",
    "HostedZoneId": "Z1",
    "WebAclArn": ACL,
    "TableKeyArn": KEY,
    "DurableKeyArn": KEY,
    "MaxWriteRequestUnits": 1000,
    "ApiConcurrency": 1,
    "RpcConcurrency": 1,
    "RpcProvisioned": 1,
    "WarmWrites": 4000,
    "Tracing": "true",
    "AccessLogs": "true",
    "CorsOrigins": "https://example.com",
    "SnapStart": "true",
    "ExecutionTimeout": 3600,
    "FileDays": 32,
    "SubnetIds": "subnet-1",
    "SecurityGroupIds": "sg-1",
    "ExtraLayerArn": f"{LAYERS}:a:1",
    "ExtraLayerWrapper": "/opt/otel-instrument",
    "OtlpEndpoint": "https://otlp.example.com",
    "AgentPolicyArns": f"arn:aws:iam::{ACCOUNT}:policy/theirs",
}
"""Every parameter that adds a resource, or a property."""


def render_roles(own_stack: str = "a2a-deploy-prod", **parameters: Any) -> Rendered:
    """templates/deploy-role.yaml, for the stack with everything. own_stack: the stack of the roles."""
    template = yaml_parse((ROOT / "templates" / "deploy-role.yaml").read_text())
    options = {
        name: OPTIONS[name]
        for name in (
            *("SigningKey", "TableKeyArn", "DurableKeyArn", "HostedZoneId", "WebAclArn"),
            "ExtraLayerArn",
        )
    }
    values = {"StackName": STACK, "Repository": "owner/name", **options, **parameters}
    return Rendered(template, values, own_stack)


@pytest.fixture(scope="session")
def roles() -> Rendered:
    return render_roles()


def statements_of(roles: Rendered, role: str) -> list[Any]:
    """Statements of a role's own policy, and of those that name the role."""
    [policy] = roles.resources[role]["Properties"]["Policies"]
    policies = [
        resource["Properties"]
        for resource in roles.resources.values()
        if resource["Type"] == "AWS::IAM::Policy" and roles.name_of(role) in resource["Properties"]["Roles"]
    ]
    return [statement for each in (policy, *policies) for statement in each["PolicyDocument"]["Statement"]]


@pytest.fixture(scope="session")
def stacks(source: str, roles: Rendered) -> list[Rendered]:
    """The stack with everything, and its nested one, as their resources would be named."""
    release = {"Rollout": "Canary10Percent5Minutes", "Release": "0" * 64}
    boundary = {"PermissionsBoundaryArn": roles.arn_of("Boundary")}
    main = Rendered(lint.translate(source, release), {**OPTIONS, **release, **boundary}, STACK)
    monitoring = yaml_parse((ROOT / "templates" / "monitoring.yaml").read_text())
    values = main.resources["Monitoring"]["Properties"]["Parameters"]
    topic = {"AlarmTopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:t", "AlarmSummary": "true"}
    return [main, Rendered(monitoring, {**values, **topic}, f"{STACK}-Monitoring-X")]
