"""Calls another agent, of any version of A2A, and streams its answer through."""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import urlsplit

from a2a_lambda import Ask, Authorize, File, Progress, SkillError, Turn, skill
from a2a_lambda.client import AgentError, Client
from a2a_lambda.errors import KitError
from a2a_lambda.protocol.model import Event, Part, decode_raw

Output = Any
"""Text, a value, File, Progress, Ask or Authorize."""

ENDS = ("COMPLETED", "FAILED", "CANCELED", "REJECTED")

ENDED = "The other agent no longer waits for this answer. Please ask again."

TASK_NOT_FOUND = -32001
"""A2A's code of this error."""

QUESTIONS = {"INPUT_REQUIRED": Ask, "AUTH_REQUIRED": Authorize}


@skill
async def ask(turn: Turn) -> AsyncIterator[Output]:
    url = turn.setting("other-url")
    # An agent on this machine, such as another one of make run, has no https.
    is_local = urlsplit(url).hostname in ("127.0.0.1", "localhost")
    passed_on: dict[str, str] = turn.memory.get("passed-on", {}) if turn.answering else {}
    parts = await asyncio.to_thread(parts_for, turn)
    status: Mapping[str, Any] = {}
    task_id = ""
    async with Client(url, key=turn.secret("other"), private=is_local) as other:
        conversation = await resume(turn, other)
        try:
            async for event in until_question(other.stream(parts, **conversation)):
                value: Any = next(iter(event.values()))
                for output in outputs_of(new_parts_of(event, passed_on)):
                    yield output
                if context_id := value.get("contextId"):
                    turn.memory.set("other", {"contextId": context_id})
                if "role" in value:  # a message instead of a task
                    return
                task_id = value.get("id") or value.get("taskId") or task_id
                status = value.get("status", status)
                if "status" in value and state_of(status) == "WORKING" and (text := text_of(status)):
                    yield Progress(text)
        except KitError as error:
            turn.memory.delete("passed-on")
            yield await excuse_for(error, other, conversation.get("taskId"))
            return
        except asyncio.CancelledError:
            if task_id:  # it would work on, and cost money
                await other.cancel(task_id)
            raise
    state, text = state_of(status), text_of(status)
    turn.memory.delete("passed-on")
    if state in QUESTIONS:
        turn.memory.set("other", {**turn.memory.get("other"), "taskId": task_id})
        turn.memory.set("passed-on", passed_on)
        choices = status.get("message", {}).get("metadata", {}).get("choices")
        has_texts = isinstance(choices, list) and all(isinstance(choice, str) for choice in choices)
        yield QUESTIONS[state](text or "?", choices=choices if has_texts else ())
    elif state == "COMPLETED":
        for output in closing_outputs_of(status):
            yield output
    else:
        # FAILED, REJECTED, CANCELED; or the stream has ended before the task has.
        raise SkillError(text if text and state in ENDS else "The other agent could not finish.")


async def until_question(events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    """The events up to a question, after which the stream may stay open. Only an update asks: the task that
    an answer continues may come first, with its old question."""
    async with aclosing(events):
        async for event in events:
            yield event
            if state_of(event.get("statusUpdate", {}).get("status", {})) in QUESTIONS:
                return


async def resume(turn: Turn, other: Client) -> dict[str, Any]:
    """The conversation with the other agent: its contextId, and its taskId if this message answers it."""
    conversation: dict[str, Any] = {**turn.memory.get("other", {})}
    task_id = conversation.pop("taskId", None)
    turn.memory.set("other", conversation)
    if task_id is not None and turn.answering:
        return {**conversation, "taskId": task_id}
    if task_id is not None:
        # Its question was canceled here, so this message is no answer to it: a "yes" may be about another.
        with suppress(KitError):
            await other.cancel(task_id)
    return conversation


def parts_for(turn: Turn) -> list[Part]:
    """The user's texts and values, and then the files: a large one is a URL, which works for an hour."""
    others = [part for part in turn.parts if "text" in part or "data" in part]
    files = [file.part | Part(url=url) if (url := file.url) else file.part for file in turn.files]
    return [*others, *files]


async def excuse_for(cause: KitError, other: Client, task_id: str | None) -> str:
    """What to say if the other agent's task accepts no answer any more. Raises SkillError in other cases."""
    try:
        # A failed turn keeps no memory: if this one failed, too, the next one would name that task again.
        if task_id is not None and state_of((await other.get(task_id))["status"]) in ENDS:
            return ENDED
    except KitError as error:
        if isinstance(error, AgentError) and error.code == TASK_NOT_FOUND:
            return ENDED
    if isinstance(cause, AgentError) and cause.code is not None:  # it has answered
        raise SkillError("The other agent could not finish.") from cause
    raise SkillError("The other agent cannot be reached.") from cause


def state_of(status: Mapping[str, Any]) -> str:
    return str(status.get("state", "")).removeprefix("TASK_STATE_")


def text_of(status: Mapping[str, Any]) -> str:
    parts = status.get("message", {}).get("parts", [])
    return " ".join(part["text"] for part in parts if "text" in part)


def closing_outputs_of(status: Mapping[str, Any]) -> Iterator[Output]:
    """The message that ends a task: its texts as one, then its values and files."""
    if text := text_of(status):
        yield text
    yield from outputs_of([part for part in status.get("message", {}).get("parts", []) if "text" not in part])


def new_parts_of(event: Mapping[str, Any], passed_on: dict[str, str]) -> list[dict[str, Any]]:
    """Parts of an event that were not passed on. A task that continues comes with the artifacts that it had
    before, of which some may have been replaced.

    passed_on: digest of each artifact's parts by its id, to which it adds those of the event; "" = the parts
        came one by one.
    """
    [value] = event.values()
    if "parts" in value:
        return list(value["parts"])
    artifacts = [value["artifact"]] if "artifact" in value else value.get("artifacts", [])
    new_parts = []
    for artifact in artifacts:
        artifact_id, digest = artifact["artifactId"], digest_of(artifact["parts"]) if "task" in event else ""
        if "task" not in event or passed_on.get(artifact_id) not in ("", digest):
            passed_on[artifact_id] = digest
            new_parts += artifact["parts"]
    return new_parts


def digest_of(parts: list[dict[str, Any]]) -> str:
    """Digest of an artifact's parts. The query of a file's URL is not in it: it differs at each read."""
    same_parts = [{**part, "url": part.get("url", "").partition("?")[0]} for part in parts]
    return hashlib.sha256(json.dumps(same_parts, sort_keys=True).encode()).hexdigest()[:16]


def outputs_of(parts: list[dict[str, Any]]) -> Iterator[Output]:
    """Parts of the other agent, as this one yields them."""
    for part in parts:
        if "text" in part:
            yield part["text"]
        elif "data" in part:
            yield part["data"]
        elif "url" in part:
            yield File(part.get("filename", "file"), url=part["url"], media_type=part.get("mediaType"))
        elif "raw" in part:
            content = decode_raw(part["raw"])
            yield File(part.get("filename", "file"), content, media_type=part.get("mediaType"))
