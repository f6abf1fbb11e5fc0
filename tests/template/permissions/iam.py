"""What IAM would decide, for the part of its language that the templates use.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any


def is_allowed(
    statements: Iterable[Any], action: str, resource: str, context: Mapping[str, str] | None = None
) -> bool:
    """Whether statements, resolved, allow an action on a resource: one does, and none denies it."""
    matching = [each["Effect"] for each in statements if _applies(each, action, resource, context or {})]
    return "Allow" in matching and "Deny" not in matching


def _applies(statement: Any, action: str, resource: str, context: Mapping[str, str]) -> bool:
    unknown = set(statement) - {
        "Sid",
        "Effect",
        "Action",
        "NotAction",
        "Resource",
        "NotResource",
        "Condition",
    }
    assert not unknown, f"cannot evaluate {unknown}"
    actions, resources = statement.get("Action"), statement.get("Resource")
    if actions is not None:
        is_meant = _any_matches(actions, action, ignore_case=True)
    else:
        is_meant = not _any_matches(statement["NotAction"], action, ignore_case=True)
    if resources is not None:
        is_meant = is_meant and _any_matches(resources, resource)
    else:
        is_meant = is_meant and not _any_matches(statement["NotResource"], resource)
    return is_meant and all(
        _holds(operator, key, wanted, context)
        for operator, tests in statement.get("Condition", {}).items()
        for key, wanted in tests.items()
    )


def _holds(operator: str, key: str, wanted: Any, context: Mapping[str, str]) -> bool:
    values = {name.lower(): value for name, value in context.items()}
    value = values.get(key.lower())
    match operator:
        case "StringEquals":
            return value is not None and value in _as_list(wanted)
        case "StringLike" | "ForAnyValue:StringLike" | "ArnLike" | "ArnEquals":
            return value is not None and _any_matches(wanted, value)
        case "Null":
            return (value is None) is (wanted == "true")
        case "StringNotEquals":
            return value is None or value not in _as_list(wanted)
        case "ForAllValues:StringLike":
            return value is None or _any_matches(wanted, value)
    raise NotImplementedError(operator)


def _any_matches(patterns: Any, value: str, *, ignore_case: bool = False) -> bool:
    return any(
        re.fullmatch(
            re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."),
            value,
            re.DOTALL | (re.IGNORECASE if ignore_case else 0),
        )
        for pattern in _as_list(patterns)
    )


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
