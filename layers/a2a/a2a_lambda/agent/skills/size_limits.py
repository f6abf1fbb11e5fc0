"""How many elements an argument may have, by the core schema that pydantic makes of its type."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from a2a_lambda.errors import LimitExceeded

MAX_CONTAINERS = 1_000_000
"""Maximum number of lists and objects in the JSON of an argument. pydantic takes about 350 bytes for each."""

MAX_HASHED_ELEMENTS = 5_000
"""Maximum number of elements in an argument whose type has a set, or keys, whose hashes a client can choose.
If all hashes are equal, the time grows with the square of their number."""

JSON_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A string in JSON, or the rest of a text that does not close it. If the closing quote were required, each
quote in such a text would begin a search to its end. The possessive quantifiers keep no position for each
character, which would take 100 bytes."""

HARMLESS = frozenset(("str", "bytes", "literal", "enum", "bool", "none"))
"""Types whose hashes are random, or that have few values."""

VALIDATORS = frozenset(("function-before", "function-wrap", "function-plain"))
"""Schemas of functions that get a value before pydantic reads it."""

NOT_READ = frozenset(("serialization", "metadata", "default", "expected"))
"""What a schema has besides the schemas by which values are read."""


class SizeLimits:
    """The limits of an argument. schema: core schema of its type."""

    def __init__(self, schema: Any) -> None:
        self._has_chosen_hashes = has_chosen_hashes(schema)
        self._has_json_texts = has_json_texts(schema)

    def check(self, name: str, text: str) -> None:
        """Raises LimitExceeded if there are too many elements. name: the parameter's name. text: the argument
        as JSON."""
        if self._has_chosen_hashes and self._has_more(MAX_HASHED_ELEMENTS - 1, ",", text):
            raise LimitExceeded(f"The argument {name} may have at most {MAX_HASHED_ELEMENTS:,} elements.")
        if self._has_more(MAX_CONTAINERS, "[{", text):
            raise LimitExceeded(f"The argument {name} may have at most {MAX_CONTAINERS:,} lists and objects.")

    def check_string(self, name: str, text: str) -> None:
        """The same for an argument that is a string."""
        if self._has_json_texts and is_like_json(text):
            self.check(name, text)

    def _has_more(self, limit: int, marks: str, text: str) -> bool:
        # This is fast, even for a file as base64, and never counts too few: each mark is in the text as it
        # is, unless a string has it as an escape sequence.
        most = sum(map(text.count, marks)) + (text.count("\\u") if self._has_json_texts else 0)
        return most > limit and self._count(marks, text) > limit

    def _count(self, marks: str, text: str) -> int:
        """How often marks occur in a JSON text: outside its strings, and inside those that may be read as
        JSON."""
        bare_text = JSON_STRING.sub("", text)
        count = sum(map(bare_text.count, marks))
        for string in JSON_STRING.finditer(text) if self._has_json_texts else ():
            if string[0][1:].lstrip()[:1] not in ("[", "{", "\\"):
                continue
            with suppress(ValueError):  # it is never closed
                inner_text = json.loads(string[0], strict=False)
                # A set is made of JSON that is whole; lists are made of its beginning, too.
                if marks != "," or is_like_json(inner_text):
                    count += self._count(marks, inner_text)
        return count


def is_like_json(text: str) -> bool:
    """Whether a text begins and ends as a list, an object or a string in JSON does."""
    return text.lstrip()[:1] + text.rstrip()[-1:] in ("[]", "{}", '""')


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
    """Whether a text in a value may be read as JSON: by `Json[…]`, or by a validator of the agent that gets
    it before pydantic does. What such a validator makes of a text that is not JSON is not limited."""
    for part in _schemas_in(schema):
        if part.get("type") == "json":
            return True
        if part.get("type") in VALIDATORS:
            # None of pydantic's own validators, such as that of a URL, reads JSON, but its methods can be
            # validators: BeforeValidator(Model.model_validate_json).
            function = part["function"]["function"]
            module = getattr(function, "__module__", None) or ""
            is_of_pydantic = module.partition(".")[0] == "pydantic"
            if not is_of_pydantic or getattr(function, "__name__", "").endswith("_json"):
                return True
    return False


def _schemas_in(schema: Any) -> Iterator[Mapping[str, Any]]:
    """The schemas in a schema, and itself; without those that say how its values are written."""
    if isinstance(schema, Mapping) and isinstance(schema.get("type"), str):
        yield schema
        schema = [part for key, part in schema.items() if key not in NOT_READ]
    elif isinstance(schema, Mapping):  # schemas by the names of fields, which may be any
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
