"""OpenAPI documents of agents: the HTTP+JSON API of 1.0, their skills, and how a caller signs in.

Source: https://spec.openapis.org/oas/v3.1.0
"""

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from a2a_lambda.protocol.alibaba_metadata import intent_metadata
from a2a_lambda.protocol.model import Json, Part, Role
from a2a_lambda.wire.shared.card_json import (
    SECURITY_SCHEMES,
    Description,
    requirements,
    schemes,
    uploads_extension,
)
from a2a_lambda.wire.shared.fields import Object

SCHEMAS = "#/components/schemas/"

SENDS = {"sendMessage", "sendStreamingMessage"}
"""Ids of the operations that take a message."""

KEY_DESCRIPTION = (
    "A key of this deployment. Its operator creates one with `make key`; under `make run`, it is `local-key`"
    " unless you set `LOCAL_KEY`."
)
"""What a page that shows the API says where it asks for the key."""

SAMPLES: Mapping[str, Json] = {"boolean": True, "null": None}
"""Examples of arguments, by their type."""

FORMATS: Mapping[str, Json] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00",
    "email": "ann@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "duration": "PT1H",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
}
"""Examples of texts, by their format."""

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "minimum": operator.ge,
    "exclusiveMinimum": operator.gt,
    "maximum": operator.le,
    "exclusiveMaximum": operator.lt,
}
"""How a number compares with its limits."""

SAMPLE_LENGTH = 100
"""Maximum length of an example, in characters or entries."""

LITERAL_KEYWORDS = {"default", "const", "enum", "examples", "example"}
"""Keywords whose values are not schemas."""


@dataclass(frozen=True, slots=True)
class _Body:
    """What is said of an agent's messages: an example for each skill, and a description in Markdown."""

    examples: Object
    description: str


def encode_agent(api: Object, agent: Description) -> Object:
    """The document of one agent. api: paths and schemas of the API, which stay as they are."""
    return _encode(api, agent, agent.http, [(agent, "")])


def encode_deployment(api: Object, agents: Sequence[Description]) -> Object:
    """The document of several agents, of which the first one answers at the root."""
    first, *others = agents
    return _encode(
        api, first, first.base, [(first, ""), *((agent, f"/a2a/{agent.name}") for agent in others)]
    )


def _encode(
    api: Object, main_agent: Description, url: str, places: Sequence[tuple[Description, str]]
) -> Object:
    """main_agent: the agent that the document is named after. places: each agent, and the path before its
    routes."""
    paths: Object = {}
    schemas = dict(api["components"]["schemas"])
    suffixes: set[str] = set()
    for agent, prefix in places:
        names = dict(_schema_names(agent, prefix, schemas))
        suffix = _reserve_name("_" + re.sub("[^A-Za-z0-9]", "_", agent.name) if prefix else "", suffixes)
        body = _Body(dict(_examples(agent)), "\n".join(_sentences(agent, names)))
        for skill, name in names.items():
            schemas |= _with_definitions(name, agent.input_schemas[skill])
        if agent.upload_bytes and "UploadRequest" in schemas:
            request = schemas["UploadRequest"]
            size = {**request["properties"]["size"], "maximum": agent.upload_bytes}
            schemas["UploadRequest"] = {**request, "properties": {**request["properties"], "size": size}}
        for path, operations in api["paths"].items():
            if _offers(agent, path):
                paths[prefix + path] = {
                    verb: _operation(operation, agent, suffix, body) for verb, operation in operations.items()
                }
    security_schemes = {scheme: fields for agent, _ in places for scheme, fields in schemes(agent).items()}
    for scheme, fields in SECURITY_SCHEMES.items():
        security_schemes[scheme] = {**fields, "description": KEY_DESCRIPTION}
    return {
        "openapi": api["openapi"],
        "info": {
            "title": main_agent.card.name,
            "description": main_agent.card.description,
            "version": main_agent.card.version,
        },
        "servers": [{"url": url}],
        "tags": [{"name": agent.name, "description": agent.card.description} for agent, _ in places],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": security_schemes},
    }


def _offers(agent: Description, path: str) -> bool:
    """Whether the agent's card offers the operations at a path."""
    if path.endswith((":stream", ":subscribe")):
        return agent.card.capabilities.streaming
    if path == "/uploads":
        return bool(uploads_extension(agent))
    if "pushNotificationConfigs" in path:
        return agent.card.capabilities.pushNotifications
    return path != "/extendedAgentCard" or agent.card.extended is not None


def _operation(operation: Object, agent: Description, suffix: str, body: _Body) -> Object:
    operation_id = operation["operationId"]
    result = {
        **operation,
        # Unique in the document, and a name of a function in most languages.
        "operationId": operation_id + suffix,
        "tags": [agent.name],
        "security": [{scheme: [*scopes]} for scheme, scopes in requirements(agent)],
    }
    if operation_id in SENDS:
        content = {
            media_type: {**content, "examples": body.examples}
            for media_type, content in operation["requestBody"]["content"].items()
        }
        result["requestBody"] = {**operation["requestBody"], "content": content}
        if uris := ", ".join(agent.card.required_extensions):
            header = {
                "name": "A2A-Extensions",
                "in": "header",
                "required": True,
                "description": f"Extensions that the client supports: at least `{uris}`.",
                "schema": {"type": "string"},
                "example": uris,
            }
            result["parameters"] = [*operation.get("parameters", ()), header]
        result["description"] = body.description
    return result


def _sentences(agent: Description, names: Mapping[str, str]) -> Iterator[str]:
    yield agent.card.description.strip()
    if agent.repeat_seconds:
        period = f"within {agent.repeat_seconds:,.10g} seconds"
        yield f"\nThe same request {period}, or with the same `Idempotency-Key`, gets the same task."
    else:
        yield "\nA request that repeats an `Idempotency-Key` gets the task of the first one."
    yield "\nSkills:\n"
    for skill in agent.card.skills:
        arguments = f" Arguments, as `data` of a part: `{names[skill.id]}`." if skill.id in names else ""
        yield f"- `{skill.id}`: {skill.description.strip()}{arguments}"


def _examples(agent: Description) -> Iterator[tuple[str, Object]]:
    """A message for each skill."""
    for number, skill in enumerate(agent.card.skills):
        schema = agent.input_schemas.get(skill.id, {})
        arguments = _sample(schema, schema.get("$defs", {}), ()) if schema.get("properties") else {}
        parts = [Part(data=arguments)] if arguments else []
        if skill.examples or not parts:
            parts.insert(0, Part(text=next(iter(skill.examples), "Hello")))
        message = {
            "messageId": f"message-{number + 1}",
            "role": Role.USER,
            "parts": parts,
            "metadata": intent_metadata(skill.id, {}),
        }
        yield skill.id, {"summary": skill.name, "value": {"message": message}}


def _sample(schema: Json, definitions: Mapping[str, Object], above: tuple[str, ...]) -> Json:
    """A value that fits a schema, unless that has a pattern, or wants more than SAMPLE_LENGTH. above:
    definitions that the value is part of. A property that need not be there is left out, unless the schema
    itself has a value for it."""
    reference = _reference(schema)
    if reference in above:
        return None  # no finite value fits; the agent also accepts null, though its schema omits it
    if reference:
        return _sample(definitions.get(reference, {}), definitions, (*above, reference))
    if not isinstance(schema, dict):
        return {}  # true: anything
    values = [schema[key] for key in ("default", "const") if schema.get(key) is not None]
    values += [*schema.get("examples", ()), *schema.get("enum", ())]
    values += [FORMATS[schema["format"]]] if schema.get("format") in FORMATS else []
    if values:
        return values[0]
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        finite = [alternative for alternative in alternatives if _reference(alternative) not in above]
        return _sample((finite or alternatives)[0], definitions, above)
    return _sample_type(schema, definitions, above)


def _sample_type(schema: Object, definitions: Mapping[str, Object], above: tuple[str, ...]) -> Json:
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "array":
            is_closed = schema.get("items") is False and "prefixItems" not in schema
            if is_closed or schema.get("maxItems") == 0:
                return []
            first_items = schema.get("prefixItems", [])
            count = min(schema.get("minItems") or 1, SAMPLE_LENGTH)
            items = [*first_items, *[schema.get("items", {})] * (count - len(first_items))]
            return [_sample(item, definitions, above) for item in items if _reference(item) not in above]
        case "object":
            result: Object = {}
            for name, property in schema.get("properties", {}).items():
                has_value = isinstance(property, dict) and bool(property.keys() & {"default", "examples"})
                if name in schema.get("required", ()) or (has_value and _reference(property) not in above):
                    result[name] = _sample(property, definitions, above)
            return result
        case "number" | "integer":
            return _sample_number(schema)
        case "string":
            return "text".ljust(min(schema.get("minLength", 0), SAMPLE_LENGTH), "x")[
                : schema.get("maxLength")
            ]
        case other:
            return SAMPLES.get(str(other), {})


def _sample_number(schema: Object) -> float:
    """A number within the limits: 1 if it is, or else one near a limit, or between both."""
    limits: dict[str, float] = {key: schema[key] for key in COMPARISONS if key in schema}
    numbers = [1, *(limit + offset for limit in limits.values() for offset in (0, 1, -1))]
    numbers.append(sum(limits.values()) / 2)
    if unit := schema.get("multipleOf"):
        numbers = [
            rounding(number / unit) * unit for number in numbers for rounding in (math.ceil, math.floor)
        ]
    allowed_numbers = (
        number for number in numbers if all(COMPARISONS[key](number, limit) for key, limit in limits.items())
    )
    return next(allowed_numbers, 1)


def _reference(schema: Json) -> str:
    """Name of the definition that a schema refers to, or ""."""
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    return reference.removeprefix("#/$defs/") if isinstance(reference, str) else ""


def _schema_names(
    agent: Description, prefix: str, taken_names: Mapping[str, Object]
) -> Iterator[tuple[str, str]]:
    """Name of the schema of each skill's parameters, by skill id."""
    names = set(taken_names)
    for number, skill in enumerate(agent.input_schemas):
        words = _words(skill) or f"Skill{number + 1}"  # an id may have no letter of ASCII
        name = (_words(agent.name) if prefix else "") + words + "Arguments"
        yield skill, _reserve_name(name, names)


def _reserve_name(name: str, taken_names: set[str]) -> str:
    """The name, with a number if it is taken: generators drop other characters. The returned name is taken
    from now on."""
    names = (f"{name}{number if number > 1 else ''}" for number in itertools.count(1))
    free_name = next(candidate for candidate in names if candidate not in taken_names)
    taken_names.add(free_name)
    return free_name


def _with_definitions(name: str, schema: Object) -> Iterator[tuple[str, Object]]:
    """A schema and its definitions, each below the components. The definitions' names begin with its own."""
    definitions: Mapping[str, Object] = schema.get("$defs", {})
    taken_names: set[str] = set()
    names = {key: _reserve_name(f"{name}.{_words(key)}", taken_names) for key in definitions}
    references = {f"#/$defs/{key}": SCHEMAS + names[key] for key in definitions}
    yield name, _refer({key: value for key, value in schema.items() if key != "$defs"}, references)
    for key, definition in definitions.items():
        yield names[key], _refer(definition, references)


def _refer(value: Json, references: Mapping[str, str]) -> Json:
    """A schema with other references, and without titles, by which generators would name its types."""
    if isinstance(value, list):
        return [_refer(item, references) for item in value]
    if not isinstance(value, dict):
        return value
    result: Object = {}
    for key, item in value.items():
        if key in LITERAL_KEYWORDS:
            result[key] = item
        elif key == "properties":
            result[key] = {name: _refer(property, references) for name, property in item.items()}
        elif key == "$ref":
            result[key] = references.get(item, item)
        elif key == "discriminator":
            mapping = item.get("mapping", {})
            result[key] = {**item, "mapping": {tag: references.get(ref, ref) for tag, ref in mapping.items()}}
        elif key != "title":
            result[key] = _refer(item, references)
    return result


def _words(text: str) -> str:
    """A name of a type: ai-calculate is AiCalculate."""
    return "".join(word[:1].upper() + word[1:] for word in re.split("[^A-Za-z0-9]+", text))
