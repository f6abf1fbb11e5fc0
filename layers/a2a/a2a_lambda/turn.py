"""What a skill sees: the message, the conversation, the context's memory, the client's metadata."""

import copy
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import a2a_lambda.metadata as suite
from a2a_lambda import strictjson
from a2a_lambda.context import Add, Change, Context, Delete, Put, Utterance, changed
from a2a_lambda.errors import SkillError
from a2a_lambda.head import REMEMBERED, Pending, Seen
from a2a_lambda.model import Json, Message, Part, decoded, text_of

CONVERSATION_LENGTH = 40
"""Utterances a context keeps."""

CONVERSATION_BYTES = 64_000
"""JSON bytes of conversation a context keeps."""

MEMORY_BYTES = 256_000
"""JSON bytes of memory a context keeps."""


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file the user sent: `content` is its bytes, or None when there is only a `url`."""

    name: str | None
    media_type: str | None
    content: bytes | None
    url: str | None


class Memory:
    """The context's map, kept across turns and containers. Values are JSON.

    Changes are stored when the turn ends, all or none; `add` adds to what is there then, so turns
    that run at the same time lose nothing.
    """

    def __init__(self, stored: Mapping[str, Json]) -> None:
        self._values = dict(stored)
        self.changes: list[Change] = []

    def get(self, key: str, default: Json = None) -> Json:
        """A copy of a value: only `set`, `add` and `delete` change the memory."""
        return copy.deepcopy(self._values.get(key, default))

    def set(self, key: str, value: Json) -> None:
        """Raises TypeError or ValueError for what JSON cannot carry."""
        self._change(Put(key, strictjson.loads(strictjson.verified(value))))

    def add(self, key: str, number: int | float = 1) -> int | float:
        """Add to a number, 0 when absent; returns the sum as this turn sees it.

        Raises TypeError when the value is no number.
        """
        self._change(Add(key, number))
        result: int | float = self._values[key]
        return result

    def delete(self, key: str) -> None:
        self._change(Delete(key))

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def _change(self, change: Change) -> None:
        self._values = changed(self._values, [change])
        self.changes.append(change)


@dataclass(kw_only=True)
class Turn:
    """One message to the agent and what surrounds it.

    id: the same for every run of the turn. attempt: how often it was begun; more than once where a worker
        died.
    deadline: when the turn is ended, on `clock`.
    accepted_output_modes: media types the client can take; empty = any.
    extensions: URIs of the extensions the client activated. request_metadata: that of the request
        around the message.
    history: the conversation before this message, oldest first, across the tasks of its context;
        each entry has role ("user" or "agent"), text, parts and task.
    """

    message: Message
    owner: str = "local"
    agent: str = ""
    task_id: str = ""
    context_id: str = ""
    context: Context = field(default_factory=Context)
    pending: Pending | None = None
    id: str = ""
    attempt: int = 1
    deadline: float | None = None
    accepted_output_modes: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    request_metadata: dict[str, Json] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.memory = Memory(self.context.memory)
        self.slots: dict[str, list[str]] = {}
        self.skill = ""
        self._cancelled = threading.Event()

    @property
    def text(self) -> str:
        """Text parts, a line each."""
        return text_of(self.message["parts"])

    @property
    def parts(self) -> list[Part]:
        """Parts as A2A 1.0 has them, unknown fields included."""
        return self.message["parts"]

    @property
    def files(self) -> list[ReceivedFile]:
        return [
            ReceivedFile(
                part.get("filename"),
                part.get("mediaType"),
                decoded(part["raw"]) if "raw" in part else None,
                part.get("url"),
            )
            for part in self.parts
            if "raw" in part or "url" in part
        ]

    @property
    def data(self) -> list[Json]:
        """Values of the data parts."""
        return [part["data"] for part in self.parts if "data" in part]

    @property
    def history(self) -> Sequence[Utterance]:
        return self.context.conversation

    @property
    def answering(self) -> bool:
        """Whether this message answers a question the skill asked."""
        return self.pending is not None

    @property
    def metadata(self) -> dict[str, Json]:
        """The message's metadata, whole."""
        return self.message.get("metadata", {})

    @property
    def user(self) -> suite.User:
        return suite.user(self.metadata)

    @property
    def device(self) -> suite.Device:
        return suite.device(self.metadata)

    @property
    def location(self) -> suite.Location:
        return suite.location(self.metadata)

    @property
    def images(self) -> list[suite.Image]:
        return suite.images(self.metadata)

    @property
    def parameters(self) -> dict[str, Json]:
        """userDefinedParams, values exact."""
        return suite.mapping(self.metadata, "userDefinedParams")

    @property
    def command_results(self) -> Json:
        """commandResults as the client sent them, or None."""
        return self.metadata.get("commandResults")

    @property
    def chat_id(self) -> str | None:
        return suite.text(self.metadata, "chatId")

    @property
    def cancelled(self) -> bool:
        """Whether somebody canceled the task, or its time is up: a synchronous skill should stop."""
        return self._cancelled.is_set()

    @property
    def time_left(self) -> float:
        """Seconds until the turn is ended; infinite where nothing ends it."""
        return float("inf") if self.deadline is None else max(0.0, self.deadline - self.clock())

    def cancel(self) -> None:
        self._cancelled.set()

    def __repr__(self) -> str:
        return f"Turn(agent={self.agent!r}, task_id={self.task_id!r}, skill={self.skill!r})"


def conclude(context: Context, turn: Turn, reply: Sequence[Part], seen: Seen | None = None) -> Context:
    """The context after a turn; the same object when the turn's changes are already in.

    reply: parts the agent said, or asked. seen: the request that was answered.
    Raises TypeError when memory cannot be changed as the turn said, SkillError when it is full.
    """
    if turn.id in context.turns:
        return context
    memory = changed(context.memory, turn.memory.changes)
    if len(strictjson.dumps(memory)) > MEMORY_BYTES:
        raise SkillError("The conversation's memory is full.")
    said = [_utterance("user", turn.parts, turn.task_id)]
    if reply:
        said.append(_utterance("agent", reply, turn.task_id))
    return replace(
        context,
        memory=memory,
        conversation=_bounded([*context.conversation, *said]),
        turns=(*context.turns, turn.id)[-REMEMBERED:],
        requests=(*context.requests, *([seen] if seen else []))[-REMEMBERED:],
    )


def _utterance(role: Literal["user", "agent"], parts: Sequence[Part], task: str) -> Utterance:
    kept = [part.copy() for part in parts]
    for part in kept:
        part.pop("raw", None)
    return Utterance(role, kept, task)


def _bounded(conversation: Sequence[Utterance]) -> tuple[Utterance, ...]:
    """The newest utterances within the bounds; one that is too large alone goes too."""
    kept: list[Utterance] = []
    room = CONVERSATION_BYTES
    for utterance in reversed(conversation[-CONVERSATION_LENGTH:]):
        room -= len(strictjson.dumps(utterance.parts))
        if room < 0:
            break
        kept.append(utterance)
    return tuple(reversed(kept))
