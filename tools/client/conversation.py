"""A conversation with an agent in the terminal: messages, commands, and what is shown of the answers."""

import asyncio
import uuid
from contextlib import aclosing, suppress
from pathlib import Path

import httpx2
from rich.console import Console

from a2a_lambda.agent.event_builder import FAILED
from a2a_lambda.protocol.alibaba_metadata import intent_metadata
from a2a_lambda.protocol.model import (
    INTERRUPTED,
    OPERATION,
    STOPPED,
    TERMINAL,
    Event,
    Json,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
    ends_task,
    text_of,
)
from a2a_lambda.strictjson import object_in, objects_in, text_in
from tools.callers.names import AnyCaller
from tools.callers.records import FAILURES
from tools.client import attachments
from tools.client.operations import OpenOperations
from tools.client.skills import parameters_of, skill_lines, split_parameters
from tools.client.view import HELP, View

OVER_CODES = (-32001, -32004)
"""Codes of TaskNotFound and UnsupportedOperation: the question that a message answers is over."""

UNFINISHED = (TaskState.SUBMITTED, TaskState.WORKING)

WAIT_SECONDS = 5.0
"""Seconds between looks at a task that pauses or waits."""

POLL_SECONDS = 1.0
"""Seconds between looks at the task of a server that does not stream."""

POLLS = 120
"""Looks until a server that does not stream counts as one whose task pauses or waits."""


class Chat:
    """A conversation. `send` returns the state of the message's task, or None if the call failed."""

    def __init__(
        self, http: httpx2.AsyncClient, caller: AnyCaller, console: Console, *, is_conversation: bool = True
    ) -> None:
        self._http = http
        self._caller = caller
        self._view = View(console, is_conversation=is_conversation)
        self._card: Json = {}
        self._context_id = ""
        self._task_id = ""
        self._state: TaskState | None = None
        self._last_event = ""
        self._open = OpenOperations()
        self._attached: list[Path] = []
        self._error_code: int | None = None
        self._is_unexplained = False
        self.is_unanswered = False
        """Whether a request is out, and no server has answered it."""

    async def open(self) -> bool:
        """Read the card. Returns whether it could be read."""
        async for record in self._caller.read_card():
            if record["kind"] in ("request", "response"):
                self.is_unanswered = record["kind"] == "request"
            if record["kind"] == "error":
                self._view.fail(record["message"])
                return False
            if record["kind"] == "result":
                self._card = record["result"]
        return True

    async def resume(self, task_id: str, *, is_followed: bool) -> bool:
        """Make a task the one that the next message is for. Returns whether it could be read.

        is_followed: it is shown, and followed while it runs, pauses or waits. Otherwise the message is for
            one of its waits.
        """
        async for record in self._caller.call("get", {"id": task_id}):
            if record["kind"] == "result" and not is_followed:
                task: Task = record["result"]
                self._identify(task["id"], task["contextId"])
                self._state = TaskState(task["status"]["state"])
                self._open.note_unknown(may_wait=self._state == TaskState.WORKING)
                if self._state in TERMINAL:
                    self._view.note(
                        "The task has ended. The message begins a new task in the same conversation."
                    )
            elif not self._take(record):
                return False
        self._view.end_line()
        if is_followed and self._state not in STOPPED:
            await self._wait()
        return True

    def introduce(self) -> None:
        self._view.note(f"{self._card.get('name', 'The agent')}: {self._card.get('description', '')}")
        self._view.note("/help lists the commands.")

    async def take(self, line: str) -> bool:
        """Carry out a line: a message, or a command. Returns whether the conversation continues."""
        command, *words = line.split(maxsplit=1) if line.startswith("/") else [""]
        rest = "".join(words)
        match command:
            case "/quit" | "/exit":
                return False
            case "/help":
                self._view.note(HELP)
            case "/new":
                self._context_id = self._task_id = ""
                self._state, self._attached = None, []
                self._view.note("A new conversation.")
            case "/wait":
                await self._wait()
            case "/file":
                self.attach(rest.strip())
            case "/save":
                await attachments.save_one(self._http, self._caller, self._view, rest)
            case "/skill" if not rest.strip():
                for skill in skill_lines(self._card):
                    self._view.note(f"  {skill}")
            case "/skill":
                await self.call_skill(rest)
            case _ if command.startswith("/"):
                self._view.fail(f"unknown command {command}. /help lists the commands")
            case _:
                await self.send(line)
        return True

    async def call_skill(self, line: str) -> TaskState | None:
        """Send what is written after /skill: an id, parameters, text. Returns what `send` returns."""
        skill, *words = line.split(maxsplit=1)
        skills = [text_in(entry, "id") for entry in objects_in(self._card, "skills")]
        if skill not in skills:
            self._view.fail(f"there is no skill {skill}. The agent has {', '.join(skills)}")
            return None
        arguments, text = split_parameters("".join(words))
        if any("=" in word for word in text.split()):
            self._view.fail("write parameters as name=value before the text, such as /skill add a=1 b='2 3'")
            return None
        names = parameters_of(self._card, skill)
        if unknown := [name for name in arguments if names is not None and name not in names]:
            listing = ", ".join(names or ()) or "none"
            self._view.fail(f"{skill} has no parameter {unknown[0]}. It has: {listing}")
            return None
        return await self.send(text, intent_metadata(skill, arguments))

    async def send(self, text: str, metadata: dict[str, Json] | None = None) -> TaskState | None:
        """Send a message. Returns its task's state; None if there is none."""
        message = Message(messageId=str(uuid.uuid4()), role=Role.USER, parts=[])
        if metadata:
            message["metadata"] = metadata
        try:
            files = await attachments.parts_of(self._http, self._caller, self._attached)
        except (OSError, *FAILURES) as error:
            self._view.fail(f"a file cannot be sent: {error}")
            return None
        message["parts"] = [Part(text=text), *files]
        if self._context_id:
            message["contextId"] = self._context_id
        if self._state in INTERRUPTED or (self._open.has_wait and self._state == TaskState.WORKING):
            message["taskId"] = self._task_id
        backup = self._attached, self._task_id, self._state
        self._attached, self._task_id, self._state = [], "", None
        if "taskId" not in message:  # an answer to a question continues what has been shown
            self._open.clear()
            self._view.begin()
        future = asyncio.ensure_future(self._run(message))
        try:
            await asyncio.shield(future)
            if self._state is None:  # no one has got the message: a question is still open
                self._attached, self._task_id, self._state = backup
                if self._attached and self._view.is_conversation:
                    self._view.note("Its files go with the next message. /new leaves them out.")
                if self._state in INTERRUPTED and self._error_code in OVER_CODES:
                    self._task_id, self._state = "", None
                    self._view.note("The question is over. The next message begins a new task.")
                return None
            return self._state
        except asyncio.CancelledError:  # Ctrl-C
            if current := asyncio.current_task():
                current.uncancel()
            # A server that does not stream does not say whether its task pauses, perhaps for days.
            if (self._open or not self._streams()) and self._state in UNFINISHED:
                self._view.note(f"The task continues without this terminal. {self._how_to_continue()}")
            else:
                await self._cancel()
            future.cancel()
            with suppress(asyncio.CancelledError):
                await future
            return self._state

    async def _run(self, message: Message) -> None:
        records = self._caller.call("stream" if self._streams() else "send", {"message": message})
        async with aclosing(records):
            async for record in records:
                if not self._take(record):
                    if self._task_id and self._state is not None and self._state not in STOPPED:
                        self._view.note(f"The task may still run. {self._how_to_continue()}")
                    return
                if self._is_over(record):
                    break
        # A server that does not stream may have answered before the task's end.
        for _ in range(0 if self._streams() else POLLS):
            if self._open or self._state not in UNFINISHED:
                break
            await asyncio.sleep(POLL_SECONDS)
            if not await self._look():
                return
        self._view.end_line()
        if self._state == TaskState.COMPLETED and not self._view.has_output:
            self._view.note("The task has completed without output.")
        if self._state not in (None, TaskState.COMPLETED):
            self._view.show_state(str(self._state))
        if self._is_unexplained and self._caller.is_local:
            self._view.note("The output of make run says why.")
        if self._state in INTERRUPTED and not self._view.is_conversation:
            self._view.note(f"To answer, add TASK={self._task_id}.")
        if self._state in UNFINISHED:
            self._open.note_unknown(may_wait=not self._streams())
            self._view.note(f"The task continues later. {self._how_to_continue()}")

    def _is_over(self, record: Json) -> bool:
        """Whether a record ends the task, or asks a question, after which a server may keep its stream open.
        A task may come with its old question, so only an update asks. After a sign-in, an agent may continue
        by itself."""
        event = record.get("event", {})
        return ends_task(event) or (self._state == TaskState.INPUT_REQUIRED and "statusUpdate" in event)

    def _streams(self) -> bool:
        return object_in(self._card, "capabilities").get("streaming") is True

    async def _look(self) -> bool:
        """Show the task if it has stopped. False if it cannot be read."""
        async for record in self._caller.call("get", {"id": self._task_id}):
            state = record["result"]["status"]["state"] if record["kind"] == "result" else None
            if state is not None and TaskState(state) not in STOPPED:
                self._state = TaskState(state)
            elif not self._take(record):
                return False
        return True

    def _how_to_continue(self) -> str:
        next_step = f"To continue it, add TASK={self._task_id}."
        return "/wait follows it." if self._view.is_conversation else next_step

    def _take(self, record: Json) -> bool:
        """Show a record of a call. False if the call failed."""
        match record["kind"]:
            case "event":
                self._last_event = record.get("id") or self._last_event
                self._show(record["event"])
            case "result":
                result = record["result"]
                self._show(result if {"task", "message"} & result.keys() else Event(task=result))
            case "error":
                self._error_code = record.get("code")
                self._view.end_line()
                self._view.fail(record["message"])
                return False
        return True

    async def _wait(self) -> None:
        """Follow a task that runs, pauses or waits, until it stops or Ctrl-C."""
        if not self._task_id or self._state in STOPPED:
            self._view.fail("there is no task that pauses or waits")
            return
        with suppress(asyncio.CancelledError):
            while self._state not in STOPPED:
                can_subscribe = self._streams()
                if can_subscribe:
                    records = self._caller.call("subscribe", {"id": self._task_id}, after=self._last_event)
                    async with aclosing(records):
                        async for record in records:
                            # Some servers refuse a subscription to a task that has ended.
                            can_subscribe = record["kind"] != "error" and self._take(record)
                            if self._is_over(record):
                                break
                if not can_subscribe and not await self._look():
                    return
                if self._state not in STOPPED:
                    await asyncio.sleep(WAIT_SECONDS)
            self._view.end_line()
            self._view.show_state(str(self._state))
            return
        if current := asyncio.current_task():  # Ctrl-C
            current.uncancel()
        self._view.note("The task continues without this terminal.")

    async def _cancel(self) -> None:
        self._view.end_line()
        if not self._task_id:
            self._view.note("stopped before the task began to answer; it may continue")
            return
        async for record in self._caller.call("cancel", {"id": self._task_id}):
            if record["kind"] == "error":
                self._view.fail(record["message"])
            if record["kind"] == "result":
                self._state = TaskState(record["result"]["status"]["state"])
                self._view.show_state(self._state)

    def _show(self, event: Event) -> None:
        if "task" in event:
            task: Task = event["task"]
            self._identify(task["id"], task["contextId"])
            for artifact in task.get("artifacts", []):
                self._view.show_parts(artifact["artifactId"], artifact["parts"], append=False)
                self._view.show_commands(artifact.get("metadata", {}))
            self._show_status(task["status"])
        elif "statusUpdate" in event:
            update = event["statusUpdate"]
            self._identify(update["taskId"], update["contextId"])
            operation = object_in(update.get("metadata", {}), OPERATION)
            if self._open.take(operation):
                self._view.show_operation(operation)
            self._show_status(update["status"])
        elif "artifactUpdate" in event:
            chunk = event["artifactUpdate"]
            self._identify(chunk["taskId"], chunk["contextId"])
            artifact = chunk["artifact"]
            self._view.show_parts(artifact["artifactId"], artifact["parts"], append=chunk["append"])
            self._view.show_commands(artifact.get("metadata", {}))
        elif "message" in event:
            self._context_id = event["message"].get("contextId", self._context_id)
            self._view.show_parts("message", event["message"]["parts"], append=False)
            self._state = TaskState.COMPLETED

    def _identify(self, task_id: str, context_id: str) -> None:
        # An agent may leave out what it has said before.
        self._task_id, self._context_id = task_id or self._task_id, context_id or self._context_id

    def _show_status(self, status: TaskStatus) -> None:
        self._state = TaskState(status["state"])
        self._is_unexplained = text_of(status.get("message", {}).get("parts", [])) == FAILED
        if "message" in status:
            self._view.show_status(status["message"], has_stopped=self._state in STOPPED)

    def attach(self, name: str) -> bool:
        """Send a file with the next message. Returns whether it could be read."""
        path = attachments.path_of(name)
        try:
            path.open("rb").close()
        except OSError as error:
            self._view.fail(f"{path}: {error.strerror}")
            return False
        self._attached.append(path)
        if self._view.is_conversation:
            self._view.note(f"{path.name} goes with the next message.")
        return True

    async def save_all(self, folder: Path) -> bool:
        """Save, in a folder, all files that were shown. Returns whether that succeeded."""
        return await attachments.save_all(self._http, self._caller, self._view, folder)
