"""The Python SDK of MCP, run in its own environment: client_mcp.py URL KEY MODE SECONDS.

MODE: auto, or legacy. SECONDS: how long the call takes that the client leaves after one.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult


async def main(url, key, mode, seconds):
    results, progress = {}, []

    async def ask(context, params):
        [(name, field)] = params.requested_schema["properties"].items()
        results["asked"] = [params.message, field["enum"]]
        return ElicitResult(action="accept", content={name: "football"})

    async def tell(done, total, message):
        progress.append(message)

    async with httpx2.AsyncClient(headers={"X-API-Key": key}, timeout=60) as http:

        def connect(agent):
            transport = streamable_http_client(f"{url}/mcp/{agent}", http_client=http)
            return Client(transport, mode=mode, elicitation_callback=ask)

        async with connect("assistant") as client:
            results["version"] = client.protocol_version
            results["tools"] = [tool.name for tool in (await client.list_tools()).tools]
            results["sum"] = (await client.call_tool("ai-calculate", {"num1": 40, "num2": 2})).content[0].text
            results["coach"] = (await client.call_tool("ai-coach", {"message": "Teach me"})).content[0].text
            try:
                await client.call_tool("nothing", {})
            except MCPError as error:
                results["unknown"] = str(error)
        async with connect("probe") as client:
            pieces = await client.call_tool("pieces", {"count": 3, "every": 0.1}, progress_callback=tell)
            results["pieces"], results["progress"] = pieces.content[0].text, "".join(progress)
            results["boom"] = (await client.call_tool("boom", {"message": "x"})).is_error
            try:
                await asyncio.wait_for(
                    client.call_tool("pause", {"seconds": float(seconds)}, progress_callback=tell), 1
                )
            except TimeoutError:
                results["left"] = True
    print(json.dumps(results))


asyncio.run(main(*sys.argv[1:]))
