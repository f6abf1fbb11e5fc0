"""A call of a tool as a message."""

from typing import Any

import pytest

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.alibaba_metadata import intents
from a2a_lambda.protocol.model import Task, TaskState, make_status, text_message
from a2a_lambda.wire.mcp.tool_calls import arguments_of, decode_call, message_of, only_asks, task_of
from tests.wire.mcp.examples import NUMBER, tool


@pytest.mark.parametrize(
    ("params", "arguments"), [({}, {}), ({"arguments": None}, {}), ({"arguments": {"a": 1}}, {"a": 1})]
)
def test_arguments_may_be_absent(params: Any, arguments: Any) -> None:
    assert arguments_of(params) == arguments


@pytest.mark.parametrize("arguments", [[], "a", 1])
def test_arguments_are_an_object(arguments: Any) -> None:
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


@pytest.mark.parametrize("arguments", [{}, {"message": None}])
def test_a_call_without_the_message_that_its_skill_reads_is_refused(arguments: Any) -> None:
    with pytest.raises(InvalidParams, match="add needs the argument 'message'") as error:
        decode_call(tool(), arguments, {})
    assert error.value.path == "params.arguments.message"


def test_a_call_without_anything_has_an_empty_text() -> None:
    assert decode_call(tool(), {"message": ""}, {})["message"]["parts"] == [{"text": ""}]
    assert decode_call(tool(reads_text=False), {}, {})["message"]["parts"] == [{"text": ""}]


@pytest.mark.parametrize("arguments", [{"message": ""}, {}, {"message": None}])
def test_an_answer_without_anything_has_an_empty_text(arguments: Any) -> None:
    assert decode_call(tool(), {"task": "t-1", **arguments}, {})["message"]["parts"] == [{"text": ""}]


def test_two_calls_are_two_messages() -> None:
    ids = {decode_call(tool(), {"message": "hi"}, {})["message"]["messageId"] for _ in range(2)}
    assert len(ids) == 2


def test_a_call_goes_on_with_the_conversation_that_meta_names() -> None:
    arguments = {"message": "hi"}
    message = decode_call(tool(), arguments, {"a2a-lambda/contextId": "c-1"})["message"]
    assert message["contextId"] == "c-1"
    with pytest.raises(InvalidParams, match="contextId"):
        decode_call(tool(), arguments, {"a2a-lambda/contextId": 1})


def test_an_answer_names_its_task_and_no_skill() -> None:
    message = decode_call(tool(), {"task": "t-1", "message": "Rome"}, {"a2a-lambda/contextId": "c-1"})[
        "message"
    ]
    assert message["taskId"] == "t-1"
    assert message["parts"] == [{"text": "Rome"}]
    assert "metadata" not in message


@pytest.mark.parametrize("arguments", [{}, {"task": None}, {"task": ""}])
def test_an_empty_task_is_none(arguments: Any) -> None:
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
def test_a_task_and_a_message_are_texts(value: Any) -> None:
    with pytest.raises(InvalidParams, match="task"):
        task_of(tool(), {"task": value})
    with pytest.raises(InvalidParams, match="message"):
        message_of(tool(), {"message": value})


def test_an_unknown_argument_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidParams, match="add has no argument 'b'") as error:
        decode_call(tool({"a": NUMBER}), {"a": 1, "c": 2, "b": 3}, {})
    assert error.value.path == "params.arguments.b"


def test_a_skill_that_reads_no_text_is_called_without_a_message() -> None:
    add = tool({"a": NUMBER})
    with pytest.raises(InvalidParams, match="send 'task' with it, or leave it out") as error:
        decode_call(add, {"a": 1, "message": "hi"}, {})
    assert error.value.path == "params.arguments.message"
    assert decode_call(add, {"a": 1, "message": ""}, {})["message"]["parts"] == [{"data": {"a": 1}}]
    assert decode_call(add, {"task": "t-1", "message": "hi"}, {})["message"]["parts"] == [{"text": "hi"}]


def test_a_very_long_name_is_quoted_in_part() -> None:
    with pytest.raises(InvalidParams) as error:
        decode_call(tool({"a": NUMBER}), {"b" * 1000: 1}, {})
    assert error.value.path == "params.arguments." + "b" * 100 + "…"
    assert "'" + "b" * 100 + "…'" in str(error.value)
    with pytest.raises(InvalidParams) as error:
        decode_call(tool({"a": NUMBER}), {"b" * 100: 1}, {})
    assert "'" + "b" * 100 + "'" in str(error.value)


def waiting(state: TaskState, fills: str | None = None) -> Task:
    """A task with a question. fills: parameter that the answer fills."""
    message = text_message("t-1", "c", "How many?", (), fills)
    return Task(id="t-1", contextId="c", status=make_status(state, 0, message))


@pytest.mark.parametrize(
    ("arguments", "fills", "is_look"),
    [
        ({}, "a", True),
        ({"message": None, "a": None}, "a", True),
        ({"message": ""}, "a", True),
        ({"message": "Rome"}, "a", False),
        ({"message": "Rome"}, None, False),
        ({"a": 0}, "a", False),
        ({"a": ""}, "a", False),
        ({"a": 1}, None, True),
        ({"a": 1}, "b", True),
    ],
)
def test_a_call_with_a_task_and_no_answer_is_a_look(arguments: Any, fills: str | None, is_look: bool) -> None:
    """A model may send null for what it does not use, and again what the tool requires. An approval must not
    be given by that."""
    adder = tool({"a": NUMBER, "b": NUMBER}, reads_text=True)
    task = waiting(TaskState.INPUT_REQUIRED, fills)
    assert only_asks(adder, {"task": "t-1", **arguments}, task) == is_look


@pytest.mark.parametrize("state", [TaskState.WORKING, TaskState.COMPLETED])
def test_a_call_that_repeats_its_arguments_looks_at_a_task_that_asks_nothing(state: TaskState) -> None:
    assert only_asks(tool({"a": NUMBER}), {"task": "t-1", "a": 3}, waiting(state, "a"))


def test_a_task_is_continued_although_a_parameter_has_its_name() -> None:
    namesake = tool({"task": NUMBER, "message": NUMBER}, reads_text=True)
    arguments = {"a2a_task": "t-1", "a2a_message": "Rome"}
    assert decode_call(namesake, {**arguments, "task": 1}, {})["message"]["parts"] == [
        {"text": "Rome"},
        {"data": {"task": 1}},
    ]
    assert decode_call(namesake, arguments, {})["message"]["taskId"] == "t-1"
    task = waiting(TaskState.INPUT_REQUIRED, "message")
    assert not only_asks(namesake, {"a2a_task": "t-1", "message": 1}, task)
    assert only_asks(namesake, {"a2a_task": "t-1", "a2a_message": ""}, task)
