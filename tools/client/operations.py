"""Pauses and waits of a durable turn, as its status updates report them."""

from a2a_lambda.protocol.model import Json
from a2a_lambda.strictjson import text_in

ANY_WAIT = ("wait", "")
"""A wait whose name is not known."""


class OpenOperations:
    """What a turn pauses or waits for. Its branches may do so at the same time, while others run steps."""

    def __init__(self) -> None:
        self._open: set[tuple[str, str]] = set()

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def has_wait(self) -> bool:
        return any(kind == "wait" for kind, _ in self._open)

    def take(self, operation: Json) -> bool:
        """Note what began or ended. False if this is no operation: other kits use the word, too."""
        kind, name, state = (text_in(operation, field) for field in ("kind", "name", "state"))
        if not (kind and name and state):
            return False
        self._open -= {(kind, name), ANY_WAIT}  # from now on, the turn is followed
        if kind in ("wait", "sleep") and state == "started":
            self._open.add((kind, name))
        return True

    def note_unknown(self, *, may_wait: bool) -> None:
        """Note a turn that was not followed. may_wait: it may have begun to wait."""
        self._open |= {ANY_WAIT} if may_wait else set()

    def clear(self) -> None:
        """Begin with another turn."""
        self._open.clear()
