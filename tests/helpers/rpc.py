"""A JSON-RPC client as small as tests need it."""

import json
import threading
import uuid
from concurrent.futures import Executor
from typing import Any

from starlette.testclient import TestClient


def message(text: str = "hello", **fields: Any) -> dict[str, Any]:
    """A 0.3 message of the user's."""
    message_fields = {
        "kind": "message",
        "messageId": str(uuid.uuid4()),
        "role": "user",
        "parts": [{"kind": "text", "text": text}],
    }
    return message_fields | fields


def intent(skill: str, **slots: str) -> dict[str, Any]:
    """Metadata that names a skill and its slots."""
    slot_list = [{"name": name, "value": value} for name, value in slots.items()]
    return {"intentInfos": [{"intent": skill, "slots": slot_list}]}


def request(method: str, params: Any, identity: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity or str(uuid.uuid4()), "method": method, "params": params}


class Rpc:
    """Calls with one key on one path."""

    def __init__(self, client: TestClient, key: str, path: str = "/") -> None:
        self.client = client
        self.key = key
        self.path = path

    def post(self, body: Any, **headers: str) -> Any:
        """Answer to a body, which may be a request or any bytes."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        all_headers = {"X-API-Key": self.key, "Content-Type": "application/json"} | headers
        return self.client.post(self.path, content=content, headers=all_headers)

    def call(self, method: str, params: Any) -> Any:
        """Result of a call; fails on an error."""
        answer = self.post(request(method, params)).json()
        assert "error" not in answer, answer
        return answer["result"]

    def error(self, method: str, params: Any) -> Any:
        return self.post(request(method, params)).json()["error"]

    def send(self, text: str = "hello", **fields: Any) -> Any:
        """Task of a message."""
        return self.call("message/send", {"message": message(text, **fields)})

    def stream(self, text: str = "hello", **fields: Any) -> list[Any]:
        """Results of a streamed message."""
        return events(self.post(request("message/stream", {"message": message(text, **fields)})).text)


class Streaming:
    """A streamed message read in the background; `seen` grows while it runs."""

    def __init__(self, rpc: Rpc, pool: Executor, *, skill: str, **slots: str) -> None:
        self._rpc = rpc
        self._body = request("message/stream", {"message": message(metadata=intent(skill, **slots))})
        self._grown = threading.Condition()
        self.seen: list[Any] = []
        self.ended = pool.submit(self._read)

    def until(self, count: int) -> str:
        """Wait for so many events; the task's id."""
        with self._grown:
            assert self._grown.wait_for(lambda: len(self.seen) >= count, 120)
        task_id: str = self.seen[0]["id"]
        return task_id

    def _read(self) -> None:
        headers = {"X-API-Key": self._rpc.key}
        with self._rpc.client.stream("POST", self._rpc.path, json=self._body, headers=headers) as answer:
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    with self._grown:
                        self.seen.append(json.loads(line[5:])["result"])
                        self._grown.notify_all()


def bare_events(stream: str) -> list[Any]:
    """The data of a stream's events."""
    return [json.loads(line[5:]) for line in stream.splitlines() if line.startswith("data:")]


def events(stream: str) -> list[Any]:
    """Results in a stream of events."""
    return [data["result"] for data in bare_events(stream)]


def texts(task_or_artifacts: Any) -> str:
    """All the text of a task's artifacts."""
    artifacts = task_or_artifacts.get("artifacts", [])
    return "".join(part.get("text", "") for artifact in artifacts for part in artifact["parts"])
