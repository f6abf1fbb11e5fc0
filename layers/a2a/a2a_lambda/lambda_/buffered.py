"""Mangum, for answers that are returned as a whole; and how an event becomes a request."""

import logging
import re
from collections.abc import Mapping
from typing import Any

from mangum import Mangum
from mangum.adapter import DEFAULT_TEXT_MIME_TYPES
from mangum.protocols import HTTPCycle
from mangum.types import ASGI, LambdaEvent, LambdaHandler
from starlette.types import Scope

TEXT_TYPES = [*DEFAULT_TEXT_MIME_TYPES, "application/a2a+json"]
"""Media types of text. Mangum encodes all others in base64. A REST API sends that to its clients as it is,
unless it lists the type as binary.
Source: https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-payload-encodings.html
"""

UNREADABLE_REQUEST = "The request cannot be read."

READABLE_HOST = re.compile(r"[^:]*(:[0-9]{1,5})?")

logger = logging.getLogger(__name__)


class Unreadable(Exception):
    """The event is no request."""


class Buffered:
    """A Lambda handler of an application."""

    def __init__(self, app: ASGI) -> None:
        self._app = app
        self._mangum = Mangum(app, lifespan="off", text_mime_types=TEXT_TYPES)

    def read(self, event: LambdaEvent, context: Any) -> tuple[LambdaHandler, Scope, bytes]:
        """What answers an event, with the ASGI scope and the body of its request.

        Events are of a REST API, an HTTP API, a function URL or an ALB. Raises Unreadable, and RuntimeError
        for an event of another source.
        """
        try:
            handler = self._mangum.infer(_without_server(event), context)
            # An event of a direct call may have a number there, or half of a character.
            (handler.scope["method"] + handler.scope["path"]).encode()
            return handler, handler.scope, handler.body
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            logger.warning("an event is not a gateway request: %s", type(error).__name__)
            raise Unreadable from error

    def __call__(self, event: LambdaEvent, context: Any) -> dict[str, Any]:
        try:
            handler, scope, body = self.read(event, context)
        except Unreadable:
            headers = {"content-type": "text/plain"}
            return {
                "statusCode": 400,
                "headers": headers,
                "body": UNREADABLE_REQUEST,
                "isBase64Encoded": False,
            }
        return handler(HTTPCycle(scope, body)(self._app))


def _without_server(event: LambdaEvent) -> LambdaEvent:
    """The event without the headers that matter only for the server's address.

    Mangum reads a port in `X-Forwarded-Port`, which is a list after two proxies, and in `Host`, which may be
    anything. The application never reads that address.
    """
    new_event = dict(event)
    for name in ("headers", "multiValueHeaders"):
        if isinstance(event.get(name), Mapping):
            new_event[name] = {
                key: value for key, value in event[name].items() if not _is_of_server(key, value)
            }
    return new_event


def _is_of_server(name: str, value: Any) -> bool:
    match name.lower():
        case "x-forwarded-port":
            return True
        case "host":
            host = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            return not READABLE_HOST.fullmatch(host)
    return False
