"""Builds A2A events from the outputs of a skill: one reply artifact a turn, and named artifacts in
addition."""

import base64
import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from a2a_lambda import strictjson
from a2a_lambda.agent.outputs import (
    KIT_OUTPUTS,
    Ask,
    Authorize,
    Batch,
    Command,
    File,
    FinalMessage,
    NamedArtifact,
    Progress,
    Reject,
    Structured,
    check_status_text,
    guess_media_type,
)
from a2a_lambda.durable.engine import Exchange, OperationNotice
from a2a_lambda.errors import AgentMistake, LimitExceeded, SkillError
from a2a_lambda.protocol.model import (
    OPERATION,
    STAGE,
    Artifact,
    Event,
    Message,
    Part,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    agent_message,
    artifact_id,
    make_status,
    text_message,
    timestamp,
)
from a2a_lambda.tasks.event_log import join_texts

CLOSING_BYTES = 256_000
"""Maximum JSON bytes of the status that ends a turn. It is stored in the task's head, and a DynamoDB item may
have 400 KB."""

MAX_ARTIFACTS = 10_000
"""Artifacts of a turn. A client gets each in an event of its own."""

FAILED = "The agent could not finish this request."

FILE_FAILED = "A file could not be read or stored. Please try again."

FILE_GONE = "A file is no longer available."


class EventBuilder:
    """Composes the events of one turn.

    closing_status: the one that the turn ends with, once it has one. question: what it asks then, if it asks.
    message_only: the closing message is the whole answer. exchanges: see `TurnRecord`.
    artifact_count: number of artifacts that the task already has. stale_ids: ids of the artifacts that a dead
    attempt at this turn has left. Those that this attempt does not begin anew are emptied at the end.
    """

    def __init__(
        self,
        task_id: str,
        context_id: str,
        clock: Callable[[], float] = time.time,
        *,
        artifact_count: int = 0,
        stale_ids: Sequence[str] = (),
    ) -> None:
        self._ids = (task_id, context_id)
        self._clock = clock
        self._first_index = artifact_count
        self._stale_ids = stale_ids
        self._is_plain = True
        self.message_only = False
        self._artifacts: dict[str, str] = {}
        self._files: set[str] = set()  # ids of the artifacts that end with a file, or with data
        self._is_closed = False
        self._commands: list[dict[str, Any]] = []
        self._reply_parts: list[Part] = []
        self.exchanges: list[tuple[list[Part], list[Part]]] = []
        self._last_words: list[Part] = []
        self.question: Ask | None = None
        self.closing_status: TaskStatus | None = None
        self.size_bytes = 0
        self.total_bytes = 0

    @property
    def parts(self) -> list[Part]:
        """What the agent has said since the last exchange, for the conversation: the reply with consecutive
        texts joined, then the question or message that ended the turn."""
        return [*(join_texts(self._reply_parts) if self._reply_parts else ()), *self._last_words]

    @property
    def is_empty(self) -> bool:
        """Whether the agent has said nothing: no artifact, message, question, reason or command."""
        closing = self.closing_status
        return closing is not None and "message" not in closing and not self._artifacts

    @property
    def artifact_ids(self) -> list[str]:
        """Ids of the artifacts started so far."""
        return list(self._artifacts.values())

    def build(self, batch: Batch) -> list[Event]:
        """Events of a batch of outputs. After it, `size_bytes` is the size of their JSON, about, and
        `total_bytes` that of all batches. After the last batch, or a question, `closing_status` is set.

        Raises SkillError, AgentMistake or TypeError for an output that no event can hold. Then the whole
        batch is dropped.
        """
        # Lengths, not copies: n chunks must cost n, not n squared.
        commands, reply_parts = self._commands, self._reply_parts
        command_count, part_count = len(commands), len(reply_parts)
        artifact_count, exchange_count = len(self._artifacts), len(self.exchanges)
        was_plain = self._is_plain
        try:
            events = self._build(batch)
            # All of it is tried as JSON before the caller stores any of it. If an output cannot be sent, the
            # batch is taken back below.
            try:
                text = strictjson.dumps_verified(
                    [events, dict(self.question.known) if self.question else None]
                )
            except ValueError as error:  # NaN, or half of a character
                raise AgentMistake(f"an output cannot be sent as JSON: {error}") from None
            if (
                self.closing_status is not None
                and len(strictjson.dumps_verified(self.closing_status)) > CLOSING_BYTES
            ):
                raise SkillError(
                    f"A message that ends a turn may have at most {CLOSING_BYTES:,} bytes of JSON, with its"
                    " commands. Yield longer content as text, a File or an Artifact."
                )
            for update in (event["artifactUpdate"] for event in events if "artifactUpdate" in event):
                if update["artifact"]["parts"] and "text" not in update["artifact"]["parts"][-1]:
                    self._files.add(update["artifact"]["artifactId"])
                else:
                    self._files.discard(update["artifact"]["artifactId"])
            self.size_bytes = len(text) if events else 0
            self.total_bytes += self.size_bytes
            return events
        except Exception:
            while len(self._artifacts) > artifact_count:
                self._artifacts.popitem()
            del commands[command_count:], reply_parts[part_count:], self.exchanges[exchange_count:]
            self._commands, self._reply_parts, self._last_words = commands, reply_parts, []
            self.question = self.closing_status = None
            self.message_only, self._is_closed, self._is_plain = False, False, was_plain
            raise

    def _build(self, batch: Batch) -> list[Event]:
        events: list[Event] = []
        for output in batch.outputs:
            match output:
                case Progress() | OperationNotice():
                    events.append(self._progress(output))
                case Exchange(question, reply):
                    words = [*self.parts, Part(text=question)] if question else self.parts
                    self.exchanges.append((words, reply))
                    self._reply_parts = []
                case Command():
                    self._commands.append(output.json())
                case Ask(text):
                    self.question = output
                    is_sign_in = isinstance(output, Authorize)
                    state = TaskState.AUTH_REQUIRED if is_sign_in else TaskState.INPUT_REQUIRED
                    self.closing_status = self._say(state, text, output.choices, output.fills)
                    self._last_words = [Part(text=text)]
                case FinalMessage(contents=contents):
                    parts = [part_of(content) for content in contents]
                    self.closing_status = make_status(
                        TaskState.COMPLETED, self._clock(), agent_message(*self._ids, parts)
                    )
                    self.message_only = self._is_plain and not events
                    self._last_words = parts
                case Reject(reason):
                    self.closing_status = self._say(TaskState.REJECTED, reason)
                case NamedArtifact():
                    events.append(self._add_chunk(output.name, output.contents, output))
                case _:
                    events.append(self._add_chunk("", (output,)))
            if self.closing_status is not None:
                break
        if batch.is_last and self.closing_status is None:
            self.closing_status = make_status(TaskState.COMPLETED, self._clock())
        self._is_plain = self._is_plain and not events
        if self.closing_status is not None:
            self._close(events)
        return events

    def restore(self, status: TaskStatus) -> list[Event]:
        """End the turn with the status that its task had before. That message is not of this turn, so the
        turn's commands are dropped."""
        self._commands = []
        self.closing_status = {**status, "timestamp": timestamp(self._clock())}
        events: list[Event] = []
        self._close(events)
        return events

    def fail(self, text: str) -> list[Event]:
        """End the turn as failed. What was said stays. FAILED replaces an empty text, and one that no status
        can hold."""
        self.question = None
        self.message_only = False
        self._last_words = []
        try:
            self.closing_status = self._say(TaskState.FAILED, text or FAILED)
            strictjson.dumps_verified(self.closing_status)
        except (SkillError, ValueError):
            self.closing_status = self._say(TaskState.FAILED, FAILED)
        events: list[Event] = []
        self._close(events)
        if len(strictjson.dumps(self.closing_status)) > CLOSING_BYTES:  # its commands
            self.closing_status["message"].pop("metadata")
        return events

    def _say(
        self, state: TaskState, text: str, choices: Sequence[str] = (), fills: str | None = None
    ) -> TaskStatus:
        check_status_text(text, choices)
        return make_status(state, self._clock(), text_message(*self._ids, text, choices, fills))

    def _status(self, status: TaskStatus) -> Event:
        task_id, context_id = self._ids
        return Event(statusUpdate=TaskStatusUpdateEvent(taskId=task_id, contextId=context_id, status=status))

    def _progress(self, output: Progress | OperationNotice) -> Event:
        if isinstance(output, Progress):
            progress = self._say(TaskState.WORKING, output.text)
            if output.stage is not None:
                progress["message"]["metadata"] = {STAGE: output.stage}
            return self._status(progress)
        operation = {"kind": output.kind, "name": output.name, "state": output.state}
        if output.until:
            operation["until"] = timestamp(output.until)
        event = self._status(make_status(TaskState.WORKING, self._clock()))
        event["statusUpdate"]["metadata"] = {OPERATION: operation}
        return event

    def _add_chunk(self, name: str, contents: tuple[Any, ...], output: NamedArtifact | None = None) -> Event:
        parts = [part_of(content) for content in contents]
        if not name:
            self._reply_parts += parts
        append = name in self._artifacts
        if not append and len(self._artifacts) >= MAX_ARTIFACTS:
            raise LimitExceeded(f"A turn may output at most {MAX_ARTIFACTS:,} artifacts.")
        id_ = self._artifacts.setdefault(name, artifact_id(self._first_index + len(self._artifacts)))
        artifact = Artifact(artifactId=id_, parts=parts)
        if output is not None:
            artifact["name"] = name
            if output.description is not None:
                artifact["description"] = output.description
            if output.metadata:
                artifact["metadata"] = dict(output.metadata)
        return self._update(artifact, append)

    def _update(self, artifact: Artifact, append: bool) -> Event:
        task_id, context_id = self._ids
        return Event(
            artifactUpdate=TaskArtifactUpdateEvent(
                taskId=task_id, contextId=context_id, artifact=artifact, append=append, lastChunk=False
            )
        )

    def _close(self, events: list[Event]) -> None:
        """Mark the last chunk of every artifact: in `events` if one is there, else with an empty chunk.
        Commands go into the closing message, or into the last artifact."""
        assert self.closing_status is not None
        if self._commands and not self._artifacts and "message" not in self.closing_status:
            events.append(self._add_chunk("", ("",)))
        update = None if self._is_closed else self._close_artifacts(events)
        self._is_closed = True
        if not self._commands:
            return
        target: Message | Artifact | None = update["artifact"] if update is not None else None
        if "message" in self.closing_status:
            target = self.closing_status["message"]
        if target is not None:
            metadata = target.get("metadata", {})
            target["metadata"] = {**metadata, "commands": [*metadata.get("commands", []), *self._commands]}
            target["parts"] = target["parts"] or [Part(text="")]
            self._commands = []

    def _close_artifacts(self, events: list[Event]) -> TaskArtifactUpdateEvent | None:
        """Mark the last chunk of each artifact; returns the last artifact's, which is also the last event. A
        text is ended by an empty text, which does not change it; nothing may be added to files and data."""
        updates = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
        chunks = {update["artifact"]["artifactId"]: update for update in updates}
        end_events: list[Event] = []
        chunk: TaskArtifactUpdateEvent | None = None
        for name, id_ in self._artifacts.items():
            is_last = id_ == artifact_id(self._first_index + len(self._artifacts) - 1)
            chunk = chunks.get(id_)
            if chunk is None or (is_last and events[-1].get("artifactUpdate") is not chunk):
                last_parts = chunk["artifact"]["parts"] if chunk is not None else []
                is_text = "text" in last_parts[-1] if last_parts else id_ not in self._files
                artifact = Artifact(artifactId=id_, parts=[Part(text="")] if is_text else [])
                if name:
                    artifact["name"] = name
                end_event = self._update(artifact, append=True)
                (events if is_last else end_events).append(end_event)
                chunk = end_event["artifactUpdate"]
            chunk["lastChunk"] = True
        started_ids = set(self._artifacts.values())
        for id_ in self._stale_ids:
            if id_ not in started_ids:
                blank = Artifact(artifactId=id_, parts=[Part(text="")])
                end_events.append(self._update(blank, append=False))
                end_events[-1]["artifactUpdate"]["lastChunk"] = True
        events[:0] = end_events
        return chunk


def part_of(value: Any) -> Part:
    """The part that an output becomes. Raises AgentMistake."""
    match value:
        case str():
            part = Part(text=str.__str__(value))  # the value of an Enum of texts, and not its name
        case File(name, content, url, media_type):
            if (content is None) == (url is None):
                hint = ": write its media type as media_type=…" if url and "://" not in url else ""
                hint = f", but not both{hint}" if url is not None else ': write File("a.csv", Path("a.csv"))'
                raise AgentMistake(f"the File {name!r} needs content or url{hint}")
            part = Part(filename=name) if name else Part()
            if content is not None:
                assert isinstance(content, bytes)  # `output_files` has read the others
                part["raw"] = base64.b64encode(content).decode()
            else:
                part["url"] = str(url)
            if media_type := media_type or (guess_media_type(name) if name else None):
                part["mediaType"] = media_type
        case Structured(data):
            part = Part(data=data)
        case _:
            from a2a_lambda.agent.files.message_files import ReceivedFile  # few skills send a file back

            if isinstance(value, ReceivedFile):
                # What its client wrote beside them would violate the closed schema of 1.0.
                known_fields = {
                    name: item for name, item in value.part.items() if name in Part.__annotations__
                }
                return cast(Part, known_fields)
            if isinstance(value, KIT_OUTPUTS):
                raise AgentMistake(
                    f"{type(value).__name__} cannot be inside an Artifact or a Message: return or yield it by"
                    " itself"
                )
            kind = type(value).__name__
            if isinstance(value, BaseException):
                raise AgentMistake(f"{kind} is not an output: write `raise {kind}(…)`")
            if inspect.iscoroutine(value):
                value.close()  # or Python warns that it was never awaited
                raise AgentMistake(f"a coroutine is not an output: write `await` before {value.__name__}(…)")
            raise AgentMistake(
                f"a skill cannot return or yield a value of type {kind}. Use text; a dict,"
                " list, number, bool, pydantic model or dataclass; File, Artifact, Progress, Message,"
                " Command, Ask, Authorize or Reject; or a tuple of these."
                + (' Bytes are the content of a File("name", …).' if isinstance(value, bytes) else "")
            )
    return part
