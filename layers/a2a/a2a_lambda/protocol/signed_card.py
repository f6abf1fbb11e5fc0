"""What the signatures of a card are over (A2A 1.0 section 8.4). Signing and verification are elsewhere."""

from collections.abc import Collection

import rfc8785

from a2a_lambda.protocol.model import Json
from a2a_lambda.strictjson import object_in, objects_in

STRICT_CARD_FIELDS = frozenset(
    [
        *("name", "description", "version", "provider", "documentationUrl", "iconUrl", "capabilities"),
        *("supportedInterfaces", "securitySchemes", "securityRequirements", "defaultInputModes"),
        *("defaultOutputModes", "skills", "signatures"),
    ]
)
"""Fields of a card of 1.0 (section 4.4.1)."""

STRICT_CAPABILITY_FIELDS = frozenset({"streaming", "pushNotifications", "extensions", "extendedAgentCard"})

STRICT_SKILL_FIELDS = frozenset(
    [
        *("id", "name", "description", "tags", "examples", "inputModes", "outputModes"),
        "securityRequirements",
    ]
)

STRICT_SCHEME_FIELDS = frozenset(
    [
        *("apiKeySecurityScheme", "httpAuthSecurityScheme", "oauth2SecurityScheme"),
        *("openIdConnectSecurityScheme", "mtlsSecurityScheme"),
    ]
)


def signed_forms(card: dict[str, Json]) -> list[bytes]:
    """The payloads over which a card may be signed, as RFC 8785 JSON. Raises ValueError.

    The first is the card as section 8.4.1 says. The second is what a2a-sdk and @a2a-js/sdk 1.3 make of it
    before they sign or verify: without its empty values, even where these say something.
    """
    fields = {name: value for name, value in card.items() if name != "signatures"}
    return list(dict.fromkeys(rfc8785.dumps(form) for form in (fields, _without_empty(fields))))


def strict_card(card: dict[str, Json]) -> dict[str, Json]:
    """The card with the fields of 1.0 alone. A server of a2a-sdk adds those of 0.3 after it has signed."""
    fields = _select(card, STRICT_CARD_FIELDS)
    if "capabilities" in fields:
        capabilities = _select(object_in(fields, "capabilities"), STRICT_CAPABILITY_FIELDS)
        if "extensions" in capabilities:
            # `required` is false by default, and what is signed has no default value.
            capabilities["extensions"] = [
                {name: value for name, value in extension.items() if (name, value) != ("required", False)}
                for extension in objects_in(capabilities, "extensions")
            ]
        fields["capabilities"] = capabilities
    if "skills" in fields:
        fields["skills"] = [_select(skill, STRICT_SKILL_FIELDS) for skill in objects_in(fields, "skills")]
    if "securitySchemes" in fields:
        schemes = object_in(fields, "securitySchemes")
        fields["securitySchemes"] = {
            name: _select(object_in(schemes, name), STRICT_SCHEME_FIELDS) for name in schemes
        }
    return fields


def _select(fields: dict[str, Json], names: Collection[str]) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if name in names}


def _without_empty(value: Json) -> Json:
    """The value without nulls, and without empty texts, lists and objects, at any depth; None if nothing is
    left."""
    if isinstance(value, dict):
        fields = {name: _without_empty(child) for name, child in value.items()}
        return {name: child for name, child in fields.items() if child is not None} or None
    if isinstance(value, list):
        return [item for child in value if (item := _without_empty(child)) is not None] or None
    return None if value == "" else value
