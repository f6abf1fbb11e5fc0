"""Mangum, for answers that are returned as a whole."""

from mangum import Mangum
from mangum.adapter import DEFAULT_TEXT_MIME_TYPES
from mangum.types import ASGI

TEXT_TYPES = [*DEFAULT_TEXT_MIME_TYPES, "application/a2a+json"]
"""Media types of text. Mangum encodes all others in base64. A REST API sends that to its clients as it is,
unless it lists the type as binary.
Source: https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-payload-encodings.html
"""


def adapt(app: ASGI) -> Mangum:
    """A Lambda handler of an application."""
    return Mangum(app, lifespan="off", text_mime_types=TEXT_TYPES)
