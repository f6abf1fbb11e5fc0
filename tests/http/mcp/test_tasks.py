"""Long work is a task of the extension, and of A2A."""

import asyncio
import re
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.identity import TurnReference
from a2a_lambda.wire.mcp.revisions import WITH_HANDSHAKE
from tests.background.fake_queue import FakeQueue
from tests.conftest import BASE_URL, new_key
from tests.helpers.rest import Rest, message_1_0
from tests.http.mcp.client import ELICITS, WITH_TASKS, Mcp, messages_of, text_of
from tests.http.mcp.shop import delay_next_read, kit_in


@pytest.fixture
def kit(settings: Settings, tmp_path: Path) -> Kit:
    return kit_in(tmp_path, settings, background=True)


@pytest.fixture
def queue(kit: Kit) -> FakeQueue:
    queue = kit.__dict__["queue"] = FakeQueue()
    return queue


@pytest.fixture
def mcp(client: TestClient, kit: Kit, queue: FakeQueue) -> Mcp:
    return Mcp(client, new_key(kit), "/mcp", **WITH_TASKS, **ELICITS)


def work(kit: Kit, queue: FakeQueue) -> None:
    while queue.waiting:
        asyncio.run(kit.worker.run_turn(queue.waiting.pop(0), None))


def test_from_start_to_end(mcp: Mcp, kit: Kit, queue: FakeQueue) -> None:
    creation = mcp.call("chat", {"message": "hello"})
    assert (creation["resultType"], creation["status"]) == ("task", "working")
    task = {"taskId": creation["taskId"]}
    assert mcp.ask("tasks/get", task)["status"] == "working"
    work(kit, queue)
    question = mcp.ask("tasks/get", task)
    assert question["status"] == "input_required"
    [(key, request)] = question["inputRequests"].items()
    assert request["params"]["message"] == "And then?"
    formless = Mcp(mcp.client, mcp.key, "/mcp", **WITH_TASKS).ask("tasks/get", task)
    assert (formless["status"], "inputRequests" in formless) == ("completed", False)
    assert "And then?\nTo answer, call this tool again with task=" in text_of(formless["result"])
    response = {"action": "accept", "content": {"answer": "more"}}
    mcp.ask("tasks/update", {**task, "inputResponses": {"other": response}})
    mcp.ask("tasks/update", {**task, "inputResponses": {key: {"action": "accept"}}})
    assert not queue.waiting, "an answer to another question is ignored"
    mcp.ask("tasks/update", {**task, "inputResponses": {key: response}})
    work(kit, queue)
    result = mcp.ask("tasks/get", task)
    assert (result["status"], text_of(result["result"])) == ("completed", "heard: more")
    assert creation["createdAt"] == result["createdAt"] == question["createdAt"]
    assert (
        creation["ttlMs"] == result["ttlMs"] == pytest.approx(kit.settings.task_days * 86_400_000, abs=1_000)
    )
    mcp.ask("tasks/cancel", task)
    assert mcp.ask("tasks/get", task)["status"] == "completed"


def test_a_late_update_answers_no_later_question(
    mcp: Mcp, kit: Kit, queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry of the update is faster, after both have read the task."""
    task = {"taskId": mcp.call("order", {"message": "please"})["taskId"]}
    work(kit, queue)
    [(key, _)] = mcp.ask("tasks/get", task)["inputRequests"].items()
    update = {**task, "inputResponses": {key: {"action": "accept", "content": {"size": "L"}}}}

    def update_and_work() -> None:
        mcp.ask("tasks/update", update)
        work(kit, queue)

    delay_next_read(kit, monkeypatch, update_and_work)
    mcp.ask("tasks/update", update)
    assert not queue.waiting
    [question] = mcp.ask("tasks/get", task)["inputRequests"].values()
    assert "How many?" in question["params"]["message"]


def test_a_late_update_of_a_task_that_has_ended_is_ignored(
    mcp: Mcp, kit: Kit, queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = {"taskId": mcp.call("order", {"message": "please"})["taskId"]}
    work(kit, queue)
    [(key, _)] = mcp.ask("tasks/get", task)["inputRequests"].items()

    delay_next_read(kit, monkeypatch, partial(mcp.ask, "tasks/cancel", task))
    response = {"action": "accept", "content": {"size": "L"}}
    mcp.ask("tasks/update", {**task, "inputResponses": {key: response}})  # is no error
    assert mcp.ask("tasks/get", task)["status"] == "cancelled"


def test_a_client_that_shows_no_forms_answers_by_another_call(mcp: Mcp, kit: Kit, queue: FakeQueue) -> None:
    formless = Mcp(mcp.client, mcp.key, "/mcp", **WITH_TASKS)
    task = {"taskId": formless.call("chat", {"message": "hello"})["taskId"]}
    work(kit, queue)
    assert "And then?" in text_of(formless.ask("tasks/get", task)["result"])
    again = formless.call("chat", {"message": "more", "task": task["taskId"]})
    assert (again["resultType"], again["taskId"], again["status"]) == ("task", task["taskId"], "working")
    assert formless.ask("tasks/get", task)["status"] == "working"
    work(kit, queue)
    assert text_of(formless.ask("tasks/get", task)["result"]) == "heard: more"


def test_a_client_without_tasks_learns_the_id_before_it_gives_up(
    mcp: Mcp, kit: Kit, queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a2a_lambda.http.mcp.mcp_call.CLIENT_SECONDS", 0.3)
    caller = Mcp(mcp.client, mcp.key, "/mcp")
    with_progress = caller.body(
        "tools/call", {"name": "chat", "arguments": {"message": "hi"}}, meta={"progressToken": 1}
    )
    assert "The task is still running" in text_of(messages_of(caller.post(with_progress))[-1]["result"])
    answer = text_of(caller.call("chat", {"message": "hello"}))
    assert "The task is still running" in answer
    [task_id] = re.findall(r"task='([^']+)'", answer)
    assert task_id in text_of(caller.call("chat", {"message": "", "task": task_id}))
    work(kit, queue)
    assert "And then?" in text_of(caller.call("chat", {"task": task_id}))


@pytest.mark.parametrize("background", [True, False])
def test_without_a_queue_or_in_the_foreground_a_turn_has_all_of_its_request(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, background: bool
) -> None:
    """It runs in the request, so the client's patience would be its deadline."""
    monkeypatch.setattr("a2a_lambda.http.mcp.mcp_call.CLIENT_SECONDS", 0.0)
    kit = kit_in(tmp_path / "alone", settings, background=background)
    if not background:
        kit.__dict__["queue"] = FakeQueue()
    with TestClient(create_app(kit), base_url=BASE_URL) as client:
        assert "And then?" in text_of(Mcp(client, new_key(kit), "/mcp").call("chat", {"message": "hello"}))


def test_credentials_do_not_go_through_a_form(mcp: Mcp, kit: Kit, queue: FakeQueue) -> None:
    task = {"taskId": mcp.call("private", {"message": "x"})["taskId"]}
    work(kit, queue)
    question = mcp.ask("tasks/get", task)
    assert (question["status"], "inputRequests" in question) == ("completed", False)
    words = text_of(question["result"])
    assert words.startswith("Sign in at https://login.example.com\nTo answer, call this")
    [message] = Rest(mcp.client, mcp.key, "/a2a/shop").call("GET", "tasks")["tasks"]
    key = message["status"]["message"]["messageId"]
    response = {"action": "accept", "content": {"answer": "secret"}}
    mcp.ask("tasks/update", {**task, "inputResponses": {key: response}})
    assert not queue.waiting


def test_an_mcp_task_is_a_task_of_a2a(mcp: Mcp, client: TestClient, kit: Kit, queue: FakeQueue) -> None:
    rest = Rest(client, mcp.key, "/a2a/shop")
    task_id = mcp.call("chat", {"message": "hello"})["taskId"]
    assert rest.call("GET", f"tasks/{task_id}")["id"] == task_id
    rest.call("POST", f"tasks/{task_id}:cancel")
    assert mcp.ask("tasks/get", {"taskId": task_id})["status"] == "cancelled"
    params = {"message": message_1_0("x"), "configuration": {"returnImmediately": True}}
    theirs = rest.call("POST", "message:send", params)["task"]["id"]
    mcp.ask("tasks/cancel", {"taskId": theirs})
    assert rest.call("GET", f"tasks/{theirs}")["status"]["state"] == "TASK_STATE_CANCELED"
    work(kit, queue)


def test_tasks_of_others_are_unknown(mcp: Mcp, client: TestClient, kit: Kit) -> None:
    task_id = mcp.call("chat", {"message": "hello"})["taskId"]
    other = Mcp(client, new_key(kit), "/mcp", **WITH_TASKS)
    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        params: Any = {"inputResponses": {}}
        foreign = other.refusal(method, {"taskId": task_id, **params})
        unknown = other.refusal(method, {"taskId": "nothing", **params})
        assert foreign["code"] == unknown["code"] == -32602
        assert foreign["message"].replace(task_id, "nothing") == unknown["message"]


def test_without_the_extension_there_are_no_tasks(
    mcp: Mcp, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = Mcp(client, mcp.key, "/mcp").refusal("tasks/get", {"taskId": "x"})
    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    old = Mcp(client, mcp.key, "/mcp", WITH_HANDSHAKE[0])
    assert old.refusal("tasks/get", {"taskId": "x"}, status=200)["code"] == -32601


def test_a_client_without_tasks_is_told_where_it_is(
    mcp: Mcp, client: TestClient, kit: Kit, queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a2a_lambda.http.request.INVOCATION_SECONDS", 2.5)
    caller = Mcp(client, mcp.key, "/mcp")
    late = text_of(caller.call("chat", {"message": "more"}))
    [task] = re.findall(r"task='([^']+)' and message='' to see", late)  # the tool's schema requires a message
    assert task in text_of(caller.call("chat", {"task": task, "message": ""}))
    work(kit, queue)
    assert text_of(caller.call("chat", {"task": task})) == "heard: more"


def test_a_client_without_tasks_waits_for_the_end(
    mcp: Mcp, client: TestClient, kit: Kit, queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: list[threading.Thread] = []

    def send(turn: TurnReference) -> None:
        worker = threading.Thread(target=lambda: asyncio.run(kit.worker.run_turn(turn, None)))
        workers.append(worker)
        worker.start()

    monkeypatch.setattr(queue, "send", send)
    answer = Mcp(client, mcp.key, "/mcp").call("chat", {"message": "more"})
    for worker in workers:
        worker.join()
    assert text_of(answer) == "heard: more"
