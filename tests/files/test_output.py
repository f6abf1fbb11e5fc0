"""Files that agents put out: what clients get, what the table and the bucket keep."""

import hashlib
import re
from typing import Any

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.errors import FilesUnavailable
from a2a_lambda.files.bucket import Bucket
from a2a_lambda.files.links import types_wanted_as_bytes
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from tests.agents.probe.drawings import drawing
from tests.files.objects import get, objects_of
from tests.files.uploading import inline
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc, intent, message

SIZE = 200_000


def parts_of(task: Any) -> list[Any]:
    return [part for artifact in task["artifacts"] for part in artifact["parts"]]


def urls_of(task: Any) -> list[str]:
    return [part["url"] for part in parts_of(task) if "url" in part]


@pytest.mark.parametrize("kind", ["bytes", "path", "stream", "pieces"])
@pytest.mark.parametrize("skill", ["draw", "draw-slowly"])
def test_a_large_file_is_a_url(rest: Rest, skill: str, kind: str) -> None:
    task = rest.send(skill, slots={"kind": kind})
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    [part, *_] = [part for part in parts_of(task) if "text" not in part]
    assert part.keys() == {"filename", "mediaType", "url"}
    assert (part["filename"], part["mediaType"]) == ("drawing.png", "image/png")
    content, headers = get(part["url"])
    assert content == drawing(SIZE)
    assert headers["Content-Type"] == "image/png"


@pytest.mark.parametrize("kind", ["bytes", "path", "pieces"])
def test_a_small_file_stays_in_its_task(rest: Rest, settings: Settings, key: str, kind: str) -> None:
    before = objects_of(settings)
    task = rest.send("draw", slots={"kind": kind, "size": "1000"})
    assert [part["filename"] for part in parts_of(task) if "raw" in part] == ["drawing.png", "again.pdf"]
    assert objects_of(settings) == before


def test_every_answer_has_a_url_of_its_own(rest: Rest) -> None:
    task = rest.send("draw")
    for answer in (
        rest.call("GET", f"tasks/{task['id']}"),
        rest.call("GET", "tasks?includeArtifacts=true")["tasks"][0],
    ):
        first, second = urls_of(answer)
        assert get(first)[0] == get(second)[0] == drawing(SIZE)
    chunks = [
        event["artifactUpdate"]
        for event in rest.stream(body={"message": message_1_0(metadata=intent("draw"))})
        if "artifactUpdate" in event
    ]
    urls = [part["url"] for chunk in chunks for part in chunk["artifact"]["parts"] if "url" in part]
    assert len(urls) == 2
    assert get(urls[0])[0] == drawing(SIZE)


def test_versions_have_their_own_form(rpc: Rpc, client: Any, key: str) -> None:
    params = {"message": message("draw", metadata=intent("draw"))}
    task = rpc.call("message/send", params)
    files = [part["file"] for part in parts_of(task) if part["kind"] == "file"]
    assert [set(file) for file in files] == [{"uri", "name", "mimeType"}] * 2
    assert get(files[1]["uri"])[0] == drawing(SIZE)
    alibaba = Rpc(client, key, "/alibaba/probe").call(
        "message/send", {"message": message("draw", metadata=intent("draw"))}
    )
    texts = [part["text"] for part in parts_of(alibaba)]
    assert get(texts[1])[0] == drawing(SIZE)


def test_the_table_keeps_a_reference(rest: Rest, kit: Kit, settings: Settings) -> None:
    task = rest.send("draw", slots={"size": "5000000"})
    rows = clients.dynamodb(settings).scan(TableName=settings.table)["Items"]
    of_task = [row for row in rows if task["id"] in row["pk"]["S"]]
    assert sum(len(str(row)) for row in of_task) < 10_000


def test_keys_begin_with_the_owners_digest(rest: Rest, kit: Kit, settings: Settings, key: str) -> None:
    before = objects_of(settings)
    task = rest.send("draw")
    api_key = kit.keys.find(key)
    assert api_key is not None
    owner = hashlib.sha256(api_key.owner.encode()).hexdigest()[:32]
    new = objects_of(settings) - before
    assert len(new) == 2
    digest = hashlib.sha256(task["id"].encode()).hexdigest()[:32]
    for name in new:
        assert re.fullmatch(f"{owner}/probe/tasks/{digest}/[0-9a-f-]{{36}}-[0-9]+/[12]", name)


@pytest.mark.parametrize(
    ("name", "media_type", "disposition"),
    [
        ("a.png", "image/png", "inline"),
        ("a.html", "application/octet-stream", "attachment"),
        ("a.svg", "application/octet-stream", "attachment"),
        ("a.xml", "application/octet-stream", "attachment"),
        ("a.js", "application/octet-stream", "attachment"),
        ("größe; x=.mp4", "video/mp4", "inline"),
    ],
)
def test_what_a_browser_would_run_is_a_download(
    rest: Rest, name: str, media_type: str, disposition: str
) -> None:
    [url, _] = urls_of(rest.send("draw", slots={"name": name}))
    _, headers = get(url)
    assert headers["Content-Type"] == media_type
    assert headers["Content-Disposition"].startswith(f"{disposition}; filename*=UTF-8''")
    assert ";" not in headers["Content-Disposition"].partition("''")[2]


@pytest.mark.parametrize("modes", [["image/png;base64"], ["image/*; base64", "text/plain"], ["*/*;base64"]])
def test_a_client_gets_bytes_if_it_asks_for_them(rest: Rest, modes: list[str]) -> None:
    task = rest.send("draw", configuration={"acceptedOutputModes": modes})
    [picture, document] = [part for part in parts_of(task) if "text" not in part]
    assert "raw" in picture
    assert ("raw" in document) is (modes == ["*/*;base64"])


def test_every_file_is_bytes_for_a_client_that_asks_for_all(rest: Rest) -> None:
    """So is a file whose type no one knows."""
    task = rest.send(
        "draw", slots={"name": "table.parquet"}, configuration={"acceptedOutputModes": ["*/*;base64"]}
    )
    assert urls_of(task) == []


def test_few_patterns_count(rest: Rest) -> None:
    """Each is compared with each file of each answer."""
    modes = [f"image/x{number};base64" for number in range(20)]
    task = rest.send("draw", configuration={"acceptedOutputModes": [*modes, "image/png;base64"]})
    assert len(urls_of(task)) == 2


def test_a_pattern_that_takes_long_is_none() -> None:
    assert types_wanted_as_bytes(["[" * 100_000 + "/x;base64", "*/*;BASE64", "image/[a-z]*;base64"]) == (
        "*/*",
    )


def fail(*_: Any) -> None:
    raise FilesUnavailable("S3 did not answer")


def test_bytes_that_cannot_be_read_are_a_url(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bucket, "open", fail)
    task = rest.send("draw", configuration={"acceptedOutputModes": ["*/*;base64"]})
    assert len(urls_of(task)) == 2


def test_a_skill_whose_file_cannot_be_stored_fails(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bucket, "put", fail)
    task = rest.send("draw")
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "A file could not be read or stored" in str(task["status"])


def test_a_message_whose_file_cannot_be_stored_is_to_be_sent_again(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bucket, "put", fail)
    answer = rest.ask("POST", "message:send", {"message": message_1_0(parts=[inline(drawing(SIZE))])})
    assert answer.status_code == 503
    assert "the file store did not answer" in answer.json()["error"]["message"]


def test_bytes_stay_within_what_an_answer_may_have(rest: Rest) -> None:
    modes = {"acceptedOutputModes": ["*/*;base64"]}
    task = rest.send("draw", slots={"size": "2000000"}, configuration=modes)
    [first, second] = [part for part in parts_of(task) if "text" not in part]
    assert "raw" in first
    assert "url" in second


def test_a_content_of_another_type_is_the_agents_mistake(rest: Rest, caplog: Any) -> None:
    task = rest.send("draw", slots={"kind": "text"})
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "the content of a File is of type str" in caplog.text


def test_a_file_in_parts(rest: Rest) -> None:
    [url, _] = urls_of(rest.send("draw", slots={"size": "20000000", "kind": "pieces"}))
    assert get(url)[0] == drawing(20_000_000)


@pytest.mark.parametrize("size", [10, SIZE])
def test_a_skill_sends_a_file_back(rest: Rest, settings: Settings, size: int) -> None:
    before = objects_of(settings)
    task = rest.send("give-back", parts=[{**inline(drawing(size)), "unknown": 1}])
    [part] = parts_of(task)
    assert "unknown" not in part, "the schema of 1.0 is closed"
    if size == SIZE:
        assert get(part["url"])[0] == drawing(size)
        assert len(objects_of(settings) - before) == 1
    else:
        assert part == inline(drawing(size))


def test_the_conversation_names_the_file(rest: Rest) -> None:
    task = rest.send("draw")
    retelling = rest.send("retell", contextId=task["contextId"])
    [text] = [part["text"] for part in parts_of(retelling)]
    assert text == "hello | Here it is. \n[file: drawing.png]"
