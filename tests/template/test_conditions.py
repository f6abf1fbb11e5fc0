"""Whoever refers to what a condition may leave out has that condition too, nested stacks included.

cfn-lint looks at one template, so it cannot know that an output of a nested stack has a condition.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement, product
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from tests.conftest import ROOT
from tests.template.permissions.rendering import Rendered
from tools.build import lint


def test_no_combination_of_parameters_refers_to_what_is_not_there(source: str) -> None:
    """Every pair of values of the parameters that conditions look at, with the defaults of the others."""
    monitoring = yaml_parse((ROOT / "templates" / "monitoring.yaml").read_text())
    for rollout in ("AllAtOnce", "Canary10Percent5Minutes"):
        constants = {"Rollout": rollout, "Release": "0" * 64}
        template = lint.translate(source, constants)
        for values in combinations(template):
            check(template, monitoring, {**constants, **values})


def combinations(template: Any) -> Iterator[dict[str, Any]]:
    declarations = template["Parameters"]
    names = sorted(set(re.findall(r'"Ref": "(\w+)"', json.dumps(template["Conditions"]))) - {"Rollout"})
    values = {name: (declarations[name]["Default"], other(declarations[name])) for name in names}
    for first, second in combinations_with_replacement(names, 2):
        for pair in product(values[first], values[second]):
            yield {name: values[name][0] for name in names} | dict(zip((first, second), pair, strict=True))


def other(declared: Mapping[str, Any]) -> Any:
    """A value that is not the default."""
    allowed = declared.get("AllowedValues")
    if allowed:
        return next(value for value in allowed if value != declared["Default"])
    return declared["MaxValue"] if declared["Type"] == "Number" else "x"


def check(template: Any, nested: Any, parameters: dict[str, Any]) -> None:
    """Raises KeyError."""
    main = Rendered(template, parameters, "a2a")
    if main.breaks_a_rule():
        return
    inner = Rendered(nested, main.resources["Monitoring"]["Properties"]["Parameters"], "a2a-Monitoring")
    outputs = {
        name
        for name, output in nested["Outputs"].items()
        if "Condition" not in output or inner.holds(output["Condition"])
    }
    used = set(re.findall(r"Monitoring\.Outputs\.(\w+)", json.dumps(main.resources)))
    assert used <= outputs, (sorted(used - outputs), parameters)


def test_what_a_reference_lacks_is_seen() -> None:
    template = {
        "Parameters": {"Given": {"Type": "String", "Default": ""}},
        "Conditions": {"Has": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Given"}, ""]}]}},
        "Resources": {
            "Table": {"Type": "AWS::DynamoDB::Table", "Condition": "Has"},
            "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"Tag": {"Fn::GetAtt": ["Table", "Arn"]}}},
        },
    }
    assert len(Rendered(template, {"Given": "x"}, "a").resources) == 2
    with pytest.raises(KeyError, match="Table"):
        _ = Rendered(template, {}, "a").resources
