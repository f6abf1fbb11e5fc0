"""What a skill sees: the message, the conversation, the context's memory, the client's metadata."""

import copy
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import a2a_lambda.protocol.alibaba_metadata as suite
from a2a_lambda import strictjson
from a2a_lambda.errors import MemoryFull
from a2a_lambda.protocol.model import Json, Message, Part, decode_raw, text_of
from a2a_lambda.tasks.context import Add, Change, Context, Delete, Put, Utterance, apply_changes
from a2a_lambda.tasks.head import Pending
from a2a_lambda.tasks.identity import KEPT_REQUESTS, AnsweredRequest

CONVERSATION_LENGTH = 40
"""Entries of conversation a context keeps."""

CONVERSATION_BYTES = 64_000
"""JSON bytes of conversation a context keeps. A turn that is larger by itself is not kept."""

MEMORY_BYTES = 256_000
"""JSON bytes of memory a context keeps."""

NO_TEXT = "(no text)"
"""What a model is given for a message that says nothing: its APIs refuse an empty text."""


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file the user sent: `content` is its bytes, or None when there is only a `url`."""

    name: str | None
    media_type: str | None
    content: bytes | None
    url: str | None


class Memory:
    """The context's map, kept across turns and containers. Values are JSON, at most 256,000 bytes of it.

    Changes are stored when the turn ends, all or none; `add` adds to what is there then, so turns
    that run at the same time lose nothing.
    """

    def __init__(self, stored: Mapping[str, Json]) -> None:
        self._values = dict(stored)
        self._bytes = {key: _memory_bytes(key, value) for key, value in stored.items()}
        self.changes: list[Change] = []

    def get(self, key: str, default: Json = None) -> Json:
        """A copy of a value: only `set`, `add` and `delete` change the memory."""
        return copy.deepcopy(self._values.get(key, default))

    def set(self, key: str, value: Json) -> None:
        """Raises MemoryFull, and TypeError or ValueError for what JSON cannot carry."""
        self._change(Put(key, strictjson.loads(strictjson.verified(value))))

    def add(self, key: str, number: int | float = 1) -> int | float:
        """Add to a number, 0 when absent; returns the sum as this turn sees it.

        Raises MemoryFull, and TypeError when the value is no number.
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
        values = apply_changes(self._values, [change])
        if change.key in values:
            needed = _memory_bytes(change.key, values[change.key])
            total = sum(self._bytes.values()) - self._bytes.get(change.key, 0) + needed
            # What makes it smaller is let through, whatever there is.
            if total > MEMORY_BYTES and needed > self._bytes.get(change.key, 0):
                raise MemoryFull(
                    f"The conversation's memory is full: with {change.key!r} it would take {total:,} bytes of"
                    f" JSON, and at most {MEMORY_BYTES:,} are kept."
                )
            self._bytes[change.key] = needed
        else:
            self._bytes.pop(change.key, None)
        self._values = values
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
        each entry has role ("user" or "agent"), text, parts and task. The last 40 entries are kept, and
        at most 64,000 bytes of them.
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
                decode_raw(part["raw"]) if "raw" in part else None,
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

    def messages(
        self, *, user: str = "user", assistant: str = "assistant", blocks: bool = False
    ) -> list[dict[str, Json]]:
        """The conversation with this message as its end, as a model's API takes it: entries alternate, the
        first and the last are the user's, and none is empty. A turn without a reply is left out.

        turn.messages()                         OpenAI and Anthropic: {"role": …, "content": "text"}
        turn.messages(blocks=True)              Bedrock Converse: {"role": …, "content": [{"text": "…"}]}
        turn.messages(assistant="model")        another name for a role

        Structured values are given as JSON; a file as its name in brackets, since history keeps no bytes.
        """
        said: list[tuple[str, str]] = []
        earlier = [(entry.role, _plain(entry.parts)) for entry in self.history]
        for (first, question), (second, reply) in itertools.pairwise(earlier):
            if (first, second) == ("user", "agent") and question and reply:
                said += [(user, question), (assistant, reply)]
        said.append((user, _plain(self.parts) or NO_TEXT))
        return [{"role": role, "content": [{"text": text}] if blocks else text} for role, text in said]

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


def conclude(
    context: Context,
    turn: Turn,
    reply: Sequence[Part],
    seen: AnsweredRequest | None = None,
    *,
    meant: bool = True,
) -> Context:
    """The context after a turn; the same object when the turn's changes are already in.

    reply: parts the agent said, or asked. seen: the request that was answered. meant: the turn ended as its
    skill meant; of one that failed, memory keeps nothing, and another try of it counts.
    Raises TypeError when memory cannot be changed as the turn said, MemoryFull when other turns have
    filled it meanwhile.
    """
    requests = context.requests
    if seen is not None and seen not in requests:
        others = [other for other in requests if other["key"] != seen["key"]]
        requests = (*others, seen)[-KEPT_REQUESTS:]
    if turn.id in context.turns:
        return context if requests is context.requests else replace(context, requests=requests)
    context = context.before(turn.id, turn.task_id)
    memory = apply_changes(context.memory, turn.memory.changes) if meant else context.memory
    if len(strictjson.dumps(memory)) > MEMORY_BYTES:
        raise MemoryFull(f"The conversation's memory is full: at most {MEMORY_BYTES:,} bytes are kept.")
    said = [_utterance("user", turn.parts, turn.task_id)]
    if reply:
        said.append(_utterance("agent", reply, turn.task_id))
    failed = tuple(other for other in context.failed if other != turn.id)
    return replace(
        context,
        memory=memory,
        conversation=_bounded(context.conversation, said),
        turns=(*context.turns, turn.id)[-KEPT_REQUESTS:] if meant else context.turns,
        failed=failed if meant else (*failed, turn.id)[-KEPT_REQUESTS:],
        requests=requests,
    )


def _utterance(role: Literal["user", "agent"], parts: Sequence[Part], task: str) -> Utterance:
    kept = [part.copy() for part in parts]
    for part in kept:
        part.pop("raw", None)
    return Utterance(role, kept, task)


def _bounded(before: Sequence[Utterance], said: Sequence[Utterance]) -> tuple[Utterance, ...]:
    """The newest turns within the bounds, each whole: what was said to an agent and what it replied. A turn
    that is too large by itself is left out, and those before it stay."""
    turns: list[list[Utterance]] = []
    for entry in before:
        if entry.role == "user" or not turns:
            turns.append([])
        turns[-1].append(entry)
    kept: list[Utterance] = []
    room = CONVERSATION_BYTES
    for entries in reversed([*turns, list(said)]):
        size = sum(len(strictjson.dumps(entry.parts)) for entry in entries)
        if size > CONVERSATION_BYTES:
            continue
        room -= size
        if room < 0 or len(kept) + len(entries) > CONVERSATION_LENGTH:
            break
        kept = entries + kept
    return tuple(kept)


def _memory_bytes(key: str, value: Json) -> int:
    """What a value adds to the memory's JSON."""
    return len(strictjson.dumps({key: value}))


def _plain(parts: Sequence[Part]) -> str:
    """Parts as text for a model."""
    said: list[str] = []
    for part in parts:
        if "text" in part:
            said.append(part["text"])
        elif "data" in part:
            said.append(strictjson.dumps(part["data"]).decode())
        else:
            said.append(f"[file: {part.get('filename') or part.get('url') or part.get('mediaType') or '?'}]")
    return "\n".join(text for text in said if text.strip())
