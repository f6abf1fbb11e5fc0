"""Tasks with the Python SDK of MCP, whose interface for extensions they use: client_mcp_tasks.py URL."""

import asyncio
import json
import sys
from typing import Any, Literal

import httpx2
from mcp import Client
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Request, RequestParams, Result
from pydantic import ConfigDict, Field


class TaskParams(RequestParams):
    task_id: str = Field(alias="taskId")
    input_responses: dict[str, Any] | None = Field(None, alias="inputResponses")
    model_config = ConfigDict(populate_by_name=True)


class GetTask(Request[TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"


class UpdateTask(Request[TaskParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"


class CancelTask(Request[TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"


class NewTask(Result):
    result_type: Literal["task"] = Field("task", alias="resultType")
    task_id: str = Field(alias="taskId")


class AnyResult(Result):
    model_config = ConfigDict(extra="allow")


class Tasks(ClientExtension):
    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, cancels):
        self.cancels, self.statuses = cancels, []

    def claims(self):
        return [ResultClaim(result_type="task", model=NewTask, resolve=self.resolve)]

    async def resolve(self, new, context):
        params = TaskParams(task_id=new.task_id)
        if self.cancels:
            await context.session.send_request(CancelTask(params=params), AnyResult)
        while True:
            task = await context.session.send_request(GetTask(params=params), AnyResult)
            fields = task.model_dump(by_alias=True)
            if fields["status"] != "working":
                self.statuses.append(fields["status"])
            if fields["status"] == "input_required":
                [(key, request)] = fields["inputRequests"].items()
                [name] = request["params"]["requestedSchema"]["properties"]
                answer = {key: {"action": "accept", "content": {name: "yes"}}}
                update = TaskParams(task_id=new.task_id, input_responses=answer)
                await context.session.send_request(UpdateTask(params=update), AnyResult)
            elif fields["status"] == "completed":
                return CallToolResult.model_validate(fields["result"])
            elif fields["status"] == "cancelled":
                return CallToolResult(content=[])
            await asyncio.sleep(0.2)


async def call(url, tool, arguments, cancels=False):
    tasks = Tasks(cancels)
    async with (
        httpx2.AsyncClient(timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), extensions=[tasks]) as client,
    ):
        result = await client.call_tool(tool, arguments)
    return [result.is_error, "".join(block.text for block in result.content), tasks.statuses[-1]]


async def main(url):
    shown = {
        "done": await call(url, "slow_compute", {"seconds": 1, "label": "it"}),
        "failed": await call(url, "failing_job", {}),
        "answered": await call(url, "confirm_delete", {"filename": "a"}),
        "canceled": await call(url, "slow_compute", {"seconds": 600}, cancels=True),
    }
    print(json.dumps(shown))


asyncio.run(main(*sys.argv[1:]))
