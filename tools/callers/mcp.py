"""Calls an agent's skills as an MCP host does, and reports it in the words of A2A 1.0.

    message ── the tool that it names, its text and data as arguments ── tools/call ── a task

The host's model would choose the tool. Here the message's intent does, or else it is the first one that
takes a text. Source: https://modelcontextprotocol.io/specification/2026-07-28
"""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any

import httpx2

from a2a_lambda import strictjson
from a2a_lambda.client import AgentError, sse
from a2a_lambda.client.client import EVENT_STREAM, read_whole
from a2a_lambda.errors import ParseError
from a2a_lambda.protocol.alibaba_metadata import INTENT_EXTENSION, intents
from a2a_lambda.protocol.model import Event, Json, Message, Part, Task, TaskState, text_of
from a2a_lambda.protocol.requests import Operation
from a2a_lambda.wire.mcp.revisions import (
    CAPABILITIES_KEY,
    CONTEXT_KEY,
    SERVER_KEY,
    STATELESS,
    TASKS,
    VERSION_KEY,
)
from a2a_lambda.wire.mcp.tools import MESSAGE
from tools.callers.records import MAX_BYTES, Record, Recorder, error_text, response_record

NAME = "mcp"
TITLE = f"MCP {STATELESS}"

CAPABILITIES: Mapping[str, Json] = {"elicitation": {"form": {}}, "extensions": {TASKS: {}}}
"""It asks its user, and takes a task for long work."""

QUESTION = "question:"
"""Begins the id of a task that is no task in MCP: a call that asks. The rest says how to go on with it."""

STATES = {
    "working": TaskState.WORKING,
    "input_required": TaskState.INPUT_REQUIRED,
    "cancelled": TaskState.CANCELED,
    "failed": TaskState.FAILED,
}


class McpCaller(Recorder):
    """A host of MCP. base: url of a deployment. name: name of an agent there; "" for the default one."""

    agent = None
    """There is no card to remember."""

    def __init__(self, http: httpx2.AsyncClient, base: str, *, key: str = "", name: str = "") -> None:
        super().__init__(http, base, key)
        self._url = f"{self._base}/mcp" + (f"/{name}" if name else "")
        self._results: list[Json] = []

    async def card(self) -> AsyncGenerator[Record, None]:
        """Read the tools. Ends with a record `result`, which looks like a card, or `error`."""
        async for record in self._safely(_checked(self._discover())):
            yield record

    async def call(
        self, operation: Operation, request: Json, *, after: str = ""
    ) -> AsyncGenerator[Record, None]:
        """Run an operation; its request is of A2A 1.0. after: MCP has no such ids."""
        async for record in self._safely(_checked(self._call(operation, request))):
            yield record

    async def _discover(self) -> AsyncGenerator[Record, None]:
        async for record in self._ask("tools/list", {}):
            yield record
        result = self._results[-1]
        tools = result["tools"]
        server = result.get("_meta", {}).get(SERVER_KEY, {})
        schemas = [{"id": tool["name"], "inputSchema": tool["inputSchema"]} for tool in tools]
        card = {
            "name": server.get("title") or server.get("name", ""),
            "description": f"{len(tools)} tools at {self._url}",
            "capabilities": {
                "streaming": True,
                "extensions": [{"uri": INTENT_EXTENSION, "params": {"skills": schemas}}],
            },
            "skills": [
                {"id": tool["name"], "name": tool.get("title", ""), "description": tool["description"]}
                for tool in tools
            ],
            "tools": tools,
        }
        yield {"kind": "result", "result": card, "findings": [list(finding) for finding in _findings(tools)]}

    async def _call(self, operation: Operation, request: Json) -> AsyncGenerator[Record, None]:
        match operation:
            case "send" | "stream":
                records = self._send(request["message"])
            case "get" | "subscribe":
                records = self._follow(request["id"], "")
            case "cancel":
                records = self._cancel(request["id"])
            case _:
                raise AgentError(f"MCP has no operation {operation}")
        async with aclosing(records):
            async for record in records:
                yield record

    async def _send(self, message: Message) -> AsyncGenerator[Record, None]:
        text = text_of(message["parts"])
        # A message that names a tool calls it, whatever is asked.
        task_id = "" if intents(message.get("metadata", {})) else message.get("taskId", "")
        if task_id and not task_id.startswith(QUESTION):
            async for record in self._ask("tasks/get", {"taskId": task_id}):
                yield record
            answers = _answers(self._results[-1].get("inputRequests", {}), text)
            async for record in self._ask("tasks/update", {"taskId": task_id, "inputResponses": answers}):
                yield record
            async for record in self._follow(task_id, message.get("contextId", "")):
                yield record
            return
        if task_id:
            params = json.loads(task_id.removeprefix(QUESTION))
            params["inputResponses"] = _answers(params.pop("inputRequests"), text)
        else:
            async for record in self._ask("tools/list", {}):
                yield record
            params = _params(message, self._results[-1]["tools"])
        context_id = message.get("contextId", "")
        meta = {"progressToken": str(uuid.uuid4()), **({CONTEXT_KEY: context_id} if context_id else {})}
        async for record in self._ask("tools/call", {**params, "_meta": meta}):
            yield record
            for update in _updates(record, context_id):
                yield {"kind": "event", "event": update, "id": ""}
        result = self._results[-1]
        if result["resultType"] == "task":
            async for record in self._follow(result["taskId"], context_id):
                yield record
            return
        yield {"kind": "event", "event": Event(task=_task(result, params, context_id)), "id": ""}

    async def _follow(self, task_id: str, context_id: str) -> AsyncGenerator[Record, None]:
        """Ask for a task until it has stopped."""
        while True:
            async for record in self._ask("tasks/get", {"taskId": task_id}):
                yield record
            result = self._results[-1]
            if result["status"] == "completed":
                task = _task(result["result"], {}, context_id, task_id)
            else:
                text = result.get("statusMessage") or next(iter(_questions(result)), "")
                task = _new_task(
                    task_id, context_id, STATES[result["status"]], [Part(text=text)] if text else []
                )
            yield {"kind": "event", "event": Event(task=task), "id": ""}
            if result["status"] != "working":
                return
            await asyncio.sleep(result.get("pollIntervalMs", 2000) / 1000)

    async def _cancel(self, task_id: str) -> AsyncGenerator[Record, None]:
        if not task_id or task_id.startswith(QUESTION):
            raise AgentError("MCP cancels only tasks. A call ends when its client leaves it")
        async for record in self._ask("tasks/cancel", {"taskId": task_id}):
            yield record
        yield {"kind": "result", "result": _new_task(task_id, "", TaskState.CANCELED, [])}

    async def _ask(self, method: str, params: Mapping[str, Json]) -> AsyncGenerator[Record, None]:
        """Post a request; its result is the last of `_results`. Raises AgentError."""
        count = len(self._results)
        meta = {VERSION_KEY: STATELESS, CAPABILITIES_KEY: CAPABILITIES, **params.get("_meta", {})}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = {
            "Content-Type": "application/json",
            "Accept": f"application/json, {EVENT_STREAM}",
            "MCP-Protocol-Version": STATELESS,
            "Mcp-Method": method,
            **({"Mcp-Name": params["name"]} if method == "tools/call" else {}),
            **({"Authorization": f"Bearer {self._key}"} if self._key else {}),
        }
        content = strictjson.dumps(body)
        request = self._http.build_request("POST", self._url, headers=headers, content=content)
        yield self._request_record(request, content.decode())
        answer = await self._http.send(request, stream=True)
        try:
            yield response_record(answer)
            if answer.headers.get("content-type", "").partition(";")[0] == EVENT_STREAM:
                async with aclosing(sse.events(answer.aiter_bytes(), MAX_BYTES)) as frames:
                    async for frame in frames:
                        yield {"kind": "frame", "text": frame.text.decode(errors="replace")}
                        if frame.data:
                            self._keep(frame.data, 200)
            else:
                whole = await read_whole(answer, MAX_BYTES)
                yield {"kind": "body", "text": whole.decode(errors="replace")}
                self._keep(whole, answer.status_code)
        finally:
            await answer.aclose()
        if len(self._results) == count:
            raise AgentError("the answer has no result", status=answer.status_code)

    def _keep(self, content: bytes, status: int) -> None:
        """Keep the result of a message, unless it is a notification. Raises AgentError."""
        try:
            value = strictjson.loads(content)
        except ParseError:
            value = None
        if not isinstance(value, dict) or "error" in value or status >= 400:
            raise AgentError(error_text(content, status), status=status)
        if "result" in value:
            self._results.append(value["result"])


async def _checked(records: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
    """The records of a call. Raises AgentError if an answer is not of MCP's form."""
    try:
        async with aclosing(records):
            async for record in records:
                yield record
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise AgentError(f"the answer is not of MCP {STATELESS}: {error!r}") from error


def _params(message: Message, tools: list[Json]) -> dict[str, Json]:
    """Name and arguments of the tool that a message calls. Raises AgentError."""
    text = text_of(message["parts"])
    [intent, *_] = [*intents(message.get("metadata", {})), None]
    if intent is not None:
        tool = next((tool for tool in tools if tool["name"] == intent.skill), None)
    else:
        tool = next((tool for tool in tools if MESSAGE in tool["inputSchema"]["properties"]), None)
    if tool is None:
        raise AgentError(
            "there is no such tool" if intent else "no tool takes a text: choose one by its name"
        )
    properties = tool["inputSchema"]["properties"]
    arguments: dict[str, Json] = {MESSAGE: text} if text and MESSAGE in properties else {}
    if intent is not None:
        texts = {name: values[0] for name, values in intent.slots.items() if values}
        arguments |= {name: _value(text, properties.get(name, {})) for name, text in texts.items()}
    return {"name": tool["name"], "arguments": arguments}


def _value(text: str, schema: Json) -> Json:
    """An argument that was written as text, in the type that the tool wants."""
    if schema.get("type", "string") == "string":
        return text
    try:
        return strictjson.loads(text.encode())
    except ParseError:
        return text


def _answers(requests: Mapping[str, Json], text: str) -> dict[str, Json]:
    """A user's text as the answer to each question."""
    answers = {}
    for key, request in requests.items():
        [(field, schema)] = request["params"]["requestedSchema"]["properties"].items()
        answers[key] = {"action": "accept", "content": {field: _value(text, schema)}}
    return answers


def _questions(result: Mapping[str, Any]) -> Iterator[str]:
    for request in result.get("inputRequests", {}).values():
        yield request["params"]["message"]


def _updates(record: Record, context_id: str) -> Iterator[Event]:
    """Events of a frame: its notification of progress."""
    data = "".join(line[5:] for line in record.get("text", "").splitlines() if line.startswith("data:"))
    value = json.loads(data) if record["kind"] == "frame" and data else {}
    if value.get("method") == "notifications/progress":
        task = _new_task("", context_id, TaskState.WORKING, [Part(text=value["params"].get("message", ""))])
        yield {"statusUpdate": {"taskId": "", "contextId": context_id, "status": task["status"]}}


def _task(result: Json, params: Mapping[str, Json], context_id: str, task_id: str = "") -> Task:
    """The task of a result. params: of the call, to go on with if it asks."""
    context_id = result.get("_meta", {}).get(CONTEXT_KEY, context_id)
    if result["resultType"] == "input_required":
        resumption = {**params, **{key: result[key] for key in ("inputRequests", "requestState")}}
        parts = [Part(text=text) for text in _questions(result)]
        return _new_task(QUESTION + json.dumps(resumption), context_id, TaskState.INPUT_REQUIRED, parts)
    parts = [_part(block) for block in result["content"]]
    if "structuredContent" in result:
        others = [part for part in parts if "text" not in part]
        parts = [Part(data=result["structuredContent"]), *others]
    if result.get("isError"):
        return _new_task(task_id, context_id, TaskState.FAILED, parts)
    task = _new_task(task_id, context_id, TaskState.COMPLETED, [])
    task["artifacts"] = [{"artifactId": "result", "parts": parts}]
    return task


def _new_task(task_id: str, context_id: str, state: TaskState, parts: list[Part]) -> Task:
    task = Task(id=task_id, contextId=context_id, status={"state": state})
    if parts:
        message = Message(messageId=str(uuid.uuid4()), role="ROLE_AGENT", parts=parts)  # type: ignore[typeddict-item]
        task["status"]["message"] = message
    return task


def _part(block: Json) -> Part:
    """A block of content as a part."""
    match block["type"]:
        case "text":
            return Part(text=block["text"])
        case "image" | "audio":
            return Part(raw=block["data"], mediaType=block["mimeType"], filename=block["type"])
        case "resource_link":
            return Part(url=block["uri"], filename=block["name"], mediaType=block.get("mimeType", ""))
        case "resource":
            resource = block["resource"]
            name = resource["uri"].rpartition("/")[2]
            if "text" in resource:
                return Part(text=resource["text"])
            return Part(raw=resource["blob"], filename=name, mediaType=resource.get("mimeType", ""))
    return Part(data=block)


def _findings(tools: list[Json]) -> Iterator[tuple[str, bool | None, str]]:
    """What a host's model needs to choose a tool."""
    names = ", ".join(tool["name"] for tool in tools)
    yield "the tools", bool(tools) or None, names or "none, as card.yaml says by `mcp: false`"
    gaps = [tool["name"] for tool in tools if not tool.get("description")]
    note = f"a model chooses by it; without one: {', '.join(gaps)}" if gaps else ""
    yield "every tool has a description", not gaps, note
