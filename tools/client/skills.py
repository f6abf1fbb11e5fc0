"""The skills of an agent's card, and the parameters that a user writes for them."""

import re
from collections.abc import Collection, Mapping

from a2a_lambda.protocol.alibaba_metadata import INTENT_EXTENSION
from a2a_lambda.protocol.model import Json
from a2a_lambda.strictjson import object_in, objects_in, text_in

PARAMETER = re.compile(
    r"""\s*(?P<name>[^\s=]+)=(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<word>(?!["'])\S*))(?!\S)"""
)
"""A parameter of a skill. A value with spaces is in quotes."""


def skill_lines(card: Mapping[str, Json]) -> list[str]:
    """A line for each skill: its id, its parameters, and its description."""
    lines = []
    for skill in objects_in(card, "skills"):
        name = text_in(skill, "id")
        parameters = "".join(f" {parameter}=…" for parameter in parameters_of(card, name) or ())
        lines.append(f"{name}{parameters}: {text_in(skill, 'description')}")
    return lines


def parameters_of(card: Mapping[str, Json], skill: str) -> Collection[str] | None:
    """Names of a skill's parameters, or None if the card does not say. The kit's cards list every skill that
    has some."""
    for extension in objects_in(object_in(card, "capabilities"), "extensions"):
        params = object_in(extension, "params")
        entries = list(objects_in(params, "skills"))
        for entry in entries:
            if entry.get("id") == skill and "inputSchema" in entry:
                return list(object_in(object_in(entry, "inputSchema"), "properties"))
        is_of_kit = extension.get("uri") == INTENT_EXTENSION and "skills" in params
        if is_of_kit and all("inputSchema" in entry for entry in entries):
            return []
    return None


def split_parameters(line: str) -> tuple[dict[str, str], str]:
    """The values that a line begins with, by the names of their parameters, and the text after them."""
    values: dict[str, str] = {}
    while parameter := PARAMETER.match(line):
        values[parameter["name"]] = parameter["double"] or parameter["single"] or parameter["word"] or ""
        line = line[parameter.end() :]
    return values, line.strip()
