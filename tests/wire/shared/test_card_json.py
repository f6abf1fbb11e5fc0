"""What a card says in each version."""

from typing import Any

import pytest

from a2a_lambda.protocol.card import Card, CardSkill
from a2a_lambda.wire.shared import card_json


def test_an_extension_says_that_it_is_required_and_not_that_it_is_none() -> None:
    content = {
        "name": "N",
        "description": "D",
        "version": "1",
        "skills": [{"id": "s", "name": "S", "description": "D", "tags": ["t"]}],
        "extensions": [{"uri": "urn:a", "required": True}, {"uri": "urn:b"}],
    }
    source = card_json.Description(
        card=Card.model_validate(content), name="n", base="https://x", is_root=True, input_schemas={}
    )
    extensions = card_json.v1_0(source)["capabilities"]["extensions"]
    assert [item for item in extensions if item["uri"] in ("urn:a", "urn:b")] == [
        {"uri": "urn:a", "required": True},
        {"uri": "urn:b"},
    ]


@pytest.mark.parametrize(
    ("card_shows", "skills_show", "has_place"),
    [(True, [True], True), (True, [False, True], True), (True, [False], False), (False, [True], False)],
)
def test_a_card_says_where_tools_are_if_it_shows_some(
    card_shows: bool, skills_show: list[bool], has_place: bool
) -> None:
    skills = [
        CardSkill(id=f"s{number}", name="S", description="D", mcp=shows)
        for number, shows in enumerate(skills_show)
    ]
    card = Card(name="A", description="D", version="1", skills=skills, mcp=card_shows)
    encoded = card_json.v1_0(card_json.Description(card, "a", "https://base", True, {}))
    uris = [extension["uri"] for extension in encoded["capabilities"].get("extensions", [])]
    assert (card_json.MCP_EXTENSION in uris) == has_place


@pytest.mark.parametrize(
    ("modes", "upload_bytes", "has_place"),
    [
        (["text/plain"], 1_000, False),
        (["text/plain", "application/json"], 1_000, False),
        (["text/plain", "image/png"], 1_000, True),
        (["image/png"], 0, False),
    ],
)
def test_a_card_says_where_files_are_uploaded_if_the_agent_takes_some(
    modes: list[str], upload_bytes: int, has_place: bool
) -> None:
    skills = [CardSkill(id="s", name="S", description="D", inputModes=modes)]
    card = Card(name="A", description="D", version="1", skills=skills)
    description = card_json.Description(card, "a", "https://base", True, {}, upload_bytes=upload_bytes)
    assert bool(card_json.uploads_extension(description)) is has_place


@pytest.mark.parametrize(("is_root", "url"), [(True, "https://base/"), (False, "https://base/a2a/a")])
def test_the_url_of_the_default_agent_ends_with_a_slash(is_root: bool, url: str) -> None:
    card = Card(name="A", description="D", version="1", skills=[CardSkill(id="s", name="S", description="D")])
    description = card_json.Description(card, "a", "https://base", is_root, {})
    assert card_json.v0_2_5(description)["url"] == url


@pytest.mark.parametrize("extended", [None, {}])
def test_every_version_says_whether_there_is_an_extended_card(extended: Any) -> None:
    skills = [CardSkill(id="s", name="S", description="D")]
    card = Card(name="A", description="D", version="1", skills=skills, extended=extended)
    description = card_json.Description(card, "a", "https://base", True, {})
    has_one = extended is not None
    assert card_json.v0_2_5(description)["supportsAuthenticatedExtendedCard"] is has_one
    assert card_json.v1_0(description)["capabilities"].get("extendedAgentCard", False) is has_one


def test_a_skill_without_parameters_says_nothing_of_json() -> None:
    skills = [CardSkill(id=identity, name="S", description="D") for identity in ("plain", "with-parameters")]
    card = Card(name="A", description="D", version="1", skills=skills)
    description = card_json.Description(card, "a", "https://base", True, {"with-parameters": {}})
    encoded = {skill["id"]: skill for skill in card_json.v1_0(description)["skills"]}
    assert "inputModes" not in encoded["plain"]
    assert encoded["with-parameters"]["inputModes"] == [*card.defaultInputModes, "application/json"]
