"""Everything the kit raises, under one root.

A `ProtocolError` is an answer to a client: it has the JSON-RPC code and message of the A2A
specification (https://a2a-protocol.org/v0.3.0/specification, section 8) and, where a field is at
fault, its path. Anything else is for the operator and reaches a client only as `InternalError`.
"""

import math
from collections.abc import Mapping


class KitError(Exception):
    """Root of every exception this package raises.

    safe_to_log: its words name ids at most, so they may stand in a log.
    """

    safe_to_log = False


class ConfigurationError(KitError):
    """A card, an agent module, a setting or the template is wrong; names the file and the fix."""

    safe_to_log = True


class SkillError(KitError):
    """Raise it in a skill to end the task as failed with a text the client may read."""


class MemoryFull(SkillError):
    """`turn.memory` has no room for a value. Delete or shorten something, or let it end the turn."""


class StoreError(KitError):
    """The table could not be read or written; nothing is half-written."""

    safe_to_log = True


class WriteRefused(KitError):
    """DynamoDB refused a write as it is: too large, or not valid. To try it again cannot help."""

    safe_to_log = True


class KeysUnavailable(KitError):
    """Parameter Store did not answer, so nobody can be let in or turned away."""

    safe_to_log = True


class ProtocolError(KitError):
    """A JSON-RPC error object.

    code: JSON-RPC error code.
    status: HTTP status it travels with.
    path: JSON path of the field at fault, such as `params.message.parts[0].kind`, or None.
    """

    code = -32603
    status = 200
    title = "Internal error"

    def __init__(self, detail: str = "", *, path: str | None = None) -> None:
        super().__init__(f"{self.title}: {detail}" if detail else self.title)
        self.path = path

    @property
    def headers(self) -> Mapping[str, str]:
        """HTTP headers the answer needs."""
        return {}


class ParseError(ProtocolError):
    code, title = -32700, "Invalid JSON payload"


class InvalidRequest(ProtocolError):
    code, title = -32600, "Request payload validation error"


class MethodNotFound(ProtocolError):
    code, title = -32601, "Method not found"


class InvalidParams(ProtocolError):
    code, title = -32602, "Invalid parameters"


class InternalError(ProtocolError):
    """The server's own fault. Its text never holds the cause: that is in the log."""


class TaskNotFound(ProtocolError):
    code, title = -32001, "Task not found"


class TaskNotCancelable(ProtocolError):
    code, title = -32002, "Task cannot be canceled"


class PushNotificationNotSupported(ProtocolError):
    code, title = -32003, "Push Notification is not supported"


class UnsupportedOperation(ProtocolError):
    code, title = -32004, "This operation is not supported"


class StreamingNotSupported(UnsupportedOperation):
    """The agent's card says that it does not stream."""


class ContentTypeNotSupported(ProtocolError):
    code, title = -32005, "Incompatible content types"


class ExtendedAgentCardNotConfigured(ProtocolError):
    code, title = -32007, "Authenticated Extended Card is not configured"


class ExtensionSupportRequired(ProtocolError):
    code, title = -32008, "Extension support is required"


class VersionNotSupported(ProtocolError):
    code, title = -32009, "Protocol version is not supported"


class UnsupportedMediaType(ContentTypeNotSupported):
    """The HTTP request itself is not JSON. The status is that of A2A 1.0.1 section 5.4."""

    status = 400


class RequestTooLarge(InvalidRequest):
    status, title = 413, "Request too large"


class RouteNotFound(InvalidRequest):
    status, title = 404, "Not found"


class Unauthenticated(InvalidRequest):
    """No key, or one that is not valid. RFC 9110 section 11.6.1 wants the challenge."""

    status, title = 401, "Authentication required"

    @property
    def headers(self) -> Mapping[str, str]:
        return {"WWW-Authenticate": 'Bearer realm="a2a", ApiKey realm="a2a"'}


class Forbidden(InvalidRequest):
    status, title = 403, "This key may not call this agent"


class TooManyStreams(ProtocolError):
    """The owner has as many streams, followers and lasting sends as it may have."""

    status, title = 429, "Too many calls at once"

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": "5"}


class TooManyRequests(ProtocolError):
    """The owner has made as many requests as it may. after: seconds until it may make more."""

    status, title = 429, "Too many requests"

    def __init__(self, detail: str, *, after: float) -> None:
        super().__init__(detail)
        self._after = after

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": str(max(1, math.ceil(self._after)))}


class NotFromOrigin(InvalidRequest):
    """The request did not come through the deployment's CDN."""

    status, title = 403, "Not through the public address"


class Unavailable(ProtocolError):
    """A service behind the kit did not answer in time; the client may try again."""

    status, title = 503, "Service unavailable"

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": "1"}
