"""Events that a gateway can pass on, whatever a caller without a key puts into them: none makes a function
fail. And events that no gateway sends: each is a 400.

FUZZ=30000 make test ARGS="tests/faults/test_events.py -n 0" tries more.
"""

import asyncio
import copy
import json
import os
import random
from typing import Any

import pytest

from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.buffered import Buffered
from a2a_lambda.lambda_.streaming import DELIMITER, Streaming
from tests.conftest import ROOT
from tests.lambda_.context import Context

pytestmark = pytest.mark.slow


OF_SOURCE = {"resource", "elb", "version", "requestContext"}
"""Fields that tell which source an event has. An event of no source is an error of its sender."""

COUNT = int(os.environ.get("FUZZ", "2000"))

SOURCES = ["send", "send-http-api", "send-function-url", "send-alb"]

VALUES = [
    *(
        "443,80",
        "443, 80",
        "x",
        "",
        " ",
        "-1",
        "9" * 5000,
        "٣",
        "[::1]:443",
        "a:b:c",
        ":",
        "host:",
        "host:80",
    ),
    *(
        "example.com",
        "é",
        "\x00",
        "\ud800",
        "a, b",
        "%",
        "%zz",
        "//",
        "1" * 20_000,
        "null",
        "bytes=0-",
        "[",
        "*",
    ),
]

NAMES = [
    *(
        "X-Forwarded-Port",
        "X-Forwarded-Proto",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "Host",
        "Forwarded",
        "Via",
    ),
    *(
        "Cookie",
        "Content-Type",
        "Content-Length",
        "Content-Encoding",
        "Transfer-Encoding",
        "Accept",
        "Origin",
    ),
    *("Last-Event-ID", "Idempotency-Key", "A2A-Version", "A2A-Extensions", "X-API-Key", "Authorization"),
    *(
        "X-Origin-Secret",
        "If-None-Match",
        "If-Modified-Since",
        "Expect",
        "Upgrade",
        "Connection",
        "Range",
        "é",
    ),
]

ODD: list[Any] = [None, True, 0, -1, 1.5, "", "x", "=", "é", [], {}, [None], {"a": None}, ["x"], {"http": 1}]


def load(name: str) -> Any:
    return json.loads((ROOT / "events" / f"{name}.json").read_text())


def with_header(event: Any, name: str, *values: str) -> Any:
    """The event as its gateway passes this header on."""
    new_event = copy.deepcopy(event)
    for field, value in (("headers", values[-1]), ("multiValueHeaders", list(values))):
        if isinstance(new_event.get(field), dict):
            new_event[field] = {
                key: header_value
                for key, header_value in new_event[field].items()
                if key.lower() != name.lower()
            } | {name: value}
    return new_event


def with_url(event: Any, chance: random.Random) -> Any:
    """The event with another path or query."""
    new_event = copy.deepcopy(event)
    path = chance.choice(["/", "//", "", "/%", "/é", "/a2a//x", "/\x00", "/" + "a" * 9_000, "/a2a/%2e%2e"])
    for holder in (new_event, new_event["requestContext"], new_event["requestContext"].get("http", {})):
        for field in ("path", "rawPath"):
            if field in holder:
                holder[field] = path
    query = chance.choice([{"A2A-Version": "x"}, {"": ""}, {"%": "%"}, {"é": "\ud800"}])
    if "rawQueryString" in new_event:
        new_event["rawQueryString"] = "&".join(f"{key}={value}" for key, value in query.items())
    for field in ("queryStringParameters", "multiValueQueryStringParameters"):
        if field in new_event:
            many = field.startswith("multi")
            new_event[field] = {key: [value] if many else value for key, value in query.items()}
    return new_event


def with_odd_field(event: Any, chance: random.Random) -> Any:
    """The event as no gateway sends it: a field is missing, or is something else."""
    new_event = copy.deepcopy(event)
    holder = chance.choice(
        [new_event, new_event["requestContext"]] if len(new_event["requestContext"]) > 1 else [new_event]
    )
    field = chance.choice([key for key in holder if key not in OF_SOURCE])
    if chance.random() < 0.3:
        del holder[field]
    else:
        holder[field] = chance.choice(ODD)
    return new_event


class Doors:
    """Both adapters of one application. status: of an event's answer."""

    def __init__(self, kit: Kit) -> None:
        app = create_app(kit)
        self._buffered = Buffered(app)
        self._streaming = Streaming(app, settle=self._settle, release=lambda: None, can_stream=True)
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)  # Lambda's runtime has one, and Mangum uses it

    async def _settle(self) -> None: ...

    def statuses(self, event: Any) -> list[int]:
        answer = self._buffered(copy.deepcopy(event), Context())
        chunks: list[bytes] = []

        async def write(chunk: bytes) -> None:
            chunks.append(chunk)

        response: Any = self._streaming(copy.deepcopy(event), Context())
        self._loop.run_until_complete(response.stream(write))
        head = json.loads(b"".join(chunks).partition(DELIMITER)[0])
        return [answer["statusCode"], head["statusCode"]]


@pytest.fixture
def doors(kit: Kit) -> Doors:
    return Doors(kit)


@pytest.mark.parametrize("source", SOURCES)
def test_no_header_path_or_query_is_a_fault(doors: Doors, source: str) -> None:
    chance, event = random.Random(source), load(source)
    for _ in range(COUNT // len(SOURCES) // 2):
        changed_event = with_url(event, chance) if chance.random() < 0.3 else event
        for _ in range(chance.randint(1, 3)):
            name, values = chance.choice(NAMES), chance.choices(VALUES, k=chance.randint(1, 2))
            changed_event = with_header(changed_event, name, *values)
        statuses = doors.statuses(changed_event)
        assert max(statuses) < 500, changed_event
        assert statuses[0] == statuses[1], changed_event


@pytest.mark.parametrize("source", SOURCES)
def test_an_event_that_no_gateway_sends_is_no_fault_either(doors: Doors, source: str) -> None:
    chance, event = random.Random(source), load(source)
    for _ in range(COUNT // len(SOURCES) // 2):
        odd_event = with_odd_field(event, chance)
        assert max(doors.statuses(odd_event)) < 500, odd_event


@pytest.mark.parametrize("source", SOURCES)
def test_a_path_with_half_of_a_character_is_no_fault(doors: Doors, source: str) -> None:
    event = load(source)
    for holder in (event, event["requestContext"], event["requestContext"].get("http", {})):
        holder |= {field: "/tasks/\ud800" for field in ("path", "rawPath") if field in holder}
    assert doors.statuses(event) == [400, 400]
