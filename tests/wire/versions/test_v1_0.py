"""A2A 1.0 as its clients see it, over both bindings."""

import base64
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc, bare_events, events, intent, request

pytestmark = pytest.mark.slow


def test_a_send(rest: Rest, rpc: Rpc) -> None:
    task = rest.send(text="hi")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "hi"}]
    assert "kind" not in task
    result = rpc.call("SendMessage", {"message": message_1_0("hi", metadata=intent("echo"))})
    assert result["task"]["artifacts"][0]["parts"] == [{"text": "hi"}]


def test_every_kind_of_part(rest: Rest) -> None:
    raw = base64.b64encode(b"x" * 7).decode()
    parts = [
        {"text": "a"},
        {"raw": raw, "filename": "n", "mediaType": "image/png"},
        {"url": "https://example.com/f"},
        {"data": [9007199254740993]},
    ]
    task = rest.send("look", parts=parts)
    assert task["history"][0]["parts"] == parts
    [report] = [part["data"] for part in task["artifacts"][0]["parts"]]
    assert report["files"] == [["n", "image/png", None, 7], [None, None, "https://example.com/f", 0]]


@pytest.mark.parametrize(
    ("part", "read"),
    [
        ({"text": "hi", "data": None}, {"text": "hi"}),
        ({"data": None, "url": "https://example.com/f"}, {"url": "https://example.com/f"}),
        ({"data": None, "text": None}, {"data": None}),
    ],
)
def test_a_null_beside_another_content_is_no_content(rest: Rest, part: Any, read: Any) -> None:
    """Generated clients write a field that they leave out so, and a task that they read."""
    task = rest.send("look", parts=[part])
    assert task["history"][0]["parts"] == [read]


@pytest.mark.parametrize("streaming", [False, True])
def test_a_stream_is_the_task_and_then_its_changes(rest: Rest, rpc: Rpc, streaming: bool) -> None:
    params = {"message": message_1_0(metadata=intent("everything"))}
    if streaming:
        stream = events(rpc.post(request("SendStreamingMessage", params)).text)
    else:
        stream = rest.stream(body=params)
    kinds = [next(iter(event)) for event in stream]
    assert kinds[0] == "task"
    assert kinds[-1] == "statusUpdate"
    assert stream[0]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert stream[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "final" not in stream[-1]["statusUpdate"]


def test_snake_case_is_understood_everywhere(rpc: Rpc) -> None:
    body = {
        "message_id": "m",
        "role": 1,
        "parts": [{"text": "hi", "media_type": "text/plain"}],
        "context_id": "snake",
        "metadata": intent("echo"),
    }
    task = rpc.call("SendMessage", {"message": body, "configuration": {"history_length": 0}})["task"]
    assert task["contextId"] == "snake"
    assert "history" not in task
    assert "media_type" not in str(rpc.call("GetTask", {"id": task["id"], "history_length": "1"}))
    assert rpc.call("ListTasks", {"context_id": "snake", "page_size": 1})["pageSize"] == 1


@pytest.mark.parametrize(("length", "kept"), [(None, 3), ("", 3), (0, 0), (1, 1), (2, 2), (9, 3)])
def test_history_is_as_long_as_asked_for(rest: Rest, length: int | str | None, kept: int) -> None:
    question = rest.send("question")
    rest.send("echo", taskId=question["id"])
    query = "" if length is None else f"?historyLength={length}"
    task = rest.call("GET", f"tasks/{question['id']}{query}")
    assert len(task.get("history", [])) == kept
    assert ("history" in task) == (kept > 0)


def test_a_bare_message(rest: Rest, rpc: Rpc) -> None:
    params = {"message": message_1_0(metadata=intent("words"))}
    answer = rest.call("POST", "message:send", params)
    assert answer.keys() == {"message"}
    assert answer["message"]["parts"] == [{"text": "Just words."}]
    assert answer["message"]["role"] == "ROLE_AGENT"
    again = rest.call("POST", "message:send", params)
    assert again == answer  # a retry
    assert rest.call("GET", "tasks")["tasks"] == []
    refusal = rpc.call("message/send", {"message": {**params["message"], "role": "user"}})
    assert refusal["kind"] == "message"
    ending = rest.stream(body={"message": message_1_0(metadata=intent("words"))})[-1]
    assert ending["statusUpdate"]["status"]["message"]["parts"] == [{"text": "Just words."}]


def test_words_after_other_outputs_are_the_tasks_last(rest: Rest) -> None:
    task = rest.send("words", slots={"before": "true"})
    assert task["status"]["message"]["parts"] == [{"text": "Just words."}]
    assert task["artifacts"][0]["parts"] == [{"text": "work"}]


def test_credentials_are_asked_for_and_given(rest: Rest) -> None:
    question = rest.send("sign-in")
    assert question["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    task = rest.send("sign-in", "Ann", taskId=question["id"])
    assert task["artifacts"][0]["parts"] == [{"text": "Hello, Ann!"}]


def test_the_request_around_the_message_reaches_the_agent(rest: Rest) -> None:
    body = {
        "message": message_1_0(metadata=intent("client")),
        "configuration": {"acceptedOutputModes": ["text/html"]},
        "metadata": {"tenant-hint": 9007199254740993},
    }
    [part] = rest.call("POST", "message:send", body)["task"]["artifacts"][0]["parts"]
    assert part["data"] == {
        "modes": ["text/html"],
        "extensions": [],
        "metadata": {"tenant-hint": 9007199254740993},
    }


def test_a_media_type_the_agent_does_not_take(client: TestClient, key: str) -> None:
    rest = Rest(client, key, "")
    body = {"message": message_1_0(parts=[{"raw": "dGNr", "mediaType": "application/x-unknown"}])}
    assert error(rest.ask("POST", "message:send", body), 400)["details"][0]["reason"] == (
        "CONTENT_TYPE_NOT_SUPPORTED"
    )
    assert Rpc(client, key).error("SendMessage", body)["code"] == -32005


def error(answer: Any, status: int) -> Any:
    assert answer.status_code == status, answer.text
    body = answer.json()["error"]
    assert body["code"] == status
    assert body["message"]
    return body


def test_a_body_of_null_is_no_body(rest: Rest) -> None:
    """a2a-go up to 2.3.1 sends it with requests that need none."""
    headers = {**rest.headers, "Content-Type": "application/json"}
    answer = rest.client.request("GET", f"{rest.path}/tasks", content="null", headers=headers)
    assert answer.json()["tasks"] == []
    answer = rest.client.post(f"{rest.path}/message:send", content="null", headers=headers)
    assert "message is missing" in answer.text


def test_errors_are_google_rpc_statuses(rest: Rest) -> None:
    missing = error(rest.ask("GET", "tasks/nothing"), 404)
    assert missing["status"] == "NOT_FOUND"
    assert missing["details"][0] == {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "TASK_NOT_FOUND",
        "domain": "a2a-protocol.org",
        "metadata": {},
    }
    invalid = error(rest.ask("POST", "message:send", {"message": {"parts": []}}), 400)
    assert invalid["details"][1]["fieldViolations"][0]["field"] == "message.parts"
    task = rest.send()
    for accept in (
        "*/*",
        "application/json",
        "application/a2a+json",
    ):  # 1.0.1's statuses, whatever is accepted
        refusal = error(rest.ask("POST", f"tasks/{task['id']}:cancel", Accept=accept), 400)
        assert refusal["status"] == "FAILED_PRECONDITION"
        assert refusal["details"][0]["reason"] == "TASK_NOT_CANCELABLE"
    assert error(rest.ask("GET", "tasks?pageSize=0"), 400)["status"] == "INVALID_ARGUMENT"
    assert error(rest.ask("GET", "extendedAgentCard"), 400)["details"][0]["reason"] == (
        "UNSUPPORTED_OPERATION"
    )


def test_errors_of_http_itself(client: TestClient, rest: Rest) -> None:
    keyless = client.get("/a2a/probe/tasks")
    assert error(keyless, 401)["status"] == "UNAUTHENTICATED"
    assert "www-authenticate" in keyless.headers
    assert error(rest.ask("DELETE", "tasks/x"), 405)["message"]
    assert rest.ask("DELETE", "tasks/x").headers["allow"] == "GET"
    assert error(rest.ask("GET", "nothing/at/all"), 404)
    text = client.post(
        "/a2a/probe/message:send", content=b"x", headers={**rest.headers, "Content-Type": "text/plain"}
    )
    assert error(text, 400)["details"][0]["reason"] == "CONTENT_TYPE_NOT_SUPPORTED"


def test_json_rpc_errors_have_details(rpc: Rpc) -> None:
    refusal = rpc.error("GetTask", {"id": "nothing"})
    assert refusal["code"] == -32001
    assert refusal["data"][0]["reason"] == "TASK_NOT_FOUND"


@pytest.mark.parametrize(
    ("accept", "sent", "told"),
    [
        ("*/*", "application/json", "application/a2a+json"),
        ("", "application/json", "application/a2a+json"),
        ("application/json", "application/json", "application/json"),
        ("application/json, text/event-stream;q=0.5", "application/a2a+json", "application/json"),
        ("application/json, */*;q=0.1", "application/json", "application/a2a+json"),
        ("application/a2a+json, application/json", "application/json", "application/a2a+json"),
        ("*/*", "application/a2a+json", "application/a2a+json"),
    ],
)
def test_the_media_type_is_the_one_the_client_speaks(
    client: TestClient, rest: Rest, accept: str, sent: str, told: str
) -> None:
    headers = {**rest.headers, "Accept": accept, "Content-Type": sent}
    answer = client.get("/a2a/probe/tasks", headers=headers)
    assert answer.headers["content-type"] == told


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("*/*", "application/a2a+json"),
        ("application/a2a+json", "application/a2a+json"),
        ("application/json", "application/json"),
        ("text/event-stream", "application/json"),  # as streams of a2a-go
        (None, "application/json"),  # as calls of a2a-dotnet
    ],
)
def test_an_error_has_a_media_type_that_the_client_reads(
    client: TestClient, rest: Rest, accept: str | None, media_type: str
) -> None:
    request_ = client.build_request("GET", "/a2a/probe/tasks/nothing", headers=rest.headers)
    request_.headers.pop("Accept")
    if accept is not None:
        request_.headers["Accept"] = accept
    answer = client.send(request_)
    assert error(answer, 404)["status"] == "NOT_FOUND"
    assert answer.headers["content-type"] == media_type
    request_.method = "DELETE"
    answer = client.send(request_)
    assert (answer.status_code, answer.headers["content-type"]) == (405, media_type)


def test_the_tenant_is_the_agent(client: TestClient, key: str) -> None:
    root = Rest(client, key, "")
    params = {"message": message_1_0("hi", metadata=intent("echo"))}
    by_path = root.call("POST", "probe/message:send", params)["task"]
    by_body = root.call("POST", "message:send", {**params, "tenant": "probe"})["task"]
    by_rpc = Rpc(client, key).call("SendMessage", {**params, "tenant": "probe"})["task"]
    for task in (by_path, by_body, by_rpc):
        assert task["artifacts"][0]["parts"] == [{"text": "hi"}]
        assert root.call("GET", f"probe/tasks/{task['id']}")["id"] == task["id"]
        assert error(root.ask("GET", f"tasks/{task['id']}"), 404)
    assert error(root.ask("POST", "nobody/message:send", params), 404)
    assert error(root.ask("POST", "assistant/message:send", {**params, "tenant": "probe"}), 400)


def test_a_subscription_begins_with_the_task(rest: Rest, rpc: Rpc) -> None:
    task = rest.send()
    assert error(rest.ask("POST", f"tasks/{task['id']}:subscribe"), 400)["details"][0]["reason"] == (
        "UNSUPPORTED_OPERATION"
    )
    refusal = rpc.post(request("SubscribeToTask", {"id": task["id"]}), Accept="text/event-stream")
    assert refusal.headers["content-type"] == "application/json"
    assert refusal.json()["error"]["code"] == -32004


@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_a_subscription_waits_for_the_answer_to_a_question(client: TestClient, rest: Rest, verb: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    question = rest.send("question")
    with ThreadPoolExecutor(1) as pool:
        with client.stream(
            verb, f"/a2a/probe/tasks/{question['id']}:subscribe", headers=rest.headers
        ) as answer:
            lines = answer.iter_lines()
            first = bare_events(next(lines for lines in lines if lines.startswith("data:")))
            answering = pool.submit(rest.send, "question", "yes", taskId=question["id"])
            rest_of_it = bare_events("\n".join(lines))
        assert answering.result()["status"]["state"] == "TASK_STATE_COMPLETED"
    assert first[0]["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert [next(iter(event)) for event in rest_of_it] == ["artifactUpdate", "statusUpdate"]
    assert rest_of_it[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_stream_of_an_agent_that_does_not_stream(client: TestClient, key: str) -> None:
    params = {"message": message_1_0()}
    rest = Rest(client, key, "/a2a/plain")
    assert error(rest.ask("POST", "message:stream", params), 400)["details"][0]["reason"] == (
        "UNSUPPORTED_OPERATION"
    )
    for path in ("message:stream", "tasks/x:subscribe"):
        error(rest.ask("POST", path, params, Accept="text/event-stream"), 400)
    for method in ("SendStreamingMessage", "message/stream", "tasks/sendSubscribe"):
        refusal = Rpc(client, key, "/a2a/plain").error(method, params)
        assert refusal["code"] == -32004
    assert rest.call("POST", "message:send", params)["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
