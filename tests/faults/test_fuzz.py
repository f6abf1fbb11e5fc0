"""Requests with mistakes in them, of every version: none is a 500, none leaves a traceback, and one that is
refused changes nothing.

FUZZ=30000 make test ARGS="tests/faults/test_fuzz.py -s -n 0" sends more, and prints what it counted.
"""

import copy
import json
import logging
import os
import random
import uuid
from collections import Counter
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.aws import clients
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from tests.conftest import BASE_URL, DAY, new_key
from tests.store.calls import Calls

pytestmark = pytest.mark.slow(seconds=30)


COUNT = int(os.environ.get("FUZZ", "1500"))

ODD: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 10**30, "", " ", "x" * 600, "\u0000", "é", "../..", "#task#"),
    *([], {}, [[]], {"a": {"b": []}}, "TASK_STATE_WORKING", "working", "user", "ROLE_USER", "text", "file"),
    *("2026-01-01T00:00:00Z", "http://169.254.169.254/", "https://example.com/", "a" * 65, "%s{}", "\u2028"),
]

NAMES = [
    *("", "x", "kind", "type", "id", "taskId", "metadata", "role", "text", "data", "file", "bytes", "uri"),
    *("raw", "url", "mime", "mimeType"),
]
"""Fields that a client adds: of no version, or of another one."""

HEADERS: dict[str, list[str]] = {
    "A2A-Version": ["", "1.0", "1.0.1", "0.3", "0.2", "9.9", "x"],
    "Accept": ["*/*", "application/json", "text/event-stream", "application/a2a+json", ""],
    "Content-Type": [
        "application/json",
        "application/a2a+json",
        "text/plain",
        "",
        "application/json; charset=x",
    ],
    "Last-Event-ID": ["0", "1", "99999", "-1", "x", "1e9"],
    "Idempotency-Key": ["", "k", "k" * 256],
    "A2A-Extensions": [
        "x",
        ",,",
        "https://help.aliyun.com/en/model-studio/multimodal-integration-a2a-intent",
    ],
}


def seeds(task_id: str, context_id: str) -> list[tuple[str, str, Any]]:
    """Verb, path and body of requests that are right."""
    new = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    one = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], "contextId": context_id}
    hook = {"url": "https://example.com/hook", "id": "c", "token": "t"}
    old_id, ids = {"id": task_id}, {"taskId": task_id}
    rpc = {
        "message/send": {
            "message": new,
            "configuration": {"historyLength": 1, "pushNotificationConfig": hook},
        },
        "message/stream": {"message": {**new, "taskId": task_id, "contextId": context_id}},
        "tasks/get": {**old_id, "historyLength": 2},
        "tasks/cancel": old_id,
        "tasks/resubscribe": old_id,
        "tasks/send": {"id": "own", "message": {"role": "user", "parts": [{"type": "text", "text": "hi"}]}},
        "tasks/sendSubscribe": {
            "id": "own",
            "message": {"role": "user", "parts": [{"type": "text", "text": "x"}]},
        },
        "tasks/pushNotificationConfig/set": {**ids, "pushNotificationConfig": hook},
        "tasks/pushNotificationConfig/list": old_id,
        "SendMessage": {"message": one, "configuration": {"acceptedOutputModes": ["text/plain"]}},
        "SendStreamingMessage": {
            "message": {**one, "parts": [{"data": {"a": 1}}, {"raw": "aGk=", "filename": "f"}]}
        },
        "GetTask": {**old_id, "historyLength": 1},
        "ListTasks": {
            "pageSize": 2,
            "contextId": context_id,
            "status": "TASK_STATE_COMPLETED",
            "pageToken": "x",
        },
        "CancelTask": old_id,
        "SubscribeToTask": old_id,
        "CreateTaskPushNotificationConfig": {**ids, **hook},
        "ListTaskPushNotificationConfigs": ids,
        "DeleteTaskPushNotificationConfig": {**ids, "id": "c"},
        "GetExtendedAgentCard": {},
    }
    paths = ("/a2a/probe", "/a2a/probe/stream", "/alibaba/probe", "/v2/a2a/probe", "/")
    requests: list[tuple[str, str, Any]] = [
        ("POST", path, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        for method, params in rpc.items()
        for path in paths
    ]
    for prefix in ("/a2a/probe", "/a2a/probe/v1", "/probe"):
        requests += [
            ("POST", f"{prefix}/message:send", {"message": one}),
            ("POST", f"{prefix}/message:stream", {"message": one}),
            ("GET", f"{prefix}/tasks/{task_id}?historyLength=1", None),
            ("GET", f"{prefix}/tasks?pageSize=2&includeArtifacts=true", None),
            ("POST", f"{prefix}/tasks/{task_id}:cancel", {}),
            ("GET", f"{prefix}/tasks/{task_id}:subscribe", None),
            ("POST", f"{prefix}/tasks/{task_id}/pushNotificationConfigs", hook),
            ("DELETE", f"{prefix}/tasks/{task_id}/pushNotificationConfigs/c", None),
        ]
    return requests


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in a value something stands."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def mutate(chance: random.Random, value: Any) -> Any:
    """A copy with one to three mistakes."""
    result = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        place = chance.choice(places(result))
        if not place:
            continue
        holder = result
        for key in place[:-1]:
            holder = holder[key]
        match chance.randrange(4):
            case 0 | 1:
                holder[place[-1]] = copy.deepcopy(chance.choice(ODD))
            case 2:
                del holder[place[-1]]
            case _ if isinstance(holder, dict):
                holder[chance.choice(NAMES)] = copy.deepcopy(chance.choice(ODD))
    return result


def test_no_mistake_of_a_client_is_a_fault(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls(clients.dynamodb(settings))
    kit = Kit(settings)
    kit.store = Store(Table(calls, settings.table), ttl=DAY)  # type: ignore[arg-type]
    client = TestClient(create_app(kit), base_url=BASE_URL)
    monkeypatch.setattr("a2a_lambda.operations.service.ANSWER_WAIT_SECONDS", 0.2)
    owner = f"fuzz-{uuid.uuid4()}"
    key = new_key(kit, owner=owner)
    first = client.post(
        "/a2a/probe/message:send",
        json={"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
        headers={"X-API-Key": key},
    ).json()["task"]
    right = seeds(first["id"], first["contextId"])
    seed = int(os.environ.get("SEED", random.randrange(10**9)))
    chance = random.Random(seed)
    status_counts: Counter[int] = Counter()
    refusals = 0

    written_keys: list[str] = []

    def note(operation: str, arguments: dict[str, Any]) -> None:
        if operation in ("put_item", "delete_item"):
            item = arguments.get("Item") or arguments["Key"]
            # A stream takes its slot before it is looked at; the copy of the keys is no one's.
            if not item["sk"]["S"].startswith("slot#") and not item["pk"]["S"].startswith("#keys#"):
                written_keys.append(item["sk"]["S"])

    calls.after = note  # a write whose condition does not hold changes nothing
    caplog.set_level(logging.ERROR)
    for number in range(COUNT):
        verb, path, body = chance.choice(right)
        headers = {"X-API-Key": key if chance.random() < 0.98 else "wrong"}
        for name in chance.sample(sorted(HEADERS), chance.randint(0, 2)):
            headers[name] = chance.choice(HEADERS[name])
        content = b"" if body is None else json.dumps(mutate(chance, body)).encode()
        if content and chance.random() < 0.1:
            at = chance.randrange(len(content))
            content = (
                content[:at] + chance.randbytes(chance.randint(0, 3)) + content[at + chance.randint(0, 3) :]
            )
        headers = {"Content-Type": "application/json"} | headers
        written_keys.clear()
        answer = client.request(verb, path, content=content, headers=headers)
        what = f"SEED={seed} request {number}: {verb} {path} {content!r} {headers} -> {answer.text[:300]}"
        status_counts[answer.status_code] += 1
        assert answer.status_code < 500, what
        assert "-32603" not in answer.text, what
        assert not caplog.records, f"{what}\n{caplog.text}"
        if answer.status_code >= 400 or '"error":{' in answer.text[:80]:
            refusals += 1
            assert not written_keys, f"{what} wrote {written_keys}"
    print(
        f"\n{COUNT} requests, SEED={seed}: {dict(sorted(status_counts.items()))}; {refusals} of them refused"
    )
    assert COUNT // 4 < refusals < COUNT, "requests have mistakes, and some have none that matters"
