"""What a card lacks for the clients of a version."""

import pytest

from tools.agents.card_checks import check_card


@pytest.mark.parametrize(
    ("url", "is_good"),
    [
        ("https://a.example/", True),
        ("HTTPS://a.example/", True),
        ("http://127.0.0.1:8080/", True),
        ("http://a.example/", False),
        ("httpsx://a.example/", False),
        ("", False),
    ],
)
def test_alibabas_console_wants_https(url: str, *, is_good: bool) -> None:
    """A scheme may be in capitals."""
    findings = {name: result for name, result, _ in check_card("alibaba", {"url": url, "skills": []})}
    assert findings["url is https"] is is_good
