"""Text for a terminal."""


def printable(text: str) -> str:
    """Text without control sequences: agents, and pages that call a local server, choose what is in it."""
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)
