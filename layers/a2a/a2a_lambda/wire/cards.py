"""Agent cards of A2A 0.2.5 and 0.3.0, and Alibaba's, from one card.yaml.

Sources: https://a2a-protocol.org/v0.2.5/specification section 5.5, v0.3.0 section 5.5, and the
console's own table for Alibaba's.
"""

from dataclasses import dataclass
from typing import Any

from a2a_lambda.card import Card
from a2a_lambda.metadata import INTENT_EXTENSION, PROTOCOL_EXTENSION
from a2a_lambda.model import Json

Object = dict[str, Json]

SECURITY_SCHEMES: Object = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}


@dataclass(frozen=True, slots=True)
class Description:
    """What a card is made of.

    url: where the agent is called. input_schemas: JSON Schema by skill id.
    """

    card: Card
    url: str
    input_schemas: dict[str, Object]


def v0_2_5(source: Description) -> Object:
    result: Object = {
        "name": source.card.name,
        "description": source.card.description,
        "protocolVersion": "0.2.5",
        "url": source.url,
        "preferredTransport": "JSONRPC",
        "version": source.card.version,
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "stateTransitionHistory": False,
            "extensions": _extensions(source),
        },
        "securitySchemes": SECURITY_SCHEMES,
        "security": [{name: []} for name in SECURITY_SCHEMES],
    }
    about = source.card.model_dump(include={"provider", "documentationUrl", "iconUrl"}, exclude_none=True)
    modes = source.card.model_dump(include={"defaultInputModes", "defaultOutputModes"})
    skills = [skill.model_dump(exclude_none=True) for skill in source.card.skills]
    return {**result, **about, **modes, "skills": skills}


def v0_3_0(source: Description) -> Object:
    return {
        **v0_2_5(source),
        "protocolVersion": "0.3.0",
        "additionalInterfaces": [{"url": source.url, "transport": "JSONRPC"}],
    }


def alibaba(source: Description) -> Object:
    """`security` is a list of strings in the console's table; the empty one is right in both."""
    result = v0_2_5(source)
    capabilities: dict[str, Any] = {"streaming": True, "extensions": _extensions(source)}
    return {**result, "capabilities": capabilities, "security": []}


def _extensions(source: Description) -> list[Object]:
    skills = [{"id": skill, "inputSchema": schema} for skill, schema in source.input_schemas.items()]
    return [
        {"uri": PROTOCOL_EXTENSION, "description": "User, device, location, images; commands", "params": {}},
        {"uri": INTENT_EXTENSION, "description": "Skills called with slots", "params": {"skills": skills}},
    ]
