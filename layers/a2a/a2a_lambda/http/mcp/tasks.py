"""Tasks of MCP's extension: the same tasks that A2A's clients see."""

from collections.abc import Mapping
from contextlib import aclosing, suppress

from a2a_lambda.errors import TaskNotCancelable
from a2a_lambda.http.mcp.mcp_call import McpCall
from a2a_lambda.operations.service import TaskRecord
from a2a_lambda.protocol.alibaba_metadata import intents
from a2a_lambda.protocol.model import STOPPED, Json, Part, Task, TaskState, timestamp
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.tasks.message_call import QuestionClosed
from a2a_lambda.wire.mcp import results
from a2a_lambda.wire.mcp.questions import (
    ANSWER_FIELD,
    answer_of,
    filled_parameter,
    is_asked_by_form,
    is_empty,
    is_refusal,
    question_key,
)
from a2a_lambda.wire.mcp.revisions import TASKS, CapabilityRequired
from a2a_lambda.wire.mcp.tool_calls import reply
from a2a_lambda.wire.mcp.tools import Tool, tools_of
from a2a_lambda.wire.shared import fields


async def get(call: McpCall) -> dict[str, Json]:
    """`tasks/get`: the task, with its result or its question. Raises TaskNotFound, InvalidParams, and
    CapabilityRequired if the client did not declare the extension."""
    record = await call.kit.service.get(call.namespace, _id(call))
    shows_forms = call.message.shows_forms
    has_stopped = record.task["status"]["state"] in STOPPED
    if has_stopped and not is_asked_by_form(record.task, shows_forms=shows_forms):  # an answer with content
        record = await call.kit.service.get(call.namespace, record.task["id"], results.INLINE_MODES)
    tool, times = tool_of(call, record), times_of(record)
    return results.encode_task(record.task, tool, times, shows_forms=shows_forms)


async def update(call: McpCall) -> dict[str, Json]:
    """Answer the task's question. Raises TaskNotFound, InvalidParams."""
    record = await call.kit.service.get(call.namespace, _id(call))
    key = question_key(record.task)
    responses = fields.mapping(call.message.params.get("inputResponses"), "params.inputResponses")
    # An answer to an earlier question, or to one that somebody else has answered, is ignored, and so is one
    # with credentials, which no form has asked for.
    is_answered = key in responses and not is_empty(responses[key])
    if record.task["status"]["state"] == TaskState.INPUT_REQUIRED and is_answered:
        request = await reply_to(call, record, responses[key], f"params.inputResponses.{key}")
        if request is not None:
            request["configuration"] = {"returnImmediately": True}
            with suppress(QuestionClosed):  # meanwhile: ignored like an answer to an earlier question
                await call.kit.messages.send(call.message_call(request), request)
    return {}


async def reply_to(call: McpCall, record: TaskRecord, response: Json, path: str) -> SendMessageRequest | None:
    """The message that answers the question of a task, and no later one. If the user refuses a parameter,
    there is no message, because its words would become the argument: the task is canceled, and None returned.
    Raises InvalidParams."""
    parameter = filled_parameter(record.task)
    text = answer_of(response, parameter or ANSWER_FIELD, path)
    if is_refusal(response) and parameter is not None:
        with suppress(TaskNotCancelable):
            await call.kit.service.cancel(call.namespace, record.task["id"], record.open_question)
        return None
    # An empty text is no answer, and one that looks like a JSON object could have other arguments.
    is_misread = parameter is not None and text.strip()[:1] in ("", "{")
    request = reply(record.task["id"], [Part(data={parameter: text}) if is_misread else Part(text=text)])
    request["question"] = record.open_question
    return request


async def cancel(call: McpCall) -> dict[str, Json]:
    """`tasks/cancel`: an empty result, once the task has ended. Raises TaskNotFound, InvalidParams, and
    CapabilityRequired if the client did not declare the extension."""
    with suppress(TaskNotCancelable):  # it has ended already, as the client wants
        await call.kit.service.cancel(call.namespace, _id(call))
    return {}


async def wait(call: McpCall, task_id: str) -> Task:
    """A task once it has stopped, or at the deadline of the answer. Meanwhile the call holds a slot of its
    owner, as a stream does. Raises TaskNotFound, TooManyCalls."""
    service = call.kit.service
    task = (await service.get(call.namespace, task_id, results.INLINE_MODES)).task
    if task["status"]["state"] in STOPPED:
        return task
    async with call.kit.call_slots.hold(call.namespace.owner):
        end = call.deadline(is_long=True)
        subscription = await service.subscribe(call.namespace, task_id, after=None, deadline=end)
        async with aclosing(subscription.events) as events:
            async for _ in events:
                pass
    return (await service.get(call.namespace, task_id, results.INLINE_MODES)).task


def times_of(record: TaskRecord) -> Mapping[str, Json]:
    """createdAt and ttlMs of a task."""
    ttl = int((record.expires - record.created) * 1000)
    return {"createdAt": timestamp(record.created), "ttlMs": ttl}


def _id(call: McpCall) -> str:
    """Raises InvalidParams, CapabilityRequired."""
    if not call.message.has_extension(TASKS):
        raise CapabilityRequired("declare the extension for tasks", {"extensions": {TASKS: {}}})
    return fields.identifier({**call.message.params}, "taskId", "params")


def tool_of(call: McpCall, record: TaskRecord) -> Tool | None:
    """The tool that made a task, if a message of it names one."""
    named_skills = [
        intent.skill
        for message in record.task.get("history", [])
        for intent in intents(message.get("metadata", {}))
    ]
    return next((tool for tool in tools_of(call.agent) if tool.name in named_skills), None)
