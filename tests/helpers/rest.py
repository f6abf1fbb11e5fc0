"""An HTTP+JSON client as small as tests need it."""

import ssl
import uuid
from typing import Any

from starlette.testclient import TestClient

from tests.helpers.rpc import bare_events, intent

PLAIN_HTTP = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For `verify` of httpx2 in tests that call this machine only, without TLS. By default, httpx2 loads the
public certificate authorities for each client, which takes 50 ms of CPU time."""


def message_1_0(text: str = "hello", **fields: Any) -> dict[str, Any]:
    """A 1.0 message of the user's."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    return message | fields


class Rest:
    """Calls of one version with one key, below one path."""

    def __init__(self, client: TestClient, key: str, path: str = "/a2a/probe", version: str = "1.0") -> None:
        self.client = client
        self.path = path
        self.headers = {"X-API-Key": key} | ({"A2A-Version": version} if version else {})

    def ask(self, verb: str, path: str, body: Any = None, **headers: str) -> Any:
        """The response."""
        url = f"{self.path}/{path}"
        return self.client.request(verb, url, json=body, headers={**self.headers, **headers})

    def call(self, verb: str, path: str, body: Any = None) -> Any:
        """The answer's JSON; fails on an error."""
        answer = self.ask(verb, path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def send(self, skill: str = "echo", text: str = "hello", **fields: Any) -> Any:
        """Task of a message."""
        options = {name: fields.pop(name) for name in ("configuration",) if name in fields}
        message = message_1_0(text, metadata=intent(skill, **fields.pop("slots", {})), **fields)
        return self.call("POST", "message:send", {"message": message, **options})["task"]

    def stream(self, path: str = "message:stream", body: Any = None, verb: str = "POST") -> list[Any]:
        return bare_events(self.ask(verb, path, body).text)


def user_texts(task: Any) -> list[str]:
    """The first text of each message of the user's in a task."""
    return [message["parts"][0]["text"] for message in task["history"] if message["role"] == "ROLE_USER"]
