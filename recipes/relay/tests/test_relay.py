import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from a2a_lambda import Agent, File, SkillError

agent = Agent.load(Path(__file__).parents[1])

IDS = {"taskId": "t1", "contextId": "c1"}


def status(state: str, text: str = "") -> dict[str, Any]:
    fields: dict[str, Any] = {"state": f"TASK_STATE_{state}", "timestamp": "2026-01-01T00:00:00.000Z"}
    if text:
        fields["message"] = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}
    return {"statusUpdate": {**IDS, "status": fields}}


def chunk(text: str) -> dict[str, Any]:
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    return {"artifactUpdate": {**IDS, "artifact": artifact, "append": True, "lastChunk": False}}


class Other:
    """Another agent, with recorded answers. It keeps the messages that it gets."""

    def __init__(self, server: HTTPServer, *answers: list[dict[str, Any]]) -> None:
        self._answers = iter(answers)
        self.messages: list[dict[str, Any]] = []
        self.url = server.url_for("").replace("localhost", "127.0.0.1").rstrip("/")
        interface = {"url": f"{self.url}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        card = {"name": "Other", "supportedInterfaces": [interface], "capabilities": {"streaming": True}}
        server.expect_request("/.well-known/agent-card.json").respond_with_json(card)
        server.expect_request("/", method="POST").respond_with_handler(self._answer)
        self.state = "CANCELED"
        self.canceled: list[str] = []

    def _answer(self, request: Request) -> Response:
        question = request.get_json()
        if question["method"] == "GetTask":
            task = {"id": "t1", "contextId": "c1", "status": {"state": f"TASK_STATE_{self.state}"}}
            return Response(
                json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": task}),
                content_type="application/json",
            )
        if question["method"] == "CancelTask":
            self.canceled.append(question["params"]["id"])
            return Response(json.dumps({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32002}}))
        self.messages.append(question["params"]["message"])

        def lines() -> Iterator[str]:
            for event in next(self._answers):
                outcome = event if "error" in event else {"result": event}
                yield f"data: {json.dumps({'jsonrpc': '2.0', 'id': question['id'], **outcome})}\n\n"

        return Response(lines(), content_type="text/event-stream")

    def given(self) -> dict[str, Any]:
        return {"settings": {"other-url": self.url}, "secrets": {"other": "key"}}


def test_questions_and_answers_stream_through(httpserver: HTTPServer) -> None:
    other = Other(
        httpserver,
        [status("WORKING", "thinking"), status("INPUT_REQUIRED", "Which sport?")],
        [chunk("Football, "), chunk("then."), status("COMPLETED")],
        [chunk("Run."), status("COMPLETED")],
    )

    async def talk() -> None:
        question = await agent.run("Teach me.", **other.given())
        assert question.state == "input-required"
        assert question.text == "Which sport?"
        answer = await agent.run("Football.", after=question, **other.given())
        assert answer.text == "Football, then."
        assert (await agent.run("More.", after=answer, **other.given())).text == "Run."

    asyncio.run(talk())
    first, second, third = other.messages
    assert "contextId" not in first
    assert (second["contextId"], second["taskId"]) == ("c1", "t1")
    assert third["contextId"] == "c1"
    assert "taskId" not in third


def test_what_came_before_a_question_is_passed_on_once(httpserver: HTTPServer) -> None:
    """A stream that continues a task begins with all of it."""
    asking = status("INPUT_REQUIRED", "Name?")
    asking["statusUpdate"]["status"]["message"]["metadata"] = {"choices": ["Ann", "Bob"]}
    before, after = ({"artifactId": name, "parts": [{"text": name}]} for name in ("Hello.", "Bye."))
    done = {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T00:00:00.000Z"}
    task = {"id": "t1", "contextId": "c1", "status": done, "artifacts": [before, after]}
    first = chunk("Hello.")
    first["artifactUpdate"]["artifact"]["artifactId"] = "Hello."
    other = Other(httpserver, [first, asking], [{"task": task}])

    async def talk() -> None:
        question = await agent.run("x", **other.given())
        assert question.task["status"]["message"]["metadata"]["choices"] == ["Ann", "Bob"]
        assert (await agent.run("Ann", after=question, **other.given())).text == "Bye."

    asyncio.run(talk())


def test_an_artifact_that_was_replaced_is_passed_on_again(httpserver: HTTPServer) -> None:
    def task(state: str, text: str) -> dict[str, Any]:
        url = f"https://example.com/kept?signature={text}"  # another one at each read
        artifacts = [{"artifactId": "same", "parts": [{"text": "Kept. "}, {"url": url}]}]
        artifacts += [{"artifactId": "draft", "parts": [{"text": text}]}]
        return {"task": {"id": "t1", "artifacts": artifacts, **status(state)["statusUpdate"]}}

    other = Other(httpserver, [task("INPUT_REQUIRED", "A draft.")], [task("COMPLETED", "The final text.")])

    async def talk() -> None:
        question = await agent.run("x", **other.given())
        answer = await agent.run("Go on.", after=question, **other.given())
        assert (answer.text, answer.files) == ("The final text.", [])

    asyncio.run(talk())


def test_a_task_that_comes_with_its_old_question_does_not_ask(httpserver: HTTPServer) -> None:
    asked = status("INPUT_REQUIRED", "Which?")
    old_task = {"task": {"id": "t1", **asked["statusUpdate"]}}
    other = Other(httpserver, [asked], [old_task, chunk("Done."), status("COMPLETED")])

    async def talk() -> None:
        question = await agent.run("x", **other.given())
        assert (await agent.run("That.", after=question, **other.given())).text == "Done."

    asyncio.run(talk())


def test_a_question_is_asked_although_the_stream_stays_open(httpserver: HTTPServer) -> None:
    """As agents of a2a-java leave it. What comes later is not read."""
    later = [chunk("too late"), status("COMPLETED")]
    other = Other(httpserver, [status("INPUT_REQUIRED", "Which sport?"), *later])
    assert asyncio.run(agent.run("Teach me.", **other.given())).text == "Which sport?"


def test_a_task_that_has_ended_meanwhile_is_forgotten(httpserver: HTTPServer) -> None:
    """It was canceled, say. A failed turn would keep it in the memory."""
    asking, answer = [status("INPUT_REQUIRED", "Name?")], [chunk("Hello."), status("COMPLETED")]
    other = Other(httpserver, asking, [{"error": {"code": -32004, "message": "the task has ended"}}], answer)

    async def talk() -> None:
        question = await agent.run("x", **other.given())
        excuse = await agent.run("Ann", after=question, **other.given())
        assert (excuse.state, "ask again" in excuse.text) == ("completed", True)
        assert (await agent.run("x", after=excuse, **other.given())).text == "Hello."

    asyncio.run(talk())
    assert "taskId" not in other.messages[-1]


def test_the_next_message_answers_no_question_that_was_canceled(httpserver: HTTPServer) -> None:
    """A "yes" may be about something else, and the other agent would pay a refund, say."""
    asking = status("INPUT_REQUIRED", "Refund $50?")
    other = Other(httpserver, [chunk("Wait. "), asking], [chunk("Yes what?"), status("COMPLETED")])

    async def talk() -> None:
        question = await agent.run("x", **other.given())
        canceled = replace(question, pending=None)
        assert (await agent.run("yes", after=canceled, **other.given())).text == "Yes what?"

    asyncio.run(talk())
    assert other.canceled == ["t1"]
    assert "taskId" not in other.messages[-1]
    assert other.messages[-1]["contextId"] == "c1"


@pytest.mark.parametrize("choices", ["yes", [{"id": 1}], None])
def test_choices_that_are_no_texts_are_left_out(httpserver: HTTPServer, choices: Any) -> None:
    asking = status("INPUT_REQUIRED", "Name?")
    asking["statusUpdate"]["status"]["message"]["metadata"] = {"choices": choices}
    other = Other(httpserver, [asking])
    assert asyncio.run(agent.run("x", **other.given())).state == "input-required"


def test_values_and_files_of_the_user_are_passed_on(httpserver: HTTPServer) -> None:
    other = Other(httpserver, [chunk("Thanks."), status("COMPLETED")])
    file = File("hi.txt", b"hi", media_type="text/plain")
    asyncio.run(agent.run(parts=[{"text": "Count."}, {"data": {"n": 1}}], files=[file], **other.given()))
    assert other.messages[-1]["parts"] == [
        {"text": "Count."},
        {"data": {"n": 1}},
        {"raw": "aGk=", "filename": "hi.txt", "mediaType": "text/plain"},
    ]


@pytest.mark.parametrize("is_answer", [False, True])
def test_any_other_refusal_is_an_error(httpserver: HTTPServer, is_answer: bool) -> None:
    """Agents that do not stream, or still work on the task, refuse by the same code."""
    asking = [[status("INPUT_REQUIRED", "Name?")]] if is_answer else []
    other = Other(httpserver, *asking, [{"error": {"code": -32004, "message": "not now"}}])
    other.state = "WORKING"
    question = asyncio.run(agent.run("x", **other.given())) if is_answer else None
    with pytest.raises(SkillError, match="could not finish"):
        asyncio.run(agent.run("Ann", after=question, **other.given()))


def test_data_files_and_an_answer_that_is_there_at_once(httpserver: HTTPServer) -> None:
    parts = [
        {"text": "So: "},
        {"data": {"n": 1}},
        {"raw": "aGk=", "filename": "hi.txt", "mediaType": "text/plain"},
    ]
    done = {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T00:00:00.000Z"}
    task = {"id": "t1", "contextId": "c1", "status": done, "artifacts": [{"artifactId": "a", "parts": parts}]}
    other = Other(httpserver, [{"task": task}])
    answer = asyncio.run(agent.run("Count.", **other.given()))
    assert answer.state == "completed"
    assert answer.data == [{"n": 1}]
    assert "aGk=" in json.dumps(answer.artifacts)


def test_a_sign_in_goes_through(httpserver: HTTPServer) -> None:
    other = Other(httpserver, [status("AUTH_REQUIRED", "Sign in.")])
    answer = asyncio.run(agent.run("Sing.", **other.given()))
    assert (answer.state, answer.text) == ("auth-required", "Sign in.")


def test_an_agent_that_answers_with_messages_knows_the_conversation(httpserver: HTTPServer) -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "contextId": "c1", "parts": [{"text": "Hello."}]}
    other = Other(httpserver, [{"message": message}], [{"message": message}])

    async def talk() -> None:
        first = await agent.run("Hi.", **other.given())
        assert first.text == "Hello."
        await agent.run("And again.", after=first, **other.given())

    asyncio.run(talk())
    assert [message.get("contextId") for message in other.messages] == [None, "c1"]


def test_values_of_the_message_that_ends_the_task_are_passed_on(httpserver: HTTPServer) -> None:
    done = status("COMPLETED", "So:")
    done["statusUpdate"]["status"]["message"]["parts"] += [{"data": {"sum": 3}}, {"text": "Bye."}]
    no_ids: dict[str, Any] = {
        "artifactUpdate": {"artifact": {"artifactId": "a", "parts": [{"text": "One. "}]}}
    }
    answer = asyncio.run(agent.run("Count.", **Other(httpserver, [no_ids, done]).given()))
    assert (answer.text, answer.data) == ("One. So: Bye.", [{"sum": 3}])


@pytest.mark.parametrize(
    "events",
    [[chunk("half an ans")], [status("WORKING", "half done")], [status("REJECTED", "Not mine.")], []],
)
def test_what_the_other_does_not_finish_fails(httpserver: HTTPServer, events: list[dict[str, Any]]) -> None:
    other = Other(httpserver, [status("INPUT_REQUIRED", "Which?")], events, [status("COMPLETED", "Yes.")])

    async def talk() -> None:
        question = await agent.run("Sing.", **other.given())
        with pytest.raises(SkillError, match=r"Not mine\.|could not finish"):
            await agent.run("That.", after=question, **other.given())

    asyncio.run(talk())


def test_an_agent_that_is_away_or_is_none_is_said(httpserver: HTTPServer) -> None:
    for url in ("http://127.0.0.1:1", httpserver.url_for("/nothing").replace("localhost", "127.0.0.1")):
        away = {"settings": {"other-url": url}, "secrets": {"other": "key"}}
        with pytest.raises(SkillError, match="cannot be reached"):
            asyncio.run(agent.run("Sing.", **away))
