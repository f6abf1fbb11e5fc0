"""The schemas of the specifications (tests/specs/)."""

import json
from typing import Any

from jsonschema import Draft7Validator, Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.conftest import ROOT


def validate(version: str, definition: str, value: Any) -> None:
    schema = json.loads((ROOT / "tests" / "specs" / f"a2a-v{version}.json").read_text())
    root = "definitions" if "definitions" in schema else "$defs"
    if version == "1.0.1":  # generated of many files, whose names it refers to
        validate_bundle(schema, definition, value)
        return
    Draft7Validator({**schema, "$ref": f"#/{root}/{definition}"}).validate(value)


def validate_bundle(schema: Any, definition: str, value: Any) -> None:
    definitions = schema["definitions"]
    names = {inner["$id"]: name for name, inner in definitions.items() if "$id" in inner}
    names |= {f"lf.a2a.v1.{name.replace(' ', '')}.jsonschema.json": name for name in definitions}
    names |= {f"google.protobuf.{name}.jsonschema.json": name for name in ("Struct", "Value", "Timestamp")}

    def retrieve(uri: str) -> Any:
        plain = uri.rpartition("/")[2].removeprefix("urn:a2a:")
        return Resource.from_contents(definitions[names[plain]], DRAFT202012)

    registry = Registry(retrieve=retrieve)  # type: ignore[call-arg]
    Draft202012Validator(definitions[definition], registry=registry).validate(value)
