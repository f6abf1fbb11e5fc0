"""What is read can be written again unchanged; the rest is refused."""

from typing import Any

import pytest
from hypothesis import given

from a2a_lambda import strictjson
from a2a_lambda.errors import ParseError
from tests.wire.objects import values


@given(values)
def test_values_come_back(value: Any) -> None:
    assert strictjson.loads(strictjson.dumps(value)) == value


@given(values)
def test_a_copy_is_equal_and_shares_no_array_and_no_object(value: Any) -> None:
    copy = strictjson.copy_of(value)
    assert copy == value
    originals, copies = [value], [copy]
    while originals:
        original, its_copy = originals.pop(), copies.pop()
        if isinstance(original, dict | list):
            assert its_copy is not original
            originals += original.values() if isinstance(original, dict) else original
            copies += its_copy.values() if isinstance(its_copy, dict) else its_copy


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[1e999]", "beyond the range of a double"),
        ("[NaN]", "NaN"),
        ('{"a":1,"b":2,"a":3}', 'duplicate key "a"'),
        (r'["\ud800"]', "surrogate"),
        (r'["\uDC00\uD800"]', "surrogate"),
        ("[" * 65 + "]" * 65, "64 levels"),
        ("[-" + "9" * 309 + "]", "beyond the range"),
        ("1" * 4301, "beyond the range"),
        ("[1", "line 1, column"),
    ],
)
def test_refused(text: str, what: str) -> None:
    with pytest.raises(ParseError, match=what):
        strictjson.loads(text.encode())


def test_at_the_limits() -> None:
    deep = "[" * 64 + "]" * 64
    assert strictjson.dumps(strictjson.loads(deep.encode())) == deep.encode()
    assert strictjson.loads(b"9" * 308) == int("9" * 308)
    assert strictjson.dumps_verified(["9" * 400, 10**308]) == b'["%s",1%s]' % (b"9" * 400, b"0" * 308)
    with pytest.raises(ValueError, match=r"^a number is beyond the range of a double$"):
        strictjson.dumps_verified({"data": [10**320]})
    nested: Any = ()
    for _ in range(75):
        nested = (nested,)
    assert strictjson.dumps_verified(nested)
    with pytest.raises(ValueError, match=r"^nested deeper than 76 levels$"):
        strictjson.dumps_verified((nested,))
    with pytest.raises(ValueError, match=r"^nested deeper than 64 levels$"):
        strictjson.dumps_verified(nested, strictjson.MAX_DEPTH)
    assert strictjson.loads(rb'"\ud83d\ude00 \\ud800"') == "😀 \\ud800"
