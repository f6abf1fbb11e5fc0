"""The playground's server: what it gives to which browser."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from a2a_lambda.settings import Settings
from tools.dev.log_lines import LogLines
from tools.log_entry import LogEntry
from tools.playground.app import DATA_PATHS, TOKEN_HEADER, Playground, Target

LOCAL = "http://127.0.0.1:8080"

BROWSER = {"Accept": "text/html,application/xhtml+xml"}


def page(target: Target | None = None) -> TestClient:
    target = target or Target(url="http://127.0.0.1:1", title="test", agents=["one"], key="local-key")
    return TestClient(Playground(target, PlainTextResponse("the application")), base_url=LOCAL)


def test_browsers_get_the_page_and_clients_the_agent() -> None:
    answer = page().get("/", headers=BROWSER)
    assert "<title>Playground</title>" in answer.text
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert page().get("/").text == "the application"
    assert page().post("/", headers=BROWSER).text == "the application"
    assert page().get("/a2a/one", headers=BROWSER).text == "the application"
    for name in ("style.css", "main.js", "icon.svg"):
        assert page().get(f"/playground/{name}").status_code == 200


def test_another_page_cannot_use_it() -> None:
    """It could point a name of its own here, or send a form."""
    stranger = TestClient(page().app, base_url="http://evil.example.com:8080")
    assert stranger.get("/playground/config").status_code == 400
    assert stranger.get("/", headers=BROWSER).status_code == 400
    call = json.dumps({"agent": "one", "version": "1.0", "operation": "card"})
    form = page().post("/playground/call", content=call, headers={"Content-Type": "text/plain"})
    assert form.status_code == 415
    assert "access-control-allow-origin" not in page().get("/playground/config").headers


def test_what_make_run_serves_is_for_this_machine_and_its_own_name(settings: Settings) -> None:
    """Its key is the same everywhere: a web page whose name is rebound to this machine could use it."""
    target = Target(url="https://tunnel.example.com", title="make run", agents=["one"])
    app = Playground(target, PlainTextResponse("the application"), hosts=["tunnel.example.com"])
    for host, status in (
        ("rebind.example.com:80", 400),
        ("tunnel.example.com", 200),
        ("localhost:8080", 200),
    ):
        headers = {"Host": host, "X-API-Key": "local-key"}
        assert TestClient(app).post("/message:send", headers=headers).status_code == status
    for path in ("/", "/playground/config", "/playground/log"):
        refusal = TestClient(app).get(path, headers={"Host": "tunnel.example.com", **BROWSER})
        assert refusal.status_code == 403
        assert "this machine only" in refusal.text
        proxy_headers = {"Host": "localhost:8080", "X-Forwarded-For": "192.0.2.1", **BROWSER}
        assert TestClient(app).get(path, headers=proxy_headers).status_code == 403
    for headers in ({"Host": "rebind.example.com"}, {"Origin": "https://evil.example.com"}):
        assert httpx2.post(f"{settings.emulator}/runs", headers=headers, content=b"1").status_code == 403


@pytest.mark.parametrize("body", ["{", "{}", '{"agent": "one", "version": "9", "operation": "card"}'])
def test_a_wrong_call_is_refused(body: str) -> None:
    answer = page().post("/playground/call", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400


def test_a_call_is_answered_with_records() -> None:
    """Here: that no one answers."""
    call = {"agent": "one", "version": "1.0", "operation": "get", "request": {"id": "t"}}
    answer = page().post("/playground/call", json=call)
    kinds = [json.loads(line)["kind"] for line in answer.text.splitlines()]
    assert kinds == ["request", "error"]


def test_schedules_are_asked_of_the_worker() -> None:
    operations: list[object] = []

    def operate(wanted: object) -> dict[str, object]:
        operations.append(wanted)
        return {"task": "t"}

    path, wanted = "/playground/schedules", {"agent": "one", "id": "nightly", "key": "k"}
    assert "error" in page().post(path, json=wanted).json()
    client_of_stack = page(Target(url="http://127.0.0.1:1", title="test", agents=["one"], operate=operate))
    assert client_of_stack.get("/playground/config").json()["hasSchedules"] is True
    assert client_of_stack.post(path, json=wanted).json() == {"task": "t"}
    form = client_of_stack.post(path, content=json.dumps(wanted), headers={"Content-Type": "text/plain"})
    assert form.status_code == 415
    answer = client_of_stack.post(path, content=b"{", headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert operations == [wanted]


def test_the_log_is_followed() -> None:
    async def two() -> AsyncGenerator[LogEntry | None, None]:
        yield LogEntry(at=1, level="INFO", logger="mine", message="hello", agent="", task="t")
        yield None

    answer = page(Target(url="", title="", agents=[], log=two)).get("/playground/log")
    server, line, silence, _ = answer.text.split("\n\n")
    assert server.startswith("event: server\ndata: ")
    assert json.loads(line.removeprefix("data: "))["message"] == "hello"
    assert silence == ": "
    assert page().get("/playground/log").status_code == 204


def test_lines_of_all_threads_are_kept_and_passed_on() -> None:
    lines = LogLines()
    logger = logging.getLogger("lines")
    logger.addHandler(lines)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    logger.info("before")

    async def read() -> list[str]:
        follower = lines.follow()
        first_lines = [await anext(follower)]
        await asyncio.to_thread(logger.error, "in a thread")
        first_lines.append(await anext(follower))
        await follower.aclose()
        return [entry["message"] for entry in first_lines if entry]

    assert asyncio.run(read()) == ["before", "in a thread"]


def test_a_wrong_call_of_a_logger_stops_no_one(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("wrong")
    logger.addHandler(LogLines())
    logger.propagate = False
    logger.error("%d items", "three")
    assert "--- Logging error ---" in capsys.readouterr().err


def test_a_deployed_stack_needs_the_token() -> None:
    """Another user of this machine reaches the port, and must not call with the key."""
    target = Target(url="http://127.0.0.1:1", title="test", agents=["one"], key="secret")
    app = Playground(target, token="right")
    client = TestClient(app, base_url=LOCAL)
    for path in DATA_PATHS:
        method = client.get if path.endswith(("config", "log", "file")) else client.post
        for query, header in (("", ""), ("?token=wrong", ""), ("", "wrong")):
            refusal = method(f"{path}{query}", headers={**BROWSER, TOKEN_HEADER: header})
            assert refusal.status_code == 403
            assert "secret" not in refusal.text
    answer = client.get("/?token=right", headers=BROWSER)
    assert "<title>Playground</title>" in answer.text
    assert "set-cookie" not in answer.headers, "a browser would send it to every port of this machine"
    assert client.get("/playground/main.js").status_code == 200
    assert client.get("/playground/config", headers={TOKEN_HEADER: "right"}).json()["key"] == "secret"
    assert client.get("/playground/config?token=right").json()["key"] == "secret"


def test_the_playground_reads_no_file_but_the_deployments_own() -> None:
    """An agent chooses urls. Only those of its deployment's bucket are read from this machine."""
    target = Target(url="http://127.0.0.1:1", title="test", agents=["one"], files="http://127.0.0.1:1/files/")
    for url, status in (
        ("http://127.0.0.1:1/files/a?X-Amz-Signature=1", 502),  # allowed, and no one answers
        ("http://127.0.0.1:1/other/a", 403),
        ("https://169.254.169.254/latest", 403),
        ("file:///etc/passwd", 403),
        ("", 403),
    ):
        assert page(target).get("/playground/file", params={"url": url}).status_code == status, url
    assert page().get("/playground/file", params={"url": "http://127.0.0.1:1/files/a"}).status_code == 403


def test_a_film_is_played_from_anywhere(httpserver: Any) -> None:
    """Browsers ask for pieces of it."""
    headers = {"Content-Range": "bytes 2-4/9", "Accept-Ranges": "bytes"}
    httpserver.expect_request("/files/a", headers={"Range": "bytes=2-4"}).respond_with_data(
        b"cde", 206, headers=headers, content_type="video/mp4"
    )
    files = httpserver.url_for("/files/")
    target = Target(url="http://127.0.0.1:1", title="test", agents=["one"], files=files)
    url = httpserver.url_for("/files/a")
    answer = page(target).get("/playground/file", params={"url": url}, headers={"Range": "bytes=2-4"})
    assert (answer.status_code, answer.content) == (206, b"cde")
    assert {name: answer.headers[name] for name in headers} == headers


@pytest.mark.parametrize(
    ("media_type", "served_as"),
    [
        ("text/html", "application/octet-stream"),
        ("text/javascript", "application/octet-stream"),
        ("image/svg+xml", "image/svg+xml"),
    ],
)
def test_a_file_runs_nothing_in_the_page(httpserver: Any, media_type: str, served_as: str) -> None:
    httpserver.expect_request("/files/a").respond_with_data(b"<script>", content_type=media_type)
    files = httpserver.url_for("/files/")
    target = Target(url="http://127.0.0.1:1", title="test", agents=["one"], files=files)
    answer = page(target).get("/playground/file", params={"url": httpserver.url_for("/files/a")})
    assert answer.headers["content-type"].partition(";")[0] == served_as
    assert "sandbox; default-src 'none'" in answer.headers.get_list("content-security-policy")
    outside = page(target).get("/playground/file", params={"url": f"{files}../evil/a"})
    assert outside.status_code == 403


def test_a_form_of_another_page_uploads_nothing() -> None:
    for media_type in ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded"):
        answer = page().post("/playground/upload", content=b"x", headers={"Content-Type": media_type})
        assert answer.status_code == 415
    query = {"agent": "one", "version": "1.0", "name": "a.bin"}
    headers = {"Content-Type": "application/octet-stream"}
    answer = page().post("/playground/upload", params=query, content=b"x", headers=headers)
    assert "does not answer" in answer.json()["error"]
