"""Errors in the form of a revision."""

import pytest

from a2a_lambda.errors import InternalError, InvalidParams, MethodNotFound, ProtocolError, TaskNotFound
from a2a_lambda.wire.mcp.revisions import (
    STATELESS,
    WITH_HANDSHAKE,
    CapabilityRequired,
    HeaderMismatch,
    UnknownRevision,
    encode_error,
    status_of,
)


def test_errors_of_mcp_have_its_codes() -> None:
    assert encode_error(HeaderMismatch("a")) == {"code": -32020, "message": "Header mismatch: a"}
    assert encode_error(CapabilityRequired("a", {"elicitation": {}})) == {
        "code": -32021,
        "message": "A client capability is required: a",
        "data": {"requiredCapabilities": {"elicitation": {}}},
    }
    error = encode_error(UnknownRevision("2020-01-01"))
    assert error["code"] == -32022
    assert error["data"] == {"supported": [STATELESS, *WITH_HANDSHAKE], "requested": "2020-01-01"}
    assert "supported: 2026-07-28, 2025-11-25" in error["message"]


def test_a_long_revision_is_cut() -> None:
    error = encode_error(UnknownRevision("x" * 1000))
    assert error["data"]["requested"] == "x" * 100 + "…"
    assert "x" * 100 in error["message"]
    assert "x" * 101 not in error["message"]


def test_codes_that_mcp_has_set_aside_are_not_used_for_errors_of_a2a() -> None:
    assert TaskNotFound("a").code == -32001
    assert encode_error(TaskNotFound("a"))["code"] == InvalidParams.code

    class Reserved(TaskNotFound):
        code = -32019

    class Free(TaskNotFound):
        code = -32020

    class Fault(TaskNotFound):
        code, status = -32000, 500

    assert encode_error(Reserved("a"))["code"] == InvalidParams.code
    assert encode_error(Free("a"))["code"] == -32020
    assert encode_error(Fault("a"))["code"] == ProtocolError.code


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MethodNotFound("a"), 404),
        (InvalidParams("a"), 400),
        (HeaderMismatch("a"), 400),
        (CapabilityRequired("a", {}), 400),
        (UnknownRevision("a"), 400),
    ],
)
def test_the_stateless_revision_has_a_status_for_each_error(error: ProtocolError, status: int) -> None:
    assert status_of(error, STATELESS) == status


def test_before_it_an_error_of_a_call_is_an_answer() -> None:
    assert status_of(InvalidParams("a"), WITH_HANDSHAKE[0]) == 200
    assert status_of(MethodNotFound("a"), WITH_HANDSHAKE[0]) == 200
    assert status_of(HeaderMismatch("a"), WITH_HANDSHAKE[0]) == 400
    assert status_of(InternalError(), STATELESS) == 500
