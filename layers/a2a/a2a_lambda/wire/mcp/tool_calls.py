"""A call of a tool as a message."""

import uuid
from collections.abc import Mapping

from a2a_lambda.errors import InvalidParams, excerpt
from a2a_lambda.protocol.alibaba_metadata import intent_metadata
from a2a_lambda.protocol.model import INTERRUPTED, Json, Message, Part, Role, Task
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.wire.mcp.questions import filled_parameter
from a2a_lambda.wire.mcp.revisions import CONTEXT_KEY
from a2a_lambda.wire.mcp.tools import Tool
from a2a_lambda.wire.shared import fields


def arguments_of(params: Mapping[str, Json]) -> dict[str, Json]:
    """The arguments of a call; none if they are null. Raises InvalidParams."""
    arguments = params.get("arguments")
    return {} if arguments is None else fields.mapping(arguments, "params.arguments")


def task_of(tool: Tool, arguments: Mapping[str, Json]) -> str | None:
    """Id of the task that a call continues. Raises InvalidParams."""
    if arguments.get(tool.task_argument) in (None, ""):
        return None
    return fields.identifier({**arguments}, tool.task_argument, "params.arguments")


def message_of(tool: Tool, arguments: Mapping[str, Json]) -> str:
    """What the user says in a call. Raises InvalidParams."""
    if arguments.get(tool.message_argument) is None:
        return ""
    return fields.text({**arguments}, tool.message_argument, "params.arguments")


def only_asks(tool: Tool, arguments: Mapping[str, Json], task: Task) -> bool:
    """Whether a call with a task only asks for its status. A model may send null for each argument that it
    does not use, an empty message, and again the arguments that the tool requires. Among those, only the
    parameter that the task asks for is an answer. Raises InvalidParams."""
    name = filled_parameter(task) if task["status"]["state"] in INTERRUPTED else None
    has_answer = name in tool.parameters and arguments.get(str(name)) is not None
    return not message_of(tool, arguments) and not has_answer


def decode_call(tool: Tool, arguments: Mapping[str, Json], meta: Mapping[str, Json]) -> SendMessageRequest:
    """The message that calls a tool, or continues its task. Raises InvalidParams."""
    names = tool.input_schema["properties"]
    if unknown_names := arguments.keys() - names.keys():
        name = excerpt(min(unknown_names))
        raise InvalidParams(
            f"{tool.name} has no argument {name!r}. Its arguments are {', '.join(names)}",
            path=f"params.arguments.{name}",
        )
    text = message_of(tool, arguments)
    values = {
        name: value for name, value in arguments.items() if name in tool.parameters and value is not None
    }
    parts = [Part(text=text)] if text else []
    parts += [Part(data=values)] if values else []
    parts = parts or [Part(text="")]
    if (task_id := task_of(tool, arguments)) is not None:
        return reply(task_id, parts)
    if text and not tool.takes_message:
        raise InvalidParams(
            f"{tool.name} does not read {tool.message_argument!r}, which only answers a task's question: send"
            f" {tool.task_argument!r} with it, or leave it out",
            path=f"params.arguments.{tool.message_argument}",
        )
    is_required = tool.message_argument in tool.input_schema.get("required", ())
    if is_required and arguments.get(tool.message_argument) is None:
        raise InvalidParams(
            f"{tool.name} needs the argument {tool.message_argument!r}: send what the user says",
            path=f"params.arguments.{tool.message_argument}",
        )
    message = Message(messageId=str(uuid.uuid4()), role=Role.USER, parts=parts)
    message["metadata"] = intent_metadata(tool.name, {})
    if meta.get(CONTEXT_KEY) is not None:
        message["contextId"] = fields.identifier({**meta}, CONTEXT_KEY, "params._meta")
    return SendMessageRequest(message=message)


def reply(task_id: str, parts: list[Part]) -> SendMessageRequest:
    """The answer to a task's question. It names no skill: the one that asked gets it."""
    message = Message(messageId=str(uuid.uuid4()), role=Role.USER, parts=parts, taskId=task_id)
    return SendMessageRequest(message=message)
