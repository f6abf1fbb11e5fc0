"""What a skill sees: the message, the conversation, the memory, and the client's metadata."""

import copy
import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

from a2a_lambda import strictjson
from a2a_lambda.agent.configuration import Configuration, process_configuration
from a2a_lambda.agent.steps import Steps, running_branch, running_step
from a2a_lambda.durable.engine import Engine
from a2a_lambda.errors import ConfigurationError, MemoryFull, ParseError
from a2a_lambda.protocol import alibaba_metadata
from a2a_lambda.protocol.caller import LOCAL_CALLER, Caller
from a2a_lambda.protocol.model import Json, Message, Part, RequestOptions, text_of
from a2a_lambda.protocol.stored_file import is_reference
from a2a_lambda.tasks.context import (
    MEMORY_BYTES,
    Add,
    Context,
    Delete,
    MemoryChange,
    Put,
    Utterance,
    apply_changes,
)
from a2a_lambda.tasks.head import Head, Pending

if TYPE_CHECKING:
    from a2a_lambda.agent.files.interface import FileStore
    from a2a_lambda.agent.files.message_files import ReceivedFile
    from a2a_lambda.agent.files.model_blocks import Api


class Memory:
    """The conversation's memory, kept across turns. Values are JSON, at most 256,000 bytes in all.

    Changes are stored when the turn ends, all or none. `add` adds to the number that is stored then, so turns
    that run at the same time lose nothing.
    """

    __slots__ = ("_bytes", "_total_bytes", "_values", "changes")  # `turn.memory.visits = 1` would be lost

    def __init__(self, values: Mapping[str, Json]) -> None:
        self._values = dict(values)
        self._bytes = {key: len(strictjson.dumps({key: value})) for key, value in values.items()}
        self._total_bytes = sum(self._bytes.values())
        self.changes: list[MemoryChange] = []

    def get(self, key: str, default: Json = None) -> Json:
        """A copy of a value. Only `set`, `add` and `delete` change the memory."""
        return copy.deepcopy(self._values.get(key, default))

    def set(self, key: str, value: Json) -> None:
        """Store a value. Raises MemoryFull, and TypeError or ValueError for what JSON cannot hold."""
        try:
            stored_value = strictjson.loads(strictjson.dumps_verified(value, strictjson.MAX_DEPTH))
        except (TypeError, ValueError, ParseError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"memory[{key!r}] must be JSON, such as a string, a list or a dict: {error}") from None
        self._change(Put(key, stored_value))

    def add(self, key: str, number: int | float = 1) -> int | float:
        """Add to a number, which is 0 if it is absent; returns the sum as this turn sees it.

        Raises MemoryFull, and TypeError if the value is not a number.
        """
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise TypeError(f"memory.add({key!r}, …) adds a number, not {type(number).__name__}")
        self._change(Add(key, number))
        result: int | float = self._values[key]
        return result

    def delete(self, key: str) -> None:
        """Remove a value, if there is one."""
        self._change(Delete(key))

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report it

        def __setitem__(self, key: str, value: Json) -> None:
            raise TypeError(f"write turn.memory.set({key!r}, …)")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter([*self._values])  # as they are now: a skill may delete each of them

    def _change(self, change: MemoryChange) -> None:
        step = running_step.get()
        if step or running_branch.get() is not None:
            source = f"step {step!r}" if step else "a branch of turn.parallel"
            raise ConfigurationError(
                f"{source} changes turn.memory, and a replay would not: return the value from it, and change"
                " the memory outside of steps and branches"
            )
        if not isinstance(change.key, str):
            raise TypeError(f"a memory key must be a string: write str(…), not {change.key!r}")
        change.key.encode()  # raises ValueError for half of a character
        # This entry alone, because an agent may store thousands of them.
        key = change.key
        entry = apply_changes({key: self._values[key]} if key in self._values else {}, [change])
        size, old_size = len(strictjson.dumps(entry)) if entry else 0, self._bytes.get(key, 0)
        total = self._total_bytes + size - old_size
        if total > MEMORY_BYTES and size > old_size:  # a smaller value is always allowed
            raise MemoryFull(
                f"The conversation's memory is full: with {key!r} it would have {total:,} bytes of JSON, and"
                f" at most {MEMORY_BYTES:,} are allowed."
            )
        self._total_bytes, self._bytes[key] = total, size
        if not entry:
            self._values.pop(key, None)
        self._values |= entry
        self.changes.append(change)


@dataclass(kw_only=True)
class Turn(Steps):
    """A message to the agent, and what surrounds it. Steps and waits are for durable skills.

    owner: who owns the task. agent: name of the agent. task_id: id of the task. context_id: id of the
        conversation. memory: the conversation's memory.
    id: the same in every attempt at the turn. attempt: 1, or more if a worker has died.
    deadline: a `time.monotonic()` value, when the turn must end; None = never.
    accepted_output_modes: media types that the client accepts; empty = any. caller: who sent the message.
    extensions: URIs of the extensions that the client activated. request_metadata: the request's metadata.
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
    caller: Caller = LOCAL_CALLER
    configuration: Configuration = field(default_factory=process_configuration, repr=False)
    engine: Engine | None = field(default=None, repr=False)
    file_store: "FileStore | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        # A skill may change its message. What the client said stays as it is, for the conversation, too.
        self.sent_parts = self.message["parts"]
        self.message = strictjson.copy_of(self.message)
        self._answer: list[Part] = []
        self._history: Sequence[Utterance] = ()
        self.memory = Memory(self.context.memory)
        self.slots: dict[str, list[str]] = {}
        self.json_arguments: dict[str, Json] = {}
        self.skill, self.file_count = "", 0
        self._operations = []
        self._cancelled = threading.Event()

    @property
    def text(self) -> str:
        """The text of the message. Several text parts are joined by line breaks."""
        return text_of(self.message["parts"])

    @property
    def parts(self) -> list[Part]:
        """Parts as in A2A 1.0, with unknown fields."""
        return self.message["parts"]

    @property
    def files(self) -> "list[ReceivedFile]":
        """The files of the message."""
        return self.files_in(self.parts)

    def files_in(self, parts: Sequence[Part]) -> "list[ReceivedFile]":
        """The files among parts, such as those of a reply, or of an entry of the history."""
        from a2a_lambda.agent.files.message_files import ReceivedFile

        return [ReceivedFile(part, self.file_store) for part in parts if "raw" in part or "url" in part]

    @property
    def data(self) -> list[Json]:
        """Values of the data parts."""
        return [part["data"] for part in self.parts if "data" in part]

    @property
    def history(self) -> Sequence[Utterance]:
        """The conversation before this message, across tasks, oldest first. Each entry has role ("user" or
        "agent"), text, parts and task. The last 40 are kept, and at most 64,000 bytes of them."""
        # A copy, because a skill that changes it must not change what is stored.
        self._history = self._history or copy.deepcopy(self.context.conversation)
        return self._history

    def messages(
        self,
        *,
        user: str = "user",
        assistant: str = "assistant",
        blocks: "bool | Api" = False,
        files: bool = False,
    ) -> list[Any]:
        """The conversation with this message at its end, as a model's API takes it. Entries alternate, the
        first and the last are the user's, and none is empty: a message without text is "(no text)". A turn
        without a reply is left out.

        turn.messages()                         OpenAI and Anthropic: {"role": …, "content": "text"}
        turn.messages(blocks=True)              Bedrock Converse: {"role": …, "content": [{"text": "…"}]}
        turn.messages(files=True)               OpenAI: the last entry has blocks, with pictures and PDFs
        turn.messages(blocks="anthropic", files=True)   the same for Anthropic, and "bedrock" for Converse
        turn.messages(assistant="model")        another name for a role

        Structured values become JSON. A file becomes its name in brackets. With `files`, the call reads the
        files of the message: it blocks, and raises SkillError as `ReceivedFile.read` does.
        """
        from a2a_lambda.agent.files import model_blocks

        entries: list[tuple[str, str]] = []
        earlier: list[tuple[str, str]] = []
        for entry in self.history:
            words = model_blocks.plain_text(entry.parts)
            if entry.is_reply and earlier and earlier[-1][0] == "user":  # to a wait without a question
                words = "\n".join(filter(None, (earlier.pop()[1], words)))
            earlier.append((entry.role, words))
        for (first, question), (second, reply) in itertools.pairwise(earlier):
            if (first, second) == ("user", "agent") and reply:
                entries += [(user, question or model_blocks.NO_TEXT), (assistant, reply)]
        text = model_blocks.plain_text(self._answer or self.parts) or model_blocks.NO_TEXT
        entries.append((user, text))
        if not blocks and not (files and self.files):
            return [{"role": role, "content": content} for role, content in entries]
        api: Api = "bedrock" if blocks is True else blocks or "openai"
        if api not in (apis := get_args(model_blocks.Api)):
            raise ValueError(f"unknown blocks={api!r}: write one of {', '.join(map(repr, apis))}")
        result: list[dict[str, Json]] = [
            {"role": role, "content": [model_blocks.text_block(api, content)]} for role, content in entries
        ]
        if files:
            result[-1]["content"] += model_blocks.file_blocks(api, self.files)
        return result

    def secret(self, name: str) -> str:
        """A secret, such as the key of a model's API. Set it with `make secret`. It never reaches a log.

        On AWS it is read when first needed, and again after five minutes. This blocks for a moment, or for
        some seconds while Parameter Store throttles it. Raises ConfigurationError if it is not set.
        """
        return self.configuration.secret(name)

    def setting(self, name: str, default: str | None = None) -> str:
        """A setting, such as the name of a model. Set it with `make setting`. It is read like a secret."""
        return self.configuration.setting(name, default)

    @property
    def answering(self) -> bool:
        """Whether this message answers a question that this skill asked."""
        pending = self.pending
        return pending is not None and pending["skill"] == self.skill and "call" not in pending

    @property
    def call(self) -> list[Part]:
        """Parts of the message that calls the skill. If this message answers the kit's question for a missing
        parameter, they are those of the message that lacked it, with the files and the data of this one."""
        if self.pending is None or self.pending["skill"] != self.skill or "call" not in self.pending:
            return self.sent_parts
        return [*self.pending["call"], *(part for part in self.sent_parts if "text" not in part)]

    def take_call(self) -> None:
        """Show the skill the message that called it instead of this one, with which `messages` still ends."""
        if (call := self.call) is not self.sent_parts:
            self._answer = self.message["parts"]
            self.message["parts"] = strictjson.copy_of(call)

    @property
    def metadata(self) -> dict[str, Json]:
        """All metadata of the message."""
        return self.message.get("metadata", {})

    @property
    def user(self) -> alibaba_metadata.User:
        """The user, as Alibaba's suite identifies them."""
        return alibaba_metadata.user(self.metadata)

    @property
    def device(self) -> alibaba_metadata.Device:
        """The user's device, as Alibaba's suite describes it."""
        return alibaba_metadata.device(self.metadata)

    @property
    def location(self) -> alibaba_metadata.Location:
        """Where the user is, as Alibaba's suite says."""
        return alibaba_metadata.location(self.metadata)

    @property
    def images(self) -> list[alibaba_metadata.Image]:
        """Pictures in the metadata of Alibaba's suite. A large one that came as base64 has a URL, which is
        valid for an hour. Signing the first URL of a process takes a tenth of a second."""
        images = alibaba_metadata.images(self.metadata)
        for index, image in enumerate(images):
            # `files/inbox` has checked the references of this type alone.
            is_stored = image.type == "url" and is_reference({"url": image.value})
            if is_stored and self.file_store is not None:
                images[index] = replace(image, value=self.file_store.link(image.value, "picture", ""))
        return images

    @property
    def parameters(self) -> dict[str, Json]:
        """userDefinedParams of Alibaba's suite, with their exact values."""
        return strictjson.object_in(self.metadata, "userDefinedParams")

    @property
    def command_results(self) -> Json:
        """commandResults as the client sent them, or None."""
        return self.metadata.get("commandResults")

    @property
    def chat_id(self) -> str | None:
        """The chat's id in Alibaba's suite."""
        return alibaba_metadata.text(self.metadata, "chatId")

    @property
    def cancelled(self) -> bool:
        """Whether the task was canceled, or its time is up. A synchronous skill should stop then."""
        return self._cancelled.is_set()

    @property
    def time_left(self) -> float:
        """Seconds until the turn must end; infinite if it has no deadline."""
        return float("inf") if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def cancel(self) -> None:
        self._cancelled.set()

    def __repr__(self) -> str:
        return f"Turn(agent={self.agent!r}, task_id={self.task_id!r}, skill={self.skill!r})"


def make_turn(
    head: Head,
    message: Message,
    options: RequestOptions,
    *,
    context: Context,
    pending: Pending | None,
    deadline: float | None,
    engine: Engine | None = None,
) -> Turn:
    """The turn of a message, as its skill sees it.

    deadline: a `time.monotonic()` value. engine: keeps a durable turn's results, and is None for other turns.
    """
    return Turn(
        message=message,
        owner=head.namespace.owner,
        agent=head.namespace.agent,
        task_id=head.task_id,
        context_id=head.context_id,
        context=context,
        pending=pending,
        id=head.turn_id,
        attempt=head.attempts,
        deadline=deadline,
        accepted_output_modes=tuple(options["acceptedOutputModes"]),
        extensions=tuple(options["extensions"]),
        request_metadata=options["metadata"],
        caller=Caller.of_document(head.namespace.owner, options.get("caller", {})),
        engine=engine,
    )
