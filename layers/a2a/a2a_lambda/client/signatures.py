"""Verifies the signature of another agent's card."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import product
from typing import Any

from a2a_lambda import strictjson
from a2a_lambda.client.discovery import Undiscovered
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.protocol.model import Json, encode_base64url

VERIFIED_ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]
"""Algorithms with asymmetric keys only, because with a symmetric one the public key could sign."""

SIGNATURES = 8
"""Maximum signatures of a card that are looked at."""

VERIFIED_CARD_BYTES = 1_000_000
"""Maximum size of a card whose signatures are checked, in bytes, because each is checked with each key."""

Jwks = Mapping[str, Json]
"""Public keys (RFC 7517 section 5): {"keys": […]}."""


def signed_part(card: dict[str, Json], keys: Jwks, source: str) -> dict[str, Json]:
    """The part of a card that one of the keys has signed, with the signatures: the whole card, or only its
    fields of 1.0, and perhaps without empty values.

    source: URL of the card. The URLs in the headers of its signatures are not followed, because someone who
    changes a card would name a key of their own. Raises Undiscovered if no signature is by one of the keys,
    and ConfigurationError if the keys are no public keys.
    """
    from joserfc import errors, jwk, jws  # only a client with `verify` needs these

    from a2a_lambda.protocol.signed_card import signed_forms, strict_card

    key_document: Any = dict(keys)
    try:
        key_set = jwk.KeySet.import_key_set(key_document)
    except (ValueError, TypeError, KeyError, errors.JoseError) as error:
        raise ConfigurationError(f"verify is not a set of public keys: {error!r}") from None
    forms_by_payload: dict[str, bytes] = {}
    for part in (card, strict_card(card)):
        with suppress(ValueError):
            for form in signed_forms(part):
                if len(form) > VERIFIED_CARD_BYTES:
                    raise Undiscovered(
                        f"{source}: a card of more than {VERIFIED_CARD_BYTES} bytes is not verified"
                    )
                forms_by_payload[encode_base64url(form)] = form
    registry = jws.JWSRegistry(algorithms=VERIFIED_ALGORITHMS, strict_check_header=False)
    # What a header says about its key is ignored, and so are unknown fields (RFC 7515 section 4), unless
    # `crit` names them: it may name only what is in this registry.
    registry.header_registry = {}
    registry.max_header_length = registry.max_payload_length = 2 * VERIFIED_CARD_BYTES
    signatures: Any = card.get("signatures")
    for signature in signatures[:SIGNATURES] if isinstance(signatures, list) else ():
        # Every key is tried, because a `kid` is optional, and need not be unique (RFC 7517 section 4.5).
        for payload, key in product(forms_by_payload, key_set.keys):
            try:
                token = f"{signature['protected']}.{payload}.{signature['signature']}"
                jws.deserialize_compact(token, key, registry=registry)
                return {**strictjson.loads(forms_by_payload[payload]), "signatures": signatures}
            except (ValueError, TypeError, KeyError, errors.JoseError):
                continue
    raise Undiscovered(f"{source}: none of the keys in `verify` has signed the card")
