"""The envelope of a request."""

from typing import Any

import pytest

from a2a_lambda.errors import InvalidRequest
from a2a_lambda.wire.shared import jsonrpc


@pytest.mark.parametrize(
    ("value", "identity", "words"),
    [
        ([], None, "batch"),
        ("x", None, "object"),
        ({"id": 1}, 1, "jsonrpc"),
        ({"jsonrpc": "2.0", "id": True, "method": "m"}, None, "id must"),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "m"}, None, "id must"),
        ({"jsonrpc": "2.0", "id": "x", "method": 7}, "x", "method"),
        ({"jsonrpc": "2.0", "id": "x"}, "x", "method"),
    ],
)
def test_an_envelope_that_is_refused(value: Any, identity: Any, words: str) -> None:
    assert jsonrpc.read_id(value) == identity
    with pytest.raises(InvalidRequest, match=words):
        jsonrpc.decode(value)


@pytest.mark.parametrize("identity", ["x", 0, 7, None])
def test_an_envelope(identity: Any) -> None:
    envelope = jsonrpc.decode({"jsonrpc": "2.0", "id": identity, "method": "m", "params": [1]})
    assert envelope == jsonrpc.Envelope(identity, "m", [1])
    assert jsonrpc.decode({"jsonrpc": "2.0", "method": "m"}) == jsonrpc.Envelope(None, "m", None)


def test_a_whole_number_with_a_fraction_of_zero_is_an_integer() -> None:
    """It is one in JSON Schema, which 0.3 publishes. Some clients have no integers."""
    assert jsonrpc.decode({"jsonrpc": "2.0", "id": 7.0, "method": "m"}).id == 7
