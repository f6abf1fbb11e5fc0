"""Every event of events/ through the Lambda handlers, as Lambda would give it to them."""

import base64
import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.settings import Settings
from tests.conftest import ROOT
from tests.helpers.lambda_events import STATUSES, is_completed, last_event
from tests.helpers.rpc import texts
from tests.lambda_.conftest import logging_kept
from tests.lambda_.context import Context
from tools.registers.keys import KeyRegister

Handler = Callable[[Any, Any], Any]


EVENTS = sorted(path.name for path in (ROOT / "events").glob("*.json"))


@pytest.fixture(scope="module")
def handlers(settings: Settings) -> dict[str, Handler]:
    """handler of functions/api.py and functions/rpc.py, in an environment like a function's."""
    path = "/lambda/keys"
    KeyRegister(clients.ssm(settings), path).create("local", secret="local-key", local=True)
    environment = {
        "A2A_TABLE": settings.table,
        "A2A_KEYS_PATH": path,
        "A2A_AGENTS": str(settings.agents),
        "A2A_LOCAL": "1",
        "A2A_EMULATOR": settings.emulator,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with logging_kept():
            return {
                name: runpy.run_path(str(ROOT / "functions" / f"{name}.py"))["handler"]
                for name in ("api", "rpc")
            }


def body(response: Any) -> str:
    text: str = response["body"]
    return base64.b64decode(text).decode() if response["isBase64Encoded"] else text


def load(name: str) -> Any:
    return json.loads((ROOT / "events" / name).read_text())


@pytest.mark.parametrize("function", ["api", "rpc"])
@pytest.mark.parametrize("name", EVENTS)
def test_event(handlers: dict[str, Handler], function: str, name: str) -> None:
    """Every handler serves the whole application; the routes only say which one is asked."""
    event = load(name)
    response = handlers[function](event, Context())
    answer = body(response)
    expect = Path(name).stem
    assert response["statusCode"] == STATUSES.get(expect, 200)
    if expect.startswith("card"):
        card = json.loads(answer)
        stage = "https://1234567890.execute-api.us-east-1.amazonaws.com/live"
        url = card["supportedInterfaces"][0]["url"] if expect == "card-1.0" else card["url"]
        assert url == stage + ("/alibaba" if expect == "card-alibaba" else "/")
    elif expect == "rest-list":
        assert json.loads(answer)["pageSize"] == 10
    elif expect in STATUSES:
        assert json.loads(answer)["error"]["message"]
    elif expect in ("get", "cancel"):
        assert json.loads(answer)["error"]["code"] == -32001
    elif expect == "resubscribe":
        assert json.loads(answer.removeprefix("data: "))["error"]["code"] == -32001
    elif "stream" in expect:
        assert is_completed(last_event(answer))
    else:
        document = json.loads(answer)
        result = document.get("result", document)
        assert is_completed(result)
        assert texts(result.get("task", result))


def test_a_retried_event_runs_once(handlers: dict[str, Handler]) -> None:
    """API Gateway and clients repeat requests; the two functions share one table."""
    event = load("send.json")
    assert body(handlers["api"](event, Context())) == body(handlers["rpc"](event, Context()))


def test_header_case_does_not_matter(handlers: dict[str, Handler]) -> None:
    event = load("send.json")
    for change in (str.lower, str.upper):
        event["headers"] = {change(name): value for name, value in event["headers"].items()}
        event["multiValueHeaders"] = {
            change(name): value for name, value in event["multiValueHeaders"].items()
        }
        assert handlers["rpc"](event, Context())["statusCode"] == 200


def test_the_challenge_is_there(handlers: dict[str, Handler]) -> None:
    response = handlers["rpc"](load("refused.json"), Context())
    headers = {name.lower(): value for name, value in response["headers"].items()}
    assert "Bearer" in headers["www-authenticate"]


def test_a_host_header_has_no_say(handlers: dict[str, Handler]) -> None:
    event = load("card-0.3.0.json")
    for headers in (event["headers"], event["multiValueHeaders"]):
        headers["Host"] = headers["X-Forwarded-Host"] = (
            "evil.example" if headers is event["headers"] else ["evil.example"]
        )
    assert "evil" not in body(handlers["api"](event, Context()))


@pytest.mark.parametrize("source", ["refused", "send-http-api", "send-function-url", "send-alb"])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("X-Forwarded-Port", ["443,80"]),  # after two proxies
        ("X-Forwarded-Port", ["x"]),
        ("Host", ["[::1]:443"]),
        ("Host", ["a:1", "b:2"]),
    ],
)
def test_the_address_of_the_server_is_not_read(
    handlers: dict[str, Handler], source: str, name: str, values: list[str]
) -> None:
    event = load(f"{source}.json")
    for field, value in (("headers", values[-1]), ("multiValueHeaders", values)):
        if field in event:
            event[field] = {key: old for key, old in event[field].items() if key.lower() != name.lower()}
            event[field][name] = value
    assert handlers["rpc"](event, Context())["statusCode"] == (401 if source == "refused" else 200)


def test_an_empty_body_is_a_client_mistake(handlers: dict[str, Handler]) -> None:
    event = load("send.json") | {"body": None}
    response = handlers["rpc"](event, Context())
    assert json.loads(body(response))["error"]["code"] == -32700


@pytest.mark.parametrize("name", ["api", "rpc"])
@pytest.mark.parametrize("accept", ["*/*", "application/json"])
def test_a_buffered_answer_is_text(handlers: dict[str, Handler], name: str, accept: str) -> None:
    """In base64, a REST API without binary media types would send it as it is."""
    event = json.loads((ROOT / "events" / "rest-list.json").read_text())
    event["headers"] = {**(event.get("headers") or {}), "Accept": accept}
    event["multiValueHeaders"] = {**(event.get("multiValueHeaders") or {}), "Accept": [accept]}
    for path in (event["path"], "/nothing/here"):
        response = handlers[name]({**event, "path": path}, Context())
        assert response["isBase64Encoded"] is False
        assert json.loads(response["body"])
