"""Calls an agent's skills as an MCP host does, and reports it in the words of A2A 1.0.

    message ── the tool that it names, its text and data as arguments ── tools/call ── a task

The host's model would choose the tool. Here the message's intent does, or else it is the first one that
takes text. Source: https://modelcontextprotocol.io/specification/2026-07-28
"""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import httpx2

from a2a_lambda import strictjson
from a2a_lambda.client import AgentError, sse
from a2a_lambda.client.answers import ANSWER_DEPTH, read_whole
from a2a_lambda.client.client import EVENT_STREAM
from a2a_lambda.client.keys import bearer_header
from a2a_lambda.errors import ParseError
from a2a_lambda.protocol.alibaba_metadata import INTENT_EXTENSION, intents
from a2a_lambda.protocol.model import Event, Json, Message, Part, TaskState, plain_media_type, text_of
from a2a_lambda.protocol.requests import Operation
from a2a_lambda.wire.mcp.envelope import NAME_PARAMETERS, OPTIONAL_NAME_PARAMETERS
from a2a_lambda.wire.mcp.revisions import (
    CAPABILITIES_KEY,
    CONTEXT_KEY,
    SERVER_KEY,
    STATELESS,
    TASKS,
    VERSION_KEY,
)
from tools.callers.mcp_messages import (
    QUESTION,
    STATES,
    answers_to,
    call_of,
    findings_on,
    new_task,
    questions_in,
    task_of,
    updates_in,
)
from tools.callers.records import MAX_BYTES, Record, RecordingClient, error_text, response_record

NAME = "mcp"
TITLE = f"MCP {STATELESS}"

CAPABILITIES: Mapping[str, Json] = {"elicitation": {"form": {}}, "extensions": {TASKS: {}}}
"""It asks its user, and takes a task for long work."""

MIRRORED_PARAMETERS = {**NAME_PARAMETERS, **OPTIONAL_NAME_PARAMETERS}
"""Parameter that Mcp-Name mirrors, by method."""

POLL_RANGE_SECONDS = (0.2, 60.0)
"""Minimum and maximum between looks at a task, whatever its server wants."""

MAX_PAGES = 20
"""Maximum pages of tools that are read."""


class McpCaller(RecordingClient):
    """A host of MCP. base: URL of a deployment. name: name of an agent there; "" for the default one."""

    agent = None
    """There is no card to remember."""

    def __init__(self, http: httpx2.AsyncClient, base: str, *, key: str = "", name: str = "") -> None:
        super().__init__(http, base, key)
        self._url = f"{self._base}/mcp" + (f"/{name}" if name else "")
        self._result: Json = None
        self._has_result = False

    async def read_card(self) -> AsyncGenerator[Record, None]:
        """Read the tools. Ends with a record `result`, which looks like a card, or `error`."""
        async for record in self._safely(_check_records(self._discover())):
            yield record

    async def call(
        self, operation: Operation, request: Json, *, after: str = ""
    ) -> AsyncGenerator[Record, None]:
        """Run an operation; its request is of A2A 1.0. after: MCP has no such ids."""
        async for record in self._safely(_check_records(self._call(operation, request))):
            yield record

    async def _discover(self) -> AsyncGenerator[Record, None]:
        tools: list[Json] = []
        async for record in self._list(tools):
            yield record
        server = self._result.get("_meta", {}).get(SERVER_KEY, {})
        schemas = [{"id": tool["name"], "inputSchema": tool["inputSchema"]} for tool in tools]
        card = {
            "name": server.get("title") or server.get("name", ""),
            "description": f"{len(tools)} tools at {self._url}",
            "capabilities": {
                "streaming": True,
                "extensions": [{"uri": INTENT_EXTENSION, "params": {"skills": schemas}}],
            },
            "skills": [
                {
                    "id": tool["name"],
                    "name": tool.get("title", ""),
                    "description": tool.get("description", ""),
                }
                for tool in tools
            ],
            "tools": tools,
        }
        yield {
            "kind": "result",
            "result": card,
            "findings": [list(finding) for finding in findings_on(tools)],
        }

    async def _list(self, tools: list[Json]) -> AsyncGenerator[Record, None]:
        """Read all pages of tools into a list."""
        cursor: dict[str, Json] = {}
        for _ in range(MAX_PAGES):
            async for record in self._ask("tools/list", cursor):
                yield record
            tools += self._result["tools"]
            if self._result.get("nextCursor") is None:
                return
            cursor = {"cursor": self._result["nextCursor"]}

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
            answers = answers_to(self._result.get("inputRequests", {}), text)
            async for record in self._ask("tasks/update", {"taskId": task_id, "inputResponses": answers}):
                yield record
            async for record in self._follow(task_id, message.get("contextId", "")):
                yield record
            return
        if task_id:
            params = json.loads(task_id.removeprefix(QUESTION))
            params["inputResponses"] = answers_to(params.pop("inputRequests", {}), text)
        else:
            tools: list[Json] = []
            async for record in self._list(tools):
                yield record
            params = call_of(message, tools)
        context_id = message.get("contextId", "")
        meta = {"progressToken": str(uuid.uuid4()), **({CONTEXT_KEY: context_id} if context_id else {})}
        async for record in self._ask("tools/call", {**params, "_meta": meta}):
            yield record
            for update in updates_in(record, context_id):
                yield {"kind": "event", "event": update, "id": ""}
        result = self._result
        if result.get("resultType") == "task":
            async for record in self._follow(result["taskId"], context_id):
                yield record
            return
        yield {"kind": "event", "event": Event(task=task_of(result, params, context_id)), "id": ""}

    async def _follow(self, task_id: str, context_id: str) -> AsyncGenerator[Record, None]:
        """Ask for a task until it has stopped."""
        while True:
            async for record in self._ask("tasks/get", {"taskId": task_id}):
                yield record
            result = self._result
            if result["status"] == "completed":
                task = task_of(result["result"], {}, context_id, task_id)
            else:
                text = result.get("statusMessage") or next(iter(questions_in(result)), "")
                task = new_task(
                    task_id, context_id, STATES[result["status"]], [Part(text=text)] if text else []
                )
            yield {"kind": "event", "event": Event(task=task), "id": ""}
            if result["status"] != "working":
                return
            min_seconds, max_seconds = POLL_RANGE_SECONDS
            await asyncio.sleep(min(max(result.get("pollIntervalMs", 2000) / 1000, min_seconds), max_seconds))

    async def _cancel(self, task_id: str) -> AsyncGenerator[Record, None]:
        if not task_id or task_id.startswith(QUESTION):
            raise AgentError("MCP cancels only tasks. A call ends when its client leaves it")
        async for record in self._ask("tasks/cancel", {"taskId": task_id}):
            yield record
        yield {"kind": "result", "result": new_task(task_id, "", TaskState.CANCELED, [])}

    async def _ask(self, method: str, params: Mapping[str, Json]) -> AsyncGenerator[Record, None]:
        """Post a request, and keep its result. Raises AgentError."""
        self._has_result = False
        meta = {VERSION_KEY: STATELESS, CAPABILITIES_KEY: CAPABILITIES, **params.get("_meta", {})}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = {
            "Content-Type": "application/json",
            "Accept": f"application/json, {EVENT_STREAM}",
            "MCP-Protocol-Version": STATELESS,
            "Mcp-Method": method,
            **({"Mcp-Name": params[MIRRORED_PARAMETERS[method]]} if method in MIRRORED_PARAMETERS else {}),
            **(bearer_header(self._key) if self._key else {}),
        }
        content = strictjson.dumps(body)
        request = self._http.build_request("POST", self._url, headers=headers, content=content)
        yield self._request_record(request, content.decode())
        answer = await self._http.send(request, stream=True)
        try:
            yield response_record(answer)
            if plain_media_type(answer.headers.get("content-type")) == EVENT_STREAM:
                async with aclosing(sse.events(answer.aiter_bytes(), MAX_BYTES)) as frames:
                    async for frame in frames:
                        message = self._keep(frame.data, 200) if frame.data else {}
                        yield {
                            "kind": "frame",
                            "text": frame.text.decode(errors="replace"),
                            **({"message": message} if message else {}),
                        }
            else:
                content = await read_whole(answer, MAX_BYTES)
                yield {"kind": "body", "text": content.decode(errors="replace")}
                self._keep(content, answer.status_code)
        finally:
            await answer.aclose()
        if not self._has_result:
            raise AgentError("the answer has no result", status=answer.status_code)

    def _keep(self, content: bytes, status: int) -> dict[str, Json]:
        """A message of the server; its result is kept, unless it is a notification. Raises AgentError."""
        try:
            value = strictjson.loads(content, ANSWER_DEPTH)
        except ParseError:
            value = None
        if not isinstance(value, dict) or "error" in value or status >= 400:
            raise AgentError(error_text(content, status), status=status)
        if "result" in value:
            self._result, self._has_result = value["result"], True
        return value


async def _check_records(records: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
    """The records of a call. Raises AgentError if an answer is not of MCP's form."""
    try:
        async with aclosing(records):
            async for record in records:
                yield record
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else repr(error)
        raise AgentError(f"the answer is not of MCP {STATELESS}: {reason}") from error
