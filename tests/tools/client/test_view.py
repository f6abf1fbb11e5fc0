"""What make chat prints."""

import io
import re

import pytest
from rich.console import Console

from tools.client.view import View, split_blocks


@pytest.mark.parametrize("value", ["\x9b2J", "\x90x", "\x7f", "\u202eevil", {"\x9b2J": ["\x85"]}])
def test_no_data_control_the_terminal(value: object) -> None:
    printed = io.StringIO()
    View(Console(file=printed)).show_parts("", [{"data": value}, {"data": "中文"}], append=False)
    assert not set(printed.getvalue()) & set("\x9b\x90\x7f\u202e\x85")
    assert "中文" in printed.getvalue()


def shown(*texts: str, is_terminal: bool = True) -> list[str]:
    """What is printed after each piece of a text, and at its end, without colors."""
    printed = io.StringIO()
    view = View(Console(file=printed, force_terminal=is_terminal, no_color=True, width=80))
    states = []
    for text in texts:
        view.show_parts("a", [{"text": text}], append=True)
        states.append(re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue()))
    view.end_line()
    return [*states, re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue())]


def test_markdown_is_rendered_a_block_at_a_time() -> None:
    first, second, third, end = shown("# Ti", "tle\n\nIt is **bo", "ld**.")
    assert first == ""
    assert "Title" in second
    assert "#" not in second
    assert second == third
    assert "It is bold." in end


def test_a_link_shows_where_it_leads() -> None:
    *_, end = shown("[click](https://example.com/x)")
    assert "click" in end
    assert "https://example.com/x" in end
    assert "\x1b]8" not in end


def test_what_is_no_terminal_gets_the_text_as_it_comes() -> None:
    assert shown("# Ti", "tle\n", is_terminal=False) == ["# Ti", "# Title\n", "# Title\n"]


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("one", ""),
        ("one\n\ntwo", "one\n\n"),
        ("one\n \t\ntwo\n\nthree", "one\n \t\ntwo\n\n"),
        ("a\n\n```\nx\n\ny", "a\n\n"),
        ("```\nx\n\ny\n```\n\nz", "```\nx\n\ny\n```\n\n"),
    ],
)
def test_a_block_ends_with_a_blank_line_outside_of_code(text: str, block: str) -> None:
    assert split_blocks(text) == (block, text[len(block) :])


def test_one_message_is_not_told_what_only_a_conversation_can_do() -> None:
    for is_conversation in (True, False):
        printed = io.StringIO()
        view = View(Console(file=printed, width=80), is_conversation=is_conversation)
        view.show_parts("a", [{"raw": "AAAA", "filename": "a.bin"}], append=False)
        assert ("/save 1 PATH" in printed.getvalue()) == is_conversation
