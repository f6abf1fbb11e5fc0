"""fastmcp's client, run in its own environment: client_fastmcp.py URL KEY AGENT.

AGENT "assistant": list, call, question, error. "probe": progress, a call that is left. "": tasks at the URL.
"""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp_tasks.client import call_tool_task
from mcp_types import ElicitResult

progress, asked = [], []


async def tell(done, total, message):
    progress.append(message)


async def ask(message, response_type, params, context):
    [(name, field)] = params.requested_schema["properties"].items()
    asked.append(message)
    value = field["enum"][0] if "enum" in field else "yes"
    return ElicitResult(action="accept", content={name: value})


async def error_of(call):
    try:
        await call
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def use_assistant(client):
    return {
        "tools": [tool.name for tool in await client.list_tools()],
        "sum": (await client.call_tool("ai-calculate", {"num1": 40, "num2": 2})).content[0].text,
        "coach": (await client.call_tool("ai-coach", {"message": "Teach me"})).content[0].text[:18],
        "asked": asked,
        "unknown": "unknown tool" in await error_of(client.call_tool("nothing", {})),
    }


async def use_probe(client):
    pieces = await client.call_tool("pieces", {"count": 3, "every": 0.1}, progress_handler=tell)
    left = client.call_tool("pause", {"seconds": 60}, progress_handler=tell)
    return {
        "pieces": pieces.content[0].text,
        "progress": "".join(progress),
        "boom": (await error_of(client.call_tool("boom", {"message": "x"}))).partition(":")[0],
        "left": (await error_of(asyncio.wait_for(left, 1))).partition(":")[0],
    }


async def use_tasks(client):
    result = await client.call_tool("slow_compute", {"seconds": 1, "label": "it"})
    answer = await client.call_tool("confirm_delete", {"filename": "a"})
    canceled = await call_tool_task(client, "slow_compute", {"seconds": 600})
    await canceled.cancel()
    await canceled.wait(timeout=60)
    return {
        "done": result.content[0].text,
        "failed": await error_of(client.call_tool("failing_job", {})),
        "answered": answer.content[0].text,
        "asked": asked,
        "canceled": (await canceled.status()).status,
    }


async def main(url, key, agent):
    place = f"{url}/mcp/{agent}" if agent else url
    transport = StreamableHttpTransport(place, headers={"X-API-Key": key})
    uses = {"assistant": use_assistant, "probe": use_probe, "": use_tasks}
    async with Client(transport, elicitation_handler=ask) as client:
        print(json.dumps(await uses[agent](client)))


asyncio.run(main(*sys.argv[1:]))
