"""Errors as JSON-RPC and HTTP+JSON have them (A2A 1.0 section 5.4, google.rpc.Code)."""

import re

import pytest

from a2a_lambda import errors
from a2a_lambda.errors import ProtocolError
from a2a_lambda.protocol.model import Json
from a2a_lambda.wire import v0_3
from a2a_lambda.wire.shared import fields
from a2a_lambda.wire.shared.error_json import A2A_CODES, ERROR_INFO, encode_error, encode_http_error

FAILURES = [
    (errors.ParseError("x"), 400, "INVALID_ARGUMENT", "PARSE_ERROR"),
    (errors.InvalidRequest("x"), 400, "INVALID_ARGUMENT", "INVALID_REQUEST"),
    (errors.MethodNotFound("x"), 404, "UNIMPLEMENTED", "METHOD_NOT_FOUND"),
    (errors.InvalidParams("x"), 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
    (errors.InternalError(), 500, "INTERNAL", "INTERNAL_ERROR"),
    (errors.TaskNotFound("x"), 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    (errors.TaskNotCancelable("x"), 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    (
        errors.PushNotificationNotSupported("x"),
        400,
        "FAILED_PRECONDITION",
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
    ),
    (errors.UnsupportedOperation("x"), 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    (errors.ContentTypeNotSupported("x"), 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
    (
        errors.ExtendedAgentCardNotConfigured("x"),
        400,
        "FAILED_PRECONDITION",
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    ),
    (errors.ExtensionSupportRequired("x"), 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED"),
    (errors.UnsupportedMediaType("x"), 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
    (errors.VersionNotSupported("x"), 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
    (errors.Unauthenticated("x"), 401, "UNAUTHENTICATED", ""),
    (errors.Forbidden("x"), 403, "PERMISSION_DENIED", ""),
    (errors.RouteNotFound("x"), 404, "NOT_FOUND", ""),
    (errors.MethodNotAllowed("PUT", ["GET"]), 405, "UNIMPLEMENTED", ""),
    (errors.RequestTooLarge("x"), 413, "INVALID_ARGUMENT", ""),
    (errors.TooManyCalls("x"), 429, "RESOURCE_EXHAUSTED", ""),
    (errors.TooManyRequests("x", after=3), 429, "RESOURCE_EXHAUSTED", ""),
    (errors.Unavailable("x"), 503, "UNAVAILABLE", ""),
]


@pytest.mark.parametrize(
    ("error", "http", "name", "reason"), FAILURES, ids=[type(row[0]).__name__ for row in FAILURES]
)
def test_an_error_has_the_status_of_its_kind(error: ProtocolError, http: int, name: str, reason: str) -> None:
    answer, body = encode_http_error(error)
    assert answer == body["error"]["code"] == http
    assert body["error"]["status"] == name
    assert body["error"]["message"] == str(error)
    reasons = [detail["reason"] for detail in body["error"]["details"] if detail["@type"] == ERROR_INFO]
    assert reasons == ([reason] if reason else [])
    rpc = encode_error(error)
    assert (rpc["code"], rpc["message"]) == (error.code, str(error))
    # JSON-RPC's own codes need no reason.
    assert rpc.get("data", []) == (body["error"]["details"] if error.code in A2A_CODES else [])


def test_an_error_names_the_field_that_is_wrong() -> None:
    path = "params.message.parts[0].text"
    _, body = encode_http_error(errors.InvalidParams(f"{path} must be text", path=path))
    assert body["error"]["message"] == "Invalid parameters: message.parts[0].text must be text", (
        "no params here"
    )
    [info, detail] = body["error"]["details"]
    assert info["reason"] == "INVALID_PARAMS", "some clients read the first detail only"
    [violation] = detail["fieldViolations"]
    assert violation["field"] == "message.parts[0].text"
    assert "must be text" in violation["description"]


@pytest.mark.parametrize(("path", "data"), [("params.message", {"path": "params.message"}), (None, None)])
def test_an_error_of_0_3_names_the_field_in_its_data(path: str | None, data: object) -> None:
    assert v0_3.encode_error(errors.InvalidParams("must be text", path=path)).get("data") == data


@pytest.mark.parametrize("error", [errors.ExtensionSupportRequired("x"), errors.VersionNotSupported("x")])
def test_older_versions_do_not_get_codes_of_1_0(error: errors.ProtocolError) -> None:
    assert v0_3.encode_error(error)["code"] == errors.InvalidRequest.code


@pytest.mark.parametrize(
    ("value", "path", "text"),
    [
        (3, "params.message", "params.message must be an object"),
        (None, "params.message", "params.message is missing: it must be an object"),
        (None, "params.parts[0]", "params.parts[0] must be an object"),  # null
    ],
)
def test_a_field_of_a_wrong_kind_is_missing_or_wrong(value: Json, path: str, text: str) -> None:
    with pytest.raises(errors.InvalidParams, match=re.escape(text)):
        fields.mapping(value, path)
