"""Questions of an agent: a form for the client's user, or words for its model."""

import asyncio
import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey
from starlette.testclient import TestClient

from a2a_lambda.aws.queue import QueuedTurn
from a2a_lambda.errors import InvalidParams
from a2a_lambda.http.app import create_app
from a2a_lambda.http.mcp import request_state
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.identity import Scope
from a2a_lambda.wire.mcp.revisions import SUPPORTED, WITH_HANDSHAKE
from tests.access.tokens.identity_provider import part
from tests.background.fake_queue import FakeQueue
from tests.conftest import BASE_URL, new_key
from tests.helpers.rest import Rest, message_1_0
from tests.http.mcp.client import ELICITS, WITH_TASKS, Mcp, error_of, messages_of, text_of

Json = Any

CODE = """
from typing import Literal
from a2a_lambda import Ask, Authorize, Turn, skill

@skill(default=True)
def order(turn: Turn, size: Literal["S", "L"] | None = None, count: int = 0, gift: bool | None = None):
    if size is None:
        return Ask("Which size?", fills="size")
    if not count:
        return Ask("How many?", fills="count")
    if gift is None:
        return Ask("Is it a gift?", fills="gift")
    return f"{count} of {size}, gift: {gift}"

@skill
def chat(turn: Turn):
    if turn.text == "hello":
        return Ask("And then?")
    return f"heard: {turn.text}"

@skill
def engrave(turn: Turn, words: str, font: str = "plain"):
    return f"{words!r} in {font}"

@skill
def private(turn: Turn):
    return Authorize("Sign in at https://login.example.com")
"""

CARD = """
name: Shop
description: D.
version: 0.1.0
background: {background}
skills:
  - {{ id: order, name: Order, description: Orders. }}
  - {{ id: chat, name: Chat, description: Talks. }}
  - {{ id: engrave, name: Engrave, description: Writes on it. }}
  - {{ id: private, name: Private, description: Asks for a sign-in. }}
"""


def kit_in(folder: Path, settings: Settings, *, background: bool) -> Kit:
    agent = folder / "agents" / "shop"
    agent.mkdir(parents=True)
    (agent / "agent.py").write_text(CODE)
    (agent / "card.yaml").write_text(CARD.format(background=json.dumps(background)))
    return Kit(settings.model_copy(update={"agents": folder / "agents"}))


@pytest.fixture
def kit(settings: Settings, tmp_path: Path) -> Kit:
    return kit_in(tmp_path, settings, background=False)


@pytest.fixture
def client(kit: Kit) -> Any:
    with TestClient(create_app(kit), base_url=BASE_URL) as made:
        yield made


@pytest.fixture
def mcp(client: TestClient, kit: Kit) -> Mcp:
    return Mcp(client, new_key(kit), "/mcp", **ELICITS)


def form_of(result: Json) -> tuple[str, str, Json]:
    """Key, message and field of the question in a result."""
    [(key, request)] = result["inputRequests"].items()
    assert request["method"] == "elicitation/create"
    [field] = request["params"]["requestedSchema"]["properties"].items()
    return key, request["params"]["message"], field


def answer(result: Json, value: Json, action: str = "accept") -> Json:
    """Parameters of the call that answers the question in a result."""
    key, _, (name, _) = form_of(result)
    response: Json = {"action": action, **({"content": {name: value}} if action == "accept" else {})}
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
    asked = mcp.call("engrave", {"message": "please"})
    assert (
        text_of(mcp.call("engrave", {"message": "please"}, **answer(asked, words))) == f"{words!r} in plain"
    )


def test_an_answer_that_is_sent_again_gets_the_task_as_it_is_now(mcp: Mcp) -> None:
    """Under an Idempotency-Key. Without one, its state is of a question that was answered."""
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
    refused = mcp.call("order", {"message": "please"}, **answer(first, "", action))
    assert "canceled" in text_of(refused)
    assert text_of(mcp.call("order", {"message": "please"}, **answer(first, "", action))) == text_of(refused)
    params = {"name": "order", "arguments": {"message": "please"}, **answer(first, "L")}
    error_of(mcp.post(mcp.body("tools/call", params)), 400)


@pytest.mark.parametrize(("action", "words"), [("decline", "declined"), ("cancel", "closed the question")])
def test_no_answer_reaches_the_skill_in_words(mcp: Mcp, action: str, words: str) -> None:
    asked = mcp.call("chat", {"message": "hello"})
    assert form_of(asked)[2] == ("answer", {"type": "string"})
    assert words in text_of(mcp.call("chat", {"message": "hello"}, **answer(asked, "", action)))


@pytest.mark.parametrize("revision", SUPPORTED)
def test_a_client_that_cannot_ask_answers_with_the_task(mcp: Mcp, revision: str) -> None:
    plain = Mcp(mcp.client, mcp.key, "/mcp", revision)
    asked = text_of(plain.call("order", {"message": "please"}))
    assert "Which size?" in asked
    [task] = re.findall(r"task='([^']+)'", asked)
    assert "How many?" in text_of(plain.call("order", {"task": task, "size": "S"}))
    assert "gift" in text_of(plain.call("order", {"task": task, "message": "2"}))
    assert text_of(plain.call("order", {"task": task, "gift": False})) == "2 of S, gift: False"


def test_a_client_that_cannot_ask_reads_the_choices(mcp: Mcp) -> None:
    plain = Mcp(mcp.client, mcp.key, "/mcp", SUPPORTED[0])
    asked = text_of(plain.call("order", {"message": "please"}))
    assert "Which size? Choose one of S, L.\nTo answer, call" in asked


@pytest.mark.parametrize(
    ("capability", "is_form"),
    [({}, True), ({"form": {}, "url": {}}, True), ({"url": {}}, False), (None, False)],
)
def test_only_a_client_that_shows_forms_gets_one(mcp: Mcp, capability: Json, is_form: bool) -> None:
    asker = Mcp(mcp.client, mcp.key, "/mcp", elicitation=capability)
    assert ("inputRequests" in asker.call("chat", {"message": "hello"})) == is_form


def test_credentials_are_not_asked_for_in_a_form(mcp: Mcp) -> None:
    assert "https://login.example.com" in text_of(mcp.call("private", {"message": "x"}))


def test_a_state_is_of_its_caller_its_call_and_its_question(mcp: Mcp, kit: Kit, client: TestClient) -> None:
    asked = mcp.call("order", {"message": "please"})
    params = {"name": "order", "arguments": {"message": "please"}, **answer(asked, "L")}
    other = Mcp(client, new_key(kit), "/mcp", **ELICITS)
    secret = OctKey.import_key(kit.question_secret.get())
    claims = jwt.decode(asked["requestState"], secret).claims
    forged = jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(b"x" * 32))
    expired = jwt.encode({"alg": "HS256"}, {**claims, "exp": int(time.time()) - 1}, secret)
    unsigned = jwt.encode({"alg": "none"}, claims, secret, algorithms=["none"])
    critical = ".".join([part({"alg": "HS256", "crit": 5}), *asked["requestState"].split(".")[1:]])
    states: list[Json] = [forged, expired, unsigned, critical, "x", "", 7, {}]
    refused = [
        (other, params),
        (mcp, {**params, "arguments": {"message": "other"}}),
        (mcp, {**params, "arguments": {"message": "please", "size": "S"}}),
        (mcp, {**params, "name": "chat"}),
        *((mcp, {**params, "requestState": state}) for state in states),
    ]
    for caller, changed in refused:
        error = caller.refusal("tools/call", changed)
        assert error == {"code": -32602, "message": f"Invalid parameters: {request_state.REFUSED}"}
    broken: Json
    for broken in ({"action": "accept"}, {"action": "accept", "content": {}}, "x"):
        mcp.refusal(
            "tools/call", {**params, "inputResponses": dict.fromkeys(params["inputResponses"], broken)}
        )
    for missing in ({}, {"x": {"action": "accept"}}, None, "x"):
        again = mcp.ask("tools/call", {**params, "inputResponses": missing})
        assert form_of(again) == form_of(asked), "a missing answer is asked for again"
    assert "How many?" in form_of(mcp.ask("tools/call", params))[1], "what was refused changed nothing"
    mcp.refusal("tools/call", params)


def test_a_question_that_was_answered_elsewhere_is_over(mcp: Mcp, client: TestClient) -> None:
    asked = mcp.call("chat", {"message": "hello"})
    rest = Rest(client, mcp.key, "/a2a/shop")
    [task] = rest.call("GET", "tasks")["tasks"]
    said = {"message": message_1_0("from A2A", taskId=task["id"], contextId=task["contextId"])}
    ended = rest.call("POST", "message:send", said)["task"]
    assert ended["status"]["state"] == "TASK_STATE_COMPLETED"
    mcp.refusal("tools/call", {"name": "chat", "arguments": {"message": "hello"}, **answer(asked, "late")})


class TestTasks:
    """Long work is a task of the extension, and of A2A."""

    @pytest.fixture
    def kit(self, settings: Settings, tmp_path: Path) -> Kit:
        return kit_in(tmp_path, settings, background=True)

    @pytest.fixture
    def queue(self, kit: Kit) -> FakeQueue:
        queue = kit.__dict__["queue"] = FakeQueue()
        return queue

    @pytest.fixture
    def mcp(self, client: TestClient, kit: Kit, queue: FakeQueue) -> Mcp:
        return Mcp(client, new_key(kit), "/mcp", **WITH_TASKS, **ELICITS)

    def work(self, kit: Kit, queue: FakeQueue) -> None:
        while queue.waiting:
            asyncio.run(kit.worker.run_turn(queue.waiting.pop(0), None))

    def test_from_start_to_end(self, mcp: Mcp, kit: Kit, queue: FakeQueue) -> None:
        made = mcp.call("chat", {"message": "hello"})
        assert (made["resultType"], made["status"]) == ("task", "working")
        task = {"taskId": made["taskId"]}
        assert mcp.ask("tasks/get", task)["status"] == "working"
        self.work(kit, queue)
        asked = mcp.ask("tasks/get", task)
        assert asked["status"] == "input_required"
        [(key, request)] = asked["inputRequests"].items()
        assert request["params"]["message"] == "And then?"
        formless = Mcp(mcp.client, mcp.key, "/mcp", **WITH_TASKS).ask("tasks/get", task)
        assert (formless["status"], formless["inputRequests"]) == ("input_required", {})
        assert "And then?\nTo answer, call this tool again with task=" in formless["statusMessage"]
        said = {"action": "accept", "content": {"answer": "more"}}
        mcp.ask("tasks/update", {**task, "inputResponses": {"other": said}})
        assert not queue.waiting, "an answer to another question is ignored"
        mcp.ask("tasks/update", {**task, "inputResponses": {key: said}})
        self.work(kit, queue)
        ended = mcp.ask("tasks/get", task)
        assert (ended["status"], text_of(ended["result"])) == ("completed", "heard: more")
        assert made["createdAt"] == ended["createdAt"] == asked["createdAt"]
        assert (
            made["ttlMs"] == ended["ttlMs"] == pytest.approx(kit.settings.task_days * 86_400_000, abs=1_000)
        )
        mcp.ask("tasks/cancel", task)
        assert mcp.ask("tasks/get", task)["status"] == "completed"

    def test_a_client_without_tasks_learns_the_id_before_it_gives_up(
        self, mcp: Mcp, kit: Kit, queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("a2a_lambda.http.mcp.call.CLIENT_SECONDS", 0.3)
        plain = Mcp(mcp.client, mcp.key, "/mcp")
        with_progress = plain.body(
            "tools/call", {"name": "chat", "arguments": {"message": "hi"}}, meta={"progressToken": 1}
        )
        assert "The task is still running" in text_of(messages_of(plain.post(with_progress))[-1]["result"])
        answer = text_of(plain.call("chat", {"message": "hello"}))
        assert "The task is still running" in answer
        [task_id] = re.findall(r"task='([^']+)'", answer)
        assert task_id in text_of(plain.call("chat", {"message": "", "task": task_id}))
        self.work(kit, queue)
        assert "And then?" in text_of(plain.call("chat", {"task": task_id}))

    def test_without_a_queue_a_turn_has_all_of_its_request(
        self, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It runs in the request, so the client's patience would be its deadline."""
        monkeypatch.setattr("a2a_lambda.http.mcp.call.CLIENT_SECONDS", 0.0)
        kit = kit_in(tmp_path / "alone", settings, background=True)
        with TestClient(create_app(kit), base_url=BASE_URL) as client:
            assert "And then?" in text_of(
                Mcp(client, new_key(kit), "/mcp").call("chat", {"message": "hello"})
            )

    def test_credentials_do_not_go_through_a_form(self, mcp: Mcp, kit: Kit, queue: FakeQueue) -> None:
        task = {"taskId": mcp.call("private", {"message": "x"})["taskId"]}
        self.work(kit, queue)
        asked = mcp.ask("tasks/get", task)
        assert (asked["status"], asked["inputRequests"]) == ("input_required", {})
        assert asked["statusMessage"].startswith("Sign in at https://login.example.com\nTo answer, call this")
        [message] = Rest(mcp.client, mcp.key, "/a2a/shop").call("GET", "tasks")["tasks"]
        key = message["status"]["message"]["messageId"]
        said = {"action": "accept", "content": {"answer": "secret"}}
        mcp.ask("tasks/update", {**task, "inputResponses": {key: said}})
        assert not queue.waiting

    def test_it_is_a_task_of_a2a(self, mcp: Mcp, client: TestClient, kit: Kit, queue: FakeQueue) -> None:
        rest = Rest(client, mcp.key, "/a2a/shop")
        made = mcp.call("chat", {"message": "hello"})["taskId"]
        assert rest.call("GET", f"tasks/{made}")["id"] == made
        rest.call("POST", f"tasks/{made}:cancel")
        assert mcp.ask("tasks/get", {"taskId": made})["status"] == "cancelled"
        sent = {"message": message_1_0("x"), "configuration": {"returnImmediately": True}}
        theirs = rest.call("POST", "message:send", sent)["task"]["id"]
        mcp.ask("tasks/cancel", {"taskId": theirs})
        assert rest.call("GET", f"tasks/{theirs}")["status"]["state"] == "TASK_STATE_CANCELED"
        self.work(kit, queue)

    def test_tasks_of_others_are_unknown(self, mcp: Mcp, client: TestClient, kit: Kit) -> None:
        made = mcp.call("chat", {"message": "hello"})["taskId"]
        other = Mcp(client, new_key(kit), "/mcp", **WITH_TASKS)
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            params: Json = {"inputResponses": {}}
            foreign = other.refusal(method, {"taskId": made, **params})
            unknown = other.refusal(method, {"taskId": "nothing", **params})
            assert foreign["code"] == unknown["code"] == -32602
            assert foreign["message"].replace(made, "nothing") == unknown["message"]

    def test_without_the_extension_there_are_no_tasks(
        self, mcp: Mcp, client: TestClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        error = Mcp(client, mcp.key, "/mcp").refusal("tasks/get", {"taskId": "x"})
        assert error["code"] == -32021
        assert error["data"] == {
            "requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        }
        old = Mcp(client, mcp.key, "/mcp", WITH_HANDSHAKE[0])
        assert old.refusal("tasks/get", {"taskId": "x"}, status=200)["code"] == -32601

    def test_a_client_without_tasks_is_told_where_it_is(
        self, mcp: Mcp, client: TestClient, kit: Kit, queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("a2a_lambda.http.request.INVOCATION_SECONDS", 2.5)
        plain = Mcp(client, mcp.key, "/mcp")
        late = text_of(plain.call("chat", {"message": "more"}))
        [task] = re.findall(r"task='([^']+)'", late)
        assert task in text_of(plain.call("chat", {"task": task}))
        self.work(kit, queue)
        assert text_of(plain.call("chat", {"task": task})) == "heard: more"

    def test_a_client_without_tasks_waits_for_the_end(
        self, mcp: Mcp, client: TestClient, kit: Kit, queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        workers: list[threading.Thread] = []

        def send(turn: QueuedTurn) -> None:
            worker = threading.Thread(target=lambda: asyncio.run(kit.worker.run_turn(turn, None)))
            workers.append(worker)
            worker.start()

        monkeypatch.setattr(queue, "send", send)
        answer = Mcp(client, mcp.key, "/mcp").call("chat", {"message": "more"})
        for worker in workers:
            worker.join()
        assert text_of(answer) == "heard: more"


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_refusal_does_not_become_an_argument(mcp: Mcp, client: TestClient, action: str) -> None:
    first = mcp.call("order", {"message": "please"})
    refused = mcp.call("order", {"message": "please"}, **answer(first, None, action))
    assert (refused["isError"], text_of(refused)) == (True, "The task was canceled.")
    [task] = Rest(client, mcp.key, "/a2a/shop").call("GET", "tasks")["tasks"]
    assert task["status"]["state"] == "TASK_STATE_CANCELED"


def test_a_task_belongs_to_its_tool(client: TestClient, kit: Kit) -> None:
    mcp = Mcp(client, new_key(kit), "/mcp")
    asked = text_of(mcp.call("order", {"message": "please"}))
    assert asked.endswith("and size=<the answer>.")
    [task_id] = re.findall("task='([^']+)'", asked)
    refused = mcp.call("chat", {"task": task_id, "message": "L"})
    assert (refused["isError"], "belongs to the tool order: call that tool" in text_of(refused)) == (
        True,
        True,
    )
    assert "How many?" in text_of(mcp.call("order", {"task": task_id, "size": "L"}))


def test_the_order_of_arguments_does_not_change_a_state() -> None:
    """A client may write the same arguments in another order when it answers."""
    orders: list[Any] = [{"a": 1, "b": 2}, {"b": 2, "a": 1}]
    first, second = (request_state.binding_of(Scope("owner", "agent"), "tool", order) for order in orders)
    assert first == second


def test_a_state_ends_after_an_hour() -> None:
    asked = request_state.QuestionState("task", "key")
    binding, secret, now = (
        request_state.binding_of(Scope("owner", "agent"), "tool", {}),
        b"s" * 32,
        1_800_000_000.0,
    )
    state = request_state.seal(asked, binding, secret, now)
    assert request_state.unseal(state, binding, secret, now + 3599) == asked
    with pytest.raises(InvalidParams):
        request_state.unseal(state, binding, secret, now + 3600)
