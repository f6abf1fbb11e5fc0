"""What make chat prints."""

import io
import re

import pytest
from rich.console import Console

from tests.helpers.clock import cpu_seconds
from tools.client.view import Blocks, View
from tools.terminal import printable


@pytest.mark.parametrize("value", ["\x9b2J", "\x90x", "\x7f", "\u202eevil", {"\x9b2J": ["\x85"]}])
def test_no_data_control_the_terminal(value: object) -> None:
    output = io.StringIO()
    View(Console(file=output)).show_parts("", [{"data": value}, {"data": "中文"}], append=False)
    assert not set(output.getvalue()) & set("\x9b\x90\x7f\u202e\x85")
    assert "中文" in output.getvalue()


def shown(*texts: str, is_terminal: bool = True) -> list[str]:
    """What is printed after each piece of a text, and at its end, without colors."""
    output = io.StringIO()
    view = View(Console(file=output, force_terminal=is_terminal, no_color=True, width=80))
    states = []
    for text in texts:
        view.show_parts("a", [{"text": text}], append=True)
        states.append(re.sub(r"\x1b\[[0-9;]*m", "", output.getvalue()))
    view.end_line()
    return [*states, re.sub(r"\x1b\[[0-9;]*m", "", output.getvalue())]


def test_markdown_is_rendered_a_block_at_a_time() -> None:
    first, second, third, end = shown("# Ti", "tle\n\nIt is **bo", "ld**.")
    assert first == ""
    assert "Title" in second
    assert "#" not in second
    assert second == third
    assert "It is bold." in end


def test_paragraphs_stay_apart_however_they_come() -> None:
    page = shown("one\n\ntwo\n\nthree")[-1]
    assert shown("one\n\nt", "wo\n\nthr", "ee")[-1] == page
    assert [line.strip() for line in page.split("\n")] == ["one", "", "two", "", "three", ""]


def test_what_is_no_markdown_is_shown_as_it_is_written() -> None:
    """Names in angle brackets, HTML, and ends of lines are shown as on the page."""
    *_, end = shown("Use List<String> and <b>x</b>.\n\n<details>\nhidden\n</details>\n\nName: x\nAge: y")
    for line in ("Use List<String> and <b>x</b>.", "<details>", "hidden", "Name: x\n", "Age: y"):
        assert line.rstrip() in end
    assert "Name: x Age" not in end


def test_a_deep_list_is_shown_to_its_last_level() -> None:
    levels = 15
    text = "".join(f"{'  ' * level}- level {level}\n" for level in range(levels)) + "\nafter it\n"
    output = "\n".join(shown(text))
    assert f"level {levels - 1}" in output
    assert "after it" in output


def test_a_control_character_that_is_written_as_html_is_shown() -> None:
    *_, end = shown("invoice&#x202e;fdp.exe and `raw`")
    assert "\\u202efdp.exe" in end
    assert "\u202e" not in end


def test_spaces_and_joined_letters_are_no_control_characters() -> None:
    """Chinese, French, Persian and pictures need them."""
    text = "你好\u3000世界 1\u202f000\u00a0€ می\u200cخواهم 👨\u200d👧\r\nnext"
    assert printable(text) == text.replace("\r\n", "\n")
    assert printable("a\rb") == r"a\rb"


def test_a_file_elsewhere_names_its_host() -> None:
    output = io.StringIO()
    view = View(Console(file=output, width=200))
    for url in ("http://127.0.0.1:9/x", "http://["):
        view.show_parts("", [{"url": url, "filename": "https://good.example/report.pdf"}], append=False)
    assert "at 127.0.0.1:9: /save 1 PATH" in output.getvalue()


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
        ("````md\n```\nx\n```\n\ny\n````\n\nz", "````md\n```\nx\n```\n\ny\n````\n\n"),
        ("~~~\n```\n\ny\n~~~\n\nz", "~~~\n```\n\ny\n~~~\n\n"),
    ],
)
def test_a_block_ends_with_a_blank_line_outside_of_code(text: str, block: str) -> None:
    for size in (1, 2, 100):
        blocks = Blocks()
        complete = "".join(blocks.add(text[at : at + size]) for at in range(0, len(text), size))
        assert (complete, blocks.end()) == (block, text[len(block) :])


def test_long_code_that_comes_in_pieces_takes_linear_time() -> None:
    def show(lines: int) -> None:
        blocks = Blocks()
        text = "```\n" + "x = 1\n\n" * lines
        for at in range(0, len(text), 8):
            blocks.add(text[at : at + 8])

    assert cpu_seconds(lambda: show(20_000)) < 40 * cpu_seconds(lambda: show(2_000))


def shown_parts(*calls: tuple[str, str, bool]) -> str:
    """What is printed of texts: artifact, text, append."""
    output = io.StringIO()
    view = View(Console(file=output, width=80))
    for place, text, append in calls:
        view.show_parts(place, [{"text": text}], append=append)
    view.end_line()
    return output.getvalue()


@pytest.mark.parametrize("until", ["9999-12-31T23:59:59-12:00", "soon", 5])
def test_an_operation_may_end_at_a_time_that_no_clock_shows(until: object) -> None:
    console = Console(record=True, width=80)
    View(console).show_operation({"kind": "sleep", "state": "started", "until": until})
    assert console.export_text().strip() == "⏸ sleeps"


def test_each_artifact_begins_a_line() -> None:
    assert shown_parts(("a", "one", False), ("b", "two", False)) == "one\ntwo\n"


def test_an_artifact_that_grows_is_shown_once() -> None:
    artifact_states = [("a", text, False) for text in ("Hel", "Hello", "Hello you", "Hello you")]
    assert shown_parts(*artifact_states) == "Hello you\n"
    assert shown_parts(("a", "Hel", False), ("a", "lo", True), ("a", "Hello", False)) == "Hello\n"


def test_a_task_that_comes_twice_is_shown_once() -> None:
    output = io.StringIO()
    view = View(Console(file=output, width=80))
    for _ in range(2):
        view.show_parts("a", [{"text": "one"}, {"text": " two"}], append=False)
    view.end_line()
    assert output.getvalue() == "one two\n"


def test_an_artifact_that_changes_is_shown_again() -> None:
    changes = [("a", text, False) for text in ("one", "two", "two")]
    assert shown_parts(*changes) == "one\ntwo\n"


def test_metadata_of_other_agents_may_be_anything() -> None:
    output = io.StringIO()
    view = View(Console(file=output, width=80))
    value: object
    for value in (None, 3, "x", {}, [None], [1]):
        view.show_commands({"commands": value})
        view.show_choices({"choices": value})
    view.show_choices({"choices": ["a", None, "b"]})
    assert output.getvalue() == "answers: a, b\n"


def test_one_message_is_not_told_what_only_a_conversation_can_do() -> None:
    for is_conversation in (True, False):
        output = io.StringIO()
        view = View(Console(file=output, width=80), is_conversation=is_conversation)
        view.show_parts("a", [{"raw": "AAAA", "filename": "a.bin"}], append=False)
        assert ("/save 1 PATH" in output.getvalue()) == is_conversation
