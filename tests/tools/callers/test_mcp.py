"""A host of MCP, as the playground and make chat use it."""

import json

import httpx2
import pytest

from a2a_lambda.client import AgentError
from a2a_lambda.protocol.alibaba_metadata import intent_metadata
from a2a_lambda.protocol.card import Card, CardSkill
from a2a_lambda.protocol.model import Json, Message, Part, Role, TaskState
from a2a_lambda.protocol.profile import Profile
from a2a_lambda.wire.mcp.tools import page_of
from tests.conftest import BASE_URL
from tests.helpers.rpc import intent
from tools.callers.mcp import McpCaller
from tools.callers.mcp_messages import QUESTION, call_of, task_of
from tools.callers.records import Record

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def caller(client: Json, key: str) -> McpCaller:
    http = httpx2.AsyncClient(transport=httpx2.ASGITransport(client.app))
    return McpCaller(http, BASE_URL, key=key, name="probe")


async def send(caller: McpCaller, text: str = "", skill: str = "", task: str = "", **slots: str) -> Json:
    """The task that a message ends with."""
    message: dict[str, Json] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    message |= {"metadata": intent(skill, **slots)} if skill else {}
    message |= {"taskId": task} if task else {}
    records = [record async for record in caller.call("stream", {"message": message})]
    caller.records = records  # type: ignore[attr-defined]
    last = records[-1]
    return last["event"]["task"] if last["kind"] == "event" else last


def of_kind(caller: McpCaller, kind: str) -> list[Record]:
    return [record for record in caller.records if record["kind"] == kind]  # type: ignore[attr-defined]


async def test_the_tools_look_like_a_card(caller: McpCaller) -> None:
    *_, last = [record async for record in caller.read_card()]
    card = last["result"]
    assert "pieces" in [skill["id"] for skill in card["skills"]]
    assert card["tools"][0]["inputSchema"]["type"] == "object"
    [[what, has_passed, names], _] = last["findings"]
    assert (what, has_passed) == ("the tools", True)
    assert "pieces" in names.split(", ")


async def test_a_tool_is_called_with_arguments_of_its_types(caller: McpCaller) -> None:
    task = await send(caller, "count", "pieces", count="2")
    assert task["status"]["state"] == TaskState.COMPLETED
    assert task["artifacts"][0]["parts"][0]["text"] == "0 1 "
    progress = [each["event"]["statusUpdate"] for each in of_kind(caller, "event")[:-1]]
    assert [each["status"]["message"]["parts"][0]["text"] for each in progress] == ["0 ", "1 "]


async def test_a_question_is_answered(caller: McpCaller) -> None:
    question = await send(caller, "", "add", a="1")
    assert question["status"]["state"] == TaskState.INPUT_REQUIRED
    assert question["id"].startswith(QUESTION)
    result = await send(caller, "2", task=question["id"])
    assert result["artifacts"][0]["parts"] == [{"data": 3}]


@pytest.mark.parametrize(
    ("fields", "choices"),
    [
        ({"answer": {"enum": ["red", "blue"]}}, ["red", "blue"]),
        ({"answer": {"type": "string"}}, None),
        ({"a": {"enum": ["x"]}, "b": {"enum": ["y"]}}, None),
        ({"answer": {"enum": 5}}, None),
    ],
)
def test_a_question_offers_the_answers_of_its_form(fields: Json, choices: Json) -> None:
    params = {"message": "Which?", "requestedSchema": {"properties": fields}}
    result = {"resultType": "input_required", "inputRequests": {"a": {"params": params}}}
    message = task_of(result, {}, "c")["status"]["message"]
    assert message.get("metadata", {}).get("choices") == choices


async def test_a_failure_is_shown(caller: McpCaller) -> None:
    assert (await send(caller, "", "boom"))["status"]["state"] == TaskState.FAILED
    assert (await send(caller, "hello", "none"))["message"] == "there is no such tool"


async def test_a_word_for_a_number_is_asked_for_again(caller: McpCaller) -> None:
    question = await send(caller, "", "add", a="one")
    assert question["status"]["state"] == TaskState.INPUT_REQUIRED


async def test_a_message_that_names_a_tool_answers_no_question(caller: McpCaller) -> None:
    question = await send(caller, "", "add", a="1")
    result = await send(caller, "", "add", task=question["id"], a="3", b="4")
    assert result["artifacts"][0]["parts"] == [{"data": 7}]


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [(b"<html>", 502, "with status 502"), (b"{}", 200, "no result"), (b'{"result": {}}', 200, "not of MCP")],
)
async def test_a_server_that_is_none_of_mcp(content: bytes, status: int, reason: str) -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status, content=content))
    async with httpx2.AsyncClient(transport=transport) as http:
        *_, last = [record async for record in McpCaller(http, BASE_URL).read_card()]
    assert last["kind"] == "error"
    assert reason in last["message"]


TOOL = {"name": "t", "inputSchema": {"type": "object", "properties": {"message": {"type": "string"}}}}


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ({"resultType": "complete", "content": [{"type": "text", "text": "hi"}]}, "hi"),
        ({"content": [{"type": "text", "text": "no type"}]}, "no type"),
        ({"content": [{"type": "resource", "resource": {"uri": "a", "text": "hi", "blob": None}}]}, "hi"),
        ({"content": [{"type": "text", "text": 5}]}, None),
        ({"content": [{"type": "image", "data": 5, "mimeType": "image/png"}]}, None),
        ({"content": [{"type": "resource_link", "uri": {}, "name": "a"}]}, None),
        ({"content": [{"type": "resource", "resource": {"uri": 5, "blob": ""}}]}, None),
        ({"content": [{"type": "resource", "resource": {"uri": "a", "blob": []}}]}, None),
        ({"resultType": "input_required"}, ""),
        ({"resultType": "input_required", "inputRequests": {"a": {"params": {"message": 5}}}}, None),
        ({"resultType": "task"}, None),
        ({"content": "text"}, None),
        ([], None),
    ],
)
async def test_what_another_server_may_answer(call: Json, shown: str | None) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        pages = {
            None: {"tools": [{"name": "x", "inputSchema": {}}], "nextCursor": "2"},
            "2": {"tools": [TOOL]},
        }
        is_list = body["method"] == "tools/list"
        result = pages[body["params"].get("cursor")] if is_list else call
        return httpx2.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": result})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        last = await send(McpCaller(http, BASE_URL), "hello")
    if shown is None:
        assert last["message"].startswith("the answer is not of MCP")
    else:
        parts = [part for artifact in last.get("artifacts", []) for part in artifact["parts"]]
        assert "".join(part["text"] for part in parts) == shown


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            {"type": "resource_link", "uri": "https://a.example/b", "name": "b"},
            {"url": "https://a.example/b"},
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///b", "text": None, "blob": "QQ=="}},
            {"raw": "QQ=="},
        ),
    ],
)
def test_a_field_without_a_value_may_be_null(block: Json, part: Json) -> None:
    holder = block.get("resource", block)
    for fields in ({}, {"mimeType": None}):
        holder |= fields
        [artifact] = task_of({"content": [block]}, {}, "c")["artifacts"]
        assert artifact["parts"] == [{**part, "filename": "b", "mediaType": ""}]


def test_a_text_beside_data_is_shown() -> None:
    """A server repeats its data as a text, for clients that read no data. Those are left out."""
    texts = [{"type": "text", "text": text} for text in ("Ordered.", '{"total": 5}')]
    task = task_of({"content": texts, "structuredContent": {"total": 5}}, {}, "")
    assert task["artifacts"][0]["parts"] == [{"text": "Ordered."}, {"data": {"total": 5}}]
    task = task_of({"content": [texts[1], texts[1]], "structuredContent": {"total": 5}}, {}, "")
    assert task["artifacts"][0]["parts"] == [{"data": {"total": 5}}]
    for result in ("5", ["5", "Ordered."]):  # as FastMCP answers
        blocks = [{"type": "text", "text": text} for text in result]
        task = task_of({"content": blocks, "structuredContent": {"result": result}}, {}, "")
        assert task["artifacts"][0]["parts"] == [{"data": {"result": result}}]
    task = task_of({"content": texts[:1], "structuredContent": {"total": 5}}, {}, "")
    assert task["artifacts"][0]["parts"] == [{"data": {"total": 5}}, {"text": "Ordered."}]


async def test_data_are_arguments_and_files_are_refused(caller: McpCaller) -> None:
    parts: list[Json] = [{"data": {"a": 1, "b": 2}}]
    message = {"messageId": "m", "role": "ROLE_USER", "parts": parts, "metadata": intent("add")}
    *_, last = [record async for record in caller.call("stream", {"message": message})]
    assert last["event"]["task"]["artifacts"][0]["parts"] == [{"data": 3}]
    parts.append({"raw": "aGk=", "filename": "a"})
    *_, last = [record async for record in caller.call("stream", {"message": message})]
    assert last["message"] == "MCP tools take no files: leave the file out, or choose another version"


async def test_the_key_is_in_the_curl_only(caller: McpCaller, key: str) -> None:
    await send(caller, "hello")
    requests = of_kind(caller, "request")
    assert key in requests[0]["curl"]
    assert key not in json.dumps([{**record, "curl": ""} for record in requests])


async def test_what_mcp_does_not_have_is_an_error(caller: McpCaller) -> None:
    for operation, request in (("list", {}), ("cancel", {"id": ""})):
        *_, last = [record async for record in caller.call(operation, request)]  # type: ignore[arg-type]
        assert last["kind"] == "error"
        assert last["message"].startswith("MCP ")


@pytest.mark.parametrize("names", [["message"], ["message", "a2a_message"]])
def test_a_text_is_for_the_argument_that_takes_it(names: list[str]) -> None:
    """A parameter of a skill may be called message."""
    tool = {"name": "t", "inputSchema": {"properties": {name: {"type": "string"} for name in names}}}
    message = Message(messageId="m", role=Role.USER, parts=[Part(text="Hello")])
    assert call_of(message, [tool])["arguments"] == {names[-1]: "Hello"}


def test_a_text_is_for_the_first_tool_that_reads_it() -> None:
    """Each tool has a message, with which a question is answered."""
    skills = [skill("weather"), skill("now"), skill("talk")]
    card = Card(name="a", description="a", version="1", skills=skills)
    schemas = {"weather": {"type": "object", "properties": {"a": {"type": "string"}}}}
    text_skills = frozenset({"talk"})
    profile = Profile(name="a", card=card, input_schemas=schemas, modified_at=0, text_skills=text_skills)
    tools, _ = page_of(profile, None)
    message = Message(messageId="m", role=Role.USER, parts=[Part(text="Hello")])
    assert call_of(message, tools) == {"name": "talk", "arguments": {"message": "Hello"}}
    assert call_of(message, tools[1:2]) == {"name": "now", "arguments": {}}, "as over A2A"
    for other_tools in (tools[:1], tools[:2]):
        with pytest.raises(AgentError, match="no tool takes text"):
            call_of(message, other_tools)
    message["metadata"] = intent_metadata("weather", {"a": "x"})
    assert call_of(message, tools) == {"name": "weather", "arguments": {"a": "x"}}


def skill(name: str) -> CardSkill:
    return CardSkill(id=name, name=name, description=name)
