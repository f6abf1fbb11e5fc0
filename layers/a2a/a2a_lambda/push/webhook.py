"""Checks a webhook that a client sets. Its URL is hostile until proved otherwise, and its secrets must fit
a header."""

import re
from dataclasses import dataclass

from a2a_lambda import strictjson
from a2a_lambda.errors import InvalidParams
from a2a_lambda.net.addresses import Refused, Unresolved, check_webhook_url, resolve
from a2a_lambda.protocol.card import HEADER_PATTERN
from a2a_lambda.protocol.model import TaskPushNotificationConfig

HEADER = re.compile(HEADER_PATTERN)

MAX_CONFIG_BYTES = 8_000
"""Maximum size of a config's JSON, in bytes."""


@dataclass(frozen=True, slots=True)
class WebhookPolicy:
    """Which webhooks a deployment may call.

    allow_loopback: this machine's own addresses are allowed, even over http. signs: there is a key for
    JWTs.
    """

    allow_loopback: bool = False
    signs: bool = False


async def check(config: TaskPushNotificationConfig, policy: WebhookPolicy) -> None:
    """Raises InvalidParams for a URL that must not be called, or a secret that no header can hold.

    A name without an address may get one later. Each call checks it again.
    """
    if len(strictjson.dumps(config)) > MAX_CONFIG_BYTES:
        raise InvalidParams(f"a push notification config may have at most {MAX_CONFIG_BYTES} bytes")
    try:
        host, port = check_webhook_url(config["url"], allow_loopback=policy.allow_loopback)
    except Refused as error:
        raise _invalid_url(str(error)) from None
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
        raise InvalidParams(
            "the webhook wants a JWT, but this deployment has no signing key: use another scheme, such as"
            " Bearer"
        )
    try:
        await resolve(host, port, allow_loopback=policy.allow_loopback)
    except Unresolved:
        pass
    except Refused as error:
        raise _invalid_url(str(error)) from None


def wants_jwt(config: TaskPushNotificationConfig) -> bool:
    """Whether a webhook wants a signed token (A2A 0.1)."""
    authentication = config.get("authentication", {})
    schemes = [authentication.get("scheme", ""), *authentication.get("schemes", [])]
    return "jwt" in [scheme.lower() for scheme in schemes]


def _invalid_url(reason: str) -> InvalidParams:
    return InvalidParams(f"`url` of a push notification config: {reason}")
