"""What the core schema of a type, as pydantic makes it, says about how costly its values are to read."""

from collections.abc import Iterator, Mapping
from typing import Any

HARMLESS = frozenset(("str", "bytes", "literal", "enum", "bool", "none"))
"""Types whose hashes are random, or that have few values."""

TEXT_READERS = frozenset(("json", "function-before", "function-wrap", "function-plain"))
"""Schemas that may make other values of a text."""


def has_chosen_hashes(schema: Any) -> bool:
    """Whether a schema has a set, or keys, of a type that is not HARMLESS.

    All multiples of 2**61 - 1 have one hash in CPython, so the time that a set of them takes grows with the
    square of their number. The hashes of texts are random in each process.
    Source: https://docs.python.org/3/library/stdtypes.html#hashing-of-numeric-types
    """
    definitions = {part["ref"]: part for part in schema.get("definitions", ())}
    for part in _schemas_in(schema):
        match part.get("type"):
            case "set" | "frozenset" if not _is_harmless(part.get("items_schema", {}), definitions):
                return True
            case "dict":  # in JSON, keys of any type are texts
                keys = part.get("keys_schema", {"type": "any"})
                if keys["type"] != "any" and not _is_harmless(keys, definitions):
                    return True
    return False


def has_json_texts(schema: Any) -> bool:
    """Whether a text in a value may be read as JSON: by `Json[…]`, or by a validator that gets it first."""
    return any(part.get("type") in TEXT_READERS for part in _schemas_in(schema))


def _schemas_in(schema: Any) -> Iterator[Mapping[str, Any]]:
    """The mappings in a schema, which are its parts, and itself."""
    if isinstance(schema, Mapping):
        yield schema
        schema = list(schema.values())
    if isinstance(schema, list | tuple):
        for part in schema:
            yield from _schemas_in(part)


def _is_harmless(schema: Any, definitions: Mapping[str, Any]) -> bool:
    match schema.get("type"):
        case "definition-ref":  # without the definition itself, because a type may contain itself
            ref = schema["schema_ref"]
            others = {name: part for name, part in definitions.items() if name != ref}
            return _is_harmless(definitions.get(ref, {}), others)
        case "union":
            choices = (choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"])
            return all(_is_harmless(choice, definitions) for choice in choices)
        case "tuple":
            return all(_is_harmless(part, definitions) for part in schema["items_schema"])
        case "json" | "function-after" | "function-wrap":  # which may return anything, such as numbers
            return False
        case kind if "schema" in schema:  # such as nullable, and a validator before a type
            return _is_harmless(schema["schema"], definitions)
        case kind:
            return kind in HARMLESS
