"""What a turn came to, as the result of a tool."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda.protocol.model import CHOICES, FILLS, Message, Part, Role, TaskState
from a2a_lambda.wire.mcp.results import (
    encode_new_task,
    encode_result,
    encode_task,
    in_revision,
    progress,
    without_earlier_artifacts,
)
from a2a_lambda.wire.mcp.revisions import STATELESS, WITH_HANDSHAKE, WITHOUT_LINKS
from a2a_lambda.wire.mcp.tools import find_tool
from tests.wire.mcp.examples import profile_of, skill, task, tool

WITH_SESSION = WITH_HANDSHAKE[0]

PROMISING = find_tool(replace(profile_of(skill()), output_schemas={"add": {"type": "object"}}), "add")
"""A tool that promises structured content."""


def result_of(
    *parts: Part,
    state: TaskState = TaskState.COMPLETED,
    revision: str = STATELESS,
    says: str = "",
    promises: bool = False,
) -> Any:
    return encode_result(task(state, *parts, says=says), revision, PROMISING if promises else None)


def text(words: str) -> Any:
    return {"type": "text", "text": words}


def test_a_result_has_every_part_and_the_conversation() -> None:
    assert result_of(Part(text="one"), Part(text=""), Part(text="two"), says="Done.") == {
        "content": [text("one"), text("two"), text("Done.")],
        "_meta": {"a2a-lambda/contextId": "c-1"},
    }


@pytest.mark.parametrize(
    ("before", "after", "is_new"),
    [
        (Part(text="one"), Part(text="one"), False),
        (Part(text="one"), Part(text="one two"), True),
        (Part(data={"n": 1}), Part(data={"n": 2}), True),
        # A stored file is a URL that is signed anew, or its bytes.
        (Part(url="https://b/a?X=1", filename="a.csv"), Part(url="https://b/a?X=2", filename="a.csv"), False),
        (Part(url="https://b/a?X=1", filename="a.png"), Part(raw="AA==", filename="a.png"), False),
        (Part(url="https://b/a", filename="a.png"), Part(url="https://b/b", filename="b.png"), True),
    ],
)
def test_what_an_earlier_result_had_is_left_out(before: Part, after: Part, *, is_new: bool) -> None:
    earlier_artifacts = task(TaskState.INPUT_REQUIRED, before)["artifacts"]
    assert (
        bool(without_earlier_artifacts(task(TaskState.COMPLETED, after), earlier_artifacts)["artifacts"])
        is is_new
    )
    assert without_earlier_artifacts(task(TaskState.COMPLETED), earlier_artifacts)["artifacts"] == []


def test_the_data_of_the_last_turn_is_what_a_tool_promises() -> None:
    """Each turn of a task that asked may have returned some."""
    parts = (Part(data={"n": 1}), Part(data={"n": 2}))
    assert result_of(*parts, promises=True)["structuredContent"] == {"n": 2}
    assert "structuredContent" not in result_of(*parts)


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (Part(raw="AA==", mediaType="image/png"), {"type": "image", "data": "AA==", "mimeType": "image/png"}),
        (
            Part(raw="AA==", mediaType="audio/mpeg"),
            {"type": "audio", "data": "AA==", "mimeType": "audio/mpeg"},
        ),
        (
            Part(raw="AA==", filename="a b/ü~-_.txt"),
            {
                "type": "resource",
                "resource": {
                    "uri": "attachment:///a%20b%2F%C3%BC~-_.txt",
                    "mimeType": "application/octet-stream",
                    "blob": "AA==",
                },
            },
        ),
        *(
            (
                Part(raw=base64.b64encode(content).decode(), filename="a.csv", mediaType=media_type),
                {
                    "type": "resource",
                    "resource": {"uri": "attachment:///a.csv", "mimeType": media_type, **block},
                },
            )
            for content, media_type, block in [
                ("ü,1".encode(), "Text/CSV; charset=utf-8", {"text": "ü,1"}),
                (b"{}", "application/vnd.a+json", {"text": "{}"}),
                (b"\xff", "text/csv; charset=latin-1", {"blob": "/w=="}),
                (b"{}", "application/zip", {"blob": "e30="}),
            ]
        ),
        (
            Part(raw="AA==", mediaType="Audio/L16; rate=16000"),
            {"type": "audio", "data": "AA==", "mimeType": "Audio/L16; rate=16000"},
        ),
        (
            Part(url="https://a/b", mediaType="text/csv"),
            {"type": "resource_link", "uri": "https://a/b", "name": "file", "mimeType": "text/csv"},
        ),
        (Part(data=[1, "ü"]), text('[1,"ü"]')),
    ],
)
def test_each_kind_of_part_has_its_block(part: Part, block: Any) -> None:
    assert result_of(part)["content"] == [block]


def test_the_revision_without_links_has_the_url_as_a_text() -> None:
    link = Part(url="https://a/b", filename="b.csv")
    assert result_of(link, revision=WITHOUT_LINKS)["content"] == [text("b.csv: https://a/b")]
    assert result_of(link, revision=WITH_SESSION)["content"][0]["type"] == "resource_link"


def test_a_value_that_is_the_whole_result_is_structured_content() -> None:
    assert result_of(Part(data={"sum": 2}))["structuredContent"] == {"sum": 2}
    assert result_of(Part(text=""), Part(data={"sum": 2}))["structuredContent"] == {"sum": 2}
    assert "structuredContent" not in result_of(Part(data={"sum": 2}), Part(data={"sum": 3}))
    assert "structuredContent" not in result_of(Part(text="a"))


def test_data_beside_a_text_is_a_text() -> None:
    """Many clients show the model nothing but structured content."""
    result = result_of(Part(text="Only two."), Part(data={"sum": 2}))
    assert result.keys() == {"content", "_meta"}
    assert result["content"] == [text("Only two."), text('{"sum":2}')]
    promised_result = result_of(Part(text="Only two."), Part(data={"sum": 2}), promises=True)
    assert promised_result["structuredContent"] == {"sum": 2}
    rejected_task = task(TaskState.REJECTED, Part(data={"sum": 2}), says="No.")
    assert "structuredContent" not in encode_result(rejected_task, STATELESS, tool())


def test_before_the_stateless_revision_structured_content_is_an_object() -> None:
    assert result_of(Part(data=[1]))["structuredContent"] == [1]
    assert "structuredContent" not in result_of(Part(data=[1]), revision=WITH_SESSION)
    assert result_of(Part(data={}), revision=WITH_SESSION)["structuredContent"] == {}


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED])
def test_a_turn_that_did_not_complete_is_an_error(state: TaskState) -> None:
    assert result_of(Part(text="a"), state=state)["isError"] is True
    assert "isError" not in result_of(Part(text="a"))


def test_an_error_begins_with_its_reason() -> None:
    """fastmcp raises the first text of a result that is an error."""
    failed_task = task(TaskState.FAILED, Part(text="so far"), says="The service is down.")
    assert encode_result(failed_task, STATELESS, tool())["content"] == [
        text("The service is down."),
        text("so far"),
    ]
    completed_task = task(TaskState.COMPLETED, Part(text="so far"), says="Done.")
    assert encode_result(completed_task, STATELESS, tool())["content"] == [text("so far"), text("Done.")]


def test_a_canceled_turn_says_so() -> None:
    """A model must see why the result is an error."""
    result = text("The task was canceled.")
    assert result_of(state=TaskState.CANCELED)["content"] == [result]
    assert result_of(Part(text="a"), state=TaskState.CANCELED)["content"] == [result, text("a")]
    assert result_of(state=TaskState.FAILED)["content"] == []


@pytest.mark.parametrize(
    ("role", "words"),
    [
        (Role.AGENT, "This question was not answered: How many?\nThe task was canceled."),
        (Role.USER, "The task was canceled."),
    ],
)
def test_a_task_that_was_canceled_at_a_question_repeats_it(role: Role, words: str) -> None:
    canceled_task = task(TaskState.CANCELED)
    canceled_task["history"] = [Message(messageId="m", role=role, parts=[Part(text="How many?")])]
    assert encode_result(canceled_task, STATELESS, tool())["content"] == [text(words)]
    message = encode_new_task(canceled_task, {}).get("statusMessage", "")
    assert words == f"{message}\nThe task was canceled.".lstrip("\n")


def test_a_tool_that_promises_structured_content_fails_without_it() -> None:
    without_data = result_of(Part(text="a"), promises=True)
    assert without_data["isError"] is True
    assert without_data["content"][0] == text(
        "The tool did not return the data that its output schema promises."
    )
    assert "isError" not in result_of(Part(data={"sum": 2}), promises=True)
    assert result_of(Part(text="a"), state=TaskState.WORKING, promises=True)["isError"] is True
    assert "isError" not in result_of(Part(text="a"), state=TaskState.WORKING)


def test_a_question_says_how_to_answer_it() -> None:
    asking = task(TaskState.INPUT_REQUIRED, Part(text="a"), says="Which city?")
    assert encode_result(asking, STATELESS, tool())["content"] == [
        text("a"),
        text("Which city?\nTo answer, call this tool again with task='t-1' and message=<the answer>."),
    ]
    choosing = task(TaskState.INPUT_REQUIRED, says="Which city?", metadata={CHOICES: ["Oslo", "Rome"]})
    [block] = encode_result(choosing, STATELESS, tool())["content"]
    assert block["text"].startswith("Which city? Choose one of Oslo, Rome.\nTo answer, call")
    choosing["status"]["message"]["parts"] = [Part(text="Which city? Choose one of Oslo, Rome.")]
    [block] = encode_result(choosing, STATELESS, tool())["content"]
    assert block["text"].count("Choose one") == 1, "the kit's own questions say it"
    filling = task(TaskState.INPUT_REQUIRED, says="Which city?", metadata={FILLS: "city"})
    [block] = encode_result(filling, STATELESS, tool())["content"]
    assert block["text"].endswith("task='t-1' and city=<the answer>.")


def test_a_tool_with_a_parameter_of_the_name_says_how_to_answer_it() -> None:
    asking = task(TaskState.INPUT_REQUIRED, says="Which city?")
    namesake = tool({"task": {"type": "string"}, "message": {"type": "string"}}, reads_text=True)
    for encoded in (
        encode_result(asking, STATELESS, namesake),
        encode_result(asking, WITH_SESSION, namesake),
    ):
        [block] = encoded["content"]
        assert block["text"].endswith("again with a2a_task='t-1' and a2a_message=<the answer>.")


def test_a_turn_that_still_runs_says_how_to_look_again() -> None:
    [block] = encode_result(task(TaskState.WORKING, says="Reading."), STATELESS, tool())["content"]
    assert block["text"].startswith("This takes longer than a call may.")
    assert "task='t-1'" in block["text"]


def test_only_the_stateless_revision_wraps_its_results() -> None:
    server = {"name": "a", "version": "1"}
    result = {"content": [], "_meta": {"x": 1}}
    assert in_revision(result, WITH_SESSION, server) == result
    assert in_revision(result, STATELESS, server) == {
        "resultType": "complete",
        "content": [],
        "_meta": {"io.modelcontextprotocol/serverInfo": server, "x": 1},
    }
    assert in_revision({"resultType": "task"}, STATELESS, server)["resultType"] == "task"


@pytest.mark.parametrize(
    ("state", "name"),
    [
        (TaskState.SUBMITTED, "working"),
        (TaskState.WORKING, "working"),
        (TaskState.COMPLETED, "completed"),
        (TaskState.FAILED, "completed"),
        (TaskState.REJECTED, "completed"),
        (TaskState.CANCELED, "cancelled"),
        (TaskState.INPUT_REQUIRED, "input_required"),
    ],
)
def test_a_task_has_a_status_of_mcp(state: TaskState, name: str) -> None:
    assert encode_new_task(task(state), {"ttlMs": 5}) == {
        "taskId": "t-1",
        "status": name,
        "lastUpdatedAt": "1970-01-01T00:00:00.000Z",
        "pollIntervalMs": 2000,
        "ttlMs": 5,
    }


def test_a_task_that_needs_credentials_asks_for_them_by_no_form() -> None:
    encoded = encode_task(task(TaskState.AUTH_REQUIRED, says="Sign in."), None, {}, shows_forms=True)
    assert (encoded["status"], "inputRequests" in encoded) == ("completed", False)
    [part] = encoded["result"]["content"]
    assert part["text"].startswith("Sign in.\nTo answer, call this tool again with task='t-1'")


def test_a_client_that_shows_no_forms_gets_the_question_as_the_result() -> None:
    """It would poll a task without a request that it can fulfill until the task expires."""
    encoded = encode_task(task(TaskState.INPUT_REQUIRED, says="Which?"), tool(), {}, shows_forms=False)
    assert (encoded["status"], "inputRequests" in encoded) == ("completed", False)
    [part] = encoded["result"]["content"]
    assert part["text"].startswith("Which?\nTo answer, call this tool again with task='t-1'")


def test_a_task_says_what_its_status_says() -> None:
    assert encode_new_task(task(TaskState.WORKING, says="Reading."), {})["statusMessage"] == "Reading."


def test_a_task_has_its_result_or_its_question() -> None:
    result = encode_task(task(TaskState.COMPLETED, Part(text="a")), None, {}, shows_forms=True)
    assert result["result"]["resultType"] == "complete"
    assert result["result"]["content"] == [text("a")]
    assert "inputRequests" not in result
    asking = encode_task(task(TaskState.INPUT_REQUIRED, says="Which?"), tool(), {}, shows_forms=True)
    assert asking["inputRequests"].keys() == {"question-1"}
    assert "result" not in asking
    assert (
        encode_task(task(TaskState.WORKING), None, {}, shows_forms=True).keys() & {"result", "inputRequests"}
        == set()
    )


def test_a_task_of_a_tool_with_a_schema_must_have_structured_content() -> None:
    result = task(TaskState.COMPLETED, Part(text="a"))
    assert encode_task(result, PROMISING, {}, shows_forms=True)["result"]["isError"] is True
    assert "isError" not in encode_task(result, tool(), {}, shows_forms=True)["result"]
    assert "isError" not in encode_task(result, None, {}, shows_forms=True)["result"]


def test_progress_is_a_notification() -> None:
    assert progress("Reading.", 3, "token") == {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": "token", "progress": 3, "message": "Reading."},
    }
