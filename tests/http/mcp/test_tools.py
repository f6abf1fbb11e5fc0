"""The list of an agent's tools, and where the card says it is."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from a2a_lambda.http.app import create_app
from a2a_lambda.settings import Settings
from a2a_lambda.wire.mcp import tools
from a2a_lambda.wire.shared.card_json import MCP_EXTENSION
from tests.conftest import BASE_URL, new_key
from tests.http.mcp.client import Mcp, text_of
from tests.http.mcp.tool_agent import CARD, kit_of


def test_skills_are_tools(mcp: Mcp) -> None:
    answer = mcp.ask("tools/list")
    weather, talk, media, now = answer["tools"]
    assert (weather["name"], weather["title"]) == ("weather", "The weather")
    assert weather["description"] == "Tells the weather.\nExamples:\n- Is it warm?"
    assert weather["annotations"] == {"readOnlyHint": True}
    properties = weather["inputSchema"]["properties"]
    assert properties["city"] == {"type": "string", "description": "Name of the city"}
    assert properties["unit"]["enum"] == ["C", "F"]
    text = "Only to answer a task's question."
    assert properties["message"]["description"] == text, "the skill gets no turn, so it reads no text"
    assert weather["inputSchema"]["required"] == ["city"]
    assert weather["outputSchema"]["required"] == ["city", "degrees"]
    assert [*talk["inputSchema"]["properties"]] == ["times", "message", "task"]
    assert media["inputSchema"]["required"] == ["message"]
    assert "required" not in now["inputSchema"], "the skill gets no turn and has no parameters"
    assert "outputSchema" not in talk
    assert answer["ttlMs"] > 0
    assert mcp.ask("tools/list") == answer


@pytest.mark.parametrize("name", ["agent-card.json", "agent.json"])
@pytest.mark.parametrize("agent", ["", "/tools"])
def test_the_card_says_where_the_tools_are(mcp: Mcp, name: str, agent: str) -> None:
    place = f"/a2a{agent}" if agent else ""
    card = mcp.client.get(f"{place}/.well-known/{name}").json()
    [extension] = [item for item in card["capabilities"]["extensions"] if item["uri"] == MCP_EXTENSION]
    assert extension["params"]["url"] == f"{BASE_URL}/mcp{agent}"
    mcp.path = extension["params"]["url"]
    assert mcp.ask("tools/list")["tools"]


def test_an_agent_without_tools_names_no_place(settings: Settings, tmp_path: Path) -> None:
    kit = kit_of(settings, tmp_path, CARD + "mcp: false\n")
    card = TestClient(create_app(kit), base_url=BASE_URL).get("/.well-known/agent-card.json")
    assert MCP_EXTENSION not in card.text


def test_a_list_has_pages(mcp: Mcp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "PAGE_TOOLS", 2)
    first = mcp.ask("tools/list")
    second = mcp.ask("tools/list", {"cursor": first["nextCursor"]})
    names = [tool["name"] for tool in (*first["tools"], *second["tools"])]
    assert names == ["weather", "talk", "media", "now"]
    assert "nextCursor" not in second
    for cursor in ("x", 1, "-1"):
        assert mcp.refusal("tools/list", {"cursor": cursor})["code"] == -32602


def test_extensions_are_for_clients_of_a2a(settings: Settings, tmp_path: Path) -> None:
    """A client of MCP cannot activate the one that the agent requires."""
    kit = kit_of(settings, tmp_path, CARD + "extensions: [{ uri: 'urn:x', required: true }]\n")
    with TestClient(create_app(kit), base_url=BASE_URL) as client:
        mcp = Mcp(client, new_key(kit), "/mcp")
        assert text_of(mcp.call("talk", {"message": "hi"})) == "hi"


def test_a_card_may_hide_its_tools(mcp: Mcp) -> None:
    assert mcp.refusal("tools/call", {"name": "hidden", "arguments": {}})["code"] == -32602
