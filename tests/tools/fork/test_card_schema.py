"""schemas/card.json, which editors read."""

import json

import jsonschema
import pytest
import yaml

from tests.conftest import AGENTS, ROOT
from tools.fork import card_schema

CARDS = [*ROOT.glob("recipes/*/card.yaml"), *AGENTS.glob("*/card.yaml")]


def test_the_file_is_the_schema_of_the_code() -> None:
    schema_text = (ROOT / card_schema.PATH).read_text("utf-8")
    assert schema_text == card_schema.schema_json(), "run python -m tools.fork.card_schema"


@pytest.mark.parametrize("card", CARDS, ids=lambda path: path.parent.name)
def test_the_schema_takes_what_the_kit_takes(card: str) -> None:
    content = yaml.safe_load((ROOT / card).read_text("utf-8"))
    jsonschema.validate(content, json.loads(card_schema.schema_json()))


@pytest.mark.parametrize("wrong", [{"descripton": "x"}, {"version": 1.0}, {"skills": []}])
def test_the_schema_finds_mistakes(wrong: dict[str, object]) -> None:
    skill = {"id": "a", "name": "A", "description": "A."}
    card = {"name": "A", "description": "A.", "version": "1", "skills": [skill], **wrong}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(card, json.loads(card_schema.schema_json()))
