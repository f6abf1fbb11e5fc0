"""OpenAPI documents of agents: the HTTP+JSON API of 1.0, their skills, and how a caller signs in.

Source: https://spec.openapis.org/oas/v3.1.0
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from a2a_lambda.protocol.alibaba_metadata import intent_metadata
from a2a_lambda.protocol.card import CardSkill
from a2a_lambda.protocol.model import Json, Part, Role
from a2a_lambda.wire.shared.card_json import Description, Object, requirements, schemes

SCHEMAS = "#/components/schemas/"

SENDS = {"sendMessage", "sendStreamingMessage"}
"""Ids of the operations that take a message."""

SAMPLES: Mapping[str, Json] = {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": []}
"""Examples of arguments, by their type."""

FORMATS: Mapping[str, Json] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00",
    "email": "ann@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
"""Examples of texts, by their format."""

MOST_LEVELS = 4
"""Levels of objects in an example: a type may contain itself."""


def encode_agent(api: Object, agent: Description) -> Object:
    """The document of one agent. api: paths and schemas of the API, which stay as they are."""
    return _encode(api, agent, agent.http, [(agent, "")])


def encode_deployment(api: Object, agents: Sequence[Description]) -> Object:
    """The document of several agents, of which the first one answers at the root."""
    first, *others = agents
    return _encode(
        api, first, first.base, [(first, ""), *((agent, f"/a2a/{agent.name}") for agent in others)]
    )


def _encode(api: Object, title: Description, url: str, places: Sequence[tuple[Description, str]]) -> Object:
    """places: each agent, and the path before its routes."""
    paths: Object = {}
    schemas = dict(api["components"]["schemas"])
    for agent, prefix in places:
        names = dict(_schema_names(agent, prefix, schemas))
        for skill, name in names.items():
            schemas |= _with_definitions(name, agent.input_schemas[skill])
        for path, operations in api["paths"].items():
            if _offers(agent, path):
                paths[prefix + path] = {
                    verb: _operation(operation, agent, prefix, names)
                    for verb, operation in operations.items()
                }
    signing_in = {scheme: fields for agent, _ in places for scheme, fields in schemes(agent).items()}
    return {
        "openapi": api["openapi"],
        "info": {
            "title": title.card.name,
            "description": title.card.description,
            "version": title.card.version,
        },
        "servers": [{"url": url}],
        "tags": [{"name": agent.name, "description": agent.card.description} for agent, _ in places],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": signing_in},
    }


def _offers(agent: Description, path: str) -> bool:
    """Whether the agent's card offers the operations at a path."""
    if path.endswith((":stream", ":subscribe")):
        return agent.card.capabilities.streaming
    if "pushNotificationConfigs" in path:
        return agent.card.capabilities.pushNotifications
    return path != "/extendedAgentCard" or agent.card.extended is not None


def _operation(operation: Object, agent: Description, prefix: str, names: Mapping[str, str]) -> Object:
    identity = operation["operationId"]
    result = {
        **operation,
        # The id is unique in the document, and a name of a function in most languages.
        "operationId": f"{identity}_{_identifier(agent.name)}" if prefix else identity,
        "tags": [agent.name],
        "security": [{scheme: [*scopes]} for scheme, scopes in requirements(agent)],
    }
    if identity in SENDS:
        content = {
            media_type: {**content, "examples": dict(_examples(agent))}
            for media_type, content in operation["requestBody"]["content"].items()
        }
        result["requestBody"] = {**operation["requestBody"], "content": content}
        result["description"] = "\n".join(_sentences(agent, names))
    return result


def _sentences(agent: Description, names: Mapping[str, str]) -> Iterator[str]:
    yield agent.card.description.strip()
    yield "\nThe same request within 60 seconds, or with the same `Idempotency-Key`, gets the same task."
    yield "\nSkills:\n"
    for skill in agent.card.skills:
        arguments = f" Arguments, as `data` of a part: `{names[skill.id]}`." if skill.id in names else ""
        yield f"- `{skill.id}`: {skill.description.strip()}{arguments}"


def _examples(agent: Description) -> Iterator[tuple[str, Object]]:
    """A message for each skill."""
    for number, skill in enumerate(agent.card.skills):
        message = {
            "messageId": f"message-{number + 1}",
            "role": Role.USER,
            "parts": [_sample_part(agent, skill)],
            "metadata": intent_metadata(skill.id, {}),
        }
        yield skill.id, {"summary": skill.name, "value": {"message": message}}


def _sample_part(agent: Description, skill: CardSkill) -> Part:
    schema = agent.input_schemas.get(skill.id, {})
    if schema.get("properties"):
        return Part(data=_sample(schema, schema.get("$defs", {}), MOST_LEVELS))
    return Part(text=next(iter(skill.examples), "Hello"))


def _sample(schema: Object, definitions: Mapping[str, Object], levels: int) -> Json:
    """A value of a schema's type. It may break the schema's limits, because it is only read."""
    schema = definitions.get(schema.get("$ref", "").removeprefix("#/$defs/"), schema)
    values = [*schema.get("examples", ()), *schema.get("enum", ())]
    values += [schema[key] for key in ("default", "const") if schema.get(key) is not None]
    values += [FORMATS[schema["format"]]] if schema.get("format") in FORMATS else []
    if values:
        return values[0]
    if not levels:
        return SAMPLES.get(schema.get("type", ""), {})
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return _sample(alternatives[0], definitions, levels - 1)
    if schema.get("type") == "array":
        return [_sample(schema.get("items", {}), definitions, levels - 1)]
    if "properties" in schema:
        properties = schema["properties"].items()
        return {name: _sample(property, definitions, levels - 1) for name, property in properties}
    return SAMPLES.get(schema.get("type", ""), {})


def _schema_names(agent: Description, prefix: str, taken: Mapping[str, Object]) -> Iterator[tuple[str, str]]:
    """Name of the schema of each skill's parameters, by skill id."""
    names = set(taken)
    for number, skill in enumerate(agent.input_schemas):
        words = _words(skill) or f"Skill{number + 1}"  # an id may have no letter of ASCII
        name = (_words(agent.name) if prefix else "") + words + "Arguments"
        while name in names:
            name += "_"
        names.add(name)
        yield skill, name


def _with_definitions(name: str, schema: Object) -> Iterator[tuple[str, Object]]:
    """A schema and its definitions, each below the components. The definitions' names begin with its own."""
    definitions: Mapping[str, Object] = schema.get("$defs", {})
    references = {f"#/$defs/{key}": f"{SCHEMAS}{name}.{_words(key)}" for key in definitions}
    yield name, _refer({key: value for key, value in schema.items() if key != "$defs"}, references)
    for key, definition in definitions.items():
        yield f"{name}.{_words(key)}", _refer(definition, references)


def _refer(value: Json, references: Mapping[str, str]) -> Json:
    """A schema with other references, and without titles, by which generators would name its types."""
    if isinstance(value, list):
        return [_refer(item, references) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: references.get(item, item)
        if key == "$ref" and isinstance(item, str)
        else _refer(item, references)
        for key, item in value.items()
        if not (key == "title" and isinstance(item, str))
    }


def _words(text: str) -> str:
    """A name of a type: ai-calculate is AiCalculate."""
    return "".join(word[:1].upper() + word[1:] for word in re.split("[^A-Za-z0-9]+", text))


def _identifier(text: str) -> str:
    return re.sub("[^A-Za-z0-9]", "_", text)
