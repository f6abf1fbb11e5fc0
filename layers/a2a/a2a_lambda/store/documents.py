"""JSON in binary attributes of items. It is compressed, because DynamoDB charges for each KB."""

import base64
import zlib
from collections.abc import Mapping
from typing import Any

from a2a_lambda import strictjson

WINDOW_BITS, MEMORY_LEVEL = 14, 7
"""Parameters of zlib's compressor. With its defaults, a head would take twice as long, and become no
smaller."""


def pack(document: Any) -> dict[str, bytes]:
    """The attribute with a document. Raises ValueError or TypeError for one that is not JSON."""
    compressor = zlib.compressobj(zlib.Z_BEST_SPEED, zlib.DEFLATED, WINDOW_BITS, MEMORY_LEVEL)
    return {"B": compressor.compress(strictjson.dumps(document)) + compressor.flush()}


def unpack(attribute: Mapping[str, Any]) -> bytes:
    """JSON text of an attribute, which an earlier commit of the kit may have stored uncompressed. Raises
    zlib.error, ValueError, TypeError or KeyError for another attribute."""
    value = attribute["B"]
    body = base64.b64decode(value) if isinstance(value, str) else bytes(value)  # text in Lambda's events
    return body if body.startswith(b"{") else zlib.decompress(body)
