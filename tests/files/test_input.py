"""Files that clients send: in messages, and as uploads."""

import asyncio
import base64
import hashlib
import time
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.aws import clients
from a2a_lambda.errors import ContentTypeNotSupported
from a2a_lambda.files import inbox
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.card import Card, CardSkill
from a2a_lambda.settings import Settings
from tests.agents.probe.drawings import drawing
from tests.conftest import new_key, replace_in
from tests.files.objects import get, objects_of
from tests.files.uploading import NAMED, ask_for_upload, inline, post, upload
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc, intent, message

LARGE = drawing(300_000)


def findings_of(task: Any) -> Any:
    """What the agent has read."""
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    [part] = task["artifacts"][0]["parts"]
    return part["data"]


def entry(content: bytes) -> list[Any]:
    return ["drawing.png", "image/png", len(content), hashlib.sha256(content).hexdigest()]


@pytest.mark.parametrize("size", [10, 99_999, 100_000, 100_001, 300_000])
def test_an_agent_reads_the_same_wherever_a_file_is(rest: Rest, size: int) -> None:
    content = drawing(size)
    assert findings_of(rest.send("examine", parts=[inline(content)])) == [entry(content)]


def test_large_files_of_a_message_are_in_the_bucket(rest: Rest, settings: Settings) -> None:
    before = objects_of(settings)
    task = rest.send("examine", parts=[{"text": "hi"}, inline(LARGE), inline(b"small"), inline(LARGE[:-1])])
    assert len(objects_of(settings) - before) == 2
    assert findings_of(task) == [entry(LARGE), entry(b"small"), entry(LARGE[:-1])]
    rows = clients.dynamodb(settings).scan(TableName=settings.table)["Items"]
    assert sum(len(str(row)) for row in rows if task["id"] in row["pk"]["S"]) < 10_000
    [history_message] = rest.call("GET", f"tasks/{task['id']}")["history"]
    assert [set(part) for part in history_message["parts"]] == [
        {"text"},
        *[{"url", *NAMED}, {"raw", *NAMED}, {"url", *NAMED}],
    ]
    assert get(history_message["parts"][1]["url"])[0] == LARGE


def test_only_large_parts_are_waited_for(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message may have hundreds of thousands of parts."""
    counts: list[int] = []

    async def gather(*calls: Any) -> list[Any]:
        counts.append(len(calls))
        return await asyncio.gather(*calls)

    replace_in(inbox, asyncio, monkeypatch, gather=gather)
    rest.send("examine", parts=[*({"text": ""} for _ in range(100)), inline(LARGE), inline(b"small")])
    assert sum(counts) == 1


def test_an_agent_can_pass_on_the_url_of_a_stored_file(rest: Rest) -> None:
    task = rest.send("look", parts=[inline(LARGE)])
    [[name, _, url, _]] = task["artifacts"][0]["parts"][0]["data"]["files"]
    assert name == "drawing.png"
    assert get(url)[0] == LARGE


def test_versions_send_files_in_their_own_form(rpc: Rpc) -> None:
    file = {"bytes": base64.b64encode(LARGE).decode(), "name": "drawing.png", "mimeType": "image/png"}
    body = message("", metadata=intent("examine"), parts=[{"kind": "file", "file": file}])
    task = rpc.call("message/send", {"message": body})
    assert task["artifacts"][0]["parts"][0]["data"] == {"value": [entry(LARGE)]}


def test_a_retry_writes_the_same_object(rest: Rest, settings: Settings) -> None:
    before = objects_of(settings)
    identity = str(uuid.uuid4())
    tasks = [rest.send("examine", parts=[inline(LARGE)], messageId=identity) for _ in range(2)]
    assert tasks[0]["id"] == tasks[1]["id"]
    assert len(objects_of(settings) - before) == 1


def test_an_upload_is_sent_by_its_reference(rest: Rest) -> None:
    content = drawing(6_000_000)
    reference = upload(rest, content)
    assert reference.startswith("a2a-file:uploads/")
    task = rest.send("examine", parts=[{"url": reference, **NAMED}])
    assert findings_of(task) == [entry(content)]
    [part] = rest.call("GET", f"tasks/{task['id']}")["history"][0]["parts"]
    assert get(part["url"])[0] == content


def test_an_upload_has_at_most_the_size_that_was_said(rest: Rest) -> None:
    form = ask_for_upload(rest, 10).json()["form"]
    policy = base64.b64decode(form["fields"]["policy"]).decode()
    assert '["content-length-range", 1, 10]' in policy
    assert '{"Content-Type": "application/octet-stream"}' in policy
    assert f'{{"key": "{form["fields"]["key"]}"}}' in policy


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, "body.size"),
        ({"size": 0, "mediaType": "image/png"}, "body.size"),
        ({"size": 1_000_000_001, "mediaType": "image/png"}, "body.size"),
        ({"size": 5}, "body.mediaType"),
        ({"size": "much", "mediaType": "image/png"}, "body.size"),
        ([], "body"),
    ],
)
def test_what_an_upload_must_say(rest: Rest, fields: Any, path: str) -> None:
    answer = rest.ask("POST", "uploads", fields)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert path in error["message"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT"), "as the OpenAPI description says"


def test_an_upload_needs_a_key_and_a_post(rest: Rest, client: TestClient) -> None:
    assert client.post("/uploads", json={"size": 5, "mediaType": "image/png"}).status_code == 401
    assert rest.ask("GET", "uploads").status_code == 405
    rest.path = "/a2a/absent"
    assert ask_for_upload(rest, 5).status_code == 404


def test_an_agent_takes_uploads_of_its_types_only(client: TestClient, key: str) -> None:
    answer = ask_for_upload(Rest(client, key, "/a2a/assistant"), 5)
    assert answer.status_code == 400
    assert "the agent accepts" in answer.json()["error"]["message"]


def test_a_refusal_names_each_accepted_type_once() -> None:
    skill = CardSkill(id="a", name="A", description="A.", inputModes=["text/plain", "image/png"])
    card = Card(name="A", description="A.", version="1.0", skills=[skill], defaultInputModes=["text/plain"])
    with pytest.raises(ContentTypeNotSupported, match=r"accepts text/plain, image/png$"):
        card.check_media_type("text/csv", "params.message.parts[0]")


@pytest.mark.parametrize(
    "reference",
    [
        "a2a-file:uploads/" + "0" * 32,
        "a2a-file:uploads/../tasks/x",
        "a2a-file:tasks/x/y/1",
        "a2a-file:",
        "a2a-file:uploads/",
    ],
)
def test_another_reference_is_unknown(rest: Rest, reference: str) -> None:
    assert refusal(rest, reference) == inbox.UNKNOWN


def test_a_picture_in_the_metadata_is_named_where_it_is(rest: Rest) -> None:
    picture = {"type": "url", "value": "a2a-file:uploads/" + "0" * 32}
    answer = rest.ask("POST", "message:send", {"message": message_1_0(metadata={"images": [picture]})})
    assert answer.status_code == 400
    assert "message.metadata.images" in answer.text


def refusal(rest: Rest, reference: str, parts: Sequence[Any] = ()) -> str:
    """The error of a message with a reference."""
    message = message_1_0(parts=[*parts, {"url": reference}])
    answer = rest.ask("POST", "message:send", {"message": message})
    assert answer.status_code == 400, answer.text
    text: str = answer.json()["error"]["message"]
    return text.partition(": ")[2]


def test_uploads_and_outputs_of_others_are_unknown(
    rest: Rest, client: TestClient, kit: Kit, settings: Settings
) -> None:
    reference = upload(rest, LARGE)
    stranger = Rest(client, new_key(kit, owner=f"owner-{uuid.uuid4()}"))
    assert refusal(stranger, reference) == inbox.UNKNOWN
    assert refusal(Rest(client, rest.headers["X-API-Key"], "/a2a/plain"), reference) == inbox.UNKNOWN
    before = objects_of(settings)
    rest.send("draw")
    [first, _] = sorted(objects_of(settings) - before)
    own_output = "a2a-file:" + first.split("/", 2)[2]
    assert refusal(rest, own_output) == inbox.UNKNOWN
    assert findings_of(rest.send("examine", parts=[{"url": reference, **NAMED}])) == [entry(LARGE)]


def test_an_upload_that_was_replaced_is_not_read(rest: Rest) -> None:
    """Whoever has the form may post another file within its hour. A skill then reads neither."""
    form = ask_for_upload(rest, 10).json()
    post(form["form"], b"invoice A")
    task = rest.send("examine", parts=[{"url": form["url"], **NAMED}])
    post(form["form"], b"invoice B")
    [part] = rest.call("GET", f"tasks/{task['id']}")["history"][0]["parts"]
    again = rest.send("reread", contextId=task["contextId"])
    assert again["status"]["state"] == "TASK_STATE_FAILED"
    assert "no longer available" in again["status"]["message"]["parts"][0]["text"]
    assert get(part["url"])[0] == b"invoice B"


def test_nothing_is_written_for_a_message_that_is_refused(rest: Rest, settings: Settings) -> None:
    before = objects_of(settings)
    refusal(rest, "a2a-file:uploads/" + "0" * 32, parts=[inline(LARGE)])
    message = message_1_0(parts=[inline(LARGE)], taskId="absent")
    assert rest.ask("POST", "message:send", {"message": message}).status_code == 404
    assert objects_of(settings) == before


@pytest.mark.parametrize("kind", ["base64", "URL", "x", [], {}, None, 7])
def test_a_picture_of_another_kind_names_no_file(rest: Rest, settings: Settings, kind: Any) -> None:
    before = objects_of(settings)
    rest.send("draw")
    [first, _] = sorted(objects_of(settings) - before)
    picture = {"type": kind, "value": "a2a-file:" + first.split("/", 2)[2]}
    picture_message = {**message_1_0(), "metadata": {**intent("look"), "images": [picture]}}
    task = rest.call("POST", "message:send", {"message": picture_message})["task"]
    text = task["artifacts"][0]["parts"][0]["data"]["images"]
    assert not [value for value in text if "X-Amz" in value]
    assert "X-Amz" not in str(task["history"])


def test_an_old_upload_is_unknown(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = upload(rest, LARGE)
    monkeypatch.setattr(inbox, "UPLOAD_LIFE_SECONDS", -10)
    assert refusal(rest, reference) == inbox.UNKNOWN


def test_a_large_file_for_a_task_that_has_ended_is_not_stored(rest: Rest, settings: Settings) -> None:
    """No log would name it, so `make erase` of the task could not find it."""
    task, before = rest.send("echo"), objects_of(settings)
    body = {"message": message_1_0(taskId=task["id"], parts=[inline(LARGE)])}
    assert rest.ask("POST", "message:send", body).status_code == 400
    assert objects_of(settings) == before


def test_a_message_names_few_uploads(rest: Rest) -> None:
    """Also the same one: each name becomes a long URL in every answer."""
    for numbers in (range(101), [1] * 101):
        parts = [{"url": f"a2a-file:uploads/{number:032x}"} for number in numbers]
        answer = rest.ask("POST", "message:send", {"message": message_1_0(parts=parts)})
        assert "at most 100 uploads" in answer.json()["error"]["message"]


def test_pictures_of_alibabas_suite_are_files_too(rest: Rest, settings: Settings) -> None:
    picture = {"type": "base64", "value": base64.b64encode(LARGE).decode()}
    before = objects_of(settings)
    metadata = {**intent("look"), "images": [picture, {"type": "url", "value": "https://example.com/a.png"}]}
    task = rest.call("POST", "message:send", {"message": {**message_1_0(), "metadata": metadata}})["task"]
    assert len(objects_of(settings) - before) == 1
    [history_message] = rest.call("GET", f"tasks/{task['id']}")["history"]
    [stored_link, link] = history_message["metadata"]["images"]
    assert stored_link["type"] == "url"
    assert get(stored_link["value"])[0] == LARGE
    assert link == {"type": "url", "value": "https://example.com/a.png"}
    text = task["artifacts"][0]["parts"][0]["data"]["images"]
    assert get(text[0])[0] == LARGE


def test_the_card_says_where_uploads_go(client: TestClient) -> None:
    for version in ("1.0", "0.3"):
        card = client.get("/a2a/probe/.well-known/agent-card.json", headers={"A2A-Version": version}).json()
        [extension] = [
            item for item in card["capabilities"]["extensions"] if item["uri"].endswith(":uploads")
        ]
        assert extension["params"] == {
            "url": "https://agents.example.com/a2a/probe/uploads",
            "maxBytes": 1_000_000_000,
        }


def test_a_repeated_message_is_stored_once(
    rest: Rest, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it comes again: erasing its task would not find a second file."""
    body = {"message": message_1_0(parts=[inline(LARGE)], metadata=intent("look"))}
    tasks, others = set(), objects_of(settings)
    for start in range(3):
        replace_in(inbox, time, monkeypatch, time=lambda start=start: 61.0 * start)
        tasks.add(rest.ask("POST", "message:send", body, **{"Idempotency-Key": "k"}).json()["task"]["id"])
    assert len(tasks) == 1
    assert len(objects_of(settings) - others) == 1


def test_a_repeated_message_needs_its_upload_no_more(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"message": message_1_0(parts=[{"url": upload(rest, LARGE)}], metadata=intent("look"))}
    answers = []
    for life_seconds in (inbox.UPLOAD_LIFE_SECONDS, -1):
        monkeypatch.setattr(inbox, "UPLOAD_LIFE_SECONDS", life_seconds)
        answers.append(rest.ask("POST", "message:send", body, **{"Idempotency-Key": "k"}).json())
    assert answers[0]["task"]["id"] == answers[1]["task"]["id"]
    answer = rest.ask("POST", "message:send", body)
    assert answer.status_code == 400, "the same upload in another message is too old"
