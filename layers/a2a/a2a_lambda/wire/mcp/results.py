"""What a turn came to, as the result of a tool.

Source: https://modelcontextprotocol.io/specification/2026-07-28/server/tools, and the extension for tasks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote

from a2a_lambda import strictjson
from a2a_lambda.protocol.model import (
    INTERRUPTED,
    TERMINAL,
    Artifact,
    Json,
    Part,
    Role,
    Task,
    TaskState,
    decode_raw,
    parts_of_artifacts,
    plain_media_type,
    text_of,
)
from a2a_lambda.wire.mcp.questions import (
    choices_of,
    elicitation,
    filled_parameter,
    is_asked_by_form,
    question_key,
    question_text,
)
from a2a_lambda.wire.mcp.revisions import CONTEXT_KEY, SERVER_KEY, STATELESS, WITHOUT_LINKS
from a2a_lambda.wire.mcp.tools import MESSAGE_ARGUMENT, TASK_ARGUMENT, Tool

INLINE_MODES = ("image/*;base64", "audio/*;base64")
"""Patterns of the media types whose content is in a result. Other files may be links to a resource."""

TEXT_SUFFIXES = ("/json", "+json", "/xml", "+xml", "/yaml", "+yaml", "/javascript")
"""Suffixes of text media types besides text/*."""

POLL_INTERVAL_MS = 2000
"""Milliseconds after which a client may ask for a task again."""

TASK_STATUSES: Mapping[TaskState, str] = {
    TaskState.COMPLETED: "completed",
    TaskState.FAILED: "completed",
    TaskState.REJECTED: "completed",
    TaskState.CANCELED: "cancelled",
    TaskState.INPUT_REQUIRED: "input_required",
    TaskState.AUTH_REQUIRED: "input_required",
}
"""A tool that failed is a task that completed with an error, because `failed` is for faults of the protocol.
Every other state is `working`."""


def in_revision(result: dict[str, Json], revision: str, server: Mapping[str, Json]) -> dict[str, Json]:
    """A result with what its revision wants in each one. server: name and version of this server."""
    if revision != STATELESS:
        return result
    meta = {SERVER_KEY: dict(server), **result.get("_meta", {})}
    return {"resultType": "complete", **result, "_meta": meta}


def encode_result(task: Task, revision: str, tool: Tool | None) -> dict[str, Json]:
    """The result of a call whose task has stopped, or continues elsewhere. tool: the one that made the task,
    as far as is known. If it promises structured content, a result without that is only valid as an error."""
    state, output = task["status"]["state"], parts_of_artifacts(task)
    has_output_schema = tool is not None and tool.output_schema is not None
    content = [*_content(output, revision)]
    result: dict[str, Json] = {}
    if state not in TERMINAL:
        words = [_text(_how_to_go_on(task, tool))]
        is_error = has_output_schema
    else:
        values = [part["data"] for part in output if "data" in part]
        message = task["status"].get("message")
        words = [] if message is None else [*_content(message["parts"], revision)]
        # Many clients show the model nothing but structured content, so without a promise it must be the
        # whole result. A skill that promises data returns one value, and an earlier turn may have, too.
        is_structured = has_output_schema or (len(content) == 1 and not words)
        data = values[-1] if values and is_structured else None
        if state == TaskState.CANCELED and not words:
            words = [_text("\n".join(filter(None, (_open_question(task), "The task was canceled."))))]
        if data is not None and (isinstance(data, dict) or revision == STATELESS):
            result["structuredContent"] = data
        lacks_data = has_output_schema and "structuredContent" not in result
        is_error = state != TaskState.COMPLETED or lacks_data
        if state == TaskState.COMPLETED and lacks_data:
            words.insert(0, _text("The tool did not return the data that its output schema promises."))
    # Some clients raise only the first text of an error.
    result["content"] = [*words, *content] if is_error else [*content, *words]
    result["_meta"] = {CONTEXT_KEY: task["contextId"]}
    return result | ({"isError": True} if is_error else {})


def without_earlier_artifacts(task: Task, earlier_artifacts: Sequence[Artifact]) -> Task:
    """The task without the artifacts that have stayed as they were. A durable turn may have added to one."""
    earlier = {artifact["artifactId"]: _shape_of(artifact) for artifact in earlier_artifacts}
    artifacts = [
        artifact
        for artifact in task.get("artifacts", ())
        if earlier.get(artifact["artifactId"]) != _shape_of(artifact)
    ]
    return {**task, "artifacts": artifacts}


def _shape_of(artifact: Artifact) -> list[dict[str, Json]]:
    """The parts, without bytes and URLs: a stored file appears as either, and each answer has a new URL."""
    return [
        {key: value for key, value in part.items() if key not in ("raw", "url")} for part in artifact["parts"]
    ]


def encode_mistake(text: str) -> dict[str, Json]:
    """The result of a call whose arguments are wrong. text: what is wrong with them."""
    return {"content": [_text(text)], "isError": True}


def _open_question(task: Task) -> str:
    """The question that a canceled task left open, in a sentence; "" if there was none. A client that cannot
    show a form may have closed it, so the model must see the question."""
    last_message = next(reversed(task.get("history", ())), None)
    if last_message is None or last_message["role"] != Role.AGENT:
        return ""
    question = text_of(last_message["parts"])
    return f"This question was not answered: {question}" if question else ""


def _how_to_go_on(task: Task, tool: Tool | None) -> str:
    """What to tell the client: the question, which it cannot show as a form, or how to look at a task that
    still runs."""
    task_argument = TASK_ARGUMENT if tool is None else tool.task_argument
    call = f"call this tool again with {task_argument}={task['id']!r}"
    if task["status"]["state"] in INTERRUPTED:
        name = filled_parameter(task) or (MESSAGE_ARGUMENT if tool is None else tool.message_argument)
        question = question_text(task)
        choice = f" Choose one of {', '.join(choices_of(task))}."
        if choices_of(task) and choice not in question:  # the kit's own questions say it
            question += choice
        return f"{question}\nTo answer, {call} and {name}=<the answer>."
    if tool is not None and tool.message_argument in tool.input_schema.get("required", ()):
        call += f" and {tool.message_argument}=''"  # a client may hold the model to the schema
    return f"This takes longer than a call may. The task is still running: {call} to see its progress."


def encode_new_task(task: Task, times: Mapping[str, Json]) -> dict[str, Json]:
    """A task that was made instead of a result. times: createdAt and ttlMs."""
    status = task["status"]
    text = text_of(status["message"]["parts"]) if "message" in status else ""
    if status["state"] == TaskState.CANCELED and not text:
        text = _open_question(task)
    return {
        "taskId": task["id"],
        "status": TASK_STATUSES.get(status["state"], "working"),
        **({"statusMessage": text} if text else {}),
        "lastUpdatedAt": status.get("timestamp", ""),
        "pollIntervalMs": POLL_INTERVAL_MS,
        **times,
    }


def encode_task(
    task: Task, tool: Tool | None, times: Mapping[str, Json], *, shows_forms: bool
) -> dict[str, Json]:
    """A task as `tasks/get` answers with it. tool: the one that made it, as far as is known. times: see
    `encode_new_task`. shows_forms: whether the client can show a question as a form."""
    result = encode_new_task(task, times)
    if is_asked_by_form(task, shows_forms=shows_forms):
        result["inputRequests"] = {question_key(task): elicitation(task, tool)}
    elif result["status"] in ("completed", "input_required"):
        # Without a request that it can fulfill, a client would ask for the task until it expires. So any
        # other question is a result, as for a client without tasks. The call that answers it makes the task
        # work again.
        result["status"] = "completed"
        result["result"] = {"resultType": "complete", **encode_result(task, STATELESS, tool)}
    return result


def progress(update: str, count: int, token: str | int) -> dict[str, Json]:
    """A notification of progress. count: grows with each."""
    params = {"progressToken": token, "progress": count, "message": update}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def _content(parts: Iterable[Part], revision: str) -> Iterator[dict[str, Json]]:
    for part in parts:
        media_type = part.get("mediaType") or "application/octet-stream"
        name = part.get("filename") or "file"
        if "text" in part:
            if part["text"]:
                yield _text(part["text"])
        elif "data" in part:
            yield _text(strictjson.dumps(part["data"]).decode())
        elif "raw" in part:
            plain_type = plain_media_type(media_type)
            kind = plain_type.partition("/")[0]
            if kind in ("image", "audio"):
                yield {"type": kind, "data": part["raw"], "mimeType": media_type}
                continue
            resource = {"uri": f"attachment:///{quote(name, safe='')}", "mimeType": media_type}
            # A client hands text to its model, and can rarely do anything with a blob.
            is_text = kind == "text" or plain_type.endswith(TEXT_SUFFIXES)
            try:
                content = {"text": decode_raw(part["raw"]).decode()} if is_text else {"blob": part["raw"]}
            except ValueError:
                content = {"blob": part["raw"]}
            yield {"type": "resource", "resource": {**resource, **content}}
        elif "url" in part and revision == WITHOUT_LINKS:
            yield _text(f"{name}: {part['url']}")
        elif "url" in part:
            yield {"type": "resource_link", "uri": part["url"], "name": name, "mimeType": media_type}


def _text(text: str) -> dict[str, Json]:
    return {"type": "text", "text": text}
