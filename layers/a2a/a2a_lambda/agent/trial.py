"""One turn of an agent without a deployment, for tests of agents: `Agent.run`."""

import logging
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from a2a_lambda import mistakes
from a2a_lambda.agent.configuration import Configuration
from a2a_lambda.agent.event_builder import EventBuilder, part_of
from a2a_lambda.agent.files.message_files import ReceivedFile
from a2a_lambda.agent.files.output_files import read
from a2a_lambda.agent.files.trial_files import TrialFiles
from a2a_lambda.agent.outputs import Ask, Batch, File
from a2a_lambda.agent.skills.skill import Skill
from a2a_lambda.agent.turn import Turn
from a2a_lambda.durable.engine import Reply, Suspended, branch_order
from a2a_lambda.durable.memory import KeptResults, MemoryEngine
from a2a_lambda.errors import AgentMistake, ContentTypeNotSupported
from a2a_lambda.protocol.alibaba_metadata import intent_metadata
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.card import Card
from a2a_lambda.protocol.model import (
    Artifact,
    Event,
    Json,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    make_status,
    state_word,
    text_of,
)
from a2a_lambda.protocol.stored_file import change_parts
from a2a_lambda.tasks.context import Context, TurnRecord
from a2a_lambda.tasks.event_log import apply, without_mark
from a2a_lambda.tasks.head import Pending
from a2a_lambda.tasks.replay import Replay
from a2a_lambda.tasks.suspension import question_status


class Performer(Protocol):
    """What a trial needs of an agent: see `Agent`."""

    name: str
    card: Card
    skills: dict[str, Skill]

    def perform(self, turn: Turn) -> AsyncGenerator[Batch, None]: ...
    def pending_after(self, turn: Turn, question: Ask) -> Pending: ...
    def source_of(self, turn: Turn) -> str: ...


@dataclass(frozen=True, slots=True)
class Continuation:
    """From where a turn runs, at first or after a wait.

    make_turn: makes the turn of each run. kept_results: what its earlier runs have stored. replies: those so
    far. caller: who sends them.
    """

    make_turn: Callable[[], Turn]
    kept_results: KeptResults
    replies: dict[str, Any]
    caller: Caller

    def check_replies(self, *, is_suspended: bool) -> None:
        """Raises ValueError for a reply that no wait of the turn takes. Another wait may still take it if the
        turn is suspended, unless it is one for a branch's wait, under a key without the branch."""
        names_by_branch = {
            branch: {result.name for result in results if result.kind == "wait"}
            for branch, results in self.kept_results.results.items()
        }
        if is_suspended:
            for wait in self.kept_results.open:
                name = wait.key.rpartition("/")[2]
                if name != wait.key and name in self.replies.keys() - names_by_branch.get("", set()):
                    raise ValueError(f"the wait {name!r} of a branch is called {wait.key!r} in replies")
            return
        waits = set().union(*names_by_branch.values())
        if unused_names := sorted(self.replies.keys() - waits):
            hint = mistakes.did_you_mean(unused_names[0], waits)
            names = ", ".join(sorted(waits)) or "none"
            raise ValueError(
                f"no wait has taken the reply {unused_names[0]!r}{hint} The turn's waits: {names}"
            )


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a turn.

    events: the events as a client gets them. context: the context as it would be stored.
    steps: names of the steps, pauses and waits of a durable skill, those of branches last. continuation: how
    to continue, if the skill waits. skill: id of the skill that has answered. file_contents: contents of the
    conversation's large files by their references, for the next turn.
    """

    task: Task
    events: list[Event]
    context: Context
    pending: Pending | None
    steps: list[str] = field(default_factory=list)
    continuation: Continuation | None = None
    skill: str = ""
    file_contents: dict[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def state(self) -> str:
        """The state in A2A's words: "completed", "input-required", "rejected"…"""
        return state_word(self.task["status"]["state"])

    @property
    def artifacts(self) -> list[Artifact]:
        return self.task.get("artifacts", [])

    @property
    def text(self) -> str:
        """Text of the reply; of a question or a rejection, that text."""
        return text_of(self._message["parts"] if self._message else self._reply)

    @property
    def data(self) -> list[Json]:
        """Structured values of the reply, and of the message that ends the turn."""
        parts = [*self._reply, *(self._message["parts"] if self._message else ())]
        return [part["data"] for part in parts if "data" in part]

    @property
    def files(self) -> list[ReceivedFile]:
        """Files in the artifacts, and in the message that ends the turn, with `name`, `media_type`, and
        `content`, or `url` for a `File` that has only that."""
        parts = [part for artifact in self.artifacts for part in artifact["parts"]]
        parts += self._message["parts"] if self._message else []
        return [ReceivedFile(part) for part in parts if "raw" in part or "url" in part]

    @property
    def commands(self) -> list[Json]:
        """Commands for the client, in the artifacts and in the message that ends the turn."""
        holders = [*self.artifacts, *([self._message] if self._message else [])]
        return [command for holder in holders for command in holder.get("metadata", {}).get("commands", [])]

    @property
    def _message(self) -> Message | None:
        return self.task["status"].get("message")

    @property
    def _reply(self) -> list[Part]:
        return next((artifact["parts"] for artifact in self.artifacts if "name" not in artifact), [])


def skill_for(agent: Performer, skill: str | None, slots: Mapping[str, Any]) -> str | None:
    """The skill that a test names, or has slots for. Raises ValueError, TypeError."""
    if slots and skill is None:
        if len(agent.skills) > 1:
            raise ValueError(
                f"slots belong to a skill: name it with skill=…, one of {', '.join(agent.skills)}"
            )
        [skill] = agent.skills
    if skill is None:
        return None
    if skill not in agent.skills:
        hint = mistakes.did_you_mean(skill, agent.skills)
        raise ValueError(f"there is no skill {skill!r}{hint} Skills: {', '.join(agent.skills)}")
    if problem := agent.skills[skill].problem_of_names(slots):
        raise ValueError(problem)
    for name, value in slots.items():
        if not isinstance(value, str | int | float):
            raise TypeError(
                f"the slot {name!r} must be a string, not a {type(value).__name__}: write a string, or send"
                f" the value as parts=[{{'data': {{{name!r}: …}}}}]"
            )
    return skill


def make_message(
    agent: Performer,
    text: str,
    parts: Sequence[Part] | None,
    files: Sequence[File | Path],
    *,
    skill: str | None,
    slots: Mapping[str, str],
    metadata: Mapping[str, Json],
) -> Message:
    """A user's message. Raises ValueError for an unknown skill or slot, and for a file that the card does not
    take; TypeError for what is no file."""
    if not isinstance(text, str):
        raise TypeError(
            f"a message must be a string, not a {type(text).__name__}: data goes into parts=[{{'data': …}}],"
            " and arguments of a skill into slots={…}"
        )
    entries = dict(metadata)
    if (skill := skill_for(agent, skill, slots)) is not None:
        entries |= intent_metadata(skill, slots)
    if parts is not None and text:
        raise ValueError("the message has text and parts: write the text as one of the parts")
    content = list(parts) if parts is not None else [Part(text=text)]
    for file in files:
        if not isinstance(file, File | Path):
            raise TypeError(f'a file must be a Path or a File: write Path("report.pdf"), not {file!r:.80}')
        content.append(part_of(read(File(file.name, file) if isinstance(file, Path) else file)))
    for part in content:
        if "raw" not in part and "url" not in part:
            continue
        name = part.get("filename", "")
        try:
            agent.card.check_media_type(part.get("mediaType", ""), f"the file {name}" if name else "a file")
        except ContentTypeNotSupported as error:
            raise ValueError(
                f"{error}, so a caller would be refused: add the type to defaultInputModes in card.yaml"
            ) from None
    return Message(messageId=str(uuid.uuid4()), role=Role.USER, parts=content, metadata=entries)


async def run(
    agent: Performer,
    message: Message,
    after: Answer | None,
    replies: Mapping[str, Any],
    configuration: Configuration,
    *,
    caller: Caller,
) -> Answer:
    """Run one turn, or continue it. `Agent.run` explains the arguments. Raises ValueError if the turn waits,
    and nothing ends one of its waits; TypeError if `after` is no answer, or `caller` no caller."""
    if not isinstance(after, Answer | None):
        raise TypeError(f"after must be the answer of an earlier agent.run, not a {type(after).__name__}")
    if not isinstance(caller, Caller) or isinstance(caller.scopes, str):
        raise TypeError('caller must be a Caller with a tuple of scopes: Caller("ann", scopes=("chat",))')
    if after is not None and (continuation := after.continuation) is not None:
        # A test may continue from the same answer in several ways.
        kept_results = continuation.kept_results.copy()
        replies = {**continuation.replies, **replies}
        # The question comes first, as in `Head.message_wait`.
        waits = sorted(kept_results.open, key=lambda wait: wait.question is None)
        if wait := next((wait for wait in waits if wait.takes_messages), None):
            replies.setdefault(wait.key, Reply(message["parts"], caller=caller))
        elif not {wait.key for wait in kept_results.open} & replies.keys():
            key = kept_results.open[0].key
            raise ValueError(
                f"the wait {key!r} accepts no message, only a call to its URL: give its JSON, as in"
                f' agent.run(after=…, replies={{"{key}": {{"amount": 12}}}})'
            )
        next_run = Continuation(continuation.make_turn, kept_results, replies, caller)
        return await _run_until_suspended(agent, next_run, dict(after.file_contents))
    is_same_task = after is not None and after.pending is not None
    make_turn = partial(
        Turn,
        message=message,
        agent=agent.name,
        task_id=after.task["id"] if after and is_same_task else str(uuid.uuid4()),
        context_id=after.task["contextId"] if after else str(uuid.uuid4()),
        context=after.context if after else Context(),
        pending=after.pending if after else None,
        id=str(uuid.uuid4()),
        caller=caller,
        configuration=configuration,
    )
    start = Continuation(make_turn, KeptResults(), dict(replies), caller)
    return await _run_until_suspended(agent, start, dict(after.file_contents) if after is not None else {})


async def _run_until_suspended(
    agent: Performer, start: Continuation, file_contents: dict[str, bytes]
) -> Answer:
    """Run a turn until it ends, or waits for a reply that is not known. Pauses end at once: the turn is
    replayed after each, as in a deployment.

    file_contents: contents of the conversation's large files, to which the turn adds those of its own.
    """
    replay, kept_results = Replay(), start.kept_results
    while True:
        turn = start.make_turn()
        engine = turn.engine = MemoryEngine(kept_results, start.replies, caller=start.caller)
        files = turn.file_store = TrialFiles(turn.task_id, turn.id, file_contents)
        builder = EventBuilder(turn.task_id, turn.context_id)
        events: list[Event] = []
        replay = replay.next()
        is_suspended = False
        try:
            async with aclosing(agent.perform(turn)) as batches:
                async for batch in batches:
                    batch_events = builder.build(batch)
                    replay.take(batch_events)
                    events += map(without_mark, batch_events)
                    if builder.closing_status is not None:
                        break
            engine.check_end()
        except AgentMistake as error:
            raise AgentMistake(f"{agent.source_of(turn)}: {error}") from None
        except Suspended:
            is_suspended = True
            if not kept_results.open:
                continue
            kept_results.open.sort(key=branch_order)  # as in `Suspended`
        start.check_replies(is_suspended=is_suspended)
        task = Task(id=turn.task_id, contextId=turn.context_id, status=make_status(TaskState.WORKING, 0))
        apply(task, events)
        if is_suspended:
            if wait := next((wait for wait in kept_results.open if wait.question is not None), None):
                task["status"] = question_status(turn.id, turn.task_id, turn.context_id, wait, 0)
        elif builder.closing_status is not None:
            task["status"] = builder.closing_status
            if builder.is_empty:  # at a level that pytest shows when a test fails
                mistakes.hint_at_empty_answer(turn.skill, logging.WARNING)
        record_of_turn = TurnRecord(
            turn_id=turn.id,
            task_id=turn.task_id,
            message=turn.sent_parts,
            reply=builder.parts,
            exchanges=builder.exchanges,
            changes=turn.memory.changes,
        )
        return Answer(
            task=change_parts(task, files.with_content),
            events=[change_parts(event, files.with_content) for event in events],
            context=turn.context if is_suspended else turn.context.after(record_of_turn),
            pending=agent.pending_after(turn, builder.question) if builder.question else None,
            steps=kept_results.names,
            continuation=start if is_suspended else None,
            skill=turn.skill,
            file_contents=file_contents,
        )
