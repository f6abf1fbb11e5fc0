"""A call of a tool as a message."""

from typing import Any

import pytest

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.alibaba_metadata import intents
from a2a_lambda.wire.mcp.calls import arguments_of, decode_call, message_of, says_nothing, task_of
from tests.wire.mcp.examples import NUMBER, tool

Json = Any


@pytest.mark.parametrize(
    ("params", "arguments"), [({}, {}), ({"arguments": None}, {}), ({"arguments": {"a": 1}}, {"a": 1})]
)
def test_arguments_may_be_absent(params: Json, arguments: Json) -> None:
    assert arguments_of(params) == arguments


@pytest.mark.parametrize("arguments", [[], "a", 1])
def test_arguments_are_an_object(arguments: Json) -> None:
    with pytest.raises(InvalidParams, match="arguments"):
        arguments_of({"arguments": arguments})


def test_a_call_names_its_skill_and_carries_text_and_arguments() -> None:
    adder = tool({"a": NUMBER, "b": NUMBER}, reads_text=True)
    message = decode_call(adder, {"a": 1, "b": None, "message": "hi"}, {})["message"]
    assert message["parts"] == [{"text": "hi"}, {"data": {"a": 1}}]
    assert [intent.skill for intent in intents(message["metadata"])] == ["add"]
    assert message["role"] == "ROLE_USER"
    assert "contextId" not in message
    assert "taskId" not in message


def test_a_call_without_anything_has_an_empty_text() -> None:
    assert decode_call(tool(), {}, {})["message"]["parts"] == [{"text": ""}]


@pytest.mark.parametrize("arguments", [{"message": ""}, {}, {"message": None}])
def test_an_answer_without_anything_has_an_empty_text(arguments: Json) -> None:
    assert decode_call(tool(), {"task": "t-1", **arguments}, {})["message"]["parts"] == [{"text": ""}]


def test_two_calls_are_two_messages() -> None:
    ids = {decode_call(tool(), {}, {})["message"]["messageId"] for _ in range(2)}
    assert len(ids) == 2


def test_a_call_goes_on_with_the_conversation_that_meta_names() -> None:
    assert decode_call(tool(), {}, {"a2a-lambda/contextId": "c-1"})["message"]["contextId"] == "c-1"
    with pytest.raises(InvalidParams, match="contextId"):
        decode_call(tool(), {}, {"a2a-lambda/contextId": 1})


def test_an_answer_names_its_task_and_no_skill() -> None:
    message = decode_call(tool(), {"task": "t-1", "message": "Rome"}, {"a2a-lambda/contextId": "c-1"})[
        "message"
    ]
    assert message["taskId"] == "t-1"
    assert message["parts"] == [{"text": "Rome"}]
    assert "metadata" not in message


@pytest.mark.parametrize("arguments", [{}, {"task": None}, {"task": ""}])
def test_an_empty_task_is_none(arguments: Json) -> None:
    assert task_of(tool(), arguments) is None


def test_a_task_is_named_by_its_argument() -> None:
    assert task_of(tool(), {"task": "t-1"}) == "t-1"


def test_a_parameter_named_task_is_the_skills() -> None:
    own = tool({"task": NUMBER, "message": NUMBER})
    assert task_of(own, {"task": "t-1"}) is None
    assert message_of(own, {"message": "hi"}) == ""
    message = decode_call(own, {"task": 1, "message": 2}, {})["message"]
    assert message["parts"] == [{"data": {"task": 1, "message": 2}}]


@pytest.mark.parametrize("value", [1, [], {}])
def test_a_task_and_a_message_are_texts(value: Json) -> None:
    with pytest.raises(InvalidParams, match="task"):
        task_of(tool(), {"task": value})
    with pytest.raises(InvalidParams, match="message"):
        message_of(tool(), {"message": value})


def test_an_unknown_argument_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidParams, match="add has no argument 'b'") as caught:
        decode_call(tool({"a": NUMBER}), {"a": 1, "c": 2, "b": 3}, {})
    assert caught.value.path == "params.arguments.b"


def test_a_very_long_name_is_quoted_in_part() -> None:
    with pytest.raises(InvalidParams) as caught:
        decode_call(tool({"a": NUMBER}), {"b" * 1000: 1}, {})
    assert caught.value.path == "params.arguments." + "b" * 100 + "…"
    assert "'" + "b" * 100 + "…'" in str(caught.value)
    with pytest.raises(InvalidParams) as caught:
        decode_call(tool({"a": NUMBER}), {"b" * 100: 1}, {})
    assert "'" + "b" * 100 + "'" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "is_look"),
    [
        ({}, True),
        ({"message": None, "a": None}, True),
        ({"message": ""}, True),
        ({"message": "Rome"}, False),
        ({"a": 0}, False),
        ({"a": ""}, False),
        ({"unknown": 1}, False),
    ],
)
def test_a_model_may_send_null_for_what_it_does_not_use(arguments: Json, is_look: bool) -> None:
    adder = tool({"a": NUMBER}, reads_text=True)
    assert says_nothing(adder, {"task": "t-1", **arguments}) == is_look


def test_a_task_is_continued_although_a_parameter_has_its_name() -> None:
    namesake = tool({"task": NUMBER, "message": NUMBER}, reads_text=True)
    arguments = {"a2a_task": "t-1", "a2a_message": "Rome"}
    assert decode_call(namesake, {**arguments, "task": 1}, {})["message"]["parts"] == [
        {"text": "Rome"},
        {"data": {"task": 1}},
    ]
    assert decode_call(namesake, arguments, {})["message"]["taskId"] == "t-1"
    assert not says_nothing(namesake, {"a2a_task": "t-1", "message": 1})
    assert says_nothing(namesake, {"a2a_task": "t-1", "a2a_message": ""})
