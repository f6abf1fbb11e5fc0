"""A host's calls of tools, and their results as tasks of A2A 1.0: translation without I/O.

What a server sends may have any form. The functions raise LookupError, TypeError or AttributeError if it is
not of MCP.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from a2a_lambda import strictjson
from a2a_lambda.client import AgentError
from a2a_lambda.errors import ParseError
from a2a_lambda.protocol.alibaba_metadata import intents
from a2a_lambda.protocol.model import CHOICES, Event, Json, Message, Part, Role, Task, TaskState, text_of
from a2a_lambda.strictjson import object_in
from a2a_lambda.wire.mcp.revisions import CONTEXT_KEY
from a2a_lambda.wire.mcp.tools import ANSWER_ONLY, ARGUMENT_PREFIX, MESSAGE_ARGUMENT, TASK_ARGUMENT
from tools.agents.card_checks import Finding
from tools.callers.records import Record

QUESTION = "question:"
"""Prefix of the id of a call that asked a question and is not a task in MCP. The rest is the JSON that
resumes the call."""

STATES = {
    "working": TaskState.WORKING,
    "input_required": TaskState.INPUT_REQUIRED,
    "cancelled": TaskState.CANCELED,
    "failed": TaskState.FAILED,
}


def call_of(message: Message, tools: list[Json]) -> dict[str, Json]:
    """Name and arguments of the tool that a message calls. Raises AgentError."""
    text = text_of(message["parts"])
    if any("raw" in part or "url" in part for part in message["parts"]):
        raise AgentError("MCP tools take no files: leave the file out, or choose another version")
    [intent, *_] = [*intents(message.get("metadata", {})), None]
    if intent is not None:
        tool = next((tool for tool in tools if tool["name"] == intent.skill), None)
    else:
        tool = next((tool for tool in tools if _text_argument(tool)), None)
        # An agent's only skill answers any text, as it does over A2A.
        if (
            tool is None
            and len(tools) == 1
            and _properties(tools[0]).keys() <= {MESSAGE_ARGUMENT, TASK_ARGUMENT}
        ):
            tool = tools[0]
    if tool is None:
        raise AgentError("there is no such tool" if intent else "no tool takes text: choose one by its name")
    properties, text_argument = _properties(tool), _text_argument(tool)
    arguments: dict[str, Json] = {text_argument: text} if text and text_argument else {}
    for part in message["parts"]:
        if isinstance(part.get("data"), dict):
            arguments |= part["data"]
    if intent is not None:
        texts = {name: values[0] for name, values in intent.slots.items() if values}
        arguments |= {name: _value(text, properties.get(name, {})) for name, text in texts.items()}
    return {"name": tool["name"], "arguments": arguments}


def _text_argument(tool: Json) -> str:
    """Name of the argument that takes what the user says in a new call, or ""."""
    properties = _properties(tool)
    names = (ARGUMENT_PREFIX + MESSAGE_ARGUMENT, MESSAGE_ARGUMENT)
    name = next((name for name in names if name in properties), "")
    return "" if properties.get(name, {}).get("description") == ANSWER_ONLY else name


def _properties(tool: Json) -> dict[str, Json]:
    properties: dict[str, Json] = tool["inputSchema"].get("properties", {})
    return properties


def _value(text: str, schema: Json) -> Json:
    """An argument that was written as text, in the type that the tool wants."""
    if schema.get("type", "string") == "string":
        return text
    try:
        return strictjson.loads(text.encode())
    except ParseError:
        return text


def answers_to(requests: Mapping[str, Json], text: str) -> dict[str, Json]:
    """A user's text as the answer to each question. Raises AgentError."""
    answers = {}
    for key, request in requests.items():
        fields = request["params"]["requestedSchema"]["properties"]
        if len(fields) != 1:
            raise AgentError(
                f"a question has {len(fields)} fields, but only one with a single field can be answered here"
            )
        content = {field: _value(text, schema) for field, schema in fields.items()}
        answers[key] = {"action": "accept", "content": content}
    return answers


def questions_in(result: Mapping[str, Any]) -> Iterator[str]:
    for request in result.get("inputRequests", {}).values():
        yield request["params"]["message"]


def choices_in(result: Mapping[str, Any]) -> list[str]:
    """What a result's only question offers as answers."""
    forms = [
        object_in(object_in(request["params"], "requestedSchema"), "properties")
        for request in result.get("inputRequests", {}).values()
    ]
    fields = [object_in(form, name) for form in forms for name in form]
    choices = fields[0].get("enum") if len(fields) == 1 else None
    return [choice for choice in choices if isinstance(choice, str)] if isinstance(choices, list) else []


def updates_in(record: Record, context_id: str) -> Iterator[Event]:
    """Events of a frame: its notification of progress."""
    message = record.get("message", {})
    if message.get("method") == "notifications/progress":
        task = new_task("", context_id, TaskState.WORKING, [text_part(message["params"].get("message", ""))])
        yield {"statusUpdate": {"taskId": "", "contextId": context_id, "status": task["status"]}}


def text_part(value: Json) -> Part:
    """Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a string")
    return Part(text=value)


def task_of(result: Json, params: Mapping[str, Json], context_id: str, task_id: str = "") -> Task:
    """The task of a result. params: the call's parameters, for the next call if it asks."""
    context_id = result.get("_meta", {}).get(CONTEXT_KEY, context_id)
    if result.get("resultType") == "input_required":
        resuming = {key: result[key] for key in ("inputRequests", "requestState") if key in result}
        resumption = {**params, **resuming}
        parts = [text_part(text) for text in questions_in(result)]
        task = new_task(QUESTION + json.dumps(resumption), context_id, TaskState.INPUT_REQUIRED, parts)
        if "message" in task["status"] and (choices := choices_in(result)):
            task["status"]["message"]["metadata"] = {CHOICES: choices}
        return task
    parts = [_part(block) for block in result["content"]]
    if "structuredContent" in result:
        data = result["structuredContent"]
        # A server repeats its data as text, and some put a value that is not an object into `result`.
        values = [data]
        if isinstance(data, dict) and data.keys() == {"result"}:
            entries = data["result"] if isinstance(data["result"], list) else []
            values += [data["result"], *entries]
        schema = {"type": "object"}
        texts = [
            part
            for part in parts
            if "text" in part and (part["text"] in values or _value(part["text"], schema) in values)
        ]
        place = parts.index(texts[0]) if texts else 0
        parts = [part for part in parts if part not in texts]
        parts.insert(place, Part(data=data))
    if result.get("isError"):
        return new_task(task_id, context_id, TaskState.FAILED, parts)
    task = new_task(task_id, context_id, TaskState.COMPLETED, [])
    task["artifacts"] = [{"artifactId": "result", "parts": parts}]
    return task


def new_task(task_id: str, context_id: str, state: TaskState, parts: list[Part]) -> Task:
    task = Task(id=task_id, contextId=context_id, status={"state": state})
    if parts:
        message = Message(messageId=str(uuid.uuid4()), role=Role.AGENT, parts=parts)
        task["status"]["message"] = message
    return task


def _part(block: Json) -> Part:
    """A block of content as a part. Raises LookupError, TypeError, AttributeError."""
    match block["type"]:
        case "text":
            return text_part(block["text"])
        case "image" | "audio" as kind:
            return Part(raw=_text(block, "data"), mediaType=_text(block, "mimeType"), filename=kind)
        case "resource_link":
            return Part(url=_text(block, "uri"), filename=_text(block, "name"), mediaType=_media_type(block))
        case "resource":
            resource = block["resource"]
            name = _text(resource, "uri").rpartition("/")[2]
            if resource.get("text") is not None:
                return text_part(resource["text"])
            return Part(raw=_text(resource, "blob"), filename=name, mediaType=_media_type(resource))
    return Part(data=block)


def _media_type(block: Json) -> str:
    """ "" = it has none. Some servers send null for a field without a value."""
    return "" if block.get("mimeType") is None else _text(block, "mimeType")


def _text(block: Json, name: str) -> str:
    """A field of a block. Raises KeyError, and TypeError if it is not a string."""
    value = block[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a string")
    return value


def findings_on(tools: list[Json]) -> Iterator[Finding]:
    """What a host's model needs to choose a tool."""
    names = ", ".join(tool["name"] for tool in tools)
    yield "the tools", bool(tools) or None, names or "none, as card.yaml says by `mcp: false`"
    gaps = [tool["name"] for tool in tools if not tool.get("description")]
    note = f"a model chooses by it; without one: {', '.join(gaps)}" if gaps else ""
    yield "every tool has a description", not gaps, note
