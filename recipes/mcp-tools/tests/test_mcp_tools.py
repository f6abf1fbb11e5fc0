import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mcp.server import MCPServer, Server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    EmbeddedResource,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
)
from pytest_httpserver import HTTPServer

from a2a_lambda import Agent, SkillError

agent = Agent.load(Path(__file__).parents[1])


def stream_of(*deltas: Any, reason: str = "stop") -> str:
    """A stream of the chat completions API."""
    common = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    reason = "tool_calls" if any("tool_calls" in delta for delta in deltas) else reason
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    events = [json.dumps({**common, "choices": [choice]}) for choice in choices]
    return "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])


@pytest.fixture
def keys() -> list[str]:
    """What the server of tools got as a key."""
    return []


@pytest.fixture
def tools(keys: list[str]) -> Iterator[str]:
    """URL of an MCP server."""
    mcp = MCPServer("shop")

    @mcp.tool()
    def stock(article: str) -> int:
        """How many of an article are in stock."""
        return {"chair": 7}[article]

    app = mcp.streamable_http_app()

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            keys.append(dict(scope["headers"])[b"authorization"].decode())
        await app(scope, receive, send)

    with serve(noting) as url:
        yield url


@pytest.fixture
def no_tools() -> Iterator[str]:
    """URL of an MCP server without tools."""
    with serve(MCPServer("empty").streamable_http_app()) as url:
        yield url


@contextmanager
def serve(app: Any) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    server.should_exit = True
    thread.join(10)


def ask(model: HTTPServer, tools: str) -> Any:
    return asyncio.run(
        agent.run(
            "How many chairs are in stock?",
            secrets={"openai": "sk-test", "mcp": "tools-key"},
            settings={"openai-url": model.url_for("/v1"), "openai-model": "tiny", "mcp-url": tools},
        )
    )


def expect(model: HTTPServer, arguments: str, *texts: str, name: str = "stock") -> None:
    """The model calls a tool, and then answers."""
    call: dict[str, Any] = {"index": 0, "id": "call-1", "type": "function"}
    call["function"] = {"name": name, "arguments": arguments}
    for deltas in ([{"role": "assistant", "tool_calls": [call]}], [{"content": text} for text in texts]):
        model.expect_ordered_request("/v1/chat/completions").respond_with_data(
            stream_of(*deltas), content_type="text/event-stream"
        )


def test_the_model_uses_a_tool(httpserver: HTTPServer, tools: str, keys: list[str]) -> None:
    expect(httpserver, '{"article": "chair"}', "Seven ", "chairs.")
    assert ask(httpserver, tools).text == "Seven chairs."
    first, second = (request.get_json() for request, _ in httpserver.log)
    assert first["tools"][0]["function"]["parameters"]["required"] == ["article"]
    [call] = second["messages"][-2]["tool_calls"]
    assert call.keys() == {"id", "type", "function"}
    assert call["function"] == {"name": "stock", "arguments": '{"article": "chair"}'}
    assert second["messages"][-1] == {"role": "tool", "tool_call_id": "call-1", "content": "7"}
    assert set(keys) == {"Bearer tools-key"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [('{"article": "table"}', "Error"), ('{"article', "JSON object"), ("[1]", "JSON object")],
)
def test_the_model_reads_what_was_wrong(
    httpserver: HTTPServer, tools: str, arguments: str, reason: str
) -> None:
    expect(httpserver, arguments, "There is no table.")
    assert ask(httpserver, tools).text == "There is no table."
    request, _ = httpserver.log[-1]
    assert reason in request.get_json()["messages"][-1]["content"]


def test_the_model_reads_that_there_is_no_such_tool(httpserver: HTTPServer, tools: str) -> None:
    expect(httpserver, "{}", "There is no such tool.", name="nope")
    assert ask(httpserver, tools).text == "There is no such tool."
    request, _ = httpserver.log[-1]
    assert "nope" in request.get_json()["messages"][-1]["content"]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_an_answer_that_is_cut_off_fails(httpserver: HTTPServer, tools: str, reason: str) -> None:
    httpserver.expect_request("/v1/chat/completions").respond_with_data(
        stream_of({"content": "Half an"}, reason=reason), content_type="text/event-stream"
    )
    with pytest.raises(SkillError, match="could not finish"):
        ask(httpserver, tools)


def test_a_server_without_tools_leaves_them_out(httpserver: HTTPServer, no_tools: str) -> None:
    httpserver.expect_request("/v1/chat/completions").respond_with_data(
        stream_of({"content": "I cannot know."}), content_type="text/event-stream"
    )
    assert ask(httpserver, no_tools).text == "I cannot know."
    [(request, _)] = httpserver.log
    assert "tools" not in request.get_json()


def test_every_page_of_tools_has_names_that_the_model_may_call(httpserver: HTTPServer) -> None:
    calls: list[str] = []

    async def list_tools(_: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        is_first = params is None or params.cursor is None
        tool = Tool(name="shop.stock" if is_first else "shop_stock", input_schema={"type": "object"})
        return ListToolsResult(tools=[tool], next_cursor="2" if is_first else None)

    async def call_tool(_: Any, params: CallToolRequestParams) -> CallToolResult:
        calls.append(params.name)
        return CallToolResult(content=[TextContent(type="text", text="7")])

    server = Server("pages", on_list_tools=list_tools, on_call_tool=call_tool)
    expect(httpserver, "{}", "Seven.", name="shop_stock")
    with serve(server.streamable_http_app()) as url:
        assert ask(httpserver, url).text == "Seven."
    request, _ = httpserver.log[0]
    names = [tool["function"]["name"] for tool in request.get_json()["tools"]]
    assert names == ["shop_stock", "shop_stock_2"]
    assert calls == ["shop.stock"]


RESOURCE = EmbeddedResource(
    type="resource", resource=TextResourceContents(uri="shop://stock", text="seven chairs")
)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (CallToolResult(content=[RESOURCE], structured_content={"n": 7}), "seven chairs"),
        (CallToolResult(content=[], structured_content={"n": 7}), '{"n": 7}'),
        (CallToolResult(content=[]), "its result cannot be read"),
    ],
)
def test_the_model_reads_results_of_every_kind(
    httpserver: HTTPServer, result: CallToolResult, text: str
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def list_tools(*_: Any) -> ListToolsResult:
        return ListToolsResult(
            tools=[Tool(name="stock", input_schema={"type": "object"}, output_schema=schema)]
        )

    async def call_tool(*_: Any) -> CallToolResult:
        return result

    expect(httpserver, "{}", "Seven.")
    server = Server("results", on_list_tools=list_tools, on_call_tool=call_tool)
    with serve(server.streamable_http_app()) as url:
        assert ask(httpserver, url).text == "Seven."
    request, _ = httpserver.log[-1]
    assert text in request.get_json()["messages"][-1]["content"]


def test_a_server_that_is_away_is_said_in_words(httpserver: HTTPServer) -> None:
    with pytest.raises(SkillError, match="The tools do not answer"):
        ask(httpserver, "http://127.0.0.1:9/mcp")
