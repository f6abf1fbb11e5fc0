"""The wires that a request may speak, and the one that answers it."""

import pytest

from a2a_lambda.errors import InvalidParams, MethodNotFound, VersionNotSupported
from a2a_lambda.wire import negotiation, qianfan, v0_1, v0_3, v0_3_http, v1_0


def test_the_wires_of_a_version() -> None:
    assert [wire.name for wire in negotiation.wires_for("", "1.0.9")] == ["1.0"]
    assert len(negotiation.wires_for("", "")) == len(negotiation.VERSIONS)
    for version in ("2.0", "1", "x", "1.00"):
        with pytest.raises(VersionNotSupported, match="supported: "):
            negotiation.wires_for("", version)
    assert negotiation.wire_named("0.1") is v0_1.WIRE
    assert negotiation.wire_named("of a later release") is v0_3.WIRE


def test_the_wires_of_a_method() -> None:
    every = negotiation.wires_for("", "")
    assert [wire.name for wire in negotiation.wires_with(every, "tasks/get")] == ["0.3", "0.1"]
    assert [wire.name for wire in negotiation.wires_with(every, "GetTask")] == ["1.0"]
    with pytest.raises(MethodNotFound, match=r"is a method of A2A 1.0, but the request is for 0\.2 or 0\.3"):
        negotiation.wires_with([v0_3.WIRE, v0_3_http.WIRE], "GetTask")
    with pytest.raises(MethodNotFound):
        negotiation.wires_with(every, "Unknown")
    for wires in negotiation.DIALECTS.values():
        with pytest.raises(MethodNotFound, match="tools/list is a method of MCP, whose path is /mcp/<agent>"):
            negotiation.wires_with(wires, "tools/list")


def test_the_wire_of_an_error() -> None:
    refusal = VersionNotSupported("A2A-Version is 7.0")
    other = InvalidParams("x")
    wires = [v0_1.WIRE, v0_3.WIRE]
    assert negotiation.wire_for_error(refusal, wires) is v1_0.WIRE
    assert negotiation.wire_for_error(other, wires) is v0_3.WIRE
    assert negotiation.wire_for_error(other, [qianfan.WIRE]) is qianfan.WIRE
