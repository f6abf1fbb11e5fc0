"""Reads templates: parameters, rules and resources; and makes their tables in an emulator."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from samtranslator.yaml_helper import yaml_parse

from a2a_lambda.agent.card_file import yaml_mistake
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.mistakes import did_you_mean

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

RESOURCE = "Table"

CREATION = (
    "AttributeDefinitions",
    "KeySchema",
    "GlobalSecondaryIndexes",
    "LocalSecondaryIndexes",
    "StreamSpecification",
)
"""Properties of the resource that CreateTable takes. An emulator needs no backups, encryption or capacity."""

CREATION_OF_INDEX = ("IndexName", "KeySchema", "Projection")


_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML may lack libyaml


class _TemplateLoader(_Loader):  # type: ignore[valid-type,misc]
    """Reads a template. The value of an intrinsic function is None."""


def _intrinsic(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> None:
    return None


_TemplateLoader.add_multi_constructor("!", _intrinsic)


def parameters(template: Path) -> dict[str, dict[str, Any]]:
    """Parameters, as the template declares them. Raises ConfigurationError."""
    return _read(template, "Parameters")


def defaults(template: Path) -> dict[str, str]:
    """Parameters and their defaults, as CloudFormation takes them. Raises ConfigurationError."""
    declarations = parameters(template)
    for name, declaration in declarations.items():
        if "Default" not in declaration:
            raise ConfigurationError(f"{template}: the parameter {name} has no Default: add one")
    return {name: str(declaration["Default"]) for name, declaration in declarations.items()}


def parse_parameters(declarations: Mapping[str, Mapping[str, Any]], *texts: str) -> dict[str, str]:
    """Parameters from texts NAME=value. If a name comes twice, the last value counts.

    declarations: the parameters in the template. Raises ConfigurationError, with a line for each text that
    CloudFormation would refuse.
    """
    values = {}
    faults = []
    for text in texts:
        name, separator, values[name] = text.partition("=")
        if not separator:
            faults.append(
                f"{text!r}: write a parameter as NAME=value, and a list without spaces, as in AgentNames=a,b"
            )
        elif name not in declarations:
            hint = did_you_mean(name, declarations)
            faults.append(
                f"template.yaml has no parameter {name}{hint} Its section Parameters has all of them"
            )
        elif fault := _fault_of_value(name, values[name], declarations[name]):
            faults.append(fault)
    if faults:
        raise ConfigurationError("\n".join(faults))
    return values


def _fault_of_value(name: str, value: str, declaration: Mapping[str, Any]) -> str:
    """What is wrong with a parameter's value; "" = nothing."""
    if '"' in value or value.endswith("\\"):
        return (
            f"parameter {name}: sam cannot pass the value {value!r}: write it without a quotation mark, and"
            " without a backslash at its end"
        )
    if choices := declaration.get("AllowedValues"):
        if value not in map(str, choices):
            return f"parameter {name}={value}: use one of {', '.join(map(str, choices))}"
    elif declaration["Type"] == "Number":
        low, high = declaration["MinValue"], declaration["MaxValue"]
        # The template's conditions compare texts: 00 would be another number than 0.
        form = r"(0|[1-9][0-9]*)" + ("" if isinstance(high, int) else r"(\.[0-9]+)?")
        if not (re.fullmatch(form, value) and low <= float(value) <= high):
            return f"parameter {name}={value}: use a number from {low} to {high}, without leading zeros"
    elif (pattern := declaration.get("AllowedPattern")) and not re.fullmatch(pattern, value):
        return f"parameter {name}={value} is not valid. {declaration['Description']}"
    return ""


def properties(template: Path) -> dict[str, Any]:
    """Properties of the table's resource. Raises ConfigurationError."""
    return _read(template, "Resources", RESOURCE, "Properties")


def _read(template: Path, *names: str) -> dict[str, Any]:
    try:
        node: dict[str, Any] = yaml.load(template.read_text("utf-8"), _TemplateLoader)  # noqa: S506
        for name in names:
            node = node[name]
    except yaml.YAMLError as error:
        raise ConfigurationError(yaml_mistake(template, error)) from None
    except (OSError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{template}: no {'.'.join(names)}: {error!r}") from None
    return node


def broken_rule(template: Path, values: Mapping[str, str]) -> str:
    """What the first of the template's rules that parameters break says; "" if they break none. A rule with a
    function that this does not know is left to CloudFormation.

    Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/rules-section-structure.html
    """
    rules: dict[Any, Any] = {}
    match yaml_parse(template.read_text("utf-8")):  # this parser keeps the intrinsic functions
        case {"Rules": {**rules}}:
            pass
    for name, rule in rules.items():
        match rule:
            case {"RuleCondition": condition} if not _holds(condition, values, otherwise=False):
                continue
            case {"Assertions": [*assertions]}:
                for assertion in assertions:
                    match assertion:
                        case {"Assert": condition} if not _holds(condition, values, otherwise=True):
                            default = f"the rule {name} of {template} is broken"
                            return str(assertion.get("AssertDescription") or default)
    return ""


def _holds(condition: Any, values: Mapping[str, str], *, otherwise: bool) -> bool:
    """otherwise: the result for what cannot be evaluated here."""
    try:
        return _evaluate(condition, values)
    except KeyError:
        return otherwise


def _evaluate(condition: Any, values: Mapping[str, str]) -> bool:
    """Raises KeyError for what this cannot evaluate: other functions and names, and what YAML reads as a
    number, a boolean or a date, whose text is CloudFormation's to choose."""
    match condition:
        case {"Fn::Equals": [first, second]}:
            return _text_of(first, values) == _text_of(second, values)
        case {"Fn::Not": [operand]}:
            return not _evaluate(operand, values)
        case {"Fn::And": [*operands]}:
            return all(_evaluate(operand, values) for operand in operands)
        case {"Fn::Or": [*operands]}:
            return any(_evaluate(operand, values) for operand in operands)
    raise KeyError(repr(condition))


def _text_of(operand: Any, values: Mapping[str, str]) -> str:
    match operand:
        case str():
            return operand
        case {"Ref": str(name)}:
            return values[name]
    raise KeyError(repr(operand))


def resources(template: Path, kind: str) -> dict[str, dict[str, Any]]:
    """Properties of a template's resources of a type, by name: the one that they declare, or the logical id.
    Raises ConfigurationError."""
    named: dict[str, dict[str, Any]] = {}
    for logical_id, resource in _read(template, "Resources").items():
        if isinstance(resource, dict) and resource.get("Type") == kind:  # Fn::ForEach makes a list
            definition = resource.get("Properties") or {}
            name = definition.get(f"{kind.rpartition('::')[2]}Name")
            named[name if isinstance(name, str) else logical_id] = definition
    return named


def _without_intrinsics(value: Any) -> Any:
    """A value of a template without the parts that only CloudFormation knows."""
    if isinstance(value, list):
        entries = map(_without_intrinsics, value)
        return [entry for entry in entries if entry is not None]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and re.fullmatch(r"Ref|Fn::.*", next(iter(value))):
        return None
    fields = {name: _without_intrinsics(field) for name, field in value.items()}
    return {name: field for name, field in fields.items() if field is not None}


def create_table(client: "DynamoDBClient", name: str, definition: Mapping[str, Any]) -> None:
    """Create a table, if it is absent; returns when it can be used. definition: properties of its
    resource."""
    definition = _without_intrinsics(definition)
    try:
        arguments = {key: definition[key] for key in CREATION if key in definition}
        arguments["BillingMode"] = "PAY_PER_REQUEST"
        if "GlobalSecondaryIndexes" in arguments:
            arguments["GlobalSecondaryIndexes"] = [
                {key: index[key] for key in CREATION_OF_INDEX if key in index}
                for index in arguments["GlobalSecondaryIndexes"]
            ]
        if "StreamSpecification" in arguments:
            arguments["StreamSpecification"] = {"StreamEnabled": True, **arguments["StreamSpecification"]}
        client.create_table(TableName=name, **arguments)
    except client.exceptions.ResourceInUseException:
        return
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
    if "TimeToLiveSpecification" in definition:
        specification: Any = {"Enabled": True, **definition["TimeToLiveSpecification"]}
        client.update_time_to_live(TableName=name, TimeToLiveSpecification=specification)
