"""A context: what a conversation remembers across its tasks. `store` decides where it is kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from a2a_lambda.protocol.model import Json, Part, text_of
from a2a_lambda.tasks.identity import KnownRequest, RequestIdentity


@dataclass(frozen=True, slots=True)
class Utterance:
    """What one side said in a turn. File parts are kept without their bytes."""

    role: Literal["user", "agent"]
    parts: list[Part]
    task: str

    @property
    def text(self) -> str:
        return text_of(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a conversation remembers.

    revision: grows by one with every write; 0 = not stored yet.
    memory: the agent's own map.
    conversation: the last utterances, oldest first.
    turns: ids of the last turns whose effects are included.
    failed: ids of the last failed turns. Only their utterances are included.
    waiting: id of the task that asked the last question, or "".
    requests: the last requests in it.
    """

    revision: int = 0
    memory: dict[str, Json] = field(default_factory=dict)
    conversation: tuple[Utterance, ...] = ()
    turns: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    waiting: str = ""
    requests: tuple[KnownRequest, ...] = ()

    def before(self, turn: str, task: str) -> "Context":
        """The context as it was before a turn: without what an earlier attempt at the turn said."""
        if turn not in self.turns and turn not in self.failed:
            return self
        said = [
            index
            for index, entry in enumerate(self.conversation)
            if (entry.role, entry.task) == ("user", task)
        ]
        left = tuple(
            entry
            for index, entry in enumerate(self.conversation)
            if entry.task != task or index < max(said, default=0)
        )
        return replace(self, conversation=left)

    def seen(self) -> Json:
        """What a turn sees of the context."""
        said = [[entry.role, entry.parts, entry.task] for entry in self.conversation]
        return {"memory": self.memory, "conversation": said}

    @classmethod
    def of_seen(cls, seen: Json) -> "Context":
        """The same as a context. It cannot be stored in place of the context."""
        said = tuple(Utterance(*entry) for entry in seen["conversation"])
        return cls(memory=seen["memory"], conversation=said)

    def find_request(self, request: RequestIdentity) -> KnownRequest | None:
        """What the context knows of a request, or None. The newest counts."""
        return next((each for each in reversed(self.requests) if each["key"] == request.key), None)


@dataclass(frozen=True, slots=True)
class Add:
    """Change of a memory: add to a number."""

    key: str
    number: int | float


@dataclass(frozen=True, slots=True)
class Put:
    """Change of a memory: set a value."""

    key: str
    value: Json


@dataclass(frozen=True, slots=True)
class Delete:
    """Change of a memory: forget a value."""

    key: str


Change = Add | Put | Delete


def apply_changes(memory: dict[str, Json], changes: Sequence[Change]) -> dict[str, Json]:
    """Memory after changes, in order. Raises TypeError if a change adds to something that is not a number."""
    result = dict(memory)
    for change in changes:
        match change:
            case Add(key, number):
                before = result.get(key, 0)
                if isinstance(before, bool) or not isinstance(before, int | float):
                    raise TypeError(f"memory[{key!r}] is not a number")
                result[key] = before + number
            case Put(key, value):
                result[key] = value
            case Delete(key):
                result.pop(key, None)
    return result
