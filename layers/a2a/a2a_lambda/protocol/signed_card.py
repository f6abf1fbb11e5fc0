"""What the signatures of a card are over (A2A 1.0 section 8.4). Signing and verification are elsewhere."""

import rfc8785

from a2a_lambda.protocol.model import Json


def signed_forms(card: dict[str, Json]) -> list[bytes]:
    """The payloads over which a card may be signed, as RFC 8785 JSON. Raises ValueError.

    The first is the card as section 8.4.1 says. The second is what a2a-sdk and @a2a-js/sdk 1.3 make of it
    before they sign or verify: without its empty values, even where these say something.
    """
    fields = {name: value for name, value in card.items() if name != "signatures"}
    return list(dict.fromkeys(rfc8785.dumps(form) for form in (fields, _without_empty(fields))))


def _without_empty(value: Json) -> Json:
    """The value without nulls, and without empty texts, lists and objects, at any depth; None if nothing is
    left."""
    if isinstance(value, dict):
        fields = {name: _without_empty(child) for name, child in value.items()}
        return {name: child for name, child in fields.items() if child is not None} or None
    if isinstance(value, list):
        return [item for child in value if (item := _without_empty(child)) is not None] or None
    return None if value == "" else value
