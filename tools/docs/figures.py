"""Figures in the docs that a command writes, between two marks."""

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def written(page: str, command: str, text: str) -> str:
    """A page with a new text between the marks of a command."""
    start, end = f"<!-- figures: {command} -->\n", "<!-- end of figures -->\n"
    head, _, rest = page.partition(start)
    _, _, tail = rest.partition(end)
    wrapper = textwrap.TextWrapper(118, break_long_words=False, break_on_hyphens=False)
    lines = "\n".join(line if line.startswith("|") else wrapper.fill(line) for line in text.split("\n"))
    return f"{head}{start}\n{lines}\n\n{end}{tail}"


def write(page: Path, command: str, text: str) -> None:
    page.write_text(written(page.read_text("utf-8"), command, text), "utf-8")
