"""What `make run` prints when it starts."""

from a2a_lambda.protocol.card import Card, CardSkill
from tools.dev.server import banner


def card(*, example: str = "") -> Card:
    skill = CardSkill(id="s", name="S", description="D", examples=[example] if example else [])
    return Card(name="A", description="D", version="1", skills=[skill])


def test_one_agent_answers_at_the_root() -> None:
    text = banner("http://x", "key", {"hello": card(example="It's me")}, "hello")
    assert "  A2A 1.0, 0.3     http://x/.well-known/agent-card.json" in text
    assert "MCP: http://x/mcp\n" in text
    assert "curl -sN http://x/message:stream" in text
    assert r"""It'\''s me""" in text


def test_the_default_agent_of_several_answers_at_the_root() -> None:
    text = banner("http://x", "key", {"one": card(example="1"), "two": card(example="2")}, "two")
    assert "MCP: http://x/mcp; of one agent: http://x/mcp/<agent>" in text
    assert "curl -sN http://x/message:stream" in text
    assert '[{"text":"2"}]' in text


def test_without_a_clear_default_no_address_of_the_root_is_shown() -> None:
    text = banner("http://x", "key", {"one": card(example="1"), "two": card()}, "")
    assert "write `default: true` in one card.yaml" in text
    assert "http://x/.well-known" not in text
    assert "MCP: http://x/mcp/<agent>" in text
    assert "curl -sN http://x/a2a/one/message:stream" in text
