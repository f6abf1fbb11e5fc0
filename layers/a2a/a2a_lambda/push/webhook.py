"""Checks a webhook that a client sets. Its URL is hostile until proved otherwise, and its secrets must fit
a header."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from a2a_lambda import strictjson
from a2a_lambda.errors import InvalidParams
from a2a_lambda.net.addresses import Refused, Unresolved, is_loopback, resolve
from a2a_lambda.protocol.model import TaskPushNotificationConfig

HEADER = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")
"""Valid value of a header (RFC 9110 section 5.5). Above all, it has no end of line."""

MAX_URL_BYTES = 2_048

MAX_CONFIG_BYTES = 8_192
"""JSON bytes of a config."""


@dataclass(frozen=True, slots=True)
class WebhookPolicy:
    """allow_loopback: this machine's own addresses are allowed, also by http. signs: there is a key for
    JWTs."""

    allow_loopback: bool = False
    signs: bool = False


async def check(config: TaskPushNotificationConfig, policy: WebhookPolicy) -> None:
    """Raises InvalidParams for a URL that must not be called, or a secret that no header can hold.

    A name without an address may get one later. Each call checks it again.
    """
    if len(strictjson.dumps(config)) > MAX_CONFIG_BYTES:
        raise InvalidParams(f"a push notification config may have at most {MAX_CONFIG_BYTES} bytes")
    url = config["url"]
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError:
        raise _invalid_url("is not a url") from None
    if len(url) > MAX_URL_BYTES or not url.isascii() or re.search(r"[\x00-\x20\x7f]", url):
        raise _invalid_url("is not a url")
    is_plain = parts.scheme == "http" and policy.allow_loopback
    if parts.scheme != "https" and not is_plain:
        raise _invalid_url("must be https" + (", or http on this machine" if policy.allow_loopback else ""))
    if not host or parts.username is not None or parts.password is not None:
        raise _invalid_url("must have a host and no user name")
    authentication = config.get("authentication", {})
    values = {
        "token": config.get("token", ""),
        "authentication.scheme": authentication.get("scheme", ""),
        "authentication.credentials": authentication.get("credentials", ""),
    }
    for name, value in values.items():
        if not HEADER.fullmatch(value):
            raise InvalidParams(f"{name} of a push notification config is not a valid header value")
    if wants_jwt(config) and not policy.signs:
        raise InvalidParams("the webhook wants a JWT, but this deployment has no signing key")
    try:
        addresses = await resolve(host, port, allow_loopback=policy.allow_loopback)
    except Unresolved:
        addresses = []
    except Refused as error:
        raise _invalid_url(str(error)) from None
    if is_plain and not (addresses and all(map(is_loopback, addresses))):
        raise _invalid_url("must be https, or http on this machine")


def wants_jwt(config: TaskPushNotificationConfig) -> bool:
    """Whether a webhook wants a signed token (A2A 0.1)."""
    authentication = config.get("authentication", {})
    schemes = [authentication.get("scheme", ""), *authentication.get("schemes", [])]
    return "jwt" in [scheme.lower() for scheme in schemes]


def _invalid_url(reason: str) -> InvalidParams:
    return InvalidParams(f"url of a push notification config: {reason}")
