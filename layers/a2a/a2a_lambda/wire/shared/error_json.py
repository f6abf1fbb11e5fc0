"""Errors of A2A 1.0: JSON-RPC errors with details, and google.rpc.Status over HTTP.

Source: https://github.com/a2aproject/A2A, tag v1.0.1, docs/specification.md, sections 5.4, 9.5 and 11.6.
Patch versions are not negotiated (section 3.6), so 1.0.0 has the same HTTP statuses.
"""

from collections.abc import Mapping
from typing import NamedTuple

from a2a_lambda.errors import ProtocolError
from a2a_lambda.protocol.model import Json
from a2a_lambda.wire.shared.fields import Object

ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
DOMAIN = "a2a-protocol.org"


class ErrorKind(NamedTuple):
    """How an error is called over HTTP and gRPC.

    reason: `reason` of the ErrorInfo detail. rpc_code: name in google.rpc.Code. http: HTTP status.
    """

    reason: str
    rpc_code: str
    http: int


ERROR_KINDS: Mapping[int, ErrorKind] = {
    -32700: ErrorKind("PARSE_ERROR", "INVALID_ARGUMENT", 400),
    -32600: ErrorKind("INVALID_REQUEST", "INVALID_ARGUMENT", 400),
    -32601: ErrorKind("METHOD_NOT_FOUND", "UNIMPLEMENTED", 404),
    -32602: ErrorKind("INVALID_PARAMS", "INVALID_ARGUMENT", 400),
    -32603: ErrorKind("INTERNAL_ERROR", "INTERNAL", 500),
    -32001: ErrorKind("TASK_NOT_FOUND", "NOT_FOUND", 404),
    -32002: ErrorKind("TASK_NOT_CANCELABLE", "FAILED_PRECONDITION", 400),
    -32003: ErrorKind("PUSH_NOTIFICATION_NOT_SUPPORTED", "FAILED_PRECONDITION", 400),
    -32004: ErrorKind("UNSUPPORTED_OPERATION", "FAILED_PRECONDITION", 400),
    -32005: ErrorKind("CONTENT_TYPE_NOT_SUPPORTED", "INVALID_ARGUMENT", 400),
    -32006: ErrorKind("INVALID_AGENT_RESPONSE", "INTERNAL", 500),
    -32007: ErrorKind("EXTENDED_AGENT_CARD_NOT_CONFIGURED", "FAILED_PRECONDITION", 400),
    -32008: ErrorKind("EXTENSION_SUPPORT_REQUIRED", "FAILED_PRECONDITION", 400),
    -32009: ErrorKind("VERSION_NOT_SUPPORTED", "FAILED_PRECONDITION", 400),
}

A2A_CODES = range(-32009, -32000)
"""Codes that A2A defines; the others are JSON-RPC's."""

PARAMS = "params."
"""How the path of a field begins. Only JSON-RPC has params."""

RPC_CODES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    409: "ABORTED",
    410: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
"""Names in google.rpc.Code for other errors, by HTTP status."""


def encode_error(error: ProtocolError) -> Json:
    """A JSON-RPC error object."""
    result: Object = {"code": error.code, "message": str(error)}
    if details := _details(error, str(error), has_reason=error.code in A2A_CODES):
        result["data"] = details
    return result


def encode_http_error(error: ProtocolError) -> tuple[int, Json]:
    """HTTP status and body."""
    kind = ERROR_KINDS[error.code]
    http = kind.http if error.status == 200 else error.status
    rpc_code = kind.rpc_code if error.status == 200 else RPC_CODES.get(http, kind.rpc_code)
    text = str(error)
    if error.path is not None:  # this request has no params
        text = text.replace(error.path, error.path.removeprefix(PARAMS))
    # The official SDKs learn from the reason which error it is, even one of JSON-RPC. An error with a status
    # of its own, such as 401, says more with that.
    has_reason = error.code in A2A_CODES or error.status == 200
    details = _details(error, text, has_reason=has_reason)
    body: Object = {"code": http, "status": rpc_code, "message": text, "details": details}
    return http, {"error": body}


def _details(error: ProtocolError, text: str, *, has_reason: bool) -> list[Json]:
    details: list[Json] = []
    if has_reason and (reason := ERROR_KINDS[error.code].reason):
        details.append({"@type": ERROR_INFO, "reason": reason, "domain": DOMAIN, "metadata": {}})
    if error.path is not None:
        violation = {"field": error.path.removeprefix(PARAMS), "description": text}
        details.append({"@type": BAD_REQUEST, "fieldViolations": [violation]})
    return details
