"""`tools/call`: a tool's turn, and its result in the form that the client can take."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from starlette.responses import Response

from a2a_lambda import strictjson, threads
from a2a_lambda.errors import InvalidParams, KitError, ProtocolError, TaskNotFound, UnsupportedOperation
from a2a_lambda.http import sse
from a2a_lambda.http.error_responses import JSON, is_fault_on_lambda, report_error
from a2a_lambda.http.mcp import request_state, tasks
from a2a_lambda.http.mcp.mcp_call import McpCall
from a2a_lambda.http.operation_call import SlotStream, respond
from a2a_lambda.http.request import accepted_types
from a2a_lambda.protocol.model import STOPPED, Artifact, Event, Json, Task, TaskState, text_of
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.tasks.message_call import QuestionClosed
from a2a_lambda.wire.mcp import results
from a2a_lambda.wire.mcp.questions import elicitation, is_asked_by_form, is_empty, is_refusal, question_key
from a2a_lambda.wire.mcp.revisions import CONTEXT_KEY, TASKS
from a2a_lambda.wire.mcp.tool_calls import arguments_of, decode_call, only_asks, task_of
from a2a_lambda.wire.mcp.tools import Tool, find_tool


class Plan(NamedTuple):
    """What a call of a tool does: it sends a message, or, if `request` is None, asks for an existing task.

    earlier_artifacts: those that an earlier call's result had in addition to its question. The result of the
        call that answers the question need not repeat them.
    """

    request: SendMessageRequest | None
    task_id: str = ""
    earlier_artifacts: Sequence[Artifact] = ()


async def answer(call: McpCall) -> Response:
    """`tools/call`: the tool's result, a question, a task, or a stream that ends with one of them. Raises
    ProtocolError, StoreError; once the answer has begun, errors are sent in it."""
    tool = find_tool(call.agent, call.message.params.get("name"))
    arguments = arguments_of(call.message.params)
    try:
        return await _answer(call, tool, arguments)
    except (InvalidParams, TaskNotFound, UnsupportedOperation) as error:
        if not _is_of_arguments(error, call, tool, arguments):
            if (refusal := _error_of(call, error)) is not error:
                raise refusal from error
            raise
        return Response(_encode_failure(call, tool, arguments, error), media_type=JSON)


def _encode_failure(call: McpCall, tool: Tool, arguments: dict[str, Json], cause: Exception) -> bytes:
    """Wrong arguments are a result, because a model reads results and can correct what it wrote, while a
    protocol error ends at its client.

    Source: https://modelcontextprotocol.io/seps/1303-input-validation-errors-as-tool-execution-errors
    """
    error = _error_of(call, report_error(cause))
    if _is_of_arguments(error, call, tool, arguments):
        text = str(error)
        if isinstance(error, TaskNotFound):  # a model that must fill every argument makes a task up
            text += f". To begin a new task, leave {tool.task_argument} empty"
        return call.encode(results.encode_mistake(text))
    return call.encode_error(error)


def _error_of(call: McpCall, error: ProtocolError) -> ProtocolError:
    """The error that the client gets. If the question was closed while the call was on its way, its
    requestState is refused, as it is when the question was closed before."""
    if isinstance(error, QuestionClosed) and call.message.request_state is not None:
        return InvalidParams(request_state.REFUSED, path="params.requestState")
    return error


def _is_of_arguments(error: Exception, call: McpCall, tool: Tool, arguments: dict[str, Json]) -> bool:
    """Whether a model can correct the error, because it wrote the arguments."""
    if isinstance(error, InvalidParams):
        return (error.path or "").startswith("params.arguments.")
    is_of_task = isinstance(error, TaskNotFound | UnsupportedOperation)
    # The task is the one that an argument names, unless the call answers a question.
    return is_of_task and call.message.request_state is None and task_of(tool, arguments) is not None


async def _answer(call: McpCall, tool: Tool, arguments: dict[str, Json]) -> Response:
    plan = await _make_plan(call, tool, arguments)
    request, earlier_artifacts = plan.request, plan.earlier_artifacts
    is_long = call.kit.messages.placement.is_long(call.namespace.agent, tool.name)

    async def result() -> bytes:
        if request is None:
            # The task once it has stopped, or as it is when the answer must be out.
            task = await tasks.wait(call, plan.task_id)
        else:
            message_call = replace(call.message_call(request), deadline=call.deadline(is_long=is_long))
            task = (await call.kit.messages.send(message_call, request))["task"]
        task = results.without_earlier_artifacts(task, earlier_artifacts)
        return call.encode(await _outcome(call, tool, arguments, task))

    if request is not None:
        takes_events = bool(accepted_types(call.request) & {sse.MEDIA_TYPE, "*/*"})
        if is_long and call.message.has_extension(TASKS):
            request["configuration"] = {"returnImmediately": True}
        elif call.message.progress_token is not None and takes_events:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(call.kit.call_slots.hold(call.namespace.owner))
                # Files are in the result alone, and not in what the events tell of the work.
                deadline = call.deadline(is_long=is_long)
                message_call = replace(call.message_call(request), modes=(), deadline=deadline)
                events = await call.kit.messages.stream(message_call, request)
                body = _encode_stream(call, tool, arguments, events, earlier_artifacts)
                await anext(body)
                return SlotStream(body, stack)
    return await respond(result(), partial(_encode_failure, call, tool, arguments))


async def _make_plan(call: McpCall, tool: Tool, arguments: dict[str, Json]) -> Plan:
    """What a call does. It sends nothing if it only asks for a task's status, or if it lacks the answer to
    its question or refuses it, which cancels the task. Raises InvalidParams, TaskNotFound."""
    params = call.message.params
    if call.message.request_state is not None:
        binding = request_state.binding_of(call.namespace, tool.name, arguments)
        secret = await threads.run(call.kit.question_secret.get)
        question_state = request_state.unseal(call.message.request_state, binding, secret, time.time())
        record = await call.kit.service.get(call.namespace, question_state.task_id)
        state, responses = record.task["status"]["state"], params.get("inputResponses")
        response = responses.get(question_state.key) if isinstance(responses, dict) else None
        if question_key(record.task) != question_state.key or state != TaskState.INPUT_REQUIRED:
            # The call may be a repeated one. The task knows an answer by its Idempotency-Key, and only by
            # that. A refusal has canceled the task.
            is_repeated_refusal = state == TaskState.CANCELED and is_refusal(response)
            if is_repeated_refusal or call.identity().repeats(record.requests, since=math.inf):
                return Plan(None, question_state.task_id)
            raise InvalidParams(request_state.REFUSED, path="params.requestState")
        if response is None or is_empty(response):  # the answer is missing, so the question is asked again
            return Plan(None, question_state.task_id)
        path = f"params.inputResponses.{question_state.key}"
        return Plan(await tasks.reply_to(call, record, response, path), question_state.task_id)
    plan = Plan(decode_call(tool, arguments, call.message.meta))
    if (task_id := task_of(tool, arguments)) is not None:
        record = await call.kit.service.get(call.namespace, task_id)
        maker = tasks.tool_of(call, record)
        if maker is not None and maker.name != tool.name:
            raise InvalidParams(
                f"this task belongs to the tool {maker.name}: call that tool",
                path=f"params.arguments.{tool.task_argument}",
            )
        if only_asks(tool, arguments, record.task):
            return Plan(None, task_id)
        if plan.request is not None and record.open_question:
            plan.request["question"] = record.open_question
        # A repeated call gets the whole task, because the first answer may be lost.
        if not call.identity().repeats(record.requests, since=math.inf):
            plan = plan._replace(earlier_artifacts=record.task.get("artifacts", ()))
    return plan


async def _outcome(call: McpCall, tool: Tool, arguments: dict[str, Json], task: Task) -> dict[str, Json]:
    """The result that the client can take: a question to its user, a task, or what the turn output."""
    message, state = call.message, task["status"]["state"]
    meta: dict[str, Json] = {"_meta": {CONTEXT_KEY: task["contextId"]}}
    if state not in STOPPED and message.has_extension(TASKS):
        times = tasks.times_of(await call.kit.service.get(call.namespace, task["id"]))
        return {"resultType": "task", **results.encode_new_task(task, times), **meta}
    if is_asked_by_form(task, shows_forms=message.shows_forms):
        key = question_key(task)
        binding = request_state.binding_of(call.namespace, tool.name, arguments)
        secret = await threads.run(call.kit.question_secret.get)
        sealed_state = request_state.seal(
            request_state.QuestionState(task["id"], key), binding, secret, time.time()
        )
        questions = {key: elicitation(task, tool)}
        return {
            "resultType": "input_required",
            "inputRequests": questions,
            "requestState": sealed_state,
            **meta,
        }
    return results.encode_result(task, message.revision, tool)


async def _encode_stream(
    call: McpCall,
    tool: Tool,
    arguments: dict[str, Json],
    events: sse.Events,
    earlier_artifacts: Sequence[Artifact],
) -> AsyncGenerator[bytes, None]:
    """The first chunk is empty: with it, the generator has begun, and notices that its client leaves."""
    _, first = await anext(events)
    task_id, count, is_over = first["task"]["id"], 0, first["task"]["status"]["state"] in STOPPED
    token = call.message.progress_token
    assert token is not None
    try:
        async with aclosing(events), aclosing(sse.with_silences(events, sse.KEEP_ALIVE_SECONDS)) as items:
            yield b""
            async for item in items:
                if item is None:
                    yield sse.COMMENT
                    continue
                _, event = item
                status = event.get("task", event.get("statusUpdate", {})).get("status")
                is_over = is_over if status is None else status["state"] in STOPPED
                if text := _progress_in(event):
                    count += 1
                    yield sse.encode(strictjson.dumps(results.progress(text, count, token)))
        task = (await call.kit.service.get(call.namespace, task_id, results.INLINE_MODES)).task
        task = results.without_earlier_artifacts(task, earlier_artifacts)
        yield sse.encode(call.encode(await _outcome(call, tool, arguments, task)))
    except (GeneratorExit, asyncio.CancelledError):
        # A client that leaves cancels its call. In the older revisions it may have lost its connection only:
        # https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
        if not is_over and call.message.is_stateless:

            async def cancel() -> None:
                with suppress(KitError):
                    await call.kit.service.cancel(call.namespace, task_id)

            threads.keep(asyncio.ensure_future(cancel()))  # this generator must not wait any longer
        raise
    except Exception as cause:
        yield sse.encode(_encode_failure(call, tool, arguments, cause))
        if is_fault_on_lambda(cause, call.request):
            raise


def _progress_in(event: Event) -> str:
    """What an event tells of the work: a progress text, or a piece of the answer. An answer that comes in
    one piece is only in the result."""
    if "artifactUpdate" in event:
        update = event["artifactUpdate"]
        is_piece = update["append"] or not update["lastChunk"]
        return text_of(update["artifact"]["parts"]) if is_piece else ""
    status = event.get("statusUpdate", {}).get("status", {})
    if status.get("state") in STOPPED or "message" not in status:
        return ""
    return text_of(status["message"]["parts"])
