"""Documents of OpenAPI, from cards and schemas."""

from typing import Any

import jsonschema
import pytest

from a2a_lambda.protocol.card import Capabilities, Card, CardSkill, Extended, Extension
from a2a_lambda.wire.shared.card_json import Description, SignIn
from a2a_lambda.wire.shared.openapi import encode_agent, encode_deployment

PATHS = {
    "/message:send": "sendMessage",
    "/message:stream": "sendStreamingMessage",
    "/tasks/{id}:subscribe": "subscribeToTask",
    "/tasks/{id}": "getTask",
    "/tasks/{id}/pushNotificationConfigs": "listConfigs",
    "/extendedAgentCard": "getExtendedAgentCard",
    "/uploads": "createUpload",
}

API: Any = {
    "openapi": "3.1.0",
    "paths": {
        path: {
            "post": {
                "operationId": identity,
                "summary": "stays",
                "requestBody": {"required": True, "content": {"application/json": {"schema": {}}}},
            }
        }
        for path, identity in PATHS.items()
    },
    "components": {"schemas": {"Task": {"type": "object"}}},
}


def description(
    name: str = "shop", *, is_root: bool = True, schemas: Any = None, **fields: Any
) -> Description:
    """An agent with the skills buy and hello. schemas: by skill id."""
    own_fields = ("sign_ins", "upload_bytes", "repeat_seconds")
    options = {key: fields.pop(key) for key in own_fields if key in fields}
    skills = [
        CardSkill(id="buy", name="Buy", description=" Orders something.\n"),
        CardSkill(id="hello", name="Hello", description="Greets.", examples=["Good morning", "Hi"]),
    ]
    card = Card(name=name.title(), description=f"About {name}.\n", version="1.2.3", skills=skills, **fields)
    return Description(card, name, "https://base", is_root, schemas or {}, **options)


def document(**fields: Any) -> Any:
    return encode_agent(API, description(**fields))


def operation(of: Any, path: str = "/message:send") -> Any:
    return of["paths"][path]["post"]


def sample(schema: Any, **definitions: Any) -> Any:
    """The example of an argument with a schema."""
    arguments = {"type": "object", "properties": {"a": schema}, "required": ["a"], "$defs": definitions}
    examples = operation(document(schemas={"buy": arguments}))["requestBody"]["content"]["application/json"]
    [part] = examples["examples"]["buy"]["value"]["message"]["parts"]
    return part["data"].get("a", "absent")


def test_a_document_is_about_its_agent() -> None:
    api = document()
    assert api["openapi"] == "3.1.0"
    assert api["info"] == {"title": "Shop", "description": "About shop.\n", "version": "1.2.3"}
    assert api["servers"] == [{"url": "https://base"}]
    assert api["tags"] == [{"name": "shop", "description": "About shop.\n"}]
    assert document(is_root=False)["servers"] == [{"url": "https://base/a2a/shop"}]


@pytest.mark.parametrize(
    ("fields", "absent"),
    [
        ({}, {"/tasks/{id}/pushNotificationConfigs", "/extendedAgentCard", "/uploads"}),
        (
            {"capabilities": Capabilities(streaming=False, pushNotifications=True)},
            {"/message:stream", "/tasks/{id}:subscribe", "/extendedAgentCard", "/uploads"},
        ),
        ({"extended": Extended(description="More.")}, {"/tasks/{id}/pushNotificationConfigs", "/uploads"}),
        (
            {"upload_bytes": 9, "defaultInputModes": ["image/png"]},
            {"/tasks/{id}/pushNotificationConfigs", "/extendedAgentCard"},
        ),
    ],
)
def test_the_document_has_the_operations_that_the_card_offers(fields: Any, absent: set[str]) -> None:
    assert PATHS.keys() - document(**fields)["paths"].keys() == absent


def test_the_api_itself_stays_as_it_is() -> None:
    before = str(API)
    document(schemas={"buy": {"type": "object", "properties": {"a": {}}}})
    assert str(API) == before


def test_an_operation_says_whose_it_is_and_how_a_caller_sign_in() -> None:
    sign_in = SignIn("idp", "https://idp/.well-known/openid-configuration", ["read"])
    api = document(sign_ins=[sign_in])
    send = operation(api)
    assert (send["operationId"], send["tags"], send["summary"]) == ("sendMessage", ["shop"], "stays")
    assert {"openIdConnect-idp": ["read"]} in send["security"]
    assert {"bearer": []} in send["security"]
    assert api["components"]["securitySchemes"].keys() == {"bearer", "apiKey", "openIdConnect-idp"}


@pytest.mark.parametrize(
    ("seconds", "sentence"),
    [
        (0, "A request that repeats an `Idempotency-Key` gets the task of the first one."),
        (0.5, "The same request within 0.5 seconds, or"),
        (1_000_000, "The same request within 1,000,000 seconds, or"),
    ],
)
def test_an_operation_says_how_long_a_request_is_the_same(seconds: float, sentence: str) -> None:
    assert f"\n{sentence}" in operation(document(repeat_seconds=seconds))["description"]


def test_operations_that_take_a_message_describe_the_skills() -> None:
    api = document(schemas={"buy": {"type": "object", "properties": {}}}, repeat_seconds=30.0)
    for path in ("/message:send", "/message:stream"):
        send = operation(api, path)
        assert send["description"] == (
            "About shop.\n"
            "\nThe same request within 30 seconds, or with the same `Idempotency-Key`, gets the same task.\n"
            "\nSkills:\n\n"
            "- `buy`: Orders something. Arguments, as `data` of a part: `BuyArguments`.\n"
            "- `hello`: Greets."
        )
        assert send["requestBody"]["required"] is True
        assert send["requestBody"]["content"]["application/json"]["examples"].keys() == {"buy", "hello"}
    assert "description" not in operation(api, "/tasks/{id}")
    assert operation(api, "/tasks/{id}")["requestBody"] == API["paths"]["/tasks/{id}"]["post"]["requestBody"]


def test_a_message_takes_the_header_that_its_agent_requires() -> None:
    extensions = [
        Extension(uri="https://a", required=True),
        Extension(uri="https://b"),
        Extension(uri="https://c", required=True),
    ]
    send = operation(document(extensions=extensions))
    [header] = send["parameters"]
    assert (header["name"], header["in"], header["required"]) == ("A2A-Extensions", "header", True)
    assert header["example"] == "https://a, https://c"
    assert "parameters" not in operation(document(extensions=extensions), "/tasks/{id}")
    assert "parameters" not in operation(document())


def test_an_upload_is_as_large_as_the_deployment_allows() -> None:
    request: Any = {
        "properties": {"size": {"type": "integer", "minimum": 1, "maximum": 5}},
        "required": ["size"],
    }
    api = {**API, "components": {"schemas": {"UploadRequest": request}}}
    document = encode_agent(api, description(upload_bytes=3, defaultInputModes=["image/png"]))
    size = document["components"]["schemas"]["UploadRequest"]["properties"]["size"]
    assert size == {"type": "integer", "minimum": 1, "maximum": 3}
    assert request["properties"]["size"]["maximum"] == 5


def test_each_skill_has_an_example() -> None:
    examples = operation(document())["requestBody"]["content"]["application/json"]["examples"]
    buying, greeting = examples["buy"], examples["hello"]
    assert (buying["summary"], greeting["summary"]) == ("Buy", "Hello")
    assert buying["value"]["message"]["messageId"] == "message-1"
    assert greeting["value"]["message"]["messageId"] == "message-2"
    assert buying["value"]["message"]["role"] == "ROLE_USER"
    assert buying["value"]["message"]["parts"] == [{"text": "Hello"}]
    assert greeting["value"]["message"]["parts"] == [{"text": "Good morning"}]
    assert "buy" in str(buying["value"]["message"]["metadata"])


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "text"),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": "integer"}, 1),
        ({"type": "number", "minimum": 5}, 5),
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": "string", "format": "unheard-of"}, "text"),
        ({"type": "string", "default": "a", "const": "b"}, "a"),
        ({"type": "string", "default": None, "const": "b"}, "b"),
        ({"enum": ["x", "y"]}, "x"),
        ({"examples": ["e"], "enum": ["x"]}, "e"),
        ({"type": ["integer", "null"]}, 1),
        ({"type": []}, {}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 1),
        ({"oneOf": [{"type": "string"}]}, "text"),
        ({"type": "array", "items": {"type": "integer"}}, [1]),
        ({"type": "array"}, [{}]),
        ({"type": "array", "items": False}, []),
        ({"type": "array", "items": False, "prefixItems": [{"type": "integer"}]}, [1]),
        ({"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}, {"b": "text"}),
        (True, {}),
        ({}, {}),
    ],
)
def test_an_example_fits_its_schema(schema: Any, value: Any) -> None:
    assert sample(schema) == value


def test_an_example_ends_where_its_schema_contains_itself() -> None:
    fields = {"child": {"$ref": "#/$defs/Tree", "default": {}}, "name": {"type": "string", "default": "text"}}
    tree = {"type": "object", "properties": fields}
    assert sample({"$ref": "#/$defs/Tree"}, Tree=tree) == {"name": "text"}
    many = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Many"}}},
        "required": ["children"],
    }
    assert sample({"$ref": "#/$defs/Many"}, Many=many) == {"children": []}
    assert sample({"$ref": "#/$defs/Absent"}) == {}
    either = {"anyOf": [{"$ref": "#/$defs/Sum"}, {"type": "integer"}]}
    total = {"type": "object", "properties": {"left": either}, "required": ["left"]}
    assert sample({"$ref": "#/$defs/Sum"}, Sum=total) == {"left": 1}
    endless = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}
    assert sample({"$ref": "#/$defs/Node"}, Node=endless) == {"next": None}, "the agent takes null there"


def test_schemas_are_components_with_names_of_their_own() -> None:
    line = {"title": "Line", "type": "object", "properties": {"title": {"type": "string", "title": "T"}}}
    schema = {
        "title": "buy",
        "type": "object",
        "properties": {
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line-item"}},
            "other": {"$ref": "#/elsewhere"},
        },
        "required": ["lines"],
        "default": {"title": "kept"},
        "$defs": {"line-item": line, "line item": True},
    }
    schemas = document(schemas={"buy": schema})["components"]["schemas"]
    assert schemas.keys() == {"Task", "BuyArguments", "BuyArguments.LineItem", "BuyArguments.LineItem2"}
    assert schemas["BuyArguments"] == {
        "type": "object",
        "properties": {
            "lines": {"type": "array", "items": {"$ref": "#/components/schemas/BuyArguments.LineItem"}},
            "other": {"$ref": "#/elsewhere"},
        },
        "required": ["lines"],
        "default": {"title": "kept"},
    }
    assert schemas["BuyArguments.LineItem"] == {"type": "object", "properties": {"title": {"type": "string"}}}
    assert schemas["BuyArguments.LineItem2"] is True


def test_a_union_names_its_members_where_they_are() -> None:
    """Generators refuse a document with a reference that leads nowhere."""
    members = {"Cat": {"type": "object"}, "Dog": {"type": "object"}}
    mapping = {name.lower(): f"#/$defs/{name}" for name in members}
    pet = {
        "discriminator": {"propertyName": "kind", "mapping": mapping},
        "oneOf": [{"$ref": reference} for reference in mapping.values()],
    }
    schema = {"type": "object", "properties": {"pet": pet}, "$defs": members}
    components = document(schemas={"buy": schema})["components"]["schemas"]
    union = components["BuyArguments"]["properties"]["pet"]
    assert union["discriminator"]["propertyName"] == "kind"
    references = [item["$ref"] for item in union["oneOf"]]
    assert [*union["discriminator"]["mapping"].values()] == references
    assert {reference.removeprefix("#/components/schemas/") for reference in references} <= components.keys()


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "exclusiveMinimum": 3}, 4),
        ({"type": "integer", "maximum": 0}, 0),
        ({"type": "integer", "exclusiveMaximum": 0}, -1),
        ({"type": "integer", "multipleOf": 5}, 5),
        ({"type": "number", "minimum": 0.5, "maximum": 0.75}, 0.5),
        ({"type": "number", "exclusiveMinimum": 0.5}, 1),
        ({"type": "number", "exclusiveMinimum": 0.5, "exclusiveMaximum": 1}, 0.75),
        ({"type": "integer", "multipleOf": 5, "maximum": 4}, 0),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 0}, []),
        (
            {"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "null"}, "minItems": 2},
            [None] * 2,
        ),
        ({"type": "string", "minLength": 6}, "textxx"),
        ({"type": "string", "maxLength": 2}, "te"),
        ({"type": "string", "format": "duration"}, "PT1H"),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
    ],
)
def test_an_example_is_within_limits(schema: Any, value: Any) -> None:
    assert sample(schema) == value
    jsonschema.validate(value, schema)


def test_an_example_has_its_skills_text_and_arguments() -> None:
    """A skill with parameters reads the message's text, too."""

    def parts(**properties: Any) -> Any:
        schema = {"type": "object", "properties": properties}
        content = operation(document(schemas={"hello": schema}))["requestBody"]["content"]["application/json"]
        return content["examples"]["hello"]["value"]["message"]["parts"]

    text = {"text": "Good morning"}
    assert parts(style={"type": "string", "default": "warm"}) == [text, {"data": {"style": "warm"}}]
    assert parts(style={"type": "string"}) == [text]


def test_a_caller_learns_what_the_key_is() -> None:
    for scheme in document()["components"]["securitySchemes"].values():
        assert "`make key`" in scheme["description"]


def test_what_may_be_left_out_and_has_no_default_is_not_in_an_example() -> None:
    """A made-up value would only be refused."""
    properties = {
        "a": {"type": "string", "pattern": "^x$"},
        "b": {"type": "integer", "default": 3},
        "c": {"type": "string", "examples": ["an example"]},
        "d": True,
    }
    schema = {"type": "object", "properties": properties}
    assert sample(schema) == {"b": 3, "c": "an example"}


def test_an_example_stays_short_whatever_its_schema_wants() -> None:
    assert len(sample({"type": "string", "minLength": 1_000_000})) == 100
    assert len(sample({"type": "array", "items": {"type": "integer"}, "minItems": 1_000_000})) == 100


def test_a_skill_whose_id_has_no_letter_is_numbered() -> None:
    schemas = document(schemas={"购买": {}, "下单": {}, "a-b": {}, "a b": {}})["components"]["schemas"]
    assert schemas.keys() == {"Task", "Skill1Arguments", "Skill2Arguments", "ABArguments", "ABArguments2"}


def test_a_deployment_has_its_first_agent_at_the_root_and_the_others_below() -> None:
    schemas = {"buy": {"type": "object", "properties": {}}}
    first, *others = [
        description("shop", schemas=schemas),
        description("a-b", is_root=False, schemas=schemas, sign_ins=[SignIn("idp", "https://idp", [])]),
        description("a_b", is_root=False, schemas=schemas),
    ]
    api = encode_deployment(API, [first, *others])
    assert api["info"]["title"] == "Shop"
    assert api["servers"] == [{"url": "https://base"}]
    assert [tag["name"] for tag in api["tags"]] == ["shop", "a-b", "a_b"]
    assert operation(api)["operationId"] == "sendMessage"
    assert operation(api, "/a2a/a-b/message:send")["operationId"] == "sendMessage_a_b"
    assert operation(api, "/a2a/a_b/message:send")["operationId"] == "sendMessage_a_b2"
    assert operation(api, "/a2a/a-b/tasks/{id}")["tags"] == ["a-b"]
    assert "BuyArguments" in api["components"]["schemas"]
    assert {"ABBuyArguments", "ABBuyArguments2"} <= api["components"]["schemas"].keys()
    assert "openIdConnect-idp" in api["components"]["securitySchemes"]


def test_a_list_without_items_has_an_empty_example() -> None:
    number, text = {"type": "integer"}, {"type": "string"}
    properties = {
        "none": {"type": "array", "items": False},
        "pair": {"type": "array", "items": False, "prefixItems": [number, text]},
        "many": {"type": "array", "items": number},
    }
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    assert sample(schema) == {"none": [], "pair": [1, "text"], "many": [1]}
