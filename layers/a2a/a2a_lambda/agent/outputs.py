"""What a skill may return or yield besides text and structured values."""

import mimetypes
import os
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, BinaryIO
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from a2a_lambda import strictjson
from a2a_lambda.durable.outcomes import NotKept
from a2a_lambda.errors import AgentMistake, SkillError
from a2a_lambda.protocol.alibaba_metadata import slot_text

FileContent = bytes | os.PathLike[str] | BinaryIO | Iterable[bytes] | AsyncIterable[bytes]
"""Bytes; a path; a file that is open in mode "rb"; or pieces of bytes, asynchronous ones in an asynchronous
skill."""


STATUS_TEXT_BYTES = 64_000
"""Maximum JSON bytes of a question with its choices, a reason or a progress text."""


@dataclass(frozen=True, slots=True)
class File:
    """A file: its content, or a URL to get it from.

    File("sum.csv", b"1,2", media_type="text/csv")
    File("film.mp4", Path("/tmp/film.mp4"))
    File("film.mp4", open("/tmp/film.mp4", "rb"))
    File("map.png", url="https://example.com/map.png")

    Large content, up to 5 GiB, goes to the deployment's bucket while the skill waits, and clients get a URL.
    name: None = no name, like a file that a client sent without one. media_type: None = the type that the
    name's ending shows.
    """

    name: str | None
    content: FileContent | None = None
    url: str | None = None
    media_type: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            _check_text("a file's name", self.name, 'write File("sum.csv", content)')
        if self.media_type is not None:
            _check_text("a file's media_type", self.media_type, 'write a string such as "text/csv"')


def guess_media_type(name: str) -> str | None:
    """Media type of a file with this name; None if its name does not say. A compressed file has none, because
    its content is not of the type that the name shows."""
    media_type, compression = mimetypes.guess_type(name)
    return None if compression else media_type


class NamedArtifact:
    """A result with a name, in addition to the reply.

    To append to it, yield the same name again: Artifact("report", "First, "), then
    Artifact("report", "second."). Contents are text, structured values and Files; there is at least one.
    """

    def __init__(
        self,
        name: str,
        *contents: Any,
        description: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        _check_text("an artifact's name", name)
        if description is not None:
            _check_text("an artifact's description", description)
        if not name:
            raise TypeError(
                "an artifact needs a name: content without one is part of the reply, so yield it by itself"
            )
        if not contents:
            raise TypeError('an artifact needs content: write Artifact("name", "text")')
        self.name = name
        self.contents = contents
        self.description = description
        self.metadata = metadata or {}


class FinalMessage:
    """An answer that needs no task: Message("Hello!").

    If it is the only output of a call that does not stream, the client gets a message instead of a task,
    in the versions that have such answers. Otherwise it is the task's final status message.
    """

    def __init__(self, *contents: Any) -> None:
        if not contents:
            raise TypeError('a message needs content: write Message("Hello!")')
        self.contents = contents


@dataclass(frozen=True, slots=True)
class Progress:
    """What the agent is doing now. Clients show it while the agent works; it is not part of the result.

    stage: name of the step, such as "/thought/plan", for clients that show steps.
    """

    text: str
    stage: str | None = None

    def __post_init__(self) -> None:
        _check_text("a progress text", self.text)
        if self.stage is not None:
            _check_text("a stage", self.stage)


class Command:
    """A command for the client, in the metadata of the message that ends the turn, or of the last artifact if
    there is no such message (Alibaba's protocol extension).

    Command("flash", color="red") has one parameter. A pair (value, normalized value) gives both values. They
    are strings; another value is sent as its JSON, such as true, or as a string, such as a date.
    """

    def __init__(self, name: str, /, *, request_id: str | None = None, **params: Any) -> None:
        _check_text("a command's name", name)
        if request_id is not None:
            _check_text("a command's request_id", request_id)
        self.name = name
        self.request_id = request_id
        self.params = params
        self._texts = {param: _param_texts(param, value) for param, value in params.items()}

    def json(self) -> dict[str, Any]:
        """Command object of
        https://help.aliyun.com/en/model-studio/multimodal-integration-a2a-protocol."""
        result: dict[str, Any] = {"name": self.name}
        if self._texts:
            result["params"] = [
                {"name": name, "value": value} | ({} if normalized is None else {"normValue": normalized})
                for name, (value, normalized) in self._texts.items()
            ]
        if self.request_id is not None:
            result["commandRequestId"] = self.request_id
        return result


@dataclass(frozen=True, slots=True)
class Ask:
    """A question. The task waits for the user's answer (`input-required`), which goes to the same skill.

    fills: parameter that gets the answer. Without it, read `turn.text`.
    known: new values of other parameters, by name, as strings. The rest keep their values.
    choices: suggested answers, which clients may show as buttons. By default, those of the parameter that the
    answer fills, if its type is a Literal, an Enum or bool.
    """

    question: str
    fills: str | None = None
    known: Mapping[str, str] = field(default_factory=dict)
    choices: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check_text("a question", self.question)
        for name, text in self.known.items():
            _check_text(f"known[{name!r}]", text)
        if not isinstance(self.choices, str):  # a generator would be used up by the check
            object.__setattr__(self, "choices", tuple(self.choices))
        if isinstance(self.choices, str) or not all(isinstance(choice, str) for choice in self.choices):
            raise TypeError('choices must be a list of strings: write choices=["S", "M", "L"]')


@dataclass(frozen=True, slots=True)
class AskArgument(Ask):
    """The kit's question for a parameter of a skill, which has not been called yet."""


@dataclass(frozen=True, slots=True)
class Authorize(Ask):
    """A question for credentials, or for a sign-in elsewhere (`auth-required`). It continues as Ask does."""


@dataclass(frozen=True, slots=True)
class Reject:
    """The agent does not accept the request. The task ends as `rejected`."""

    reason: str

    def __post_init__(self) -> None:
        _check_text("a reason", self.reason)


def check_status_text(text: str, choices: Sequence[str] = ()) -> None:
    """Raises SkillError if text is too large for a status of the task."""
    if len(strictjson.dumps([text, *choices] if choices else text)) > STATUS_TEXT_BYTES:
        raise SkillError(
            f"A question with its choices, a reason or a progress text may have at most {STATUS_TEXT_BYTES:,}"
            " bytes. Yield longer content as text, a File or an Artifact."
        )


KIT_OUTPUTS = (File, NamedArtifact, FinalMessage, Progress, Command, Ask, Reject)


def class_name(output: Any) -> str:
    """Name under which an agent imports the class of an output."""
    name = type(output).__name__
    return {"NamedArtifact": "Artifact", "FinalMessage": "Message"}.get(name, name)


def check_kept(result: Any, restored: Any, source: str) -> None:
    """Raises NotKept for a result with an output of the kit of which only the JSON is kept.

    restored: the result as a replay gets it. What the step's return annotation names, such as Ask, is as it
        was. source: what returned it, such as "step 'chart'".
    """
    types = [type(value) for value in (restored, *_members(restored))]
    for value in (result, *_members(result)):
        if isinstance(value, KIT_OUTPUTS) and type(value) not in types:
            name = class_name(value)
            can_be_restored = isinstance(value, Ask | Reject | Progress)
            advice = f"annotate the step's function with `-> {name}`, or " if can_be_restored else ""
            raise NotKept(
                f"{source} returned {name}(…), of which only JSON would be kept: {advice}return what it is"
                f" made from, and yield {name}(…) outside of the step or branch"
            )


@dataclass(frozen=True, slots=True)
class Structured:
    """A structured value as JSON."""

    value: Any


def snapshot(output: Any) -> Any:
    """An output as it is now, because the skill may change its lists, dicts and models afterwards.

    Raises AgentMistake for a value that cannot become JSON, and for an output of the kit inside one.
    """
    match output:
        case NamedArtifact(name=name, description=description, metadata=metadata):
            contents = map(snapshot, output.contents)
            return NamedArtifact(name, *contents, description=description, metadata=_to_json(metadata))
        case FinalMessage():
            return FinalMessage(*map(snapshot, output.contents))
        case File() | Progress() | Ask() | Reject() | str() | type():
            return output
        case _ if isinstance(output, int | float | list | Mapping | BaseModel) or is_dataclass(output):
            return Structured(_to_json(output))
        case Decimal() | date() | time() | timedelta() | UUID() | Enum():
            value = _to_json(output)
            return value if isinstance(value, str) else Structured(value)
        case _:
            return output


def _to_json(value: Any) -> Any:
    """A value as JSON. Raises AgentMistake."""
    for member in _members(value):
        if isinstance(member, KIT_OUTPUTS):
            raise AgentMistake(
                f"{class_name(member)} inside a {type(value).__name__} would become JSON: return or yield"
                ' it by itself, or in a tuple, as in `return "Here it is.", File(…)`; unpack a list of them,'
                ' as in `Message("Here they are.", *files)`'
            )
    try:
        return to_jsonable_python(value)
    except ValueError as error:
        # What a serializer of the agent says may have a user's words, and this is logged.
        reason = str(error).partition("\n")[0]
        if isinstance(error, UnicodeDecodeError):
            reason = "it has bytes that are not UTF-8"
        elif not reason.startswith(("Unable to serialize unknown type", "Circular reference")):
            reason = "its serializer failed"
        raise AgentMistake(f"a {type(value).__name__} cannot become JSON: {reason}") from None


def _members(value: Any) -> Iterator[Any]:
    """What is in lists, dicts, models and dataclasses, at any depth, even if one of them contains itself."""
    level, visited = [value], set[int]()
    while level:
        node = level.pop()
        if id(node) not in visited:
            visited.add(id(node))
            members = _members_of(node)
            yield from members
            level += members


def _members_of(node: Any) -> Sequence[Any]:
    """What is in a list, a dict, a model or a dataclass itself."""
    match node:
        case list() | tuple() | set() | frozenset():
            return list(node)
        case dict():
            return list(node.values())
        case BaseModel():
            names = [name for name, info in type(node).model_fields.items() if not info.exclude]
            return [getattr(node, name) for name in (*names, *(node.model_extra or ()))]
        case _ if is_dataclass(node) and not isinstance(node, (type, *KIT_OUTPUTS)):
            return [getattr(node, info.name) for info in fields(node)]
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class Batch:
    """Outputs that came together. is_last: the skill has returned."""

    outputs: Sequence[Any]
    is_last: bool


def _check_text(noun: str, value: object, advice: str = "write str(…) around it") -> None:
    if not isinstance(value, str):
        kind = "None" if value is None else type(value).__name__
        raise TypeError(f"{noun} must be a string, not {kind}" + (f": {advice}" if value is not None else ""))


def _param_texts(name: str, value: Any) -> tuple[str, str | None]:
    """A command's parameter: its value, and its normalized value if it is a pair. Raises TypeError."""
    values = value if isinstance(value, tuple) else (value,)
    try:
        texts = [slot_text(to_jsonable_python(each)) for each in values]
    except ValueError:
        texts = []
    if not 1 <= len(texts) <= 2 or any(each is None for each in values):
        # Without the value, which may be what a user has written.
        raise TypeError(
            f"{name} of a command must be a string, or a pair of strings, not {type(value).__name__}"
        )
    return texts[0], texts[1] if len(texts) > 1 else None
