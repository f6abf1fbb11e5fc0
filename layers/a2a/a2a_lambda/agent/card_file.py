"""card.yaml: how it is read, and everything that is wrong with one.

A deployed function reads the manifest instead, and imports no YAML.
"""

import difflib
import json
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from a2a_lambda.errors import ConfigurationError
from a2a_lambda.mistakes import did_you_mean, short_path
from a2a_lambda.protocol.card import (
    Capabilities,
    Card,
    CardModel,
    CardSkill,
    Extended,
    Extension,
    Provider,
    Schedule,
    check_name,
)

LEVELS: dict[str, type[CardModel]] = {
    "": Card,
    "skills": CardSkill,
    "capabilities": Capabilities,
    "extensions": Extension,
    "extended": Extended,
    "extended.skills": CardSkill,
    "provider": Provider,
    "schedules": Schedule,
}

YAML_KINDS = {
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "timestamp": "a date",
    "seq": "a list",
    "map": "a mapping",
}
"""What YAML reads instead of a string, by the end of its tag."""

ADVICE_BY_PROBLEM = {
    "found character '\\t'": "YAML indents with spaces",
    "found character": "put the text of this line in quotes",
    "expected alphabetic": "put the text of this line in quotes",
    "expected <block end>, but found ','": "remove the comma",
    "expected <block end>, but found '<scalar>'": "put the text of this line in the other kind of quotes",
    "expected <block end>, but found '-'": "begin this line in the column of the `-` above it",
    "expected <block end>": "begin this line in the column of the field above it",
    "expected '<document start>'": "begin every field of the file in the first column",
}
"""What to write instead, by the beginning of PyYAML's message about a line."""

ADVICE_BY_CONTEXT = {
    "could not find expected ':'": "write a colon and a space after the field's name",
    "found unexpected end of stream": "the quote that begins here is not closed",
    "expected ',' or ']'": "put the strings of this list in quotes, and close it with ]",
}
"""The same of a mistake that began on an earlier line."""

VALUE_MISTAKES = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "model_type": "must have fields, each on a line below it",
}
"""What is said of a wrong value, by pydantic's name of the mistake."""

DEPLOYMENT_FIELDS = frozenset(
    ("url", "protocolVersion", "preferredTransport", "additionalInterfaces", "supportedInterfaces")
) | {"securitySchemes", "security", "securityRequirements", "signatures"}
"""Fields of an A2A card that depend on the deployment."""

CARD_FIELDS = {level: frozenset(model.model_fields) for level, model in LEVELS.items()}
"""Names of the fields in a card.yaml, by level."""


class UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a key that appears twice. YAML requires unique keys, but PyYAML takes the last one."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in keys:
                    problem = f"the field {key.value!r} appears twice: remove one"
                    raise yaml.composer.ComposerError(None, None, problem, key.start_mark)
                keys.add((key.tag, key.value))
        return node


def yaml_mistake(path: Path, error: Exception) -> str:
    """What is wrong with a file that PyYAML cannot read, on which line, and what to write instead."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"{short_path(path)}: not valid YAML: {error}"
    mark, problem = error.problem_mark, str(error.problem)
    advice = next((text for start, text in ADVICE_BY_PROBLEM.items() if problem.startswith(start)), "")
    if problem.startswith("mapping values"):
        # The first colon of its line: this field is further to the right than the one above it. libyaml's
        # parser reports only the line and the column.
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        is_indented = ":" not in "".join(lines[mark.line : mark.line + 1])[: mark.column]
        advice = (
            "begin this line in the column of the field above it"
            if is_indented
            else "put the text of this line in quotes"
        )
    for start, text in ADVICE_BY_CONTEXT.items():
        if problem.startswith(start) and error.context_mark is not None:
            mark, advice = error.context_mark, text
    return f"{short_path(path)}:{mark.line + 1}: not valid YAML: {problem}{f'; {advice}' if advice else ''}"


def read_card(path: Path) -> Card:
    """Card of a file. Raises ConfigurationError with the file, the lines and everything that is wrong."""
    check_name(path.parent.name, str(path.parent))
    try:
        text = path.read_text("utf-8")
        content: Any = yaml.load(text, UniqueKeyLoader)  # noqa: S506 (it is a SafeLoader)
        # YAML reads an escaped emoji as two surrogates, which no answer can hold.
        json.dumps(content, default=str, skipkeys=True, ensure_ascii=False).encode()
    except FileNotFoundError:
        advice = "Write it, because every agent has a card.yaml"
        if (path.parent.parent / path.name).exists():  # a test names its own folder
            advice = f"The agent's folder is the one above: {short_path(path.parent.parent)}"
        raise ConfigurationError(f"{short_path(path)}: not found. {advice}") from None
    except OSError as error:  # it is a folder, or may not be read
        raise ConfigurationError(f"{short_path(path)}: cannot be read: {error.strerror}") from None
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"{short_path(path)}: an emoji is written as two escapes, such as \\ud83d\\ude00: write the emoji"
            " itself"
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{short_path(path)}: not UTF-8: save it as UTF-8") from None
    except (yaml.YAMLError, ValueError) as error:  # a date that does not exist is a ValueError
        raise ConfigurationError(yaml_mistake(path, error)) from None
    if not isinstance(content, dict):
        raise ConfigurationError(
            f"{short_path(path)}: write one `field: value` on each line, such as `name: Weather`"
        )
    try:
        card = Card.model_validate(content)
    except ValidationError as error:
        raise ConfigurationError(_card_mistakes(path, text, error, CARD_FIELDS)) from None
    ids = [skill.id for skill in card.all_skills]
    if repeated_ids := sorted({each for each in ids if ids.count(each) > 1}):
        raise ConfigurationError(
            f"{short_path(path)}: two skills have the id {repeated_ids[0]}: give one of them another"
        )
    if card.schedules:
        _check_schedules(path, card)
    return card


def _check_schedules(path: Path, card: Card) -> None:
    from a2a_lambda.net.addresses import Refused, check_webhook_url  # only an agent with schedules needs them
    from a2a_lambda.protocol import cron

    skill_ids = [skill.id for skill in card.all_skills]
    # The names of the package tzdata, which Lambda has, too. This machine may know others.
    timezones = files("tzdata").joinpath("zones").read_text("utf-8").split()
    schedule_ids: set[str] = set()
    for schedule in card.schedules:
        location = f"{short_path(path)}: schedule {schedule.id}"
        if schedule.id in schedule_ids:
            raise ConfigurationError(f"{location}: two schedules have this id: give one of them another")
        schedule_ids.add(schedule.id)
        if schedule.timezone not in timezones:
            raise ConfigurationError(
                f"{location}: {schedule.timezone!r} is not a time zone: write one such as Asia/Shanghai or"
                " UTC"
            )
        try:
            cron.check(schedule.cron)
        except ValueError as error:
            raise ConfigurationError(f"{location}: {error}") from None
        if schedule.skill is not None and schedule.skill not in skill_ids:
            hint = did_you_mean(schedule.skill, skill_ids)
            raise ConfigurationError(f"{location}: there is no skill {schedule.skill!r}{hint}")
        if schedule.arguments and schedule.skill is None:
            raise ConfigurationError(
                f"{location}: arguments are for a skill: write `skill: {skill_ids[0]}`, too"
            )
        if schedule.webhook is not None:
            try:
                check_webhook_url(schedule.webhook, allow_loopback=True)  # make run calls this machine, too
            except Refused as error:
                raise ConfigurationError(f"{location}: the URL of its webhook {error}") from None
        if schedule.webhook is not None and not card.capabilities.pushNotifications:
            raise ConfigurationError(
                f"{location}: a webhook needs `capabilities: {{ pushNotifications: true }}` in the card"
            )


def _card_mistakes(
    path: Path, text: str, error: ValidationError, fields: Mapping[str, Collection[str]]
) -> str:
    """Everything that is wrong with a card.yaml.

    fields: names of the allowed fields, by level: "" is the card itself, "skills" a skill.
    """
    root = yaml.compose(text, yaml.SafeLoader)
    errors = error.errors(include_url=False)
    missing_fields = {detail["loc"] for detail in errors if detail["type"] == "missing"}
    mistakes: list[tuple[int, str]] = []
    for detail in sorted(errors, key=lambda detail: detail["type"] == "missing"):
        loc, name = detail["loc"], ".".join(map(str, detail["loc"])) or "the file"
        line, node = _locate(root, loc)
        match detail["type"]:
            case "missing":
                if loc not in missing_fields:  # a misspelling of it is already in the list
                    continue
                mistake = f"{name} is missing"
            case "extra_forbidden":
                level = ".".join(step for step in loc[:-1] if isinstance(step, str))
                siblings = [str(other[-1]) for other in missing_fields if other[:-1] == loc[:-1]]
                guesses = difflib.get_close_matches(str(loc[-1]), [*siblings, *fields.get(level, ())], n=1)
                missing_fields -= {(*loc[:-1], other) for other in guesses}
                homes = [home for home, names in fields.items() if loc[-1] in names]
                hint = did_you_mean(str(loc[-1]), guesses)
                if homes and not guesses and level != "schedules":
                    hint = f"; it belongs {f'in {homes[0]}' if homes[0] else 'at the top of the card'}."
                advice = ": remove it, because the kit fills it in" if name in DEPLOYMENT_FIELDS else hint
                mistake = f"{name} is not a field{' of a card' if not level else f' of {level}'}{advice}"
            case _:
                mistake = _mistake_of_value(detail, node, name)
        mistakes.append((line, mistake))
    if len(mistakes) == 1:
        return f"{short_path(path)}:{mistakes[0][0]}: {mistakes[0][1]}"
    lines = "".join(f"\n  line {line}: {mistake}" for line, mistake in sorted(mistakes))
    return f"{short_path(path)}: {len(mistakes)} mistakes:{lines}"


def _mistake_of_value(detail: ErrorDetails, node: Any, name: str) -> str:
    """What is wrong with a field's value. node: its YAML node, or None. name: name of the field."""
    loc = detail["loc"]
    is_scalar = isinstance(node, yaml.ScalarNode)
    is_empty_list = detail["type"] == "list_type" and is_scalar and not node.value
    match "too_short" if is_empty_list else detail["type"]:
        case "string_type" if node is not None:
            kind = YAML_KINDS.get(node.tag.rpartition(":")[2], "something else")
            # The third step of a webhook and of its token, which may be secrets.
            is_secret = loc[0] == "schedules" and loc[2:] in (("webhook",), ("token",))
            value = node.value if is_scalar and not is_secret else "…"
            as_json = "its JSON in quotes, such as '[1, 2]'" if "arguments" in loc else "one string"
            advice = f'"{value}"' if is_scalar else as_json
            problem = f"must be a string, but YAML reads {value} as {kind}: write {advice}"
            return f"{name} {problem if node.value else 'is empty'}"
        case "string_pattern_mismatch" if loc[-1] == "token":
            return f"{name} cannot be sent in a header: write it in printable ASCII"
        case "list_type":
            advice = "begin each entry with `- `"
            if is_scalar:
                is_kind = name.endswith("Modes") and "/" not in node.value  # such as "text"
                advice = f"write [{'text/plain' if is_kind else node.value}]"
            return f"{name} must be a list: {advice}"
        case "too_short":
            rest = "" if loc == ("skills",) else ", or leave it out"
            return f"{name} is empty: write at least one{rest}"
        case "invalid_key":
            return f"{loc[-1]} is not the name of a field."
    return f"{name} {VALUE_MISTAKES.get(detail['type'], 'is wrong: ' + detail['msg'])}"


def _locate(root: Any, loc: Sequence[int | str]) -> tuple[int, Any]:
    """Line of a location, or of what surrounds it, and its YAML node or None."""
    node, line = root, root.start_mark.line + 1
    for step in loc:
        inner = None
        if isinstance(node, yaml.MappingNode):
            pairs = ((key, value) for key, value in node.value if key.value == str(step))
            key, inner = next(pairs, (None, None))
            line = key.start_mark.line + 1 if key is not None else line
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            inner = node.value[step]
            line = inner.start_mark.line + 1
        node = inner
    return line, node
