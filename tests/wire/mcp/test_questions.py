"""Questions as forms, and their answers."""

from typing import Any

import pytest

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import CHOICES, FILLS, TaskState
from a2a_lambda.wire.mcp.questions import (
    CANCELED,
    DECLINED,
    answer_of,
    elicitation,
    filled_parameter,
    question_key,
    question_text,
)
from tests.wire.mcp.examples import NUMBER, task, tool

ASKING = TaskState.INPUT_REQUIRED


def field_of(metadata: Any, properties: Any) -> tuple[str, Any]:
    """Name and schema of the one field of a question's form."""
    form = elicitation(task(ASKING, says="Which?", metadata=metadata), tool(properties))["params"]
    [(name, field)] = form["requestedSchema"]["properties"].items()
    assert form["requestedSchema"]["required"] == [name]
    return name, field


def test_a_question_is_a_form_with_one_field() -> None:
    assert elicitation(task(ASKING, says="Which city?"), None) == {
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": "Which city?",
            "requestedSchema": {
                "type": "object",
                "properties": {"answer": {"type": "string"}},
                "required": ["answer"],
            },
        },
    }


def test_a_question_without_text_still_asks() -> None:
    assert elicitation(task(ASKING), None)["params"]["message"] == "Please answer."
    assert (question_text(task(ASKING)), question_key(task(ASKING))) == ("", "")
    assert filled_parameter(task(ASKING)) is None


def test_a_question_is_named_by_its_message() -> None:
    asking = task(ASKING, says="Which city?", metadata={FILLS: "city"})
    assert (question_text(asking), question_key(asking)) == ("Which city?", "question-1")
    assert filled_parameter(asking) == "city"


def test_the_field_is_as_the_parameter() -> None:
    schema = {
        "type": "integer",
        "minimum": 1,
        "title": "Count",
        "exclusiveMaximum": 9,
        "description": "How many.",
    }
    assert field_of({FILLS: "count"}, {"count": schema}) == (
        "count",
        {"type": "integer", "minimum": 1, "description": "How many."},
    )


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "array"}, {"anyOf": [NUMBER]}, {}, True])
def test_what_no_form_can_hold_is_a_text(schema: Any) -> None:
    assert field_of({FILLS: "a"}, {"a": schema}) == ("a", {"type": "string"})


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [("date", True), ("date-time", True), ("email", True), ("uuid", False), ("time", False)],
)
def test_a_form_may_have_a_field_of_some_formats(name: str, *, is_kept: bool) -> None:
    """A client shows a calendar for a date."""
    _, field = field_of({FILLS: "day"}, {"day": {"type": "string", "format": name}})
    assert field == ({"type": "string", "format": name} if is_kept else {"type": "string"})


def test_choices_are_an_enum_of_texts() -> None:
    choices = {FILLS: "a", CHOICES: ["1", "2"]}
    assert field_of(choices, {"a": NUMBER}) == ("a", {"type": "string", "enum": ["1", "2"]})
    nights = {"type": "integer", "enum": [1, 2], "default": 1, "minimum": 1, "description": "Nights."}
    assert field_of(choices, {"a": nights}) == (
        "a",
        {"type": "string", "enum": ["1", "2"], "description": "Nights."},
    )
    digits = {"type": "string", "enum": ["1", "2"], "default": "1"}
    assert field_of(choices, {"a": digits}) == ("a", digits)
    assert field_of(choices, {"a": {**digits, "default": "3"}}) == (
        "a",
        {"type": "string", "enum": ["1", "2"]},
    )
    assert field_of(choices, {"a": {"type": "boolean"}}) == ("a", {"type": "boolean"})


@pytest.mark.parametrize(
    ("kind", "default", "is_kept"),
    [
        ("number", 1.5, True),
        ("number", 1, True),
        ("number", "1.5", False),
        ("integer", 1, True),
        ("boolean", False, True),
        ("string", "a", True),
        ("string", None, False),
    ],
)
def test_a_default_is_of_its_fields_type(kind: str, default: Any, is_kept: bool) -> None:
    """The schema of a decimal has its default as a text."""
    _, field = field_of({FILLS: "a"}, {"a": {"type": kind, "default": default}})
    assert field == ({"type": kind, "default": default} if is_kept else {"type": kind})


@pytest.mark.parametrize(
    ("value", "text"),
    [("Rome", "Rome"), (2, "2"), (2.5, "2.5"), (True, "true"), ("", ""), (["a"], '["a"]')],
)
def test_an_accepted_answer_is_its_value_in_words(value: Any, text: str) -> None:
    assert (
        answer_of({"action": "accept", "content": {"answer": value, "note": "x"}}, "answer", "path") == text
    )


def test_a_user_may_decline() -> None:
    assert answer_of({"action": "decline"}, "answer", "path") == DECLINED
    assert answer_of({"action": "cancel"}, "answer", "path") == CANCELED


def test_the_only_field_is_the_answer_whatever_its_name() -> None:
    """The project's conformance kit answers each form with {"confirm": true}."""
    assert answer_of({"action": "accept", "content": {"confirm": True}}, "answer", "path") == "true"


@pytest.mark.parametrize("content", [None, {}, [], "Rome", {"a": 1, "b": 2}, {"answer": None, "b": 2}])
def test_an_accepted_answer_has_the_field_of_the_form(content: Any) -> None:
    with pytest.raises(InvalidParams, match="must have the field 'answer'") as error:
        answer_of({"action": "accept", "content": content}, "answer", "path")
    assert error.value.path == "path"


@pytest.mark.parametrize(
    "response", [None, [], "accept", {}, {"action": "yes"}, {"action": None}, {"action": []}]
)
def test_another_answer_is_refused(response: Any) -> None:
    with pytest.raises(InvalidParams, match="accept, decline or cancel") as error:
        answer_of(response, "answer", "path")
    assert error.value.path == "path"
