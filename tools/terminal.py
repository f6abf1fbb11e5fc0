"""What a terminal can show safely."""

import unicodedata

INDENT = "\n    "
"""After an end of line within a line of a log: no text can look like a line of its own."""


def printable(text: str) -> str:
    """Text without control sequences: agents, and pages that call a local server, choose what is in it. Ends
    of lines, tabs, spaces of any width, and what joins letters or pictures stay."""
    return "".join(
        char
        if char.isprintable() or char in "\n\t\u200c\u200d" or unicodedata.category(char) == "Zs"
        else repr(char)[1:-1]
        for char in text.replace("\r\n", "\n")
    )


def log_text(text: str) -> str:
    """Printable text for a line of a log."""
    return printable(text).replace("\n", INDENT)
