"""Questions of an agent: a form for the client's user, or words for its model."""

import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey
from starlette.testclient import TestClient

from a2a_lambda.errors import InvalidParams, TaskNotFound
from a2a_lambda.http.app import create_app
from a2a_lambda.http.mcp import request_state
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.wire.mcp.revisions import SUPPORTED
from tests.access.tokens.identity_provider import part
from tests.agent.folders import write
from tests.conftest import BASE_URL, new_key
from tests.helpers.rest import Rest, message_1_0
from tests.http.mcp.client import ELICITS, Mcp, error_of, text_of
from tests.http.mcp.shop import delay_next_read, kit_in


@pytest.fixture
def kit(settings: Settings, tmp_path: Path) -> Kit:
    return kit_in(tmp_path, settings, background=False)


@pytest.fixture
def mcp(client: TestClient, kit: Kit) -> Mcp:
    return Mcp(client, new_key(kit), "/mcp", **ELICITS)


def form_of(result: Any) -> tuple[str, str, Any]:
    """Key, message and field of the question in a result."""
    [(key, request)] = result["inputRequests"].items()
    assert request["method"] == "elicitation/create"
    [field] = request["params"]["requestedSchema"]["properties"].items()
    return key, request["params"]["message"], field


def answer(result: Any, value: Any, action: str = "accept") -> Any:
    """Parameters of the call that answers the question in a result."""
    key, _, (name, _) = form_of(result)
    response: Any = {"action": action, **({"content": {name: value}} if action == "accept" else {})}
    return {"inputResponses": {key: response}, "requestState": result["requestState"]}


def test_a_form_for_each_parameter(mcp: Mcp) -> None:
    first = mcp.call("order", {"message": "please"})
    assert form_of(first)[1:] == ("Which size?", ("size", {"type": "string", "enum": ["S", "L"]}))
    second = mcp.call("order", {"message": "please"}, **answer(first, "L"))
    name, field = form_of(second)[2]
    assert (name, field["type"]) == ("count", "integer")
    third = mcp.call("order", {"message": "please"}, **answer(second, 3))
    assert form_of(third)[2] == ("gift", {"type": "boolean"})
    assert text_of(mcp.call("order", {"message": "please"}, **answer(third, True))) == "3 of L, gift: True"


@pytest.mark.parametrize("words", ["", "Ann", '{"words": "x", "font": "bold"}'])
def test_an_answer_in_a_form_is_that_argument_and_no_other(mcp: Mcp, words: str) -> None:
    question = mcp.call("engrave", {"message": "please"})
    assert (
        text_of(mcp.call("engrave", {"message": "please"}, **answer(question, words)))
        == f"{words!r} in plain"
    )


def test_a_field_that_was_left_empty_is_asked_for_again(mcp: Mcp) -> None:
    question = mcp.call("engrave", {"message": "please"})
    again = mcp.call("engrave", {"message": "please"}, **answer(question, None))
    assert form_of(again)[2] == form_of(question)[2]


def test_an_answer_that_is_sent_again_gets_the_task_as_it_is_now(mcp: Mcp) -> None:
    """It has an Idempotency-Key. Without one, its state is of a question that was answered."""
    first = mcp.call("order", {"message": "please"})
    params = {"name": "order", "arguments": {"message": "please"}, **answer(first, "L")}
    key = {"Idempotency-Key": "ANSWER"}
    second = mcp.post(mcp.body("tools/call", params), **key).json()["result"]
    again = mcp.post(mcp.body("tools/call", params), **key).json()["result"]
    assert form_of(again) == form_of(second)
    third = mcp.call("order", {"message": "please"}, **answer(again, 3))
    assert form_of(third)[2][0] == "gift"
    assert form_of(mcp.post(mcp.body("tools/call", params), **key).json()["result"]) == form_of(third)
    error_of(mcp.post(mcp.body("tools/call", params)), 400)
    other = {**params, "inputResponses": answer(first, "S")["inputResponses"]}
    error = error_of(mcp.post(mcp.body("tools/call", other), **key), 400)
    assert "Idempotency-Key" in error["message"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_refusal_that_is_sent_again_has_the_same_result(mcp: Mcp, action: str) -> None:
    first = mcp.call("order", {"message": "please"})
    refusal = mcp.call("order", {"message": "please"}, **answer(first, "", action))
    assert "canceled" in text_of(refusal)
    assert text_of(mcp.call("order", {"message": "please"}, **answer(first, "", action))) == text_of(refusal)
    params = {"name": "order", "arguments": {"message": "please"}, **answer(first, "L")}
    error_of(mcp.post(mcp.body("tools/call", params)), 400)


@pytest.mark.parametrize(("action", "words"), [("decline", "declined"), ("cancel", "closed the question")])
def test_no_answer_reaches_the_skill_in_words(mcp: Mcp, action: str, words: str) -> None:
    question = mcp.call("chat", {"message": "hello"})
    assert form_of(question)[2] == ("answer", {"type": "string"})
    assert words in text_of(mcp.call("chat", {"message": "hello"}, **answer(question, "", action)))


@pytest.mark.parametrize("words", ["no JSON: {", "{no JSON", '{"message": "no"}'])
def test_an_answer_to_a_question_for_no_parameter_is_text(mcp: Mcp, words: str) -> None:
    first = mcp.call("chat", {"message": "hello"})
    assert text_of(mcp.call("chat", {"message": "hello"}, **answer(first, words))) == f"heard: {words}"


@pytest.mark.parametrize("revision", SUPPORTED)
def test_a_client_that_cannot_ask_answers_with_the_task(mcp: Mcp, revision: str) -> None:
    caller = Mcp(mcp.client, mcp.key, "/mcp", revision)
    question = text_of(caller.call("order", {"message": "please"}))
    assert "Which size?" in question
    [task] = re.findall(r"task='([^']+)'", question)
    assert "How many?" in text_of(caller.call("order", {"task": task, "size": "S"}))
    assert "gift" in text_of(caller.call("order", {"task": task, "message": "2"}))
    assert text_of(caller.call("order", {"task": task, "gift": False})) == "2 of S, gift: False"


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}])
def test_an_answer_in_words_gets_only_what_is_new(mcp: Mcp, meta: dict[str, int]) -> None:
    """A model would read again what it has already handled. It can still ask for the whole task."""
    caller = Mcp(mcp.client, mcp.key, "/mcp", SUPPORTED[0])
    first = text_of(caller.call("chat", {"message": "good morning"}, meta=meta))
    assert first.startswith("Good morning to you.\n")
    assert "And then?" in first
    [task] = re.findall(r"task='([^']+)'", first)
    assert text_of(caller.call("chat", {"task": task, "message": "bye"}, meta=meta)) == "heard: bye"
    assert text_of(caller.call("chat", {"task": task})) == "Good morning to you.\nheard: bye"


def test_an_answer_in_words_that_is_sent_again_gets_the_whole_task(mcp: Mcp) -> None:
    caller = Mcp(mcp.client, mcp.key, "/mcp", SUPPORTED[0])
    [task] = re.findall(r"task='([^']+)'", text_of(caller.call("chat", {"message": "good morning"})))
    body = caller.body("tools/call", {"name": "chat", "arguments": {"task": task, "message": "bye"}})
    answers = [caller.post(body, **{"Idempotency-Key": "one"}).json() for _ in range(2)]
    assert text_of(answers[0]["result"]) == "heard: bye"
    assert text_of(answers[1]["result"]) == "Good morning to you.\nheard: bye", "the first one may be lost"


def test_a_client_that_cannot_ask_reads_the_choices(mcp: Mcp) -> None:
    caller = Mcp(mcp.client, mcp.key, "/mcp", SUPPORTED[0])
    question = text_of(caller.call("order", {"message": "please"}))
    assert "Which size? Choose one of S, L.\nTo answer, call" in question


@pytest.mark.parametrize(
    ("capability", "is_form"),
    [({}, True), ({"form": {}, "url": {}}, True), ({"url": {}}, False), (None, False)],
)
def test_only_a_client_that_shows_forms_gets_one(mcp: Mcp, capability: Any, is_form: bool) -> None:
    asker = Mcp(mcp.client, mcp.key, "/mcp", elicitation=capability)
    assert ("inputRequests" in asker.call("chat", {"message": "hello"})) == is_form


def test_credentials_are_not_asked_for_in_a_form(mcp: Mcp) -> None:
    assert "https://login.example.com" in text_of(mcp.call("private", {"message": "x"}))


def test_an_answer_to_a_task_that_is_gone_is_an_error_for_the_client(
    mcp: Mcp, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no result for its model, which did not name the task."""
    question = mcp.call("order", {"message": "please"})

    async def get(*_: Any) -> Any:
        raise TaskNotFound("gone")

    monkeypatch.setattr(kit.service, "get", get)
    params = {"name": "order", "arguments": {"message": "please"}, **answer(question, "L")}
    assert "gone" in mcp.refusal("tools/call", params)["message"]


def test_a_state_is_of_its_caller_its_call_and_its_question(mcp: Mcp, kit: Kit, client: TestClient) -> None:
    question = mcp.call("order", {"message": "please"})
    params = {"name": "order", "arguments": {"message": "please"}, **answer(question, "L")}
    other = Mcp(client, new_key(kit), "/mcp", **ELICITS)
    secret = OctKey.import_key(kit.question_secret.get())
    claims = jwt.decode(question["requestState"], secret).claims
    forged = jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(b"x" * 32))
    expired = jwt.encode({"alg": "HS256"}, {**claims, "exp": int(time.time()) - 1}, secret)
    unsigned = jwt.encode({"alg": "none"}, claims, secret, algorithms=["none"])
    critical = ".".join([part({"alg": "HS256", "crit": 5}), *question["requestState"].split(".")[1:]])
    states: list[Any] = [forged, expired, unsigned, critical, "x", "", 7, {}]
    cases = [
        (other, params),
        (mcp, {**params, "arguments": {"message": "other"}}),
        (mcp, {**params, "arguments": {"message": "please", "size": "S"}}),
        (mcp, {**params, "name": "chat"}),
        *((mcp, {**params, "requestState": state}) for state in states),
    ]
    for caller, changed_params in cases:
        error = caller.refusal("tools/call", changed_params)
        assert error == {"code": -32602, "message": f"Invalid parameters: {request_state.REFUSED}"}
    broken: Any
    for broken in ({"action": "accept", "content": {"a": 1, "b": 2}}, "x"):
        mcp.refusal(
            "tools/call", {**params, "inputResponses": dict.fromkeys(params["inputResponses"], broken)}
        )
    [key] = params["inputResponses"]
    empty = [{key: {"action": "accept"}}, {key: {"action": "accept", "content": {}}}]
    for missing in ({}, {"x": {"action": "accept"}}, None, "x", *empty):
        again = mcp.ask("tools/call", {**params, "inputResponses": missing})
        assert form_of(again) == form_of(question), "a missing answer is asked for again"
    assert "How many?" in form_of(mcp.ask("tools/call", params))[1], "what was refused changed nothing"
    mcp.refusal("tools/call", params)


def test_a_question_that_was_answered_elsewhere_is_over(mcp: Mcp, client: TestClient) -> None:
    question = mcp.call("chat", {"message": "hello"})
    rest = Rest(client, mcp.key, "/a2a/shop")
    [task] = rest.call("GET", "tasks")["tasks"]
    params = {"message": message_1_0("from A2A", taskId=task["id"], contextId=task["contextId"])}
    result = rest.call("POST", "message:send", params)["task"]
    assert result["status"]["state"] == "TASK_STATE_COMPLETED"
    mcp.refusal("tools/call", {"name": "chat", "arguments": {"message": "hello"}, **answer(question, "late")})


@pytest.mark.parametrize("action", ["accept", "decline"])
def test_a_call_that_is_late_answers_no_later_question(
    mcp: Mcp, kit: Kit, client: TestClient, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """An equal call, such as a retry, is faster, after both have read the task."""
    first = mcp.call("order", {"message": "please"})
    params = {"name": "order", "arguments": {"message": "please"}, **answer(first, "L", action)}

    delay_next_read(kit, monkeypatch, partial(mcp.call, "order", {"message": "please"}, **answer(first, "L")))
    late = mcp.post(mcp.body("tools/call", params)).json()
    [task] = Rest(client, mcp.key, "/a2a/shop").call("GET", "tasks")["tasks"]
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert "How many?" in task["status"]["message"]["parts"][0]["text"]
    problem = late.get("error", {}).get("message", "")
    assert (request_state.REFUSED in problem) is (action == "accept"), late


def test_a_late_call_that_names_the_task_answers_no_later_question(
    client: TestClient, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a client without forms answers."""
    mcp = Mcp(client, new_key(kit), "/mcp")
    [task_id] = re.findall("task='([^']+)'", text_of(mcp.call("order", {"message": "please"})))

    delay_next_read(kit, monkeypatch, partial(mcp.call, "order", {"task": task_id, "size": "L"}))
    late = mcp.call("order", {"task": task_id, "message": "L"})
    assert (late["isError"], "the question is closed" in text_of(late)) == (True, True)
    [task] = Rest(client, mcp.key, "/a2a/shop").call("GET", "tasks")["tasks"]
    assert "How many?" in task["status"]["message"]["parts"][0]["text"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_refusal_does_not_become_an_argument(mcp: Mcp, client: TestClient, action: str) -> None:
    first = mcp.call("order", {"message": "please"})
    refusal = mcp.call("order", {"message": "please"}, **answer(first, None, action))
    assert refusal["isError"] is True
    # A client that cannot show a form may have refused it, so the model must see what it asked.
    assert text_of(refusal) == "This question was not answered: Which size?\nThe task was canceled."
    [task] = Rest(client, mcp.key, "/a2a/shop").call("GET", "tasks")["tasks"]
    assert task["status"]["state"] == "TASK_STATE_CANCELED"


def test_a_task_belongs_to_its_tool(client: TestClient, kit: Kit) -> None:
    mcp = Mcp(client, new_key(kit), "/mcp")
    question = text_of(mcp.call("order", {"message": "please"}))
    assert question.endswith("and size=<the answer>.")
    [task_id] = re.findall("task='([^']+)'", question)
    refusal = mcp.call("chat", {"task": task_id, "message": "L"})
    assert (refusal["isError"], "belongs to the tool order: call that tool" in text_of(refusal)) == (
        True,
        True,
    )
    assert "How many?" in text_of(mcp.call("order", {"task": task_id, "size": "L"}))


def test_the_order_of_arguments_does_not_change_a_state() -> None:
    """A client may write the same arguments in another order when it answers."""
    orders: list[Any] = [{"a": 1, "b": 2}, {"b": 2, "a": 1}]
    first, second = (request_state.binding_of(Namespace("owner", "agent"), "tool", order) for order in orders)
    assert first == second


def test_a_state_ends_after_an_hour() -> None:
    question_state = request_state.QuestionState("task", "key")
    binding, secret, now = (
        request_state.binding_of(Namespace("owner", "agent"), "tool", {}),
        b"s" * 32,
        1_800_000_000.0,
    )
    state = request_state.seal(question_state, binding, secret, now)
    assert request_state.unseal(state, binding, secret, now + 3599) == question_state
    with pytest.raises(InvalidParams):
        request_state.unseal(state, binding, secret, now + 3600)


def test_a_sign_in_of_a_skill_that_reads_no_text_is_answered_as_the_result_says(
    client: TestClient, kit: Kit
) -> None:
    mcp = Mcp(client, new_key(kit), "/mcp", **ELICITS)
    question = text_of(mcp.call("fetch", {"doc": "a"}))
    call = re.search(r"with task='(.+?)' and (\w+)=<the answer>", question)
    assert call
    [tool] = [tool for tool in mcp.ask("tools/list")["tools"] if tool["name"] == "fetch"]
    assert call[2] in tool["inputSchema"]["properties"]
    assert text_of(mcp.call("fetch", {"task": call[1], call[2]: "done"})) == "fetched a"


def test_a_parameter_whose_schema_lists_its_types_is_asked_for(settings: Settings, tmp_path: Path) -> None:
    """Authors write a value that may be null as a list; pydantic writes a union."""
    code = """
        from typing import Annotated
        from pydantic import WithJsonSchema
        NAME = Annotated[str, WithJsonSchema({"type": ["string", "null"], "maxLength": 20})]
        @skill
        def hello(turn, name: NAME):
            return Ask("Which name?", fills="name") if name == "none" else f"Hello, {name}."
    """
    folder = write(tmp_path, code)
    kit = Kit(settings.model_copy(update={"agents": folder.parent}))
    with TestClient(create_app(kit), base_url=BASE_URL) as client:
        mcp = Mcp(client, new_key(kit), "/mcp", **ELICITS)
        first = mcp.call("hello", {"message": "please"})
        field = ("name", {"type": "string", "maxLength": 20})
        assert form_of(first)[2] == field
        second = mcp.call("hello", {"message": "please"}, **answer(first, "none"))
        assert form_of(second)[1:] == ("Which name?", field)
        assert text_of(mcp.call("hello", {"message": "please"}, **answer(second, "Ann"))) == "Hello, Ann."
