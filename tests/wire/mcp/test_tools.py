"""An agent's skills as tools."""

from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.card import Extended
from a2a_lambda.wire.mcp.tool_calls import decode_call
from a2a_lambda.wire.mcp.tools import PAGE_TOOLS, find_tool, page_of, tools_of
from tests.wire.mcp.examples import NUMBER, profile_of, skill, tool


def test_a_skill_that_reads_nothing_but_text_needs_a_message() -> None:
    schema = tool().input_schema
    assert schema["required"] == ["message"]
    assert schema["properties"].keys() == {"message", "task"}
    assert schema["type"] == "object"
    assert "$schema" not in schema, "validators of draft 7 refuse the name of another"


def test_a_skill_that_reads_nothing_needs_nothing() -> None:
    schema = tool(reads_text=False).input_schema
    assert "required" not in schema
    assert schema["properties"]["message"]["description"] == "Only to answer a task's question."


def test_a_skill_whose_code_has_not_been_read_may_read_text() -> None:
    """A server calls it while it imports the agent, and says why if that fails."""
    profile = replace(profile_of(skill()), text_skills=None)
    unread_tool = find_tool(profile, "add")
    assert "required" not in unread_tool.input_schema
    assert unread_tool.input_schema["properties"]["message"]["description"] == "What the user says."
    assert decode_call(unread_tool, {"message": "hi"}, {})["message"]["parts"] == [{"text": "hi"}]
    assert decode_call(unread_tool, {}, {})["message"]["parts"] == [{"text": ""}]


@pytest.mark.parametrize("reads_text", [False, True])
def test_parameters_come_with_a_message_that_may_be_left_out(reads_text: bool) -> None:
    schema = tool({"a": NUMBER}, reads_text=reads_text).input_schema
    assert schema["properties"].keys() == {"a", "message", "task"}
    description = schema["properties"]["message"]["description"]
    assert description == ("What the user says." if reads_text else "Only to answer a task's question.")
    assert schema["properties"]["a"] == NUMBER
    assert "required" not in schema, "the parameters say what is required, and a message is not"


def test_a_tool_takes_no_argument_that_its_schema_does_not_name() -> None:
    assert tool().input_schema["additionalProperties"] is False


@pytest.mark.parametrize("name", ["message", "task"])
def test_a_parameter_keeps_its_name(name: str) -> None:
    schema = tool({name: NUMBER}, reads_text=True).input_schema
    assert schema["properties"][name] == NUMBER


def test_required_parameters_stay_required() -> None:
    profile = profile_of(skill(), schemas={"add": {"a": NUMBER}})
    profile.input_schemas["add"]["required"] = ["a"]
    assert find_tool(profile, "add").input_schema["required"] == ["a"]


def test_a_tool_has_the_skills_description_examples_and_annotations() -> None:
    full_skill = skill(examples=["1 + 1", "2 + 2"], annotations={"readOnlyHint": True})
    [plain, full], _ = page_of(profile_of(skill("plain"), full_skill), None)
    assert plain["description"] == "Adds."
    assert "annotations" not in plain
    assert full["description"] == "Adds.\nExamples:\n- 1 + 1\n- 2 + 2"
    assert full["annotations"] == {"readOnlyHint": True}
    assert (full["name"], full["title"]) == ("add", "Add")


def test_a_tool_says_what_it_returns() -> None:
    schema = {"type": "object", "properties": {"sum": NUMBER}}
    promising = replace(profile_of(skill()), output_schemas={"add": schema})
    assert find_tool(promising, "add").encode()["outputSchema"] == schema
    assert "outputSchema" not in tool().encode()


def test_some_skills_are_no_tools() -> None:
    skills = [skill("a" * 128), skill("a" * 129), skill("加"), skill("private", mcp=False)]
    assert [other.name for other in tools_of(profile_of(*skills))] == ["a" * 128]
    assert list(tools_of(profile_of(skill(), mcp=False))) == []


def test_skills_of_the_extended_card_are_tools() -> None:
    profile = profile_of(skill("public"), extended=Extended(skills=[skill("secret")]))
    assert [other.name for other in tools_of(profile)] == ["public", "secret"]


def test_a_list_has_pages() -> None:
    profile = profile_of(*(skill(f"s{number}") for number in range(PAGE_TOOLS + 1)))
    first, cursor = page_of(profile, None)
    second, end = page_of(profile, cursor)
    assert (len(first), cursor) == (PAGE_TOOLS, str(PAGE_TOOLS))
    assert [other["name"] for other in second] == [f"s{PAGE_TOOLS}"]
    assert end is None


def test_a_full_page_is_the_last() -> None:
    assert page_of(profile_of(*(skill(f"s{number}") for number in range(PAGE_TOOLS))), None)[1] is None


@pytest.mark.parametrize("cursor", ["", "-1", "1.5", "1234567", 1, True, [], {}])
def test_a_cursor_that_the_server_did_not_give_is_refused(cursor: Any) -> None:
    with pytest.raises(InvalidParams, match="cursor"):
        page_of(profile_of(skill()), cursor)


@pytest.mark.parametrize("name", ["sub", "", None, 1, ["add"]])
def test_an_unknown_tool_is_refused_with_the_names_that_there_are(name: Any) -> None:
    with pytest.raises(InvalidParams, match=r"(Tools|the name of a tool): add, mul") as error:
        find_tool(profile_of(skill(), skill("mul")), name)
    assert error.value.path == "params.name"


def test_an_agent_without_tools_says_so() -> None:
    with pytest.raises(InvalidParams, match="Tools: none"):
        find_tool(profile_of(skill(), mcp=False), "add")
