"""Revisions of MCP, and what differs between them.

Source: https://modelcontextprotocol.io/specification/<revision>
"""

from collections.abc import Mapping

from a2a_lambda.errors import InvalidParams, InvalidRequest, MethodNotFound, ProtocolError, excerpt
from a2a_lambda.protocol.model import Json

STATELESS = "2026-07-28"
"""The revision in which each request stands alone and says what its client can do."""

WITH_HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Revisions that begin with `initialize`, the newest first."""

WITHOUT_LINKS = "2025-03-26"
"""The revision that has no links to files in results."""

SUPPORTED = (STATELESS, *WITH_HANDSHAKE)

META_PREFIX = "io.modelcontextprotocol/"
"""Prefix of the protocol's own keys in `_meta`."""

VERSION_KEY = f"{META_PREFIX}protocolVersion"
CAPABILITIES_KEY = f"{META_PREFIX}clientCapabilities"
SERVER_KEY = f"{META_PREFIX}serverInfo"

TASKS = f"{META_PREFIX}tasks"
"""The extension for long work."""

CONTEXT_KEY = "a2a-lambda/contextId"
"""Key of `_meta`, in a call and in its result: the conversation to continue."""


class HeaderMismatch(InvalidParams):
    """An HTTP header does not match the body."""

    code, status, title = -32020, 400, "Header mismatch"


class CapabilityRequired(InvalidParams):
    """The call needs a capability that its client did not declare."""

    code, status, title = -32021, 400, "A client capability is required"

    def __init__(self, detail: str, capabilities: Mapping[str, Json]) -> None:
        super().__init__(detail)
        self.data: Json = {"requiredCapabilities": dict(capabilities)}


class UnknownRevision(InvalidRequest):
    """The server does not have the revision that a request names."""

    code, status, title = -32022, 400, "Unsupported protocol version"

    def __init__(self, requested: str) -> None:
        super().__init__(f"{excerpt(requested)!r}; supported: {', '.join(SUPPORTED)}")
        self.data: Json = {"supported": [*SUPPORTED], "requested": excerpt(requested)}


RESERVED_CODES = range(-32019, -31999)
"""Codes that MCP has set aside, which A2A uses for its own errors."""


def encode_error(error: ProtocolError) -> dict[str, Json]:
    """A JSON-RPC error object."""
    code = error.code
    if code in RESERVED_CODES:
        code = InvalidParams.code if error.status < 500 else ProtocolError.code
    data = getattr(error, "data", None)
    return {"code": code, "message": str(error), **({} if data is None else {"data": data})}


def status_of(error: ProtocolError, revision: str) -> int:
    """HTTP status of an error. Before the stateless revision, an error of a call is an answer like any
    other."""
    if error.status != 200 or revision != STATELESS:
        return error.status
    return 404 if isinstance(error, MethodNotFound) else 500 if error.code == ProtocolError.code else 400
