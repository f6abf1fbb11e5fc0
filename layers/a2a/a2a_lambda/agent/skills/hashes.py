"""Which types put values into a set, or use them as keys, whose hashes a client can choose.

All multiples of 2**61 - 1 have one hash in CPython, so the time that a set of them takes grows with the
square of their number. The hashes of texts are random in each process.
"""

from collections.abc import Mapping
from typing import Any

HARMLESS = frozenset(("str", "bytes", "literal", "enum", "bool", "none"))
"""Types, as pydantic's core schemas name them, whose hashes are random, or that have few values."""


def has_chosen_hashes(schema: Any, definitions: Mapping[str, Any] | None = None) -> bool:
    """Whether a core schema of pydantic has a set of other values, or an object with other keys.

    definitions: schemas by their `ref`; None = those of this schema.
    """
    if isinstance(schema, list | tuple):
        return any(has_chosen_hashes(part, definitions) for part in schema)
    if not isinstance(schema, Mapping):
        return False
    if definitions is None:
        definitions = {part["ref"]: part for part in schema.get("definitions", ())}
    match schema.get("type"):
        case "set" | "frozenset":
            is_chosen = not _is_harmless(schema.get("items_schema", {}), definitions)
        case "dict":  # keys without a schema are texts
            is_chosen = not _is_harmless(schema.get("keys_schema", {"type": "str"}), definitions)
        case _:
            is_chosen = False
    return is_chosen or any(has_chosen_hashes(part, definitions) for part in schema.values())


def _is_harmless(schema: Any, definitions: Mapping[str, Any]) -> bool:
    match schema.get("type"):
        case "definition-ref":  # of an alias, which leads to no other one
            return _is_harmless(definitions.get(schema["schema_ref"], {}), {})
        case "union":
            choices = (choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"])
            return all(_is_harmless(choice, definitions) for choice in choices)
        case "tuple":
            return all(_is_harmless(part, definitions) for part in schema["items_schema"])
        case kind if "schema" in schema:  # such as nullable, and a validator around a type
            return kind != "json" and _is_harmless(schema["schema"], definitions)
        case kind:
            return kind in HARMLESS
