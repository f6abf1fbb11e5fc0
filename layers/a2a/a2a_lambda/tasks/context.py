"""A context: what a conversation remembers across its tasks. `store` decides where it is kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from types import MappingProxyType
from typing import Literal, NamedTuple

from a2a_lambda import strictjson
from a2a_lambda.errors import MemoryFull
from a2a_lambda.protocol.model import Json, Part, text_of
from a2a_lambda.tasks.identity import KEPT_REQUESTS, KnownRequest

CONVERSATION_LENGTH = 40
"""Maximum entries of the conversation that a context keeps."""

CONVERSATION_BYTES = 64_000
"""Maximum JSON bytes of the conversation that a context keeps. It does not keep a turn that is larger on
its own."""

MEMORY_BYTES = 256_000
"""Maximum JSON bytes of the memory that a context keeps."""

UNDO_BYTES = 16_000
"""Maximum JSON bytes of the values before a turn that a context keeps, in case the turn runs again."""

KEPT_EXCHANGES = 10
"""Questions of a durable turn, with their replies, that a context keeps: the last ones."""

KEPT_QUESTIONS = 4
"""Tasks with an earlier question that a context keeps: the last ones."""

KEPT_TURNS = 40
"""Turns that a context knows. One that runs again after this many others have ended counts twice."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """What one side said in a turn. File parts are kept without their bytes.

    is_reply: the user's reply to a question within a durable turn. It begins no turn.
    """

    role: Literal["user", "agent"]
    parts: list[Part]
    task: str
    is_reply: bool = False

    @property
    def text(self) -> str:
        return text_of(self.parts)


class Undo(NamedTuple):
    """The values that a turn's changes replaced in the memory.

    turn_id: the turn; "" = none, or its values are more than UNDO_BYTES. values: by key, a list of the
    value, or an empty list if there was none.
    """

    turn_id: str = ""
    values: Mapping[str, list[Json]] = MappingProxyType({})


NO_CHANGE = Undo()


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a conversation remembers.

    revision: grows by one with every write; 0 = not stored yet.
    memory: the agent's own map.
    conversation: the last utterances, oldest first.
    turns: ids of the last turns whose effects are included.
    failed_turns: ids of the last failed turns. Only their utterances are included.
    omitted_turns: ids of the last turns that are too large for the conversation.
    asking_task_id: id of the task that asked the last question, or "".
    earlier_asking_tasks: ids of the tasks that asked before it, and whose turns have not ended since.
    requests: the last requests in it.
    undo: what undoes the last change of the memory.
    """

    revision: int = 0
    memory: dict[str, Json] = field(default_factory=dict)
    conversation: tuple[Utterance, ...] = ()
    turns: tuple[str, ...] = ()
    failed_turns: tuple[str, ...] = ()
    omitted_turns: tuple[str, ...] = ()
    asking_task_id: str = ""
    earlier_asking_tasks: tuple[str, ...] = ()
    requests: tuple[KnownRequest, ...] = ()
    undo: Undo = NO_CHANGE

    def before(self, turn_id: str, task_id: str) -> "Context":
        """The context as a turn sees it: without what an earlier attempt at the turn said, and without its
        changes to the memory. It must not be stored.

        The memory stays changed if another turn has changed it since, or if `undo` had no room for it.
        """
        if turn_id not in self.turns and turn_id not in self.failed_turns:
            return self
        memory = self.memory
        if self.undo.turn_id == turn_id:
            values = self.undo.values
            memory = {key: value for key, value in memory.items() if key not in values}
            memory |= {key: value[0] for key, value in values.items() if value}
        if turn_id in self.omitted_turns:
            return replace(self, memory=memory)
        message_indexes = [
            index
            for index, entry in enumerate(self.conversation)
            if (entry.role, entry.task, entry.is_reply) == ("user", task_id, False)
        ]
        conversation = tuple(
            entry
            for index, entry in enumerate(self.conversation)
            if entry.task != task_id or index < max(message_indexes, default=0)
        )
        return replace(self, memory=memory, conversation=conversation)

    def after(self, record: "TurnRecord") -> "Context":
        """The context after a turn; the same object if it already includes the turn.

        Raises TypeError if the memory cannot be changed as the turn says, MemoryFull if other turns have
        filled it meanwhile.
        """
        by_key: dict[str, KnownRequest] = {}
        for request in sorted((*self.requests, *record.answered), key=itemgetter("at")):
            by_key.pop(request["key"], None)  # its newest occurrence counts
            by_key[request["key"]] = request
        requests = tuple(by_key.values())[-KEPT_REQUESTS:]
        turn_id = record.turn_id
        if turn_id in self.turns:
            return self if requests == self.requests else replace(self, requests=requests)
        memory, turns, undo = self.memory, self.turns, self.undo
        failures = tuple(other for other in self.failed_turns if other != turn_id)
        if record.was_ended_by_skill:
            # The changes, and not the memory as the turn saw it: other turns may have changed it meanwhile.
            memory = apply_changes(memory, record.changes)
            turns = (*turns, turn_id)[-KEPT_TURNS:]
            if keys := {change.key for change in record.changes}:
                values = {key: [self.memory[key]] if key in self.memory else [] for key in keys}
                undo = Undo(turn_id, values) if len(strictjson.dumps(values)) <= UNDO_BYTES else NO_CHANGE
        else:
            # A failed turn leaves no memory, but what was said stays in the conversation, so that the next
            # turn can refer to it.
            failures = (*failures, turn_id)[-KEPT_TURNS:]
        if len(strictjson.dumps(memory)) > MEMORY_BYTES:
            raise MemoryFull(f"The conversation's memory is full: at most {MEMORY_BYTES:,} bytes are kept.")
        new_utterances = record.utterances()
        # Without its questions, the turn may fit: its message and its reply are kept first.
        while record.exchanges and _size_of(new_utterances) > CONVERSATION_BYTES:
            record = replace(record, exchanges=record.exchanges[-KEPT_EXCHANGES:][1:])
            new_utterances = record.utterances()
        conversation = _trim(self.before(turn_id, record.task_id).conversation, new_utterances)
        omissions = tuple(other for other in self.omitted_turns if other != turn_id)
        if _size_of(new_utterances) > CONVERSATION_BYTES:
            omissions = (*omissions, turn_id)[-KEPT_TURNS:]
        return replace(
            self,
            memory=memory,
            conversation=conversation,
            turns=turns,
            failed_turns=failures,
            omitted_turns=omissions,
            requests=requests,
            undo=undo,
        )

    def with_question_of(self, task_id: str) -> "Context":
        """The context in which a task has asked the last question."""
        if self.asking_task_id == task_id:
            return self
        earlier_tasks = [
            other for other in (*self.earlier_asking_tasks, self.asking_task_id) if other and other != task_id
        ]
        return replace(
            self, asking_task_id=task_id, earlier_asking_tasks=tuple(earlier_tasks[-KEPT_QUESTIONS:])
        )

    def without_question_of(self, task_id: str) -> "Context":
        """The context in which a task waits for no answer, because its turn has ended."""
        if task_id != self.asking_task_id and task_id not in self.earlier_asking_tasks:
            return self
        asking_task_id = "" if self.asking_task_id == task_id else self.asking_task_id
        earlier_tasks = tuple(other for other in self.earlier_asking_tasks if other != task_id)
        return replace(self, asking_task_id=asking_task_id, earlier_asking_tasks=earlier_tasks)

    def turn_document(self) -> Json:
        """What a turn sees of the context."""
        return {"memory": self.memory, "conversation": self.conversation_rows()}

    def conversation_rows(self) -> list[Json]:
        """The conversation as JSON: a list of the fields of each utterance."""
        return [[entry.role, entry.parts, entry.task, entry.is_reply] for entry in self.conversation]

    @classmethod
    def of_turn_document(cls, document: Json) -> "Context":
        """The context that `turn_document` described. It cannot be stored in place of the whole one."""
        return cls(memory=document["memory"], conversation=conversation_of(document["conversation"]))


def conversation_of(rows: list[Json]) -> tuple[Utterance, ...]:
    """The conversation that `conversation_rows` described."""
    return tuple(Utterance(*row) for row in rows)


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


MemoryChange = Add | Put | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """What a context remembers about a turn.

    message: parts of the client's message. exchanges: pairs of a durable turn. Each is what the agent said up
    to a question, and the user's reply. reply: parts that the agent said or asked after these. changes:
    changes to the memory. answered: the requests that the task has answered: those before the turn, the
    turn's own, and replies within it. was_ended_by_skill: the skill ended the turn itself. The memory keeps
    nothing of a failed turn, so another attempt at the turn still changes it.
    """

    turn_id: str
    task_id: str
    message: Sequence[Part]
    reply: Sequence[Part]
    exchanges: Sequence[tuple[Sequence[Part], Sequence[Part]]] = ()
    changes: Sequence[MemoryChange] = ()
    answered: Sequence[KnownRequest] = ()
    was_ended_by_skill: bool = True

    def utterances(self) -> list[Utterance]:
        """The conversation of the turn, with the names of files instead of their bytes."""
        utterances = [Utterance("user", [*self.message], self.task_id)]
        for words, reply in self.exchanges[-KEPT_EXCHANGES:]:
            if words:
                utterances.append(Utterance("agent", [*words], self.task_id))
            utterances.append(Utterance("user", [*reply], self.task_id, is_reply=True))
        if self.reply:
            utterances.append(Utterance("agent", [*self.reply], self.task_id))
        for utterance in utterances:
            for index, part in enumerate(utterance.parts):
                utterance.parts[index] = part.copy()
                utterance.parts[index].pop("raw", None)
        return utterances


def _size_of(entries: Sequence[Utterance]) -> int:
    """JSON bytes of what was said."""
    return sum(len(strictjson.dumps(entry.parts)) for entry in entries)


def _trim(history: Sequence[Utterance], new_utterances: Sequence[Utterance]) -> tuple[Utterance, ...]:
    """The newest turns that fit the limits, each with its question and its reply. A turn that is too large on
    its own is left out; the turns before it stay."""
    turns: list[list[Utterance]] = []
    for entry in history:
        if (entry.role == "user" and not entry.is_reply) or not turns:
            turns.append([])
        turns[-1].append(entry)
    conversation: list[Utterance] = []
    room = CONVERSATION_BYTES
    for entries in reversed([*turns, list(new_utterances)]):
        size = _size_of(entries)
        if size > CONVERSATION_BYTES:
            continue
        room -= size
        if room < 0 or len(conversation) + len(entries) > CONVERSATION_LENGTH:
            break
        conversation = entries + conversation
    return tuple(conversation)


def apply_changes(memory: dict[str, Json], changes: Sequence[MemoryChange]) -> dict[str, Json]:
    """Memory after changes, in order. Raises TypeError if a change adds to something that is not a number."""
    result = dict(memory)
    for change in changes:
        match change:
            case Add(key, number):
                number_before = result.get(key, 0)
                if isinstance(number_before, bool) or not isinstance(number_before, int | float):
                    raise TypeError(f"memory[{key!r}] is not a number, so nothing can be added to it")
                result[key] = number_before + number
            case Put(key, value):
                result[key] = value
            case Delete(key):
                result.pop(key, None)
    return result
