"""Verifies the signature of another agent's card."""

from collections.abc import Mapping
from itertools import product
from typing import Any

from a2a_lambda.client.discovery import Undiscovered
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.protocol.model import Json, encode_base64url

VERIFIED_ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]
"""Algorithms with asymmetric keys only, because with a symmetric one the public key could sign."""

SIGNATURES = 8
"""Maximum signatures of a card that are looked at."""

Jwks = Mapping[str, Json]
"""Public keys (RFC 7517 section 5): {"keys": […]}."""


def check_signature(card: Mapping[str, Json], keys: Jwks, source: str) -> None:
    """Raises Undiscovered if no signature of a card is by one of the keys, and ConfigurationError if the keys
    are no public keys.

    source: URL of the card. The URLs in the headers of its signatures are not followed, because someone who
    changes a card would name a key of their own.
    """
    from joserfc import errors, jwk, jws  # only a client with `verify` needs these

    from a2a_lambda.protocol.signed_card import signed_forms

    key_document: Any = dict(keys)
    try:
        key_set = jwk.KeySet.import_key_set(key_document)
    except (ValueError, TypeError, KeyError, errors.JoseError) as error:
        raise ConfigurationError(f"verify is not a set of public keys: {error!r}") from None
    try:
        payloads = [encode_base64url(form) for form in signed_forms(dict(card))]
    except ValueError:
        payloads = []
    signatures: Any = card.get("signatures")
    for signature in signatures[:SIGNATURES] if isinstance(signatures, list) else ():
        # Every key is tried, because a `kid` is optional, and need not be unique (RFC 7517 section 4.5).
        for payload, key in product(payloads, key_set.keys):
            try:
                token = f"{signature['protected']}.{payload}.{signature['signature']}"
                jws.deserialize_compact(token, key, algorithms=VERIFIED_ALGORITHMS)
                return
            except (ValueError, TypeError, KeyError, errors.JoseError):
                continue
    raise Undiscovered(f"{source}: none of the keys in `verify` has signed the card")
