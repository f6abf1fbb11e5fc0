"""Facts of a request: what its path names, its headers, its deadline and the deployment's URL."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from a2a_lambda.http import request as request_module
from a2a_lambda.http.app import create_app
from a2a_lambda.http.request import (
    Target,
    base_url,
    deadline,
    last_event_id,
    requested_extensions,
    target_of,
    version,
)
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from tests.conftest import AGENTS, replace_in


def request_of(headers: Any = None, query: str = "", scope: Any = None, **settings: Any) -> Request:
    """A request as the application sees it."""
    pairs = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    app = create_app(Kit(Settings(**{"table": "t", "keys_path": "/k", "agents": AGENTS, **settings})))
    base = {"type": "http", "path": "/", "headers": pairs, "query_string": query.encode(), "app": app}
    return Request({**base, **(scope or {})})


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/", Target("", None, "/")),
        ("/stream", Target("", None, "/stream")),
        ("/openapi.json", Target("", None, "/openapi.json")),
        ("/weather/message:send", Target("", None, "/weather/message:send")),
        ("/a2a/weather", Target("a2a", "weather", "")),
        ("/a2a/weather/", Target("a2a", "weather", "/")),
        ("/a2a/weather/v1/tasks/1", Target("a2a", "weather", "/v1/tasks/1")),
        ("/a2a", Target("", None, "/a2a")),
        ("/a2a/.well-known/x", Target("", None, "/a2a/.well-known/x")),
        ("/mcp", Target("mcp", None, "")),
        ("/mcp/weather", Target("mcp", "weather", "")),
        ("/alibaba/stream", Target("alibaba", None, "/stream")),
        ("/alibaba/stream/", Target("alibaba", None, "/stream/")),
        ("/alibaba/tasks/send", Target("alibaba", None, "/tasks/send")),
        ("/alibaba/streams/stream", Target("alibaba", "streams", "/stream")),
        ("/v2/a2a/weather/stream", Target("v2/a2a", "weather", "/stream")),
        ("/v2/weather", Target("v2", "weather", "")),
        ("/a2abc/weather", Target("", None, "/a2abc/weather")),
        ("/a2a/a\nb/x\ny", Target("a2a", "a\nb", "/x\ny")),
    ],
)
def test_a_path_names_an_agent_after_its_prefix(path: str, target: Target) -> None:
    assert target_of(path) == target


def test_the_url_is_a_setting_or_the_gateways_and_no_header_counts() -> None:
    forged_headers = {"host": "evil.example", "x-forwarded-host": "evil.example"}
    assert base_url(request_of(forged_headers, base_url="https://mine.example/")) == "https://mine.example"
    event = {"path": "/a", "requestContext": {"domainName": "api.example", "path": "/dev/a"}}
    assert base_url(request_of(forged_headers, scope={"aws.event": event})) == "https://api.example/dev"
    for path, full_path in (("/", "/dev/"), ("/", "/dev"), ("/a", "/dev//a"), ("/a/b", "/dev/a//b")):
        event = {"path": path, "requestContext": {"domainName": "api.example", "path": full_path}}
        assert base_url(request_of(scope={"aws.event": event})) == "https://api.example/dev"
    unstaged_event = {"path": "/a", "requestContext": {"domainName": "api.example", "path": "/x/b"}}
    assert base_url(request_of(scope={"aws.event": unstaged_event})) == "https://api.example"
    without_path = {"path": "/a", "requestContext": {"domainName": "api.example"}}
    assert base_url(request_of(scope={"aws.event": without_path})) == "https://api.example"
    assert base_url(request_of(scope={"aws.event": {"requestContext": None}})) == "https://localhost"


def test_an_answer_is_out_before_lambda_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_in(request_module, time, monkeypatch, monotonic=lambda: 100.0, time=lambda: 2_000_000.0)
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 890_000)
    assert deadline(request_of(scope={"aws.context": context})) == 100 + 890 - 2
    assert deadline(request_of()) == 100 + 900 - 2
    # API Gateway counts from the request, which a cold start has delayed. An event of a file is old.
    for age, seconds in ((6, 890), (15, 885), (86_400, 890)):
        event = {"requestContext": {"requestTimeEpoch": (2_000_000 - age) * 1000}}
        assert deadline(request_of(scope={"aws.context": context, "aws.event": event})) == 98 + seconds


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("7", 7),
        ("0", 0),
        ("1234567890", 1234567890),
        ("12345678901", None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("²", None),
        ("x", None),
    ],
)
def test_a_last_event_id_is_a_number_that_the_kit_can_have_sent(value: str, number: int | None) -> None:
    headers = [(b"last-event-id", value.encode("latin-1"))]
    assert last_event_id(request_of(scope={"headers": headers})) == number
    assert last_event_id(request_of()) is None


def test_a_version_is_in_the_header_or_the_query() -> None:
    assert version(request_of({"a2a-version": " 1.0 "}, "A2A-Version=0.3")) == "1.0"
    assert version(request_of(query="A2A-Version=0.3")) == "0.3"
    assert version(request_of(query="x=1&a2a-version=0.3")) == "0.3"
    assert version(request_of()) == ""


def test_extensions_are_asked_for_under_two_names() -> None:
    headers = {"a2a-extensions": "urn:a, urn:b", "x-a2a-extensions": "urn:c,urn:a"}
    assert requested_extensions(request_of(headers), ["urn:a", "urn:c", "urn:d"]) == ("urn:a", "urn:c")
    assert requested_extensions(request_of(), ["urn:a"]) == ()
