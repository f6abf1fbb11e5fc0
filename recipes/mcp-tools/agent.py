"""A model that uses the tools of an MCP server (https://modelcontextprotocol.io), by the official client."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import EmbeddedResource, TextContent, TextResourceContents, Tool
from openai import AsyncOpenAI, ContentFilterFinishReasonError, LengthFinishReasonError
from openai.types.chat import ChatCompletionMessage

from a2a_lambda import Progress, SkillError, Turn, skill

INSTRUCTIONS = "You are a helpful assistant. Answer briefly, in the language of the question."

MAX_ROUNDS = 5
"""Maximum calls of the model in a turn: each may ask for tools."""

MAX_PAGES = 20
"""Maximum pages of tools that are read. A server might never end."""

TIMEOUT_SECONDS = 30


@skill
async def chat(turn: Turn) -> AsyncIterator[str | Progress]:
    async with connect(turn) as server:
        tools = by_name(await tools_of(server))
    functions = [function(name, tool) for name, tool in tools.items()]
    options = {"tools": functions} if functions else {}  # an empty list is refused
    messages = [{"role": "system", "content": INSTRUCTIONS}, *turn.messages()]
    url = turn.setting("openai-url", "https://api.openai.com/v1")
    async with AsyncOpenAI(api_key=turn.secret("openai"), base_url=url) as model:
        for _ in range(MAX_ROUNDS):
            async with model.chat.completions.stream(
                model=turn.setting("openai-model", "gpt-5-mini"), messages=messages, **options
            ) as stream:
                try:
                    async for event in stream:
                        if event.type == "content.delta":
                            yield event.delta
                    reply = (await stream.get_final_completion()).choices[0].message
                except (LengthFinishReasonError, ContentFilterFinishReasonError):
                    raise SkillError("I could not finish the answer.") from None
            if reply.refusal:
                raise SkillError("I may not answer that.")
            if not reply.tool_calls:
                return
            messages.append(message_of(reply))
            for call in reply.tool_calls:
                tool = tools.get(call.function.name)
                name = tool.name if tool else call.function.name
                yield Progress(f"calling {name}")
                text = await use(turn, name, call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    raise SkillError("I could not answer that within the allowed number of tool calls.")


async def use(turn: Turn, name: str, arguments: str) -> str:
    """What a tool answers. Mistakes are texts, too: the model reads them and may try again."""
    try:
        values = json.loads(arguments or "{}")
    except ValueError:
        values = None
    if not isinstance(values, dict):
        return "The arguments are not a JSON object."
    async with connect(turn) as server:
        try:
            result = await server.call_tool(name, values)
        except MCPError as error:
            return f"The call was refused: {error}"
        except RuntimeError as error:  # of the client, for a result that does not fit the tool's schema
            return f"The tool was called, but its result cannot be read: {error}"
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    resources = [block.resource for block in result.content if isinstance(block, EmbeddedResource)]
    texts += [resource.text for resource in resources if isinstance(resource, TextResourceContents)]
    if not texts and result.structured_content is not None:
        texts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return "\n".join(texts) or "(no text)"


@asynccontextmanager
async def connect(turn: Turn) -> AsyncIterator[Client]:
    """A client of the server. Do not yield outputs while it is open: it has tasks of its own."""
    key = turn.secret("mcp")
    try:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=TIMEOUT_SECONDS) as http,
            Client(streamable_http_client(turn.setting("mcp-url"), http_client=http)) as client,
        ):
            yield client
    except ExceptionGroup as errors:
        if errors.subgroup((httpx2.HTTPError, MCPError)):
            raise SkillError("The tools do not answer at the moment.") from errors
        raise


async def tools_of(server: Client) -> list[Tool]:
    """The tools on the pages of the list."""
    page = await server.list_tools()
    tools = list(page.tools)
    for _ in range(MAX_PAGES - 1):
        if not page.next_cursor:
            break
        page = await server.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


def by_name(tools: list[Tool]) -> dict[str, Tool]:
    """The tools, by names that OpenAI's API takes: 64 letters, digits, _ and -. MCP allows dots, too."""
    result: dict[str, Tool] = {}
    for tool in tools:
        name = base = re.sub(r"[^a-zA-Z0-9_-]", "_", tool.name)[:60]
        number = 2
        while name in result:
            name, number = f"{base}_{number}", number + 1
        result[name] = tool
    return result


def message_of(reply: ChatCompletionMessage) -> dict[str, object]:
    """A model's message as the API takes it back, without the client's own fields: some servers refuse
    `index`."""
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": call.function.model_dump(include={"name", "arguments"}),
        }
        for call in reply.tool_calls or ()
    ]
    return {"role": "assistant", "content": reply.content, "tool_calls": calls}


def function(name: str, tool: Tool) -> dict[str, object]:
    """A tool of MCP as a function of OpenAI's API. name: its name there."""
    about = {"name": name, "description": tool.description or "", "parameters": tool.input_schema}
    return {"type": "function", "function": about}
