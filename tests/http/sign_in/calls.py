"""Calls of an agent that says who calls it."""

from collections.abc import Callable
from typing import Any

from starlette.testclient import TestClient

from a2a_lambda.access.issuer import Issuer
from tests.helpers.rest import message_1_0

Accept = Callable[[Issuer], None]
"""Adds an issuer, as make issuer does."""


def send(client: TestClient, token: str, agent: str = "who", **fields: Any) -> Any:
    return client.post(
        f"/a2a/{agent}/message:send",
        json={"message": message_1_0("hi"), **fields},
        headers={"Authorization": f"Bearer {token}", "A2A-Version": "1.0"},
    )


def caller_of(answer: Any) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["task"]["artifacts"][0]["parts"][0]["data"]
