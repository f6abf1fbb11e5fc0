"""Envelopes and results of MCP."""

from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda.protocol.card import Card, CardSkill
from a2a_lambda.protocol.model import Task, TaskState, status, text_message
from a2a_lambda.protocol.profile import Profile
from a2a_lambda.wire.mcp import envelope, results
from a2a_lambda.wire.mcp.tools import page_of

Json = Any

INITIALIZED = {"mcp-protocol-version": "2025-11-25"}


def test_a_task_says_what_its_status_says() -> None:
    task = Task(id="t", contextId="c", status=status(TaskState.WORKING, 0))
    assert "statusMessage" not in results.encode_new_task(task, {})
    task["status"]["message"] = text_message("t", "c", "Reading.")
    assert results.encode_new_task(task, {})["statusMessage"] == "Reading."


def test_a_tool_says_what_it_returns() -> None:
    schema = {"type": "object", "properties": {"sum": {"type": "number"}}}
    skill = CardSkill(id="add", name="Add", description="Adds.")
    card = Card(name="a", description="a", version="1.0.0", skills=[skill])
    profile = Profile(name="a", card=card, input_schemas={}, modified=0, output_schemas={"add": schema})
    [tool], _ = page_of(profile, None)
    assert tool["outputSchema"] == schema
    [tool], _ = page_of(replace(profile, output_schemas={}), None)
    assert "outputSchema" not in tool


@pytest.mark.parametrize("body", [{"id": 1, "result": {}}, {"id": 1, "error": {"code": 1}}])
def test_a_clients_answer_is_no_request(body: Json) -> None:
    assert envelope.decode({"jsonrpc": "2.0", **body}, INITIALIZED) is None
    request = envelope.decode({"jsonrpc": "2.0", "method": "ping", **body}, INITIALIZED)
    assert request is not None
    assert request.method == "ping"
