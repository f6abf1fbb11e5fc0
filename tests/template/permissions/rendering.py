"""A template as CloudFormation makes it: with parameters, conditions and intrinsic functions resolved."""

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

REGION, ACCOUNT = "eu-central-1", "123456789012"

ARNS = {
    "AWS::CloudFormation::Stack": "cloudformation:{place}:stack/{name}/id",
    "AWS::CloudWatch::Alarm": "cloudwatch:{place}:alarm:{name}",
    "AWS::CloudWatch::CompositeAlarm": "cloudwatch:{place}:alarm:{name}",
    "AWS::CloudWatch::Dashboard": "cloudwatch::{account}:dashboard/{name}",
    "AWS::CodeDeploy::Application": "codedeploy:{place}:application:{name}",
    "AWS::CodeDeploy::DeploymentGroup": "codedeploy:{place}:deploymentgroup:{name}/{name}",
    "AWS::DynamoDB::Table": "dynamodb:{place}:table/{name}",
    "AWS::Events::Rule": "events:{place}:rule/{name}",
    "AWS::IAM::ManagedPolicy": "iam::{account}:policy/{name}",
    "AWS::IAM::OIDCProvider": "iam::{account}:oidc-provider/token.actions.githubusercontent.com",
    "AWS::IAM::Role": "iam::{account}:role/{name}",
    "AWS::Lambda::Alias": "lambda:{place}:function:{name}",
    "AWS::Lambda::EventSourceMapping": "lambda:{place}:event-source-mapping:{name}",
    "AWS::Lambda::Function": "lambda:{place}:function:{name}",
    "AWS::Lambda::LayerVersion": "lambda:{place}:layer:{name}",
    "AWS::Lambda::Permission": "lambda:{place}:function:{name}",
    "AWS::Lambda::Url": "lambda:{place}:function:{name}",
    "AWS::Lambda::Version": "lambda:{place}:function:{name}",
    "AWS::Logs::LogGroup": "logs:{place}:log-group:{name}:*",
    "AWS::S3::Bucket": "s3:::{name}",
    "AWS::SQS::Queue": "sqs:{place}:{name}",
}
"""The part of an ARN after `arn:aws:`. place: region and account."""

IS_ARN = ("AWS::CloudFormation::Stack", "AWS::IAM::ManagedPolicy", "AWS::IAM::OIDCProvider")
"""Types whose Ref is their ARN."""

ABSENT = object()

PLAIN: Mapping[str, Callable[..., Any]] = {
    "Fn::Join": lambda _, separator, parts: separator.join(map(str, parts)),
    "Fn::Select": lambda _, index, items: items[int(index)],
    "Fn::Split": lambda _, separator, text: text.split(separator),
    "Fn::FindInMap": lambda template, mapping, first, second: template["Mappings"][mapping][first][second],
}
"""Functions whose arguments are resolved first."""


class Rendered:
    """A template with values. resources: those whose condition holds, resolved.

    parameters: besides the defaults. `resources` raises KeyError for a reference to what is not there.
    """

    def __init__(self, template: Any, parameters: Mapping[str, Any], stack: str) -> None:
        self._template = template
        self.stack = stack
        declarations = template.get("Parameters", {})
        defaults = {name: each["Default"] for name, each in declarations.items() if "Default" in each}
        self.parameters = {
            name: value.split(",") if declarations[name]["Type"] == "CommaDelimitedList" else value
            for name, value in {**defaults, **parameters}.items()
        }
        self.all = {
            name: resource
            for name, resource in template["Resources"].items()
            if "Condition" not in resource or self.holds(resource["Condition"])
        }

    @cached_property
    def resources(self) -> dict[str, Any]:
        return {name: self.resolve(resource) for name, resource in self.all.items()}

    def breaks_a_rule(self) -> bool:
        """Whether CloudFormation refuses the parameters."""
        return any(
            ("RuleCondition" not in rule or self._condition(rule["RuleCondition"]))
            and not all(self._condition(each["Assert"]) for each in rule["Assertions"])
            for rule in self._template.get("Rules", {}).values()
        )

    def holds(self, name: str) -> bool:
        return bool(self._condition(self._template["Conditions"][name]))

    def _condition(self, given: Any) -> bool:
        [(function, value)] = given.items()
        match function:
            case "Condition":
                return self.holds(value)
            case "Fn::Equals":
                first, second = self.resolve(value)
                return str(first) == str(second)
            case "Fn::Not":
                return not self._condition(value[0])
            case "Fn::And":
                return all(map(self._condition, value))
            case "Fn::Or":
                return any(map(self._condition, value))
        raise NotImplementedError(function)

    def name_of(self, logical: str) -> str:
        """Physical name of a resource: its own, or the one that CloudFormation makes."""
        properties = self.all[logical].get("Properties", {})
        keys = ("LogGroupName", "LayerName", "DashboardName", "AlarmName", "RoleName", "FunctionName")
        explicit_name = next((properties[key] for key in keys if key in properties), None)
        if explicit_name is not None and "Lambda" not in self.all[logical]["Type"].replace(
            "LayerVersion", ""
        ):
            return str(self.resolve(explicit_name))
        name = f"{self.stack}-{logical}-X"
        return name.lower() if self.all[logical]["Type"] == "AWS::S3::Bucket" else name

    def arn_of(self, logical: str) -> str:
        form = ARNS[self.all[logical]["Type"]]
        arn = form.format(place=f"{REGION}:{ACCOUNT}", account=ACCOUNT, name=self.name_of(logical))
        return f"arn:aws:{arn}"

    def resolve(self, value: Any) -> Any:
        if isinstance(value, list):
            return [result for each in value if (result := self.resolve(each)) is not ABSENT]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            [(function, arguments)] = value.items()
            if function == "Ref":
                return self._ref(arguments)
            if function == "Condition" and isinstance(arguments, str):
                return self.holds(arguments)
            if function.startswith("Fn::"):
                return self._call(function, arguments)
        return {name: result for name, each in value.items() if (result := self.resolve(each)) is not ABSENT}

    def _ref(self, name: str) -> Any:
        pseudo = {
            "AWS::StackName": self.stack,
            "AWS::Region": REGION,
            "AWS::AccountId": ACCOUNT,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{self.stack}/id",
            "AWS::NoValue": ABSENT,
        }
        if name in pseudo:
            return pseudo[name]
        if name in self.parameters:
            return self.parameters[name]
        return self.arn_of(name) if self.all[name]["Type"] in IS_ARN else self.name_of(name)

    def _call(self, function: str, given: Any) -> Any:
        match function:
            case "Fn::If":
                return self.resolve(given[1] if self.holds(given[0]) else given[2])
            case "Fn::Sub":
                text, own = (given, {}) if isinstance(given, str) else given
                return re.sub(r"\$\{([^!}]+)\}", lambda found: self._insert(found[1], own), text)
            case "Fn::GetAtt":
                return self._attribute(given if isinstance(given, str) else ".".join(given))
        return PLAIN[function](self._template, *self.resolve(given))

    def _insert(self, name: str, own: Mapping[str, Any]) -> str:
        if name in own:
            return str(self.resolve(own[name]))
        return str(self._attribute(name) if "." in name else self._ref(name))

    def _attribute(self, path: str) -> str:
        logical, _, attribute = path.partition(".")
        arn = self.arn_of(logical) if self.all[logical]["Type"] in ARNS else ""
        if attribute == "Arn":
            return arn
        return f"{arn}/stream/label" if attribute == "StreamArn" else f"{logical}.{attribute}"
