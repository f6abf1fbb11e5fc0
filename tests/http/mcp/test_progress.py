"""What a client gets of a call before its result."""

import pytest
from starlette.testclient import TestClient

from a2a_lambda.wire.mcp.revisions import SUPPORTED
from tests.http.mcp.client import Mcp, messages_of


@pytest.mark.parametrize("revision", SUPPORTED)
def test_a_progress_text_and_the_pieces_of_an_answer_are_told(
    client: TestClient, key: str, revision: str
) -> None:
    mcp = Mcp(client, key, revision=revision)
    answer = mcp.post(mcp.body("tools/call", {"name": "everything"}, meta={"progressToken": 1}))
    *notifications, _ = messages_of(answer)
    texts = [notification["params"]["message"] for notification in notifications]
    assert texts[:2] == ["thinking", "text"]
