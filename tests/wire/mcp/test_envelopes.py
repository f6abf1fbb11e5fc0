"""Requests of MCP and their headers."""

from typing import Any

import pytest

from a2a_lambda.errors import InvalidParams, InvalidRequest, ProtocolError
from a2a_lambda.wire.mcp import envelope
from a2a_lambda.wire.mcp.revisions import STATELESS, WITH_HANDSHAKE, HeaderMismatch, UnknownRevision

INITIALIZED = {"mcp-protocol-version": "2025-11-25"}


@pytest.mark.parametrize("body", [{"id": 1, "result": {}}, {"id": 1, "error": {"code": 1}}])
def test_a_clients_answer_is_no_request(body: Any) -> None:
    assert envelope.decode({"jsonrpc": "2.0", **body}, INITIALIZED) is None
    request = envelope.decode({"jsonrpc": "2.0", "method": "ping", **body}, INITIALIZED)
    assert request is not None
    assert request.method == "ping"


def decode(
    method: str = "tools/list",
    params: Any = None,
    *,
    meta: Any = None,
    id: Any = 1,
    headers: Any = None,
) -> envelope.McpRequest:
    """A stateless request, with what every one must have unless the test says otherwise."""
    every_meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {
        "jsonrpc": "2.0",
        "method": method,
        "params": {**(params or {}), "_meta": every_meta | (meta or {})},
    }
    if id is not None:
        body["id"] = id
    every_header = {"mcp-protocol-version": STATELESS, "mcp-method": method}
    request = envelope.decode(body, every_header | (headers or {}))
    assert request is not None
    return request


def session(method: str = "ping", params: Any = None, version: str = "") -> envelope.McpRequest:
    """A request of a revision with a handshake."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    request = envelope.decode(body, {"mcp-protocol-version": version} if version else {})
    assert request is not None
    return request


def test_a_stateless_request_says_its_revision_and_capabilities() -> None:
    request = decode(meta={"io.modelcontextprotocol/clientCapabilities": {"a": 1}})
    assert request.is_stateless
    assert request.capabilities == {"a": 1}
    assert (request.id, request.method) == (1, "tools/list")
    assert not session().is_stateless


@pytest.mark.parametrize("names", [["clientCapabilities"], ["clientCapabilities", "protocolVersion"]])
def test_a_notification_needs_neither_capabilities_nor_a_version(names: list[str]) -> None:
    request = decode(id=None, meta={f"io.modelcontextprotocol/{name}": None for name in names})
    assert (request.id, request.capabilities, request.is_stateless) == (None, {}, True)


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"meta": {"io.modelcontextprotocol/protocolVersion": 1}}, InvalidParams, "must be a string"),
        ({"meta": {"io.modelcontextprotocol/protocolVersion": None}}, InvalidParams, "must have"),
        ({"meta": {"io.modelcontextprotocol/clientCapabilities": []}}, InvalidParams, "clientCapabilities"),
        ({"headers": {"mcp-protocol-version": "2025-11-25"}}, HeaderMismatch, "MCP-Protocol-Version"),
        ({"headers": {"mcp-method": "tools/call"}}, HeaderMismatch, "Mcp-Method must be 'tools/list'"),
        (
            {
                "meta": {"io.modelcontextprotocol/protocolVersion": "2030-01-01"},
                "headers": {"mcp-protocol-version": "2030-01-01"},
            },
            UnknownRevision,
            "2030-01-01",
        ),
    ],
)
def test_a_wrong_stateless_request_is_refused(changes: Any, kind: type[ProtocolError], text: str) -> None:
    with pytest.raises(kind, match=text):
        decode(**changes)


@pytest.mark.parametrize("name", ["add", "=?base64?YWRk?=", " add "])
def test_a_call_names_its_tool_in_a_header_too(name: str) -> None:
    assert decode("tools/call", {"name": "add"}, headers={"mcp-name": name}).params["name"] == "add"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("sub", "must be 'add'"),
        ("", "must be 'add'"),
        ("=?base64?c3Vi?=", "must be 'add'"),
        ("=?base64?YWRk", "must be 'add'"),
        ("=?base64?%%?=", "not base64"),
        ("=?base64?/w==?=", "not base64"),
    ],
)
def test_another_name_in_the_header_is_refused(name: str, reason: str) -> None:
    with pytest.raises(HeaderMismatch, match=reason):
        decode("tools/call", {"name": "add"}, headers={"mcp-name": name})


def test_a_call_without_the_header_is_refused() -> None:
    with pytest.raises(HeaderMismatch, match="Mcp-Name must be 'add'"):
        decode("tools/call", {"name": "add"})


def test_a_look_at_a_task_needs_no_header_but_must_not_have_another() -> None:
    assert decode("tasks/get", {"taskId": "t-1"}).params["taskId"] == "t-1"
    with pytest.raises(HeaderMismatch, match="t-1"):
        decode("tasks/get", {"taskId": "t-1"}, headers={"mcp-name": "t-2"})


@pytest.mark.parametrize(("request_of", "state"), [(decode, "sealed"), (session, None)])
def test_only_a_stateless_call_brings_the_state_of_a_question(request_of: Any, state: Any) -> None:
    assert request_of("ping", {"requestState": "sealed"}).request_state == state


@pytest.mark.parametrize("version", WITH_HANDSHAKE)
def test_a_session_speaks_the_revision_of_its_header(version: str) -> None:
    assert session(version=version).revision == version


def test_without_a_header_it_is_the_first_revision_of_this_transport() -> None:
    assert session().revision == "2025-03-26"
    with pytest.raises(UnknownRevision, match="2024-11-05"):
        session(version="2024-11-05")


@pytest.mark.parametrize(
    ("wanted", "revision"),
    [(version, version) for version in WITH_HANDSHAKE]
    + [("2024-11-05", "2025-11-25"), (None, "2025-11-25"), (["a"], "2025-11-25")],
)
def test_initialize_settles_the_revision(wanted: Any, revision: str) -> None:
    assert session("initialize", {"protocolVersion": wanted}).revision == revision


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ({"id": None, "method": "ping"}, InvalidRequest, "id must be"),
        ({"id": 1, "method": "ping", "params": []}, InvalidParams, "params must be an object"),
        ({"id": 1, "method": "ping", "params": {"_meta": []}}, InvalidParams, "_meta must be an object"),
    ],
)
def test_a_malformed_request_is_refused(body: Any, kind: type[ProtocolError], text: str) -> None:
    with pytest.raises(kind, match=text):
        envelope.decode({"jsonrpc": "2.0", **body}, INITIALIZED)


@pytest.mark.parametrize(
    ("token", "heard"),
    [("a", "a"), (1, 1), (True, None), (None, None), ([], None), (1.5, None), ("é" * 257, None)],
)
def test_a_progress_token_is_a_short_text_or_an_integer(token: Any, heard: Any) -> None:
    assert decode(meta={"progressToken": token}).progress_token == heard


@pytest.mark.parametrize(
    ("elicitation", "shows"),
    [
        ({}, True),
        ({"form": {}}, True),
        ({"form": {}, "url": {}}, True),
        ({"url": {}}, False),
        (None, False),
        ([], False),
    ],
)
def test_a_client_shows_forms_unless_it_has_urls_only(elicitation: Any, shows: bool) -> None:
    capabilities = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": elicitation}}
    assert decode(meta=capabilities).shows_forms is shows


@pytest.mark.parametrize(
    ("extensions", "has"),
    [({"x": {}}, True), ({"x": None}, False), ({"y": {}}, False), (None, False), (["x"], False)],
)
def test_an_extension_is_declared_by_an_object(extensions: Any, has: bool) -> None:
    capabilities = {"io.modelcontextprotocol/clientCapabilities": {"extensions": extensions}}
    assert decode(meta=capabilities).has_extension("x") is has
