"""Keys that are well formed, and that no one made."""


def unknown(number: int) -> str:
    """A key of the right form that no one made."""
    return f"a2a_{number:043d}"
