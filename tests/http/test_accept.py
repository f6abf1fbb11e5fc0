"""Which media types a client takes."""

import pytest
from starlette.requests import Request

from a2a_lambda.http.request import accepted_types


@pytest.mark.parametrize(
    ("lines", "types"),
    [
        ([], set()),
        ([""], set()),
        (["Text/Event-Stream"], {"text/event-stream"}),
        (["application/json;q=0.5, */*;q=0"], {"application/json"}),
        (["a/b; q=0.0", "c/d;charset=utf-8"], {"c/d"}),
        (["text/html, application/*"], {"text/html", "application/*"}),
        (["application/x-text/event-stream"], {"application/x-text/event-stream"}),
    ],
)
def test_the_types_in_all_lines_of_accept(lines: list[str], types: set[str]) -> None:
    """Source: https://www.rfc-editor.org/rfc/rfc9110#section-12.5.1"""
    request = Request({"type": "http", "headers": [(b"accept", line.encode()) for line in lines]})
    assert accepted_types(request) == types
