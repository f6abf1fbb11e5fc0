"""What a head says about the durable execution that runs its turn."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

CALLBACK_PATH = "callbacks"
"""First part of the path in the URL of a wait."""


@dataclass(frozen=True, slots=True)
class StoredWait:
    """An open wait of a suspended turn, as its head has it.

    key: its name, unique in the turn. callback: AWS's id of the wait, with which the execution is woken.
    is_question: the client was asked. takes_messages: a message of the client ends the wait, too, not only a
    call of its URL. until: Unix time of its timeout, or 0.
    """

    key: str
    callback: str
    is_question: bool = False
    takes_messages: bool = False
    until: float = 0.0


@dataclass(frozen=True, slots=True)
class Execution:
    """A durable execution, which runs one turn.

    url: base URL of the deployment, as the client called it. secret: key that signs the URLs of the turn's
    waits.
    arn: ARN of the execution; "" before its first run.
    is_suspended: no process has the turn. until: Unix time at which a suspended turn continues by itself, or
    0.
    waits: open waits of a suspended turn; of one that a timer has woken, the question that the client was
    asked. wakes: callback ids of waits that have their reply, so that the execution must be woken.
    """

    url: str
    secret: str = field(repr=False)
    arn: str = ""
    is_suspended: bool = False
    until: float = 0.0
    waits: tuple[StoredWait, ...] = ()
    wakes: tuple[str, ...] = ()

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> "Execution":
        """The execution that `document` returned as JSON. Fields of a later release are left out, because a
        turn stays with the release in which it began, and later ones write its head, too."""
        waits = tuple(StoredWait(**_known_fields(StoredWait, wait)) for wait in document["waits"])
        wakes = tuple(document["wakes"])
        return cls(**_known_fields(cls, {**document, "waits": waits, "wakes": wakes}))

    def document(self) -> dict[str, Any]:
        """What is stored as JSON."""
        return asdict(self)

    def find_wait(self, key: str) -> StoredWait | None:
        """The open wait with this key, or None. A turn that runs has none."""
        waits = self.waits if self.is_suspended else ()
        return next((wait for wait in waits if wait.key == key), None)


def _known_fields(kind: Any, document: dict[str, Any]) -> dict[str, Any]:
    """The fields of a document that a dataclass has."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in document.items() if name in names}
