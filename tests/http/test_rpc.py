"""What a client of A2A 0.2.5 to 0.3.0 can do with a task."""

import base64
import json
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.kit import Kit
from a2a_lambda.turns import journal
from tests.conftest import new_key
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rpc import Rpc, Streaming, events, intent, message, request, texts


@pytest.fixture
def probe(client: TestClient, key: str) -> Rpc:
    return Rpc(client, key, "/a2a/probe")


@pytest.fixture
def assistant(client: TestClient, key: str) -> Rpc:
    return Rpc(client, key)


def test_a_task_is_read_back_as_it_was_answered(assistant: Rpc) -> None:
    task = assistant.send("What is 1 plus 2?")
    assert assistant.call("tasks/get", {"id": task["id"]}) == task
    assert [entry["parts"][0]["text"] for entry in task["history"]] == ["What is 1 plus 2?"]


@pytest.mark.parametrize(("length", "shown"), [(None, 3), (2, 2), (1, 1), (0, 0), (100, 3)])
def test_history_length(assistant: Rpc, length: int | None, shown: int) -> None:
    question = assistant.send("coach")
    assistant.send("football", taskId=question["id"])
    params = {"id": question["id"]} | ({} if length is None else {"historyLength": length})
    history = assistant.call("tasks/get", params).get("history", [])
    whole = ["coach", "Which sport should I coach: basketball or football?", "football"]
    assert [entry["parts"][0]["text"] for entry in history] == whole[3 - shown :]


def test_history_length_of_a_send(assistant: Rpc) -> None:
    params = {"message": message(), "configuration": {"historyLength": 0}}
    assert "history" not in assistant.call("message/send", params)


def test_a_turn_continues_by_task_or_by_context(assistant: Rpc) -> None:
    for ids in ("taskId",), ("contextId",), ("taskId", "contextId"):
        question = assistant.send("add 40")
        names = {"taskId": question["id"], "contextId": question["contextId"]}
        result = assistant.send("2", **{name: names[name] for name in ids})
        assert (result["id"], texts(result)) == (question["id"], "40 plus 2 is 42.")


def test_a_new_task_in_the_same_context_remembers(probe: Rpc) -> None:
    first = probe.send("one", contextId="c")
    second = probe.send("two", contextId="c", metadata=intent("look"))
    assert second["id"] != first["id"]
    assert second["contextId"] == first["contextId"] == "c"
    assert second["artifacts"][0]["parts"][0]["data"]["said"] == ["one", "one"]


def test_messages_are_counted_across_turns(assistant: Rpc) -> None:
    context = {"contextId": "talk"}
    assistant.send("Hello there.", **context)
    assistant.send("你好。今天天气怎么样？", **context)
    assert texts(assistant.send("Count my messages.", **context)) == "You have said 3 messages."


def test_ids_that_do_not_belong_together(assistant: Rpc) -> None:
    question = assistant.send("coach")
    error = assistant.error("message/send", {"message": message(taskId=question["id"], contextId="other")})
    assert (error["code"], error["data"]) == (-32602, {"path": "params.message.contextId"})
    assert assistant.call("tasks/get", {"id": question["id"]}) == question


def test_an_ended_task_takes_no_message(assistant: Rpc) -> None:
    task = assistant.send("hi")
    assert assistant.error("message/send", {"message": message(taskId=task["id"])})["code"] == -32004
    assert assistant.call("tasks/get", {"id": task["id"]}) == task


def test_an_ended_task_cannot_be_canceled(assistant: Rpc) -> None:
    task = assistant.send("hi")
    assert assistant.error("tasks/cancel", {"id": task["id"]})["code"] == -32002


def test_a_waiting_task_is_canceled_and_keeps_its_question(assistant: Rpc) -> None:
    question = assistant.send("coach")
    canceled = assistant.call("tasks/cancel", {"id": question["id"]})
    assert canceled["status"]["state"] == "canceled"
    assert len(canceled["history"]) == 2
    assert assistant.call("tasks/get", {"id": question["id"]}) == canceled
    again = assistant.send("basketball", contextId=question["contextId"])
    assert again["id"] != question["id"]


def test_no_one_else_can_see_a_task(client: TestClient, kit: Kit, assistant: Rpc) -> None:
    question = assistant.send("coach")
    stranger = Rpc(client, new_key(kit))
    other_agent = Rpc(client, assistant.key, "/a2a/probe")
    unknown = {"id": str(uuid.uuid4())}
    for rpc, params in (stranger, question), (other_agent, question), (assistant, unknown):
        target = {"id": params["id"]}
        for method in "tasks/get", "tasks/cancel", "tasks/resubscribe":
            assert rpc.error(method, target)["code"] == -32001
        send_params = {"message": message(taskId=params["id"])}
        assert rpc.error("message/send", send_params)["code"] == -32001
    assert stranger.send("football", contextId=question["contextId"])["id"] != question["id"]
    assert assistant.call("tasks/get", {"id": question["id"]}) == question


@pytest.mark.parametrize("skill", ["pause", "block"])
def test_a_running_task_is_seen_refused_followed_and_canceled(probe: Rpc, skill: str) -> None:
    """All of it from other requests than the one that runs it."""
    with ThreadPoolExecutor() as pool:
        running = Streaming(probe, pool, skill=skill, seconds="600")
        task_id = running.until(2)
        assert probe.call("tasks/get", {"id": task_id})["status"]["state"] == "working"
        assert probe.error("message/send", {"message": message(taskId=task_id)})["code"] == -32004
        follower = pool.submit(probe.post, request("tasks/resubscribe", {"id": task_id}))
        canceled = probe.call("tasks/cancel", {"id": task_id})
        assert canceled["status"]["state"] == "canceled"
        running.ended.result(PATIENCE_SECONDS)
        follow_events = events(follower.result(PATIENCE_SECONDS).text)
    assert running.seen[-1]["status"]["state"] == "canceled"
    assert running.seen[-1]["final"] is True
    assert follow_events[0]["kind"] == "task"
    assert follow_events[-1]["status"]["state"] == "canceled"
    assert probe.call("tasks/get", {"id": task_id}) == canceled


def test_resubscribe_gives_the_task_and_what_comes_later(probe: Rpc) -> None:
    task = probe.send(metadata=intent("pieces"))
    task_events = events(probe.post(request("tasks/resubscribe", {"id": task["id"]})).text)
    assert [event["kind"] for event in task_events] == ["task", "status-update"]
    assert task_events[0] == task
    assert task_events[1]["final"] is True


def test_a_stream_cut_off_continues_after_the_last_event_id(
    probe: Rpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece is stored before it is sent, and so has an id."""
    for name in ("FLUSH_SECONDS", "SLOWEST_FLUSH_SECONDS"):
        monkeypatch.setattr(journal, name, 0.0)
    body = request("message/stream", {"message": message(metadata=intent("pieces", every="0.1"))})
    stream = probe.post(body).text
    rows = []
    for block in stream.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        rows.append((fields.get("id"), json.loads(fields["data"])["result"]))
    task_id = rows[0][1]["id"]
    places = [place for place, (identity, _) in enumerate(rows) if identity is not None]
    assert len(places) >= 3
    for place in places:
        headers = {"Last-Event-ID": str(rows[place][0])}
        resumed_events = events(probe.post(request("tasks/resubscribe", {"id": task_id}), **headers).text)
        missed_events = [event for _, event in rows[place + 1 :]]
        assert said(resumed_events) == said(missed_events)
        assert resumed_events[-1] == rows[-1][1]


def said(found: list[Any]) -> str:
    """Text of a stream's chunks."""
    return "".join(texts({"artifacts": [event["artifact"]]}) for event in found if "artifact" in event)


def test_a_failed_turn_says_nothing_of_why(probe: Rpc, caplog: pytest.LogCaptureFixture) -> None:
    task = probe.send(metadata=intent("boom"))
    assert task["status"]["state"] == "failed"
    assert "secret detail" not in json.dumps(task)
    assert "secret detail" in caplog.text


def test_a_skill_error_says_what_it_says(probe: Rpc) -> None:
    task = probe.send(metadata=intent("boom", aloud="true"))
    assert task["status"]["state"] == "failed"
    assert task["status"]["message"]["parts"][0]["text"] == "The printer is out of paper."


def test_a_rejection(probe: Rpc) -> None:
    task = probe.send(metadata=intent("refuse"))
    assert task["status"]["state"] == "rejected"


def test_everything_a_skill_can_put_out(probe: Rpc) -> None:
    task = probe.send(metadata=intent("everything"))
    reply, report = task["artifacts"]
    assert (report["name"], report["description"]) == ("report", "A report")
    assert report["parts"] == [{"kind": "text", "text": "first second"}]
    text, data, file = reply["parts"]
    assert text == {"kind": "text", "text": "text"}
    assert data == {"kind": "data", "data": {"number": 9007199254740993}}
    assert file["file"]["bytes"] == base64.b64encode(b"bytes").decode()
    assert report["metadata"]["commands"] == [
        {"name": "beep", "params": [{"name": "times", "value": "3", "normValue": "03"}]}
    ]
    stream_events = probe.stream(metadata=intent("everything"))
    progress = [event for event in stream_events if event["kind"] == "status-update"]
    assert [event["status"]["state"] for event in progress] == ["working", "completed"]
    assert [event["final"] for event in progress] == [False, True]


@pytest.mark.parametrize("path", ["/a2a/probe", "/alibaba/probe"])
@pytest.mark.parametrize("how", ["artifact", "ask", "reject"])
def test_commands_go_with_the_last_words(client: TestClient, key: str, path: str, how: str) -> None:
    rpc = Rpc(client, key, path)
    task = rpc.send(metadata=intent("order", how=how))
    *_, chunk, end = rpc.stream(metadata=intent("order", how=how))
    beep = [{"name": "beep"}]
    if path.startswith("/alibaba") or how == "artifact":
        assert task["artifacts"][-1]["metadata"]["commands"] == beep
        assert chunk["artifact"]["metadata"]["commands"] == beep
    else:
        assert task["status"]["message"]["metadata"]["commands"] == beep
        assert end["status"]["message"]["metadata"]["commands"] == beep


@pytest.mark.parametrize("encoded", ["-_-_", "YQ", "YQ==", "+/+/", ""])
def test_base64_of_every_kind_reaches_the_agent(probe: Rpc, encoded: str) -> None:
    parts = [{"kind": "file", "file": {"bytes": encoded}}]
    task = probe.send(parts=parts, metadata=intent("bytes"))
    plain = encoded.translate(str.maketrans("-_", "+/")).rstrip("=")
    expected = base64.b64decode(plain + "=" * (-len(plain) % 4)).hex()
    assert task["artifacts"][0]["parts"][0]["data"]["value"] == [expected]
    standard = base64.b64encode(bytes.fromhex(expected)).decode()  # what every peer can read
    assert task["history"][0]["parts"] == [{"kind": "file", "file": {"bytes": standard}}]


def test_an_unknown_task_is_named_where_it_is(probe: Rpc) -> None:
    error = probe.error("message/send", {"message": message(taskId="nothing")})
    assert error["data"] == {"path": "params.message.taskId"}


def test_a_large_message_is_read_back_whole(probe: Rpc) -> None:
    content = base64.b64encode(bytes(range(256)) * 17_000).decode()[: 4_400_000 // 4 * 4]
    file = {"name": "big", "mimeType": "application/octet-stream", "bytes": content}
    text = {"kind": "text", "text": "keep it"}
    task = probe.send(parts=[{"kind": "file", "file": file}, text], metadata=intent("look"))
    assert task["artifacts"][0]["parts"][0]["data"]["files"][0][3] == len(base64.b64decode(content))
    stored_part, kept_part = probe.call("tasks/get", {"id": task["id"]})["history"][0]["parts"]
    with urllib.request.urlopen(stored_part["file"]["uri"]) as answer:
        assert answer.read() == base64.b64decode(content)
    assert kept_part == text


def test_a_large_text_is_read_back_whole(probe: Rpc) -> None:
    parts = [{"kind": "text", "text": "x" * 4_000_000}]
    task = probe.send(parts=parts, metadata=intent("look"))
    read = probe.call("tasks/get", {"id": task["id"]})
    assert read["history"][0]["parts"] == parts
    assert read == task


@pytest.mark.parametrize("value", [None, 5, "x", {"parts": 5}, [{"role": "x"}]])
def test_a_message_may_have_fields_of_other_objects(probe: Rpc, value: Any) -> None:
    names = ("status", "history", "artifacts", "task", "message", "artifact", "statusUpdate")
    others: dict[str, Any] = dict.fromkeys(names, value)
    task = probe.send("hello", **others)
    assert task["status"]["state"] == "completed"
    assert all(task["history"][0][name] == value for name in names)


def test_values_and_unknown_fields_survive(probe: Rpc) -> None:
    metadata = {"z": 9007199254740993, "a": [1.5, None, True, {"é": "✓"}], "m": {}}
    parts = [{"kind": "text", "text": "x", "metadata": {"k": 2**63}, "unknown": {"deep": [1]}}]
    task = probe.send(parts=parts, metadata=metadata, strange="field")
    entry = probe.call("tasks/get", {"id": task["id"]})["history"][0]
    assert entry["metadata"] == metadata
    assert list(entry["metadata"]) == list(metadata)
    assert entry["parts"] == parts
    assert entry["strange"] == "field"


class TestTheSameRequest:
    """Byte-identical bodies, or one Idempotency-Key, are one request."""

    def body(self, **fields: Any) -> bytes:
        return json.dumps(request("message/send", {"message": message("go", **fields)})).encode()

    def test_twice(self, probe: Rpc) -> None:
        body = self.body(metadata=intent("look"))
        first = probe.post(body).json()
        assert probe.post(body).json() == first

    def test_with_a_key(self, probe: Rpc) -> None:
        key = {"Idempotency-Key": str(uuid.uuid4())}
        body = self.body(contextId="k", metadata=intent("look"))
        first = probe.post(body, **key).json()
        assert probe.post(body, **key).json() == first
        again = json.loads(body) | {"id": "another id, as most clients give each try"}
        assert probe.post(again, **key).json()["result"] == first["result"]
        other = probe.post(self.body(), **key).json()
        assert other["error"]["code"] == -32602
        assert "Idempotency-Key" in other["error"]["message"]

    @pytest.mark.parametrize(("length", "is_taken"), [(0, False), (255, True), (256, False)])
    def test_a_key_has_a_length(self, probe: Rpc, length: int, is_taken: bool) -> None:
        key = str(uuid.uuid4()).ljust(256, "x")[:length]
        answer = probe.post(self.body(metadata=intent("look")), **{"Idempotency-Key": key}).json()
        assert ("result" in answer) == is_taken
        assert is_taken or "1 to 255 characters" in answer["error"]["message"]

    def test_a_new_request_id_is_a_new_turn(self, probe: Rpc) -> None:
        params = {"message": message("go", contextId="n", metadata=intent("look"))}
        first = probe.call("message/send", params)
        second = probe.call("message/send", params)
        assert first["id"] != second["id"]
        assert second["artifacts"][0]["parts"][0]["data"]["turns"] == 2

    def test_a_stream_again(self, probe: Rpc) -> None:
        body = json.dumps(request("message/stream", {"message": message(metadata=intent("pieces"))}))
        first = events(probe.post(body.encode()).text)
        again = events(probe.post(body.encode()).text)
        assert again[0]["id"] == first[0]["id"]
        assert texts(again[0]) == "0 1 2 "
        assert again[-1] == first[-1]

    def test_a_follow_up_by_context_alone(self, assistant: Rpc) -> None:
        question = assistant.send("add 1")
        body = self.body(contextId=question["contextId"], parts=[{"kind": "text", "text": "2"}])
        first = assistant.post(body).json()
        assert texts(first["result"]) == "1 plus 2 is 3."
        assert assistant.post(body).json() == first

    def test_the_question_again(self, assistant: Rpc) -> None:
        """The retry of the message that led to a question is no answer to it."""
        body = self.body(contextId="q", parts=[{"kind": "text", "text": "add 1"}])
        first = assistant.post(body).json()
        assert first["result"]["status"]["state"] == "input-required"
        assert assistant.post(body).json() == first
