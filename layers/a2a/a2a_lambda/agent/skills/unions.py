"""Recursive unions: whether the time to read a value doubles with each level of nesting."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from a2a_lambda.errors import ConfigurationError

Schema = Mapping[str, Any]

Pair = tuple[Schema, Schema]


def check_unions(schema: Schema, named_definitions: Schema, location: str) -> None:
    """Raises ConfigurationError if pydantic would choose between two types again at each level of a value, as
    in a union of And and Or whose fields may be And or Or.

    pydantic reads a value as each type of a union, even if a Literal says which one it is, so each level
    doubles the time: 40 levels would take days. A discriminator makes it read only one.
    Source: https://docs.pydantic.dev/latest/concepts/unions/

    schema: JSON Schema of a skill's parameters, as ReadingSchema makes it. named_definitions: its $defs with
    the names of fields instead of their aliases. location: where the skill is, as the error names it.
    """
    definitions = schema.get("$defs", {})
    starts = (_pairs_of(definition, definition, definitions) for definition in definitions.values())
    pairs = (_pair_between(start, definitions) for start, _ in chain.from_iterable(starts))
    if (pair := next(filter(None, pairs), None)) is None:
        return
    names = [name for name, definition in definitions.items() if any(definition is one for one in pair)]
    if len(names) < len(pair):
        raise ConfigurationError(
            f"{location}: a parameter's type contains itself in two ways that JSON does not tell apart, so"
            " each level of a value doubles the time to read it: merge the two into one, such as list[A | B]"
            " for list[A] | list[B], or list[A] for list[A] | set[A]"
        )
    # The other classes of the union that has both.
    for union in _unions_in(schema):
        choices = [option["$ref"].rpartition("/")[2] for option in union if "$ref" in option]
        if {*names} <= {*choices}:
            names += [name for name in choices if name not in names and "properties" in definitions[name]]
    fields = [named_definitions.get(name, {}).get("properties", {}) for name in names]
    tag = ""
    for key in fields[0]:
        options = [each.get(key, {}) for each in fields]
        values = [option.get("enum", [option["const"]] if "const" in option else []) for option in options]
        merged_values = [*chain.from_iterable(values)]
        if all(values) and all(merged_values.count(value) == 1 for value in merged_values):
            tag = key
    advice = (
        "write" if tag else 'give each a field such as `type: Literal["…"]`, each its own text, and write'
    )
    raise ConfigurationError(
        f"{location}: {' and '.join(names)} contain each other, so each level of a value doubles the time to"
        f' read it: {advice} Annotated[{" | ".join(names)}, Field(discriminator="{tag or "type"}")] for their'
        " union"
    )


def _unions_in(schema: Any) -> Iterator[list[Schema]]:
    if isinstance(schema, Mapping):
        if isinstance(union := schema.get("anyOf"), list):
            yield union
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else ():
        yield from _unions_in(part)


def _pair_between(start: Schema, definitions: Schema) -> Pair | None:
    """Two types that one value within `start` may have, if both lead back to `start` along the same keys. A
    value that follows those keys n times has 2**n readings."""
    waiting: list[tuple[Pair, Pair | None]] = [((start, start), None)]
    seen: set[tuple[int, int, bool]] = set()
    while waiting:
        (one, other), pair = waiting.pop()
        members, other_members = dict(_members_of(one)), dict(_members_of(other))
        # What one member of the value may be, if the value is read as one type and as the other. None is for
        # the keys that the same type does not name.
        pairs_below = (
            below
            for key, member in members.items()
            for other_key, other_member in other_members.items()
            if key == other_key
            or (key is None and other_key not in members)
            or (other_key is None and key not in other_members)
            for below in _pairs_of(member, other_member, definitions)
        )
        for below in pairs_below:
            first_pair = pair or (below if below[0] is not below[1] else None)
            if first_pair and below[0] is below[1] is start:
                return first_pair
            key = (id(below[0]), id(below[1]), first_pair is not None)
            if key not in seen:
                seen.add(key)
                waiting.append((below, first_pair))
    return None


def _members_of(schema: Schema) -> Iterator[tuple[str | int | None, Schema]]:
    """Schemas of the members of an object or a list, by key or index; None = all others."""
    yield from schema.get("properties", {}).items()
    yield from enumerate(schema.get("prefixItems", ()))
    for keyword in ("additionalProperties", "items"):
        if isinstance(schema.get(keyword), Mapping):
            yield None, schema[keyword]


def _pairs_of(
    one: Schema, other: Schema, definitions: Schema, seen: set[tuple[int, int]] | None = None
) -> Iterator[Pair]:
    """The objects and lists as which one value may be read by two schemas. A discriminator (oneOf) chooses
    the same one in both. seen: pairs that were looked at, because unions may contain each other."""
    seen = set() if seen is None else seen
    while "$ref" in one:
        one = definitions[one["$ref"].rpartition("/")[2]]
    while "$ref" in other:
        other = definitions[other["$ref"].rpartition("/")[2]]
    if (id(one), id(other)) in seen:
        return
    seen.add((id(one), id(other)))
    if one is other and "oneOf" in one:
        for choice in one["oneOf"]:
            yield from _pairs_of(choice, choice, definitions, seen)
        return
    for keyword in ("anyOf", "oneOf"):
        if keyword in one or keyword in other:
            for choice in one.get(keyword, [one]):
                for other_choice in other.get(keyword, [other]):
                    yield from _pairs_of(choice, other_choice, definitions, seen)
            return
    if one.get("type") == other.get("type") and one.get("type") in ("object", "array"):
        yield one, other
