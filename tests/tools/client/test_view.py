"""What make chat prints."""

import io

import pytest
from rich.console import Console

from tools.client.view import View


@pytest.mark.parametrize("value", ["\x9b2J", "\x90x", "\x7f", "\u202eevil", {"\x9b2J": ["\x85"]}])
def test_no_data_control_the_terminal(value: object) -> None:
    printed = io.StringIO()
    View(Console(file=printed)).show_parts("", [{"data": value}, {"data": "中文"}], append=False)
    assert not set(printed.getvalue()) & set("\x9b\x90\x7f\u202e\x85")
    assert "中文" in printed.getvalue()
