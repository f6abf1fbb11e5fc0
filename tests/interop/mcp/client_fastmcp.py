"""fastmcp's client, run in its own environment: client_fastmcp.py URL KEY."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport


async def main(url, key):
    transport = StreamableHttpTransport(f"{url}/mcp/assistant", headers={"X-API-Key": key})
    async with Client(transport) as client:
        tools = [tool.name for tool in await client.list_tools()]
        sum_ = await client.call_tool("ai-calculate", {"num1": 40, "num2": 2})
    print(json.dumps({"tools": tools, "sum": sum_.content[0].text}))


asyncio.run(main(*sys.argv[1:]))
