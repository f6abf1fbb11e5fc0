"""Keys and tokens, as a header carries them."""

import re

from a2a_lambda.errors import ConfigurationError

KEY = re.compile(r"[!-~](?:[ -~]*[!-~])?")
"""Visible ASCII, with spaces inside. RFC 9110 section 5.5 allows more, which no key has."""


def check_key(key: str) -> str:
    """The key, or token, if a header can carry it. Raises ConfigurationError, because the text of an HTTP
    client's error would have the key in it."""
    if not KEY.fullmatch(key):
        raise ConfigurationError(
            "the key begins or ends with white space, or contains a character that a header cannot carry:"
            " remove that character"
        )
    return key


class BearerToken(str):
    """A token. It goes into `Authorization: Bearer` only, whatever header a card names for keys."""

    __slots__ = ()


def bearer_header(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def card_headers(key: str) -> dict[str, str]:
    """Headers with which a card is read: before that, no one knows which of the two the agent wants."""
    return bearer_header(key) if isinstance(key, BearerToken) else {"X-API-Key": key, **bearer_header(key)}
