"""Errors at the edge: what is raised inside, as an HTTP response."""

import logging
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from a2a_lambda import strictjson, telemetry, tracing
from a2a_lambda.errors import FilesUnavailable, InternalError, ProtocolError, StoreError, Unavailable
from a2a_lambda.wire import v0_3
from a2a_lambda.wire.shared import jsonrpc
from a2a_lambda.wire.shared.error_json import encode_http_error

logger = logging.getLogger(__name__)

JSON = "application/json"


NO_STORE = {"Cache-Control": "no-store"}
"""For answers that belong to a caller: a cache in front need not know the header of the key."""


def report_error(error: Exception) -> ProtocolError:
    """The error that the client gets. The cause goes to the log, unless it is the client's mistake. A server
    fault is counted: JSON-RPC may send it with status 200, which no metric of AWS counts."""
    refusal: ProtocolError
    if isinstance(error, ProtocolError):
        logger.info("refused: %d %s", error.code, type(error).__name__)
        refusal = error
    else:
        logger.error("a request failed", exc_info=error)
        if isinstance(error, FilesUnavailable):
            refusal = Unavailable("the file store did not answer; try again")
        elif isinstance(error, StoreError):
            refusal = Unavailable("the task store did not answer; try again")
        else:
            refusal = InternalError("the request failed; the server's log has the cause")
    if isinstance(refusal, InternalError | Unavailable):
        telemetry.measure({"Faults": 1})
        tracing.current().fail(type(refusal).__name__)
    return refusal


def is_fault_on_lambda(cause: Exception, request: Request) -> bool:
    """Whether a stream that has sent its client an error must raise it, too: Lambda learns of a server
    fault only from what is raised. An error of the client, such as a task that it lost, is no fault."""
    return not isinstance(cause, ProtocolError) and "aws.streamed" in request.scope


def failure_response(cause: Exception) -> Response:
    """Response of a request that is not one of A2A's, such as an upload or a callback."""
    error = report_error(cause)
    status, body = encode_http_error(error)
    return Response(strictjson.dumps(body), status, error.headers, JSON)


def error_response(
    error: ProtocolError,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Response with a JSON-RPC error, if the request's version is not known. It has the form of 0.3, which
    every client can read."""
    return Response(
        jsonrpc.error(None, v0_3.encode_error(error)),
        status or error.status,
        {**error.headers, **(headers or {})},
        JSON,
    )
